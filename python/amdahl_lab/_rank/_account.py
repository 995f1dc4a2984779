"""Where the time of a step goes: stamps that are in place for the steps after the timed ones only."""
import sys

from . import _communication, _forward, _objects, _operations
from ._clock import HostClock, StreamClock
from ._patches import Patches
from ._timeline import Timeline


class Account:
    """Everything that watches the script is installed on construction and gone after `remove`."""

    def __init__(self, torch, marked_by_optimizer, marker, on_gpu):
        self.on_gpu = on_gpu
        self.marked_by_optimizer = marked_by_optimizer
        self._torch, self._patches = torch, Patches()
        self.timeline = Timeline(StreamClock(torch) if on_gpu else HostClock())
        self.optimizers = _objects.optimizers(torch)
        if marker is not None and not any(found is marker for found in self.optimizers):
            self.optimizers.append(marker)
        self.operations = self._operation_watch()
        self._roots = _objects.roots(torch, self.optimizers)
        self.forward = _forward.ForwardWatch(torch, self.timeline, self.operations, self._roots)
        self.ddp = []
        self._dropped = 0
        self.replays = 0  # of CUDA graphs
        self._optimizer_begins = []
        self._install()
        self.timeline.restart()
        if marked_by_optimizer:
            self.operations.resume()

    def installed(self):
        """How many replacements and hooks are in place."""
        return len(self._patches) + self.forward.installed()

    def model(self):
        """The module that the script calls; if none was seen, as inside of a compiled function, the largest that it updates."""
        called = self.forward.model()
        return called if called is not None else max(self._roots, key=_objects.num_parameters, default=None)

    def enter(self):
        """The script's own mark: what came before was input."""
        step = self.timeline.step
        self.timeline.add("input", step.begin, self.timeline.clock.stamp())
        self.operations.resume()

    def leave(self):
        """A step has ended. Returns how many there are."""
        step = self.timeline.step
        if self.marked_by_optimizer and not step.used_loader and step.first_forward is not None:
            self.timeline.add("input", step.begin, step.first_forward)
        self.operations.pause()
        self.forward.step_ended()
        self._end_optimizer(clear=True)  # the end of its step may be what calls this
        self.timeline.next_step()
        if self.marked_by_optimizer:
            self.operations.resume()
        return len(self.timeline.steps) + self._dropped

    def settle(self):
        """The steps so far do not count; hooks stay where they saw something."""
        self._dropped = len(self.timeline.steps)
        self.timeline.drop()
        self.forward.keep_outermost()

    def remove(self):
        self.operations.pause()
        self.operations = _operations.NoWatch()  # the optimizer's step that ended the last one returns after this
        self.timeline.clock.synchronize()
        self.forward.remove()
        self._patches.remove()

    def _operation_watch(self):
        from . import _describe
        if self.on_gpu or _describe.compiled_graphs():
            return _operations.NoWatch()
        return _operations.watch(self._torch, self.timeline)

    def _install(self):
        torch, timeline, patches = self._torch, self.timeline, self._patches
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            _communication.watch_process_groups(torch, timeline, patches)
            self.ddp = [_communication.DdpWatch(torch, timeline, patches, found) for found in _objects.ddp_wrappers(torch)]
            if self.on_gpu:
                _communication.watch_stream_waits(timeline, patches, _communication.fsdp_classes(), torch.cuda.Stream)
        if self.on_gpu and hasattr(torch.cuda, "CUDAGraph"):
            patches.wrap(torch.cuda.CUDAGraph, "replay", self._replay)
        for name in ("backward", "grad"):
            patches.wrap(torch.autograd, name, self._backward)
        for optimizer in self.optimizers:
            patches.wrap(optimizer, "step", lambda original, owner=optimizer: self._optimizer(original, owner))
            patches.wrap(optimizer, "zero_grad", lambda original: self._optimizer(original, None))
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader is not None:
            patches.wrap(loader._BaseDataLoaderIter, "__next__", self._loader)

    def _replay(self, original):
        clock = self.timeline.clock

        def replay(graph):
            self.replays += 1
            begin = clock.stamp()
            original(graph)
            self.timeline.add("compute", begin, clock.stamp())
        return replay

    def _backward(self, original):
        clock = self.timeline.clock

        def backward(*args, **kwargs):
            for watch in self.ddp:
                watch.backward_begins()
            begin = clock.stamp()
            self.forward.in_backward += 1
            try:
                return original(*args, **kwargs)
            finally:
                self.forward.in_backward -= 1
                end = clock.stamp()
                self.timeline.add("compute", begin, end)
                self.timeline.add("backward", begin, end)
                for watch in self.ddp:
                    watch.backward_ended(end)
        return backward

    def _optimizer(self, original, owner):
        """`owner`: the optimizer if this is its step; its zero_grad counts as its time too."""
        clock = self.timeline.clock

        def call(*args, **kwargs):
            self.operations.pause()
            self._optimizer_begins.append(clock.stamp())
            if owner is not None:
                self.timeline.step.optimizers[id(owner)] = owner
            try:
                return original(*args, **kwargs)
            finally:
                self._end_optimizer()
                self.operations.resume()
        return call

    def _end_optimizer(self, clear=False):
        """The innermost call that is open, or all of them, ends now."""
        while self._optimizer_begins:
            self.timeline.add("optimizer", self._optimizer_begins.pop(), self.timeline.clock.stamp())
            if not clear:
                return

    def _loader(self, original):
        clock = self.timeline.clock

        def fetch(loader):
            begin = clock.stamp()
            try:
                return original(loader)
            finally:
                self.timeline.add("input", begin, clock.stamp())
                self.timeline.step.used_loader = True
        return fetch
