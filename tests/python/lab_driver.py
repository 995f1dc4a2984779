"""Starts the ranks of a job as `amdahl run` does, and checks what they write. Used by the scripts in this folder.

A script defines functions `check_*` that take a Case, and ends with `lab_driver.main(globals())`.

usage: x_test.py SOURCE_DIR BINARY_DIR [CHECK...]
"""
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import time

SOURCE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
PACKAGE = SOURCE / "python"
GRACE_S = 3  # that other ranks have after one failed
PARTS = ("compute_us", "exposed_us", "launch_gaps_us", "input_us", "optimizer_us")
KEYS = {"schema", "rank", "world_size", "model", "num_parameters", "optimizer", "math", "launch", "samples", "device", "device_name",
        "facts", "window_us", "steps", "warmup", "memory_peak_bytes", "notes"}
sys.path[:0] = [str(PACKAGE), str(SOURCE / "tests" / "cli")]

import harness  # noqa: E402
from harness import Skip, wait_until  # noqa: E402, F401


def need_torch(version=(0, 0)):
    if importlib.util.find_spec("torch") is None:
        raise Skip(f"{sys.executable} has no PyTorch")
    import torch
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split("a")[0].split(".")[:2])
    if found < version:
        raise Skip(f"PyTorch {torch.__version__} is older than {version[0]}.{version[1]}")
    return torch


class Ranks:
    """How the ranks of one job ended: exit codes, outputs, results by rank, seconds."""

    def __init__(self, codes, out, err, results, seconds):
        self.codes, self.out, self.err, self.results, self.seconds = codes, out, err, results, seconds

    def shown(self):
        return "\n".join(f"rank {rank}: code {code}\n{out}{err}" for rank, (code, out, err) in
                         enumerate(zip(self.codes, self.out, self.err)))


class Case(harness.Case):
    """One check in a folder of its own, which is the working directory of what it runs."""

    def __init__(self, folder):
        super().__init__(folder)
        self.jobs = 0

    def write(self, name, text):
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def ranks(self, *words, n=1, steps=5, warmup=2, account_steps=3, wrap="", batch=0, env=None, timeout=120, module="amdahl_lab.launch"):
        """Runs a fresh group of n ranks to its end; when one fails, the others are ended."""
        self.jobs += 1
        prefix = self.folder / f"job{self.jobs}"
        job = prefix.with_suffix(".json")
        job.write_text(json.dumps({"schema": 1, "steps": steps, "warmup": warmup, "account_steps": account_steps, "wrap": wrap,
                                   "global_batch": batch, "result": str(prefix) + ".rank"}))
        shared = {"WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n), "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "AMDAHL_LAB_JOB": str(job),
                  "PYTHONPATH": str(PACKAGE)}
        begin, processes = time.monotonic(), []
        for rank in range(n):
            outputs = [open(f"{prefix}.{rank}.{kind}", "w") for kind in ("out", "err")]
            own = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **(env or {})}
            processes.append(subprocess.Popen([sys.executable, "-m", module, *map(str, words)], cwd=self.folder, env=own,
                                              stdout=outputs[0], stderr=outputs[1], start_new_session=True))
            for output in outputs:
                output.close()
        codes = wait_for_all(processes, begin + timeout)
        texts = {kind: [pathlib.Path(f"{prefix}.{rank}.{kind}").read_text() for rank in range(n)] for kind in ("out", "err")}
        results = [json.loads(path.read_text()) if path.is_file() else None
                   for path in (pathlib.Path(f"{prefix}.rank.{rank}.json") for rank in range(n))]
        return Ranks(codes, texts["out"], texts["err"], results, time.monotonic() - begin)

    def good(self, *words, **options):
        """Expects every rank to end well; its results have all keys and parts that sum to the step."""
        ranks = self.ranks(*words, **options)
        assert all(code == 0 for code in ranks.codes) and None not in ranks.results, ranks.shown()
        for rank, result in enumerate(ranks.results):
            check_result(result, rank, len(ranks.results))
        return ranks

    def refused(self, *words, says=(), rank=0, **options):
        """Expects exit code 3 and, as the last line of the rank's stderr, one error with a remedy and these texts."""
        ranks = self.ranks(*words, **options)
        assert ranks.codes[rank] == 3, ranks.shown()
        last = ranks.err[rank].rstrip("\n").split("\n")[-1]
        assert last.startswith("amdahl_lab: error: ") and "; " in last, ranks.shown()
        for text in says:
            assert text in last, f"'{text}' is not in: {last}"
        return ranks


def wait_for_all(processes, end):
    codes, failed_at = [None] * len(processes), None
    while None in codes:
        codes = [process.poll() for process in processes]
        if failed_at is None and any(code not in (None, 0) for code in codes):
            failed_at = time.monotonic()
        if time.monotonic() > end or (failed_at is not None and time.monotonic() > failed_at + GRACE_S):
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.01)
    return codes


def check_result(result, rank, n):
    assert KEYS <= set(result), KEYS - set(result)
    assert result["schema"] == 1 and (result["rank"], result["world_size"]) == (rank, n), result
    assert result["window_us"] > 0 and result["memory_peak_bytes"] > 1 << 20, result
    assert all(isinstance(value, str) for value in result["facts"].values()), result["facts"]
    if "account" in result:
        account = result["account"]
        parts = [account[part] for part in PARTS]
        assert min(parts) >= 0, account
        assert abs(sum(parts) - account["step_us"]) <= account["step_us"] / 1000, account
        assert {"steps", "forward_us", "backward_us", "arrivals_us", "total_communication_us", "comm_bytes"} <= set(account), account


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(names):
    harness.main(names, Case)
