"""What keeps a job from starting is said in one line with its remedy: ports, limits of files, threads and memory, worlds that cannot be,
launchers around commands that use one device."""
import os
import resource
import socket
import subprocess
import tempfile
import threading
import time

import mp_support as mp

PROGRAM = mp.program()
TRAIN = ("train", "--backend", "cpu", "--batch-size", "500", "--epochs", "1", "-q")
SALLOC = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NNODES": "1"}


def run(folder, words, variables=None, prepare=None, timeout=60):
    return subprocess.run([PROGRAM, *words], cwd=folder, env={**mp.clean_environment(), **(variables or {})}, capture_output=True,
                          text=True, timeout=timeout, preexec_fn=prepare)


def expect(result, code, *texts):
    assert result.returncode == code, result
    assert result.stderr.count("error[") == (code != 0), result.stderr
    for text in texts:
        assert text in result.stderr, f"no '{text}' in: {result.stderr}"


class ForeignServer:
    """Takes connections and answers what `reply` says: bytes, nothing (None) or an end at once (empty)."""

    def __init__(self, reply):
        self.reply, self.kept = reply, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            if self.reply is None:
                self.kept.append(peer)
                continue
            peer.sendall(self.reply)
            peer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def check_foreign_server(folder):
    for reply, text in ((b"HTTP/1.1 400 Bad Request\r\nServer: x\r\nContent-Length: 0\r\n\r\n", "answers with something else"),
                        (b"", "closed the connection without an answer"), (None, "does not answer")):
        with ForeignServer(reply) as server:
            words = (*TRAIN, "--timeout", "3", "-o", "foreign")
            start = time.monotonic()
            result = run(folder, words, mp.torchrun_env(1, 2, server.port))
            expect(result, 4, "error[peer-unreachable]", f":{server.port} ", text, "AMDAHL_MASTER_PORT")
            assert time.monotonic() - start < 6, "later than its timeout"
            expect(run(folder, words, {**mp.torchrun_env(0, 2, server.port), "MASTER_ADDR": "127.0.0.1"}), 4,
                   f"rank 0 cannot listen on 127.0.0.1:{server.port}: ", "AMDAHL_MASTER_PORT")
    print("ok: a foreign server at the rendezvous's port is named with its address, for both ranks")


def check_few_files(folder):
    port = mp.free_port()
    address = f"127.0.0.1:{port}"
    for limit in range(4, 9):
        variables = {**mp.torchrun_env(0, 2, port), "MASTER_ADDR": "127.0.0.1"}
        result = run(folder, (*TRAIN, "--timeout", "2", "-o", "files"), variables,
                     lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        if result.returncode == 4 and "rank 1 did not reach" in result.stderr:
            break  # enough for rank 0 by itself
        expect(result, 3, "error[environment-missing]", "Too many open files", "ulimit -n")
    assert limit > 4, "no limit was too low"
    with mp.Programs(2, mp.torchrun_env, folder, *TRAIN, "--timeout", "5", "-o", "files",
                     prepare=lambda rank: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))) as world:
        world.wait_all(20)
        texts = world.texts()
        assert all(rank.process.returncode in (3, 4) for rank in world.ranks), texts
        assert "open files" in texts and "error[internal]" not in texts, texts
    print(f"ok: too few open files are named ({address})")


def check_huge_world(folder):
    start = time.monotonic()
    variables = {**mp.torchrun_env(0, 2_000_000_000, mp.free_port()), "LOCAL_WORLD_SIZE": "2000000000"}
    for words in (TRAIN, ("collectives", "-q"), ("info",)):
        expect(run(folder, words, variables), 2, "error[launcher-mismatch]: WORLD_SIZE=2000000000: at most 65536 ranks")
    variables = {**mp.torchrun_env(0, 60_000, mp.free_port()), "LOCAL_WORLD_SIZE": "60000"}
    expect(run(folder, (*TRAIN, "--devices", "2", "--timeout", "1", "-o", "huge"), variables), 4,
           "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 59991 more did not reach")
    assert time.monotonic() - start < 20
    print("ok: a world of 2,000,000,000 is refused, one of 60,000 ends at its timeout")


def check_launched_commands_of_one_device(folder):
    for words, remedy in (((*TRAIN, "--devices", "1", "-o", "one"), "--devices 2"),
                          (("sensor", "bench", "--backend", "cpu", "-q"), "--mode data"),
                          (("study", "--backend", "cpu", "--devices", "1", "-q", "-o", "one"), "--devices 2")):
        for rank in (0, 1):
            expect(run(folder, words, mp.torchrun_env(rank, 2, mp.free_port())), 2, "error[usage]: this command uses one device and "
                   "torchrun started 2 processes", remedy)
    with mp.Programs(2, mp.torchrun_env, folder, *TRAIN[:-1], "-o", "both") as world:
        world.wait_all(30)
        world.expect(0)
        assert "2 device(s)" in world.ranks[0].text() and world.ranks[1].text() == "", world.texts()
    print("ok: a launched command of one device is refused; train takes all ranks by itself")


def check_allocation(folder):
    for variables in (SALLOC, {**SALLOC, "SLURM_PROCID": "0"}):
        expect(run(folder, (*TRAIN, "-o", f"alloc{len(variables)}"), variables), 0)
        expect(run(folder, ("info",), variables), 0)
    print("ok: in the shell of an allocation and in a batch script commands run by themselves")


def as_user(limit):
    """Root has no limit of processes."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(54321)  # nobody else's
    return prepare


def check_few_threads(folder):
    os.chmod(folder, 0o777)
    words = (("train", "--backend", "cpu", "--devices", "4", "--batch-size", "500", "--epochs", "1", "-q", "-o"),
             ("study", "--backend", "cpu", "--devices", "1,2", "--batch-sizes", "16", "--variants", "none", "--runs", "1", "--steps", "2", "-q", "-o"))
    refused = 0
    for number, command in enumerate(words):
        for limit, openmp in ((1, 1), (2, 1), (3, 1), (5, 1), (8, 1), (5, 8), (8, 8), (10, 8)):
            result = run(folder, (*command, f"threads{number}-{limit}-{openmp}"), {"OMP_NUM_THREADS": str(openmp)}, as_user(limit))
            if result.returncode == 0:
                continue
            refused += 1
            expect(result, 3, "error[environment-missing]", "ulimit -u")
    assert refused > 2, "no limit was too low"
    print(f"ok: too few threads: {refused} calls end with 3 and the limit to raise")


def check_little_memory(folder):
    """From a limit that lets the program start to one with room enough: before and within oneDNN, in and outside of rank threads."""
    words = ("train", "--backend", "cpu", "--devices", "2", "--model", "large", "--batch-size", "512", "--epochs", "1", "-q", "-o")
    refused = 0
    for mib, openmp in ((150, 1), (200, 1), (240, 1), (280, 1), (320, 1), (360, 1), (280, 8), (320, 8), (360, 8), (420, 8)):
        limit = mib << 20
        result = run(folder, (*words, f"memory{mib}-{openmp}"), {"OMP_NUM_THREADS": str(openmp)},
                     lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        if result.returncode == 0:
            continue
        refused += 1
        assert result.returncode == 3 and "error[" in result.stderr and "; try: " in result.stderr, (mib, result)
    assert refused > 1, "no limit was too low"
    print(f"ok: too little memory: {refused} calls end with 3 and a remedy")


with tempfile.TemporaryDirectory(prefix="amdahl-test-") as place:
    check_foreign_server(place)
    check_few_files(place)
    check_huge_world(place)
    check_launched_commands_of_one_device(place)
    check_allocation(place)
    check_few_threads(place)
    check_little_memory(place)
