"""Output that cannot be written, a full disk, a folder that is in use: one line, the right exit code, no loss of data."""
import os
import resource
import signal
import subprocess

import harness
from harness import TINY, num_records, records_of


def check_unwritable_output(case):
    case.write("file", "x")
    case.refused(2, "usage", "study", *TINY, "--runs", "1", "-o", "file/run", says=["file/run"])
    case.refused(2, "usage", "train", "--epochs", "1", "-o", "file/run", says=["file/run"])
    case.refused(2, "usage", "study", *TINY, "--runs", "1", "-o", "file", says=["file"])
    if os.geteuid() == 0:
        print("   skipped: a folder without write permission, which stops nobody who is root")
        return
    case.path("locked").mkdir(mode=0o555)
    case.refused(2, "usage", "study", *TINY, "--runs", "1", "-o", "locked/run", says=["locked/run"])


def limit_files(size):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


def check_full_disk(case):
    case.refused(7, "disk-full", "study", *TINY, "--runs", "50", "-q", "-o", "r", preexec_fn=limit_files(20_000),
                 says=["records.jsonl", "--resume"])
    kept = records_of(case.path("r"))
    assert len(kept) > 3, f"{len(kept)} records kept"
    assert case.path("r/records.jsonl").read_bytes().endswith(b"\n"), "half a record was left"
    case.run("study", *TINY, "--runs", "20", "-q", "-o", "r", "--resume")
    assert num_records(case.path("r")) == 40
    case.refused(7, "disk-full", "train", "--epochs", "50", "--batch-size", "5000", "-q", "-o", "t",
                 preexec_fn=limit_files(8_000), says=["records.jsonl"])
    assert records_of(case.path("t")), "no epoch kept"


def check_full_disk_while_reporting(case):
    case.run("study", *TINY, "--runs", "2", "-q", "-o", "r")
    before = {name: case.path(f"r/{name}").read_bytes() for name in ("summary.json", "report.md")}
    case.refused(7, "disk-full", "report", "r", "--write", preexec_fn=limit_files(500), says=["summary.json"])
    assert {name: case.path(f"r/{name}").read_bytes() for name in before} == before, "an old report was damaged"
    assert len(os.listdir(case.path("r"))) == 3, "a temporary file was left"
    case.refused(7, "disk-full", "study", *TINY, "-o", "s", preexec_fn=limit_files(10), says=["s/records.jsonl"])
    assert not case.path("s/records.jsonl").exists(), "an empty run was left"


def check_output_that_nobody_can_take(case):
    case.run("study", *TINY, "--runs", "2", "-q", "-o", "r")
    for words in (("report", "r"), ("report", "r", "--json"), ("info",), ("compare", "r", "r", "--json")):
        with open("/dev/full", "w") as full:
            result = subprocess.run([harness.AMDAHL, *words], cwd=case.folder, env=harness.ENVIRONMENT, stdout=full,
                                    stderr=subprocess.PIPE, text=True)
        assert result.returncode == 7, result
        harness.check_error("\n".join(line for line in result.stderr.split("\n") if line.startswith("error")), "disk-full",
                            ["standard output"])
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([harness.AMDAHL, *words], cwd=case.folder, env=harness.ENVIRONMENT, stdout=writer,
                                stderr=subprocess.PIPE, text=True)
        os.close(writer)
        assert result.returncode == 128 + signal.SIGPIPE and "error" not in result.stderr, result


def check_folder_that_holds_a_run(case):
    case.run("study", *TINY, "--runs", "1", "-q", "-o", "r")
    before = case.path("r/records.jsonl").read_bytes()
    case.refused(2, "usage", "study", *TINY, "--runs", "1", "-o", "r", says=["r already holds a run", "--resume"])
    error = case.refused(2, "usage", "train", "--epochs", "1", "-o", "r", says=["r already holds a run", "another folder"])
    assert "--resume" not in error.stderr, "train has no --resume"
    for words in (("links", "--backend", "cpu", "-b", "64K"), ("collectives", "--backend", "cpu", "-e", "1K"), ("doctor",),
                  ("sensor", "bench", "--backend", "cpu", "--points", "1000"),
                  ("collectives", "--backend", "cpu", "-e", "1K", "--arena=threads")):
        error = case.refused(2, "usage", *words, "--output-dir", "r", says=["r already holds a run", "another folder"])
        assert "--resume" not in error.stderr, words
    case.refused(2, "usage", "study", *TINY, "--runs", "1", "-o", "r", "--resume", "--seed", "7", says=["seed", '"42"', '"7"'])
    case.refused(2, "usage", "study", *TINY[:2], "--batch-sizes", "16,32", *TINY[4:], "-o", "r", "--resume",
                 says=["batch_sizes", '"16"', '"16,32"'])
    case.refused(2, "usage", "study", *TINY, "--resume", says=["--output-dir"])
    case.refused(2, "usage", "study", *TINY, "--resume", "-o", "nowhere", says=["nowhere"])
    assert case.path("r/records.jsonl").read_bytes() == before, "a refused command changed the run"
    assert not case.path("nowhere").exists()


def check_places_that_cannot_be_written(case):
    """Refused by one line before a plan is shown or anything is measured."""
    case.write("file", "")
    case.path("folder").mkdir()
    cpu = ("--backend", "cpu")
    links = ("links", *cpu, "-b", "64K", "-t", "device_to_device_memcpy_read_ce")
    collectives = ("collectives", *cpu, "-e", "1K")
    bench = ("sensor", "bench", *cpu, "--points", "1000")
    folders = [("study", *TINY), ("study", *TINY, "--processes", "2", "--runs", "4"), ("train", *cpu), links, collectives,
               bench, ("doctor", *cpu), (*collectives, "--arena=threads"),
               (*links, "--processes", "2")]
    for words in folders:
        result = case.refused(2, "usage", *words, "--output-dir", "file/r", says=["file/r", "Not a directory"])
        assert result.stderr.count("\n") == 1 and not result.stdout, (words, result)
    files = [((*links,), "--machine"), (("doctor", *cpu), "--machine"),
             ((*collectives, "--arena"), "--env-file"), ((*collectives, "--onesided"), "--table"),
             (("study", *TINY), "--trace"),
             (("sensor", "voxelize", harness.SOURCE / "data" / "vlp16.ply", "--voxel-size", "1"), "-o")]
    for words, option in files:
        ending = {"--trace": ".json", "-o": ".npy"}.get(option, "")
        for file, says in ((f"nowhere/f{ending}", "there is no folder nowhere"), (f"folder{ending}", "is a folder")):
            case.path(f"folder{ending}").mkdir(exist_ok=True)
            result = case.refused(2, "usage", *words, option, file, says=[file, says])
            assert result.stderr.count("\n") == 1 and not result.stdout, (words, option, result)
    assert not case.path("results/local").exists() or not list(case.path("results/local").iterdir()), "a refused study's folder"


harness.main(globals())
