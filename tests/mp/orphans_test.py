"""kill -9 of what started the ranks (mpirun, the arena, a torchrun) ends the ranks, too: no process stays behind."""
import os
import signal
import subprocess
import sys
import tempfile
import time

import mp_support as mp

LIMIT = 10.0  # a rank that is stuck ends itself 8 s after it was told to
LONG = ("study", "--backend", "cpu", "--devices", "2", "--batch-sizes", "16", "--runs", "100000", "--steps", "20", "--timeout", "60",
        "-q", "-o", "run")
PROGRAM = mp.program()


def processes():
    """Number, parent and state of every process that is no thread."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            yield int(name), int(parent), state
        except OSError:
            pass


def below(root):
    """Every process that descends from `root`."""
    parents = {number: parent for number, parent, _ in processes()}
    found = []
    for number in parents:
        above = parents.get(number)
        while above not in (None, 0, root):
            above = parents.get(above)
        if above == root:
            found.append(number)
    return found


def program_of(number):
    try:
        return os.readlink(f"/proc/{number}/exe")
    except OSError:
        return ""


def alive(numbers):
    return [number for number, _, state in processes() if number in numbers and state != "Z"]


def check(folder, what, command, count):
    """Kills what was started once `count` ranks run under it."""
    with tempfile.TemporaryFile(mode="w+") as output:
        process = subprocess.Popen(command, cwd=folder, env=mp.clean_environment(), stdout=output, stderr=output)
        ranks = []
        try:
            end = time.monotonic() + 60
            while len(ranks) < count or not launcher_ready(folder, command):
                output.seek(0)
                assert process.poll() is None and time.monotonic() < end, f"{what}: no ranks:\n{output.read()}"
                time.sleep(0.05)
                ranks = [number for number in below(process.pid) if program_of(number) == PROGRAM]
            start = time.monotonic()
            process.kill()
            process.wait()
            while alive(ranks):
                assert time.monotonic() - start < LIMIT, f"{what}: ranks {alive(ranks)} of {ranks} live on"
                time.sleep(0.02)
            took = time.monotonic() - start
        finally:
            for number in alive(ranks):
                os.kill(number, signal.SIGKILL)
            if process.poll() is None:
                process.kill()
            process.wait()
    print(f"ok: {what}: {len(ranks)} ranks end {took:.2f} s after kill -9")


def launcher_ready(folder, command):
    """A study has begun its first record; the arena's ranks need only be there."""
    return "--arena=gloo" in command or os.path.exists(os.path.join(folder, "run", "records.jsonl"))


TORCHRUN = """
import os, subprocess, sys
common = {**os.environ, "TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
          "MASTER_PORT": sys.argv[1]}
ranks = [subprocess.Popen(sys.argv[2:], env={**common, "RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(2)]
for rank in ranks: rank.wait()
"""

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
mp.need("mpirun")
for name, words, ranks in (
        ("mpirun", (*MPIRUN, PROGRAM, *LONG), 2),
        ("mpirun of a script", (*MPIRUN, "sh", "-c", '"$@"; exit $?', "sh", PROGRAM, *LONG), 2),
        ("an agent of torchrun", (sys.executable, "-c", TORCHRUN, str(mp.free_port()), PROGRAM, *LONG), 2),
        ("the arena", (PROGRAM, "collectives", "--backend", "cpu", "--devices", "2", "--arena=gloo", "-b", "1M", "-e",
                       "1M", "-n", "100000", "-q"), 2)):
    with tempfile.TemporaryDirectory(prefix="amdahl-test-") as place:
        check(place, name, words, ranks)
