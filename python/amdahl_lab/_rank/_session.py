"""Counts the steps of a rank through warm-up, timed steps, account and kernels, and ends the process after the last one."""
import resource
import sys

from . import _clock, _describe, _finish, _hooks, _job
from ._patches import Patches

SETTLE_STEPS = 1  # with the stamps installed, before they count
KERNEL_STEPS = 3  # under the profiler, on GPUs

_current = None


def current():
    """The session of this process, made on first use."""
    global _current
    if _current is None:
        _current = Session(_job.read())
    return _current


class Window:
    """The timed steps, measured from outside: what was read at both of its ends."""

    def __init__(self):
        self.start_us = self.end_us = 0.0
        self.graphs_before = self.graphs_after = 0
        self.memory_peak_bytes = 0


class Session:
    """Steps are marked by `step()`, or by the first optimizer that steps in a script without it, never by both."""

    def __init__(self, job):
        self.job = job
        self.window = Window()
        self.samples = None
        self.first_loss = self.last_loss = None  # tensors, of the worker, which knows them
        self.marked_by_optimizer = False
        self.marker = None
        self.count = 0
        self.account = self.kernels = self._accounted = None
        self._outside = Patches()
        self._inside = False
        self._end, self._then = job.warmup, self._start_window

    # Called by the script's steps

    def enter(self, samples):
        if self._inside:
            _job.fail("a step began inside another one", "close `with amdahl_lab.step():` before the next")
        if _hooks.installed():
            self._take_over()
        self._inside = True
        if samples is not None:
            self.samples = samples
        if self.account is not None:
            self.account.enter()

    def leave(self):
        self._inside = False
        self._stepped()

    def mark(self, optimizer):
        """An optimizer has stepped; the first one of the script marks the steps."""
        if self.marker is None:
            self.marker, self.marked_by_optimizer = optimizer, True
        if optimizer is self.marker:
            self._stepped()

    def total(self):
        """The number of steps that the script has to make."""
        steps, torch = self.job.warmup + self.job.steps, _loaded_torch()
        if self.job.account_steps and torch is not None:
            steps += SETTLE_STEPS + self.job.account_steps + (KERNEL_STEPS if _on_gpu(torch) else 0)
        return steps

    def script_ended(self):
        """The script is over and the steps are not."""
        if self.count == 0:
            _job.fail("the script never steps: no optimizer of PyTorch stepped and nothing is marked",
                      "put `with amdahl_lab.step():` around one training step")
        _job.fail(f"the script ended after {self.count} of {self.total()} steps", "fewer --steps or --warmup, or more data")

    # Phases

    def _take_over(self):
        """The script marks its steps itself: what optimizers marked before does not count."""
        _hooks.remove()
        self.marked_by_optimizer, self.marker, self.count = False, None, 0
        self._end, self._then = self.job.warmup, self._start_window

    def _stepped(self):
        self.count += 1
        if self.count == self._end:
            self._then()

    def _start_window(self):
        self._end, self._then = self.count + self.job.steps, self._end_window
        self.window.graphs_before = _describe.compiled_graphs()
        _synchronize()
        self.window.start_us = _clock.now_us()

    def _end_window(self):
        _synchronize()
        self.window.end_us = _clock.now_us()
        self.window.graphs_after = _describe.compiled_graphs()
        self.window.memory_peak_bytes = _peak_memory()
        torch = _loaded_torch()
        if not self.job.account_steps or torch is None:
            self._finish()
        from . import _account
        self.account = _account.Account(torch, self.marked_by_optimizer, self.marker, _on_gpu(torch))
        self._end, self._then = self.count + 1, self._account_step

    def _account_step(self):
        self._end = self.count + 1
        steps = self.account.leave()
        if steps == SETTLE_STEPS:
            self.account.settle()
        elif steps == SETTLE_STEPS + self.job.account_steps:
            self.account.remove()
            if not self.account.on_gpu:
                self._finish()
            from . import _kernels
            if self.marked_by_optimizer:
                self._mark_from_outside()
            self.kernels = _kernels.KernelWindow(_loaded_torch())
            self._accounted, self.account = self.account, None
            self._end, self._then = self.count + KERNEL_STEPS, self._end_kernels

    def _mark_from_outside(self):
        """The marker's step is marked after it has returned."""
        _hooks.remove()

        def make(original):
            def step(*args, **kwargs):
                result = original(*args, **kwargs)
                self._stepped()
                return result
            return step
        self._outside.wrap(self.marker, "step", make)

    def _end_kernels(self):
        self.kernels.stop(KERNEL_STEPS)
        self.account = self._accounted
        self._finish()

    def _finish(self):
        _hooks.remove()
        self._outside.remove()
        _finish.finish(self, _loaded_torch())


def _loaded_torch():
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "optim") else None


def _on_gpu(torch):
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def _synchronize():
    torch = _loaded_torch()
    if torch is not None and _on_gpu(torch):
        torch.cuda.synchronize()


def _peak_memory():
    """Bytes: of tensors on the GPU, or of this process."""
    torch = _loaded_torch()
    if torch is not None and _on_gpu(torch):
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
