"""The ranges that a profiler sees of a build with CUDA, through NVTX's own way of loading one. They are the host's, so CPU
virtual devices push the same ones as GPUs; where there is a GPU, its are looked at too."""
import collections
import json

import harness
from harness import Skip

CAPTURE = harness.BINARY / "tests" / "stubs" / "nvtx_capture.so"
STUDY = ("study", "-q", "--variants", "none", "--batch-sizes", "64", "--runs", "1", "--warmup", "2", "--steps", "3",
         "--plan", "bucket-mb=0.05")

Range = collections.namedtuple("Range", "thread name payload parents")


def ranges(case, *command):
    """Every range in the order of its begin, with the names of those it lies in."""
    if not CAPTURE.exists():
        raise Skip("built without CUDA: no NVTX")
    case.run(*command, env={"NVTX_INJECTION64_PATH": str(CAPTURE), "AMDAHL_NVTX_LOG": str(case.path("nvtx.log"))})
    found, open_ranges = [], collections.defaultdict(list)
    for line in case.path("nvtx.log").read_text().splitlines():
        kind, thread, domain, *rest = line.split("\t")
        if domain != "amdahl":
            continue
        if kind == "push":
            found.append(Range(thread, rest[0], int(rest[1]), tuple(open_ranges[thread])))
            open_ranges[thread].append(rest[0])
        else:
            assert open_ranges[thread], f"a range ends on thread {thread} that never began"
            open_ranges[thread].pop()
    assert not any(open_ranges.values()), open_ranges
    return found


def expect_steps(case, backend):
    found = ranges(case, *STUDY, "--backend", backend, "--devices", "1", "-o", "r")
    steps = [one for one in found if one.name == "step"]
    assert len(steps) >= 5 and all(not one.parents for one in steps), steps
    inner = collections.Counter(one.name for one in found if one.parents[:1] == ("step",))
    assert set(inner) >= {"forward", "backward", "finish step"}, inner
    assert inner["forward"] == inner["backward"] == inner["finish step"] >= 1, inner
    # The host shows the parts of a step where it enqueues them; a GPU's step is a captured graph from some time on.
    assert inner["forward"] == len(steps) if backend == "cpu" else inner["forward"] < len(steps), (inner, len(steps))
    return found


def check_one_device(case):
    found = expect_steps(case, "cpu")
    assert not [one for one in found if one.name == "bucket"], "one device has nothing to send"
    assert [one for one in found if one.name == "optimizer" and "step" in one.parents], found


def check_buckets_of_two_devices(case):
    found = ranges(case, *STUDY, "--backend", "cpu", "--devices", "2", "-o", "r")
    # Steps with parts left out, for the account, are no ranges called "step".
    buckets = [one for one in found if one.name == "bucket" and "step" in one.parents]
    threads = {one.thread for one in buckets}
    # Warm-up and runs have threads of their own, one for each device.
    sent = collections.Counter(collections.Counter(one.thread for one in buckets).values())
    assert len(threads) >= 2 and all(number % 2 == 0 for number in sent.values()), (len(threads), sent)
    steps = [one for one in found if one.name == "step" and one.thread in threads]  # the others are of the baseline
    key = json.loads(case.run("report", "r", "--json").stdout)["cells"][0]["key"]
    sent = sum(one.payload for one in buckets) / len(steps)  # bytes of one device's step
    assert 4 * key["num_parameters"] <= sent <= 1.01 * 4 * key["num_parameters"], (sent, key)


def check_gpu(case):
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    if not next(backend for backend in backends if backend["name"] == "cuda")["ok"]:
        raise Skip("no GPU here")
    expect_steps(case, "cuda")
    names = {one.name for one in ranges(case, "sensor", "bench", "--op", "voxelize", "--backend", "cuda", "--points", "1000",
                                        "--grid", "16", "--devices", "1")}
    assert "sensor voxelize" in names, names


def check_no_profiler(case):
    if not CAPTURE.exists():
        raise Skip("built without CUDA: no NVTX")
    case.run(*STUDY, "--backend", "cpu", "--devices", "1", "-o", "r", env={"NVTX_INJECTION64_PATH": "/nowhere.so"})


harness.main(globals())
