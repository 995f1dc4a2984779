"""The job that `amdahl run` gives to each rank: how many steps of which kind, and where the result goes."""
import json
import multiprocessing
import os
import sys
import threading
from dataclasses import dataclass

VARIABLE = "AMDAHL_LAB_JOB"
SCHEMA = 1
FAILED = 3


@dataclass
class Job:
    """The content of the job's file, and the rank of this process."""
    steps: int
    warmup: int
    account_steps: int
    wrap: str
    global_batch: int
    result: str
    rank: int
    world_size: int


def active():
    """Whether this process is a rank of a job."""
    return bool(os.environ.get(VARIABLE))


def read():
    """The job of this rank; ends the process with one line if the file is not one."""
    path = os.environ[VARIABLE]
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if content["schema"] != SCHEMA:
            fail(f"{VARIABLE}={path} has schema {content['schema']}, this package reads {SCHEMA}",
                 "use the amdahl program and the package of one version")
        job = Job(steps=int(content["steps"]), warmup=max(1, int(content["warmup"])), account_steps=int(content["account_steps"]),
                  wrap=str(content.get("wrap", "")), global_batch=int(content.get("global_batch", 0)), result=str(content["result"]),
                  rank=int(os.environ.get("RANK", "0")), world_size=int(os.environ.get("WORLD_SIZE", "1")))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        fail(f"{VARIABLE}={path} is not a job ({type(problem).__name__}: {problem})", "start the script by `amdahl run SCRIPT`")
    if job.steps < 1 or job.account_steps < 0:
        fail(f"{VARIABLE}={path} has {job.steps} steps and {job.account_steps} account steps", "at least 1 and 0")
    return job


def batch_size(default):
    """Rows of this rank in a step: what `amdahl run --batch-sizes` asks of it, else `default`.

    Ends the process with one line where the ranks do not divide the batch that is asked for."""
    job = read() if active() else None
    if job is None or job.global_batch == 0:
        return default
    if job.global_batch % job.world_size:
        fail(f"a batch of {job.global_batch} cannot be divided by {job.world_size} ranks",
             f"--batch-sizes {max(1, round(job.global_batch / job.world_size)) * job.world_size}")
    return job.global_batch // job.world_size


def wrap(default="ddp"):
    """"ddp" or "fsdp2", as `amdahl run --wrap` asks; `default` without it, on one device, or outside of `amdahl run`."""
    return (read().wrap if active() else "") or default


def write_result(job, result):
    """Writes this rank's result; a reader sees all of it or nothing."""
    path = f"{job.result}.{job.rank}.json"
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(temporary, path)
    except OSError as problem:
        fail(f"the result cannot be written to {path} ({problem.strerror})", "free space, or another --output-dir")


def fail(what, remedy):
    """Says in one line what is wrong and what to do, and ends the process at once with exit code 3."""
    line = " ".join(f"amdahl_lab: error: {what}; {remedy}".split())
    sys.stdout.flush()
    sys.stderr.write(line + "\n")
    end_process(FAILED)


def end_process(code):
    """Ends this process and its worker processes with the exit code; no code of the user runs after it."""
    for child in multiprocessing.active_children():
        child.terminate()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed, or its reader has gone
            pass
    os._exit(code)


def deadline(seconds, what):
    """A started timer that ends the process with an error unless it is cancelled within `seconds`."""
    timer = threading.Timer(seconds, fail, (f"{what} did not end within {seconds:g} s",
                                            "see the output of the other ranks for the one that stopped"))
    timer.daemon = True
    timer.start()
    return timer
