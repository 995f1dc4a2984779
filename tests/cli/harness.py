"""Runs the program in an empty folder and looks at how it ends. Used by the scripts in this folder.

A script defines functions `check_*` that take a Case, and ends with `harness.main(globals())`.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import signal
import subprocess
import sys
import tempfile
import time

SOURCE, BINARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
AMDAHL = BINARY / "bin" / "amdahl"
DIGITS = SOURCE / "data" / "digits.csv"
SKIPPED = 77
LAUNCHERS = ("AMDAHL_", "OMPI_", "PMI_", "PMIX_", "MPI_LOCAL", "SLURM_", "TORCHELASTIC_")
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FAULT = "AMDAHL_FAULT"  # of a build with planted faults (tests/mutations)
ENVIRONMENT = {k: v for k, v in os.environ.items()
               if k == FAULT or (not k.startswith(LAUNCHERS) and k not in TORCHRUN)}
ERROR_LINE = re.compile(r"^error\[[a-z-]+\]: .*$", re.MULTILINE)

# A study of two cells that takes about a tenth of a second.
TINY = ("--backend", "cpu", "--batch-sizes", "16", "--devices", "1,2", "--warmup", "1", "--steps", "2")


class Skip(Exception):
    """Raised by a case that cannot run here, with the reason."""


class Case:
    """One check in a folder of its own, which is the working directory of what it runs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def path(self, name):
        return self.folder / name

    def write(self, name, text):
        self.path(name).write_text(text)
        return name

    def run(self, *words, code=0, env=None, timeout=60, **options):
        """Runs amdahl to its end and expects the exit code."""
        result = subprocess.run([AMDAHL, *map(str, words)], cwd=self.folder, env={**ENVIRONMENT, **(env or {})},
                                capture_output=True, text=True, timeout=timeout, **options)
        shown = f"amdahl {' '.join(map(str, words))}\n--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
        assert result.returncode == code, f"exit code {result.returncode}, not {code}: {shown}"
        if code == 0:
            assert "error[" not in result.stderr, f"an error on success: {shown}"
        return result

    def start(self, *words, env=None):
        """Starts amdahl; stdout and stderr go to files of the case, which `output` reads."""
        number = len(list(self.folder.glob("started*.err")))
        with open(self.path(f"started{number}.out"), "w") as out, open(self.path(f"started{number}.err"), "w") as err:
            process = subprocess.Popen([AMDAHL, *map(str, words)], cwd=self.folder, env={**ENVIRONMENT, **(env or {})},
                                       stdout=out, stderr=err)
        process.number = number
        return process

    def output(self, process, kind="err"):
        return self.path(f"started{process.number}.{kind}").read_text()

    def refused(self, code, cause, *words, says=(), **options):
        """Expects the exit code and one error line that has the cause, a remedy and every text of `says`."""
        result = self.run(*words, code=code, **options)
        check_error(result.stderr, cause, says)
        return result


def check_error(stderr, cause, says=()):
    lines = ERROR_LINE.findall(stderr)
    assert len(lines) == 1, f"{len(lines)} error lines instead of one:\n{stderr}"
    assert stderr.count("error[") == 1 and "terminate called" not in stderr, stderr
    assert stderr.rstrip("\n").endswith(lines[0]), f"something follows the error:\n{stderr}"
    assert lines[0].startswith(f"error[{cause}]: "), f"not {cause}: {lines[0]}"
    assert "; try: " in lines[0], f"no remedy: {lines[0]}"
    for text in says:
        assert text in lines[0], f"'{text}' is not in: {lines[0]}"


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def read_terminal(main):
    """What was written to the other end of a pseudo-terminal until its last writer closed it."""
    text = b""
    try:
        while part := os.read(main, 4096):
            text += part
    except OSError:  # Linux says so when the last writer has closed
        pass
    return text.decode()


def run_briefly(folder, words, seconds=0.4):
    """(exit code, what it says on stderr) of an amdahl command. A wrong use is refused well within `seconds`; what
    measures longer is interrupted then, perhaps before the program handles signals: its exit code becomes 0."""
    process = subprocess.Popen([AMDAHL, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
    try:
        errors = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
        stopped = (0, 128 + signal.SIGINT, -signal.SIGINT)
        assert process.returncode in stopped, f"{words}: exit code {process.returncode}\n{errors}"
        return 0, errors
    return process.returncode, errors


def lines_of(folder):
    """The lines of records.jsonl, parsed, without their chain; a line without its end is left out, and so is the one that
    ends the run. Written back they are a run of a version without chains, which is not verified."""
    text = (folder / "records.jsonl").read_text()
    lines = [json.loads(line) for line in text.split("\n")[:-1]]
    return [{k: v for k, v in line.items() if k != "chain"} for line in lines if line["type"] != "end"]


def unchained(text):
    """Lines of records.jsonl as a version without chains wrote them: they can be edited."""
    return "".join(re.sub(r',"chain":"[0-9a-f]{16}"', "", line) for line in text.splitlines(True)
                   if not line.startswith('{"records":') and '"type":"end"' not in line)


def save_npy(path, kind, shape, content):
    """A .npy file of these bytes; `kind` is numpy's, as "<f4"."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def records_of(folder):
    return [line for line in lines_of(folder) if line["type"] == "record"]


def keys_of(folder):
    """(batch, devices, strategy, run) of each record, in the order of the file."""
    return [tuple(record["axes"][axis] for axis in ("global_batch", "devices", "strategy", "run"))
            for record in records_of(folder)]


def num_records(folder):
    path = folder / "records.jsonl"
    return path.read_text().count('"type":"record"') if path.exists() else 0


def main(names, make_case=Case):
    if not AMDAHL.exists():
        print(f"SKIP: {AMDAHL} is not built")
        sys.exit(SKIPPED)
    only = sys.argv[3:]
    failed = skipped = passed = 0
    for name, check in list(names.items()):
        if not name.startswith("check_") or name == "check_error" or (only and name not in only):
            continue
        folder = tempfile.mkdtemp(prefix="amdahl-test-")
        start = time.monotonic()
        try:
            check(make_case(folder))
            passed += 1
            print(f"ok: {name[6:].replace('_', ' ')} ({time.monotonic() - start:.1f} s)")
        except Skip as reason:
            skipped += 1
            print(f"skipped: {name[6:].replace('_', ' ')}: {reason}")
        except Exception as problem:  # whatever goes wrong in one case, the others still run
            failed += 1
            print(f"FAILED: {name[6:].replace('_', ' ')}: {type(problem).__name__}: {problem}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        sys.exit(f"{failed} of {failed + skipped + passed} failed")
    if not passed:
        sys.exit(SKIPPED)
