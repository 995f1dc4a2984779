"""Hooks on the modules that the script calls itself: time of forward, rows of a step."""
from . import _objects
from ._patches import Patches


class ForwardWatch:
    """At first hooks are on all modules outside of compiled ones; then only on those that nothing else called."""

    def __init__(self, torch, timeline, operations, roots):
        self._torch, self._timeline, self._operations = torch, timeline, operations
        self._depth = 0
        self.in_backward = 0
        self.outermost = {}  # by identity, that were called
        self.math = set()
        self._handles = {}
        self._compiled = Patches()
        for root in roots:
            for module in _objects.watchable(root):
                self._hook(module)

    def installed(self):
        return sum(len(handles) for _, handles in self._handles.values()) + len(self._compiled)

    def keep_outermost(self):
        for key in [key for key in self._handles if key not in self.outermost]:
            self._remove(key)

    def remove(self):
        for key in list(self._handles):
            self._remove(key)
        self._compiled.remove()

    def step_ended(self):
        self._depth = 0  # an exception may have left a forward without its end

    def model(self):
        """The outermost called module with the most parameters; None if none was seen."""
        return max(self.outermost.values(), key=_objects.num_parameters, default=None)

    def _remove(self, key):
        for handle in self._handles.pop(key)[1]:
            handle.remove()

    def _hook(self, module):
        if getattr(module, "_compiled_call_impl", None) is not None:  # a hook would become part of what is compiled
            self._compiled.wrap(module, "_compiled_call_impl", lambda call: self._call_of(module, call))
            return
        state = {}

        def begin(_, args, kwargs=None):
            self._begin(module, state, args, kwargs or {})

        def end(_, args, output):
            self._end(state)
        try:
            first = module.register_forward_pre_hook(begin, with_kwargs=True)
        except TypeError:  # before PyTorch 2.0
            first = module.register_forward_pre_hook(begin)
        self._handles[id(module)] = (module, [first, module.register_forward_hook(end)])

    def _call_of(self, module, compiled):
        def call(*args, **kwargs):
            state = {}
            self._begin(module, state, args, kwargs)
            output = compiled(*args, **kwargs)
            self._end(state)
            return output
        return call

    def _begin(self, module, state, args, kwargs):
        self._depth += 1
        if self._depth > 1 or self.in_backward:  # backward calls modules again under activation checkpointing
            return
        self._operations.pause()
        self.outermost[id(module)] = module
        step = self._timeline.step
        step.rows.setdefault(id(module), []).append(self._rows(args, kwargs))
        self._note_math()
        state["begin"] = self._timeline.clock.stamp()
        if step.first_forward is None:
            step.first_forward = state["begin"]

    def _end(self, state):
        self._depth -= 1
        if self._depth != 0 or "begin" not in state:
            return
        begin, end = state.pop("begin"), self._timeline.clock.stamp()
        self._timeline.add("compute", begin, end)
        self._timeline.add("forward", begin, end)
        self._operations.resume()

    def _rows(self, args, kwargs):
        """The first dimension of the first tensor argument; 0 if there is none."""
        pending = [*args, *kwargs.values()]
        while pending:
            value = pending.pop(0)
            if isinstance(value, self._torch.Tensor):
                return int(value.shape[0]) if value.dim() else 0
            if isinstance(value, dict):
                pending = [*value.values(), *pending]
            elif isinstance(value, (list, tuple)):
                pending = [*value, *pending]
        return 0

    def _note_math(self):
        """The type of autocast, if it is on for this device."""
        torch, device = self._torch, self._timeline.clock.device
        if device == "cuda" and torch.is_autocast_enabled():
            self.math.add(torch.get_autocast_gpu_dtype())
        elif device == "cpu" and torch.is_autocast_cpu_enabled():
            self.math.add(torch.get_autocast_cpu_dtype())
