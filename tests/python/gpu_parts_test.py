"""What only GPUs use, as far as it runs without one: intervals, traces of kernels, waits of streams, and the account with a
stand-in for torch.cuda whose events are stamps of the host."""
import lab_driver
from models import MLP


def check_partitions_sum_to_the_step(case):
    import random
    from amdahl_lab._rank import _spans
    draw = random.Random(7)
    for _ in range(500):
        spans = [(draw.choice(_spans.ORDER + ("forward",)), a, a + draw.uniform(0, 30)) for a in
                 (draw.uniform(-20, 100) for _ in range(draw.randrange(12)))]
        parts = _spans.partition(spans, 0.0, 100.0)
        assert abs(sum(parts.values()) - 100.0) < 1e-9 and min(parts.values()) >= -1e-9, (spans, parts)
        samples = {kind: 0 for kind in parts}
        for moment in (number / 10 + 0.05 for number in range(1000)):
            kinds = {kind for kind, a, b in spans if a <= moment < b}
            samples[next((kind for kind in _spans.ORDER if kind in kinds), "rest")] += 0.1
        for kind, value in parts.items():
            assert abs(value - samples[kind]) < 2.5, (kind, value, samples, spans)


def trace(events):
    """(category, name, begin, length, correlation) as Chrome's format has it."""
    return {"traceEvents": [{"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": {"correlation": number} if number else {}}
                            for cat, name, ts, dur, number in events] + [{"ph": "M", "name": "process_name"}]}


def check_busy_time_of_a_trace(case):
    from amdahl_lab._rank import _kernels
    events = trace([
        ("cuda_runtime", "cudaLaunchKernel", 10, 5, 1), ("kernel", "gemm", 100, 50, 1),
        ("cuda_runtime", "cudaLaunchKernel", 20, 5, 2), ("kernel", "ncclDevKernel_AllReduce", 120, 60, 2),  # overlaps: 100 to 180
        ("user_annotation", "Optimizer.step#SGD.step", 30, 30, 0), ("gpu_user_annotation", "Optimizer.step#SGD.step", 0, 900, 0),
        ("cuda_runtime", "cudaLaunchKernel", 40, 5, 3), ("kernel", "foreach", 200, 20, 3),
        ("cuda_driver", "cuLaunchKernel", 50, 5, 4), ("gpu_memset", "Memset", 230, 10, 4),
        ("cuda_runtime", "cudaMemcpyAsync", 70, 5, 5), ("gpu_memcpy", "Memcpy HtoD", 300, 40, 5)])
    assert _kernels.busy(events, 2) == ((80 + 20 + 10 + 40) / 2, (20 + 10) / 2)
    assert _kernels.busy(trace([("cpu_op", "aten::mm", 0, 9, 0)]), 2) == (None, None)


def check_gaps_leave_the_sum(case):
    from amdahl_lab._rank import _kernels
    for busy, of_optimizer, expected in ((60, 5, {"compute": 45, "optimizer": 5, "launch_gaps": 30}),  # 100 - 60 - 10 idle
                                         (90, 25, {"compute": 60, "optimizer": 20, "launch_gaps": 0}),
                                         (0, 0, {"compute": 0, "optimizer": 0, "launch_gaps": 80}),
                                         (80, 30, {"compute": 50, "optimizer": 20, "launch_gaps": 10})):
        parts = {"compute": 60.0, "optimizer": 20.0, "exposed": 10.0, "input": 10.0, "launch_gaps": 0.0}
        _kernels.divide(parts, 100.0, busy, of_optimizer)
        assert sum(parts.values()) == 100 and all(parts[name] == value for name, value in expected.items()), (busy, parts)


class Clock:
    def __init__(self):
        self.time = 0

    def stamp(self):
        self.time += 1
        return self.time

    def anchor(self):
        return self.stamp()

    def is_compute_stream(self, stream):
        return stream.name == "compute"


def check_waits_of_streams(case):
    """A wait counts in the stream that computes and while FSDP2 is in one of its methods, else not."""
    from amdahl_lab._rank import _communication
    from amdahl_lab._rank._patches import Patches
    from amdahl_lab._rank._timeline import Timeline

    class Stream:
        def __init__(self, name):
            self.name = name

        def wait_event(self, event):
            event.append(self.name)

    class Group:
        def wait_for_unshard(self, stream, events):
            stream.wait_event(events)

    timeline, patches, events = Timeline(Clock()), Patches(), []
    originals = dict(vars(Stream)), dict(vars(Group))
    _communication.watch_stream_waits(timeline, patches, [(Group, ("wait_for_unshard", "post_backward"))], Stream)
    Stream("compute").wait_event(events)
    Group().wait_for_unshard(Stream("copies"), events)
    assert not timeline.step.spans
    Group().wait_for_unshard(Stream("compute"), events)
    assert [kind for kind, _, _ in timeline.step.spans] == ["exposed"] and events == ["compute", "copies", "compute"]
    patches.remove()
    assert (dict(vars(Stream)), dict(vars(Group))) == originals


def check_names_of_fsdp_exist(case):
    """The classes and methods whose waits are watched."""
    lab_driver.need_torch((2, 4))
    from amdahl_lab._rank import _communication
    found = _communication.fsdp_classes()
    assert len(found) == 2 and all(callable(getattr(owner, name)) for owner, names in found for name in names), found


STAND_IN = """
import time
import torch

class Stream:
    device = torch.device("cpu")

    def wait_event(self, event):
        pass

STREAM = Stream()

class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self, stream):
        assert stream is STREAM
        self.time = time.monotonic_ns()

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return (other.time - self.time) / 1e6

cuda = torch.cuda
cuda.Event, cuda.Stream = Event, Stream
cuda.current_stream = lambda device=None: STREAM
cuda.is_available = cuda.is_initialized = lambda: True
cuda.synchronize = lambda device=None: None
cuda.max_memory_allocated = cuda.max_memory_reserved = lambda: 5 << 20
cuda.get_device_name = lambda device=None: "stand-in"
torch.backends.cudnn.version = lambda: 90000
torch.profiler.ProfilerActivity = type("Activity", (), {"CPU": torch.profiler.ProfilerActivity.CPU,
                                                        "CUDA": torch.profiler.ProfilerActivity.CPU})
"""


def check_the_account_with_events(case):
    """The whole path of a GPU with a host that plays its stream; there are no kernels, so there is a note instead of gaps."""
    lab_driver.need_torch()
    script = case.write("events.py", MLP + STAND_IN + """
import amdahl_lab, sys
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(1000):
    x, y = rows()
    time.sleep(0.02)
    with amdahl_lab.step() if "--mark" in sys.argv else torch.enable_grad():
        print(number, flush=True)
        output = model(x)
        time.sleep(0.03)
        nn.functional.cross_entropy(output, y).backward()
        optimizer.step()
        optimizer.zero_grad()
""")
    for words in ((), ("--mark",)):
        ranks = case.good(script, *words, warmup=2, steps=3, account_steps=2)
        result, account = ranks.results[0], ranks.results[0]["account"]
        assert result["device"] == "cuda" and result["device_name"] == "stand-in" and result["memory_peak_bytes"] == 5 << 20, result
        assert ranks.out[0].split()[-1] == str(2 + 3 + 1 + 2 + 3 - 1), ranks.out  # three under the profiler
        assert 19e3 <= account["input_us"] <= 45e3 and account["compute_us"] >= 30e3 and account["launch_gaps_us"] == 0, account
        assert any("no kernels" in note for note in result["notes"]), result["notes"]
        assert result["samples"] == 8 and result["facts"]["cudnn"], result


lab_driver.main(globals())
