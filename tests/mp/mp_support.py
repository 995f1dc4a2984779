"""Starts worlds of mp_probe processes and watches how they end. Used by the scripts in this folder."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LAUNCHERS = ("AMDAHL_", "OMPI_", "PMI_", "PMIX_", "SLURM_")
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def probe():
    path = os.path.join(sys.argv[2], "tests", "mp_probe")
    if not os.path.exists(path):
        print(f"SKIP: {path} is not built")
        sys.exit(77)
    return path


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS) and k not in TORCHRUN}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def amdahl_env(rank, world, port):
    return {"AMDAHL_RANK": str(rank), "AMDAHL_WORLD_SIZE": str(world), "AMDAHL_MASTER_PORT": str(port)}


def torchrun_env(rank, world, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}


class Rank:
    def __init__(self, number, mode, timeout, variables):
        self.number = number
        self.output = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([probe(), mode, str(timeout)], env={**clean_environment(), **variables},
                                        stdout=self.output, stderr=subprocess.STDOUT)
        self.ended = None

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def signal(self, number):
        self.process.send_signal(number)


class World:
    """`size` ranks on this host; killed at the end of the with block, whatever happened."""

    def __init__(self, size, mode, timeout=20, variables=amdahl_env, present=None):
        port = free_port()
        self.ranks = [Rank(r, mode, timeout, variables(r, size, port)) for r in (present or range(size))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.signal(signal.SIGKILL)
            rank.process.wait()

    def wait_for(self, word, seconds=30, ranks=None):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if all(word in rank.text() for rank in (self.ranks if ranks is None else ranks)):
                return
            time.sleep(0.02)
        raise AssertionError(f"no '{word}' within {seconds} s:\n" + self.texts())

    def wait_all(self, seconds, ranks=None):
        """Seconds until each of `ranks` (all by default) has ended."""
        start = time.monotonic()
        waiting = list(self.ranks if ranks is None else ranks)
        times = {}
        while waiting:
            for rank in list(waiting):
                if rank.process.poll() is not None:
                    times[rank.number] = time.monotonic() - start
                    waiting.remove(rank)
            if time.monotonic() - start > seconds and waiting:
                names = ", ".join(str(rank.number) for rank in waiting)
                raise AssertionError(f"ranks {names} still run after {seconds} s:\n" + self.texts())
            time.sleep(0.005)
        return times

    def expect(self, code, text="", ranks=None):
        for rank in self.ranks if ranks is None else ranks:
            got = rank.process.returncode
            assert got == code, f"rank {rank.number} exited with {got}, not {code}:\n" + self.texts()
            assert text in rank.text(), f"rank {rank.number} does not say '{text}':\n" + self.texts()

    def texts(self):
        return "\n".join(f"--- rank {rank.number}\n{rank.text()}" for rank in self.ranks)


def program():
    """The amdahl program, or a skip where it or Gloo is not there."""
    path = os.path.join(os.path.abspath(sys.argv[2]), "bin", "amdahl")
    if not os.path.exists(path):
        print(f"SKIP: {path} is not built")
        sys.exit(77)
    backends = json.loads(subprocess.run([path, "info", "--json"], capture_output=True, text=True, check=True,
                                         env=clean_environment()).stdout)["backends"]
    gloo = next(backend for backend in backends if backend["name"] == "gloo")
    if not gloo["ok"]:
        print(f"SKIP: gloo: {gloo['reason']}")
        sys.exit(77)
    return path


class Programs(World):
    """Ranks of amdahl, started one by one with the variables of a launcher; `own` gives a rank's own words."""

    def __init__(self, size, variables, folder, *words, prepare=lambda rank: None, own=lambda rank: (), present=None, port=None):
        path, port = program(), port or free_port()
        self.ranks = []
        for number in present or range(size):
            rank = object.__new__(Rank)
            rank.number = number
            rank.output = tempfile.TemporaryFile(mode="w+")
            rank.process = subprocess.Popen([path, *words, *own(number)], cwd=folder, stdout=rank.output,
                                            stderr=subprocess.STDOUT,
                                            env={**clean_environment(), **variables(number, size, port)},
                                            preexec_fn=lambda number=number: prepare(number))
            self.ranks.append(rank)


def need(program):
    if not shutil.which(program):
        print(f"SKIP: {program} is not installed")
        sys.exit(77)
