"""How calls of amdahl_lab end: a missing program, one that is killed or says nothing, Ctrl-C, an interpreter that dies.

usage: endings_test.py SOURCE_DIR BINARY_DIR
"""
import os
import signal
import subprocess
import sys

from package_support import SOURCE, harness, lab, refused
from harness import wait_until

# Takes minutes unless it is interrupted.
LONG = """
import amdahl_lab as lab
try:
    lab.study(backend="cpu", batch_sizes=64, devices=[1, 2], warmup=1, steps=30, runs=100000, output_dir="run")
except KeyboardInterrupt:
    print("interrupted")
"""


class Program:
    """Another program in AMDAHL_LAB_PROGRAM for the time of a block."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        os.environ["AMDAHL_LAB_PROGRAM"] = str(self.path)

    def __exit__(self, *_):
        os.environ["AMDAHL_LAB_PROGRAM"] = str(harness.AMDAHL)


def script(case, text):
    case.write("program", f"#!/bin/sh\n{text}\n")
    os.chmod(case.path("program"), 0o755)
    return Program(case.path("program"))


def start(case):
    environment = dict(os.environ, PYTHONPATH=str(SOURCE / "python"))
    return subprocess.Popen([sys.executable, "-c", LONG], cwd=case.folder, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def programs_of(case):
    """Processes whose folder is that of the case and that are the program."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            places = os.readlink(f"/proc/{pid}/exe"), os.readlink(f"/proc/{pid}/cwd")
            if places == (str(harness.AMDAHL), str(case.folder)):
                found.append(int(pid))
        except OSError:
            pass
    return found


def has_records(case):
    path = case.path("run/records.jsonl")
    return path.exists() and path.read_text().count('"type":"record"') > 2


def check_libraries_of_nvidia_packages_are_found(case):
    """The program opens NCCL, cuDNN and cuBLAS by name: LD_LIBRARY_PATH has the user's folders, then those of packages."""
    folder = case.path("site/nvidia/nccl/lib")
    os.makedirs(folder)
    sys.path.append(str(case.path("site")))
    os.environ["LD_LIBRARY_PATH"] = "/first"
    try:
        with script(case, 'echo "{\\"path\\": \\"$LD_LIBRARY_PATH\\"}"'):
            found = lab.info().json["path"].split(":")
        assert found[0] == "/first" and str(folder) in found[1:], found
    finally:
        sys.path.pop()
        del os.environ["LD_LIBRARY_PATH"]


def check_missing_program(case):
    with Program(case.path("none")):
        refused("environment-missing", lab.info, code=3, says=["AMDAHL_LAB_PROGRAM", str(case.path("none"))])
    path = os.environ["PATH"]
    del os.environ["AMDAHL_LAB_PROGRAM"]
    try:
        os.environ["PATH"] = str(case.folder)
        refused("environment-missing", lab.info, code=3, says=["neither in this package nor in PATH"])
        os.symlink(harness.AMDAHL, case.path("amdahl"))
        assert lab.find_program() == str(case.path("amdahl"))
        os.remove(case.path("amdahl"))
    finally:
        os.environ.update(PATH=path, AMDAHL_LAB_PROGRAM=str(harness.AMDAHL))


def check_programs_that_end_badly(case):
    with script(case, "kill -9 $$"):
        refused("rank-died", lab.info, code=137, says=["SIGKILL"])
    with script(case, "echo half of it >&2; kill -11 $$"):
        refused("rank-died", lab.info, code=139, says=["SIGSEGV"])
    with script(case, "echo 'broken pipe in the cellar' >&2; exit 9"):
        try:
            lab.info()
            raise AssertionError("not refused")
        except lab.Error as error:
            assert error.exit_code == 9 and "cellar" in str(error), error
    with script(case, "exit 0"):
        refused("internal", lab.info, says=["no result"])
    with script(case, "echo not json"):
        refused("internal", lab.info, says=["no JSON"])
    case.write("program", "no program at all")
    os.chmod(case.path("program"), 0o755)
    with Program(case.path("program")):
        refused("environment-missing", lab.info, code=3, says=["cannot be started"])


def check_interrupt_ends_the_program_in_order(case):
    process = start(case)
    wait_until(lambda: has_records(case), "records")
    program, = programs_of(case)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "interrupted\n", (out, err)
    assert program not in programs_of(case), "the program is left"
    assert case.path("run/report.md").exists() or "error[" not in err, err
    assert len(lab.Result("study", {}, "", str(case.path("run"))).records) > 2


def check_second_interrupt_kills_what_does_not_end(case):
    with script(case, f"trap '' INT; sleep 97.531 & touch {case.path('ready')}; wait; sleep 97.531"):
        process = start(case)
    wait_until(case.path("ready").exists, "start of the program")
    os.kill(process.pid, signal.SIGINT)
    try:
        process.wait(timeout=1)
        raise AssertionError("it ended at the first interrupt")
    except subprocess.TimeoutExpired:
        pass
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "sleep 97.531" not in left, left


def check_program_ends_with_the_interpreter(case):
    process = start(case)
    wait_until(lambda: has_records(case), "records")
    assert programs_of(case)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not programs_of(case), "end of the program", 30)


harness.main(globals())
