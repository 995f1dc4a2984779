"""How long the GPU is busy in a step, by the profiler: the rest of the step is launch gaps."""
import json
import os
import tempfile
import warnings

from ._spans import length, union

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")


class KernelWindow:
    """The profiler from construction to `stop`. Its overhead makes the host slower, not the kernels."""

    def __init__(self, torch):
        self._torch = torch
        self.busy_us = self.optimizer_busy_us = None
        profiler = torch.profiler
        torch.cuda.synchronize()
        self._profile = profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it forgets what came before this window
            self._profile.start()

    def stop(self, steps):
        """Not from inside of an optimizer's step, whose range would not be in the trace."""
        self._torch.cuda.synchronize()
        self._profile.stop()
        handle, path = tempfile.mkstemp(suffix=".json")
        os.close(handle)
        try:
            self._profile.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
        finally:
            os.unlink(path)
        self.busy_us, self.optimizer_busy_us = busy(trace, steps)


def busy(trace, steps):
    """(busy microseconds per step, of it for the optimizer) of a trace in Chrome's format; (None, None) without kernels."""
    found = trace if isinstance(trace, list) else trace.get("traceEvents", ())
    events = [event for event in found if event.get("ph") == "X"]
    device = [event for event in events if event.get("cat") in _ON_DEVICE]
    if not device:
        return None, None
    marks = [(event["ts"], event["ts"] + event["dur"]) for event in events
             if event.get("cat") == "user_annotation" and str(event.get("name", "")).startswith("Optimizer.")]
    launched = {event["args"]["correlation"]: event["ts"] for event in events
                if event.get("cat") in _LAUNCHES and "correlation" in event.get("args", {})}

    def of_optimizer(event):
        moment = launched.get(event.get("args", {}).get("correlation"))
        return moment is not None and any(a <= moment <= b for a, b in marks)
    return _union_us(device) / steps, _union_us([event for event in device if of_optimizer(event)]) / steps


def _union_us(events):
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in events]
    return length(union(spans, float("-inf"), float("inf")))


def divide(parts, step_us, busy_us, optimizer_busy_us):
    """Takes launch gaps out of the optimizer's and compute's time: what of the step is neither busy nor input.

    parts: compute, optimizer, input, ... in microseconds; changed so that their sum stays.
    """
    gaps = max(0.0, step_us - busy_us - parts["input"])
    of_optimizer = min(max(0.0, parts["optimizer"] - optimizer_busy_us), gaps)
    of_compute = min(gaps - of_optimizer, parts["compute"])
    parts["optimizer"] -= of_optimizer
    parts["compute"] -= of_compute
    parts["launch_gaps"] += of_optimizer + of_compute
