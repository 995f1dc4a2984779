"""Inputs without an end, or with more of something than anyone has: refused soon and in little memory; pipes are read."""
import json
import os
import signal
import struct
import subprocess
import threading
import zlib

import harness
from harness import TINY

MOST_MIB, MOST_SECONDS = 620, 4  # 512 and what the program takes itself; processor time, of which busy machines need more

VOXELIZE = ("sensor", "voxelize", "--backend", "cpu", "--voxel-size", "1")
RESAMPLE = ("sensor", "resample", "--backend", "cpu", "--rate", "5")
TRAIN = ("train", "--backend", "cpu", "-q", "--epochs", "1", "-o", "t")
PROVENANCE = {"tool_version": "0.1.0", "commit": "0", "command_line": "amdahl", "start_time": "now", "host": "h",
              "device_kind": "cpu-virtual", "seed": 1, "facts": {}}
RECORD = {"kind": "study-run", "axes": {}, "status": {"kind": "ok"}, "origin": "measured", "series": []}
READERS = {  # of a file with this name
    "cloud.bin": VOXELIZE,
    "cloud.npy": VOXELIZE,
    "cloud.ply": VOXELIZE,
    "tracks.csv": RESAMPLE,
    "tracks.npz": RESAMPLE,
    "table.csv": (*TRAIN, "--target", "y", "--data"),
    "model.json": (*TRAIN, "--model"),
    "run.jsonl": ("report",),
    "run.json": ("compare", "other.json"),
    "prices.toml": ("report", "other.json", "--prices"),
}


def refused_soon(case, *words, says, code=2):
    """One error line, in little processor time and memory."""
    with open(case.path("stderr"), "w+") as stderr:
        process = subprocess.Popen([harness.AMDAHL, *words], cwd=case.folder, env=harness.ENVIRONMENT, stderr=stderr,
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    error = case.path("stderr").read_text()
    assert process.returncode == code, f"{words}: exit code {process.returncode}: {error}"
    harness.check_error(error, error[len("error["):].split("]")[0], says)
    seconds, mib = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    assert seconds < MOST_SECONDS, f"{words}: {seconds:.1f} s of processor time: {error}"
    assert mib < MOST_MIB, f"{words}: {mib:.0f} MiB: {error}"


def feed(path, content):
    """Writes into a pipe from beside; content is what repeats for ever when it is a function."""
    def write():
        try:
            with open(path, "wb", buffering=0) as pipe:
                while callable(content):
                    pipe.write(content())
                pipe.write(content)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def check_devices_without_an_end(case):
    case.write("other.json", json.dumps({"records": [{**RECORD, "provenance": PROVENANCE}]}))
    for name, words in READERS.items():
        case.path(name).symlink_to("/dev/zero")
        code = 5 if name in ("run.jsonl",) else 2
        refused_soon(case, *words, name, code=code, says=[name])


def check_pipes_without_an_end(case):
    case.write("other.json", json.dumps({"records": [{**RECORD, "provenance": PROVENANCE}]}))
    block = bytes(1 << 16)
    for name, says in (("cloud.bin", "a pipe of more than 536.9 MB is not read"), ("model.json", "67.1 MB is not read"),
                       ("prices.toml", "1.0 MB is not read")):
        os.mkfifo(case.path(name))
        writer = feed(case.path(name), lambda: block)
        refused_soon(case, *READERS[name], name, says=[name, says])
        writer.join(timeout=20)


def handles_interrupts(process):
    with open(f"/proc/{process.pid}/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) & 1 << (signal.SIGINT - 1)


def check_pipes_without_a_writer(case):
    """Nobody will come: Ctrl-C works at once."""
    for name in ("cloud.bin", "table.csv", "model.json", "run.jsonl", "tracks.npz"):
        os.mkfifo(case.path(name))
        process = case.start(*READERS[name], name)
        harness.wait_until(lambda: handles_interrupts(process), "signals are handled")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130, name
        harness.check_error(case.output(process), "interrupted", ["stopped by the user"])


def through_pipe(case, words, name, content):
    """What a command prints of a file and of a pipe with the same name and content."""
    printed = []
    for is_pipe in (False, True):
        if is_pipe:
            case.path(name).unlink()
            os.mkfifo(case.path(name))
            feed(case.path(name), content)
        else:
            case.path(name).write_bytes(content)
        printed.append(case.run(*words).stdout)
    assert printed[0] == printed[1] and printed[0], f"{words}:\n{printed[0]}\n{printed[1]}"


def check_pipes_are_read_to_their_end(case):
    case.run("study", *TINY, "--runs", "2", "-q", "-o", "r")
    case.run("sensor", "resample", *RESAMPLE[2:], case.write("in.csv", "time,x\n0,1\n1,2\n"), "-o", "unused.npz")
    through_pipe(case, (*VOXELIZE, "c.bin"), "c.bin", struct.pack("<4f", 1, 2, 3, 0) * 100_000)
    through_pipe(case, (*RESAMPLE, "s.csv"), "s.csv", b"time,x\n" + b"".join(b"%d,1\n" % i for i in range(50_000)))
    through_pipe(case, (*RESAMPLE, "s.npz"), "s.npz", case.path("unused.npz").read_bytes())
    through_pipe(case, ("compare", "r", "a.jsonl"), "a.jsonl", case.path("r/records.jsonl").read_bytes())
    through_pipe(case, ("compare", "r", "a.json"), "a.json", case.path("r/summary.json").read_bytes())
    case.write("p.toml", '[[device]]\nmatch = "CPU"\nhourly_price = 1\n')
    through_pipe(case, ("report", "s.json", "--prices", "p.toml"), "s.json", case.path("r/summary.json").read_bytes())
    through_pipe(case, ("report", "r", "--prices", "q.toml"), "q.toml", case.path("p.toml").read_bytes())


def check_a_pipe_that_would_be_read_twice(case):
    os.mkfifo(case.path("c.bin"))
    case.refused(2, "usage", "sensor", "bench", "--backend", "cpu", "--op", "voxelize", "--input", "c.bin",
                 says=["c.bin is no regular file"])


def check_many_columns(case):
    names = [f"c{i:06}" for i in range(200_000)]
    row = ",".join("1" * len(names)) + "\n"
    case.write("t.csv", ",".join(names[:-1] + names[:1]) + "\n" + row)
    refused_soon(case, *TRAIN, "--target", "c000005", "--data", "t.csv", says=["columns 1 and 200000 are both named"])
    case.write("t.csv", ",".join(names) + "\n" + row)
    refused_soon(case, *TRAIN, "--target", "c000005", "--data", "t.csv", says=["same class"])
    case.write("t.csv", "," * 600_000 + "\n")
    refused_soon(case, *TRAIN, "--target", "y", "--data", "t.csv", says=["line 1: more than 500000 fields"])
    refused_soon(case, *RESAMPLE, "t.csv", says=["more than 500000 fields"])


def check_many_words(case):
    """Columns of text become a feature for each of their words."""
    columns, rows = 1000, 600
    lines = [",".join([f"c{i}" for i in range(columns)] + ["y"])]
    lines += [",".join([f"w{row}"] * columns + ["1"]) for row in range(rows)]
    case.write("words.csv", "\n".join(lines) + "\n")
    refused_soon(case, *TRAIN, "--data", "words.csv", "--target", "y", says=["500,000 different words", "--data-options ignore"])


def check_many_tables(case):
    case.write("other.json", json.dumps({"records": [{**RECORD, "provenance": PROVENANCE}]}))
    case.write("p.toml", "".join(f'[[device]]\nmatch = "{i}"\nhourly_price = 1\n' for i in range(200_000)))
    refused_soon(case, "report", "other.json", "--prices", "p.toml", says=["p.toml", "1.0 MB is not read"])


def check_many_properties(case):
    names = [f"property char p{i}\n" for i in range(100_000)]
    header = "ply\nformat ascii 1.0\nelement vertex 1\n" + "".join(names)
    case.write("c.ply", header + names[0] + "end_header\n")
    refused_soon(case, *VOXELIZE, "c.ply", says=["line 100004", "a second property 'p0'"])
    case.write("c.ply", header + "end_header\n1\n")
    refused_soon(case, *VOXELIZE, "c.ply", says=["lacks x, y or z"])
    case.write("c.ply", "ply\nformat ascii 1.0\n" + "comment a\n" * 2_000_000)
    refused_soon(case, *VOXELIZE, "c.ply", says=["the header is longer than"])


def check_documents_that_take_many_times_their_size(case):
    for text, says in (("[" * 1_000_000, "more than 100 others"), ("[" + "{}," * 5_000_000 + "1]", "more than 4000000 keys"),
                       ('{"a":' * 1_000_000, "more than 100 others")):
        case.write("m.json", text)
        for words in ((*TRAIN, "--model", "m.json"), ("compare", "m.json", "m.json")):
            refused_soon(case, *words, says=["m.json", says])


def check_records_that_share_a_long_provenance(case):
    """Each record in memory has one of its own."""
    header = {"type": "run", "version": 1, "kind": "study", "config": {}}
    provenance = {**PROVENANCE, "type": "provenance", "id": "p", "facts": {"x": "x" * 1_000_000}}
    record = {**RECORD, "type": "record", "provenance": "p"}
    case.write("r.jsonl", "".join(json.dumps(line) + "\n" for line in [header, provenance] + [record] * 2000))
    refused_soon(case, "report", "r.jsonl", code=5, says=["r.jsonl:", "what is said of their origin"])


def npy(shape):
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def check_arrays_of_odd_shapes(case):
    case.path("c.npy").write_bytes(npy("(0, 1000000000000)"))
    refused_soon(case, *VOXELIZE, "c.npy", says=["999999999997 features of a point"])
    case.path("c.npy").write_bytes(npy("(" + "1," * 1000 + ")"))
    refused_soon(case, *VOXELIZE, "c.npy", says=["more than 64 dimensions"])


def check_compressed_files_of_much_more(case):
    """1.5 MB of gzip are 1.5 GB of zeros, or of empty lines."""
    for fill in (b"\0", b"\n", b'{"type":"record"}\n'):
        squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
        with open(case.path("r.jsonl.gz"), "wb") as file:
            for _ in range(350):
                file.write(squeezed.compress(fill * ((4 << 20) // len(fill))))
            file.write(squeezed.flush())
        refused_soon(case, "report", "r.jsonl.gz", code=5, says=["r.jsonl.gz", "when decompressed"])


def check_many_targets(case):
    case.write("s.csv", "time,x\n" + "".join(f"{t},{t}\n" for t in range(10)))
    for words in (("--targets", "1000000000"), ("--targets", str(2**62))):
        refused_soon(case, *RESAMPLE[:-2], *words, "s.csv", code=3, says=["targets"])


def check_files_larger_than_the_memory(case):
    for name in ("c.bin", "c.ply", "t.csv"):
        try:
            with open(case.path(name), "wb") as file:
                file.truncate(1 << 42)
        except OSError as reason:
            raise harness.Skip(f"no sparse file of 4 TiB: {reason}")
        words = RESAMPLE if name == "t.csv" else VOXELIZE
        refused_soon(case, *words, name, code=3, says=[name, "and this machine has"])


harness.main(globals())
