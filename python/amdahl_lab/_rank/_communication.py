"""Time that communication takes from the stream that computes, moments of readiness, bytes: for the steps of the account."""
import importlib
import threading

_OPERATIONS = {  # methods of process groups: the kind that is measured alone
    "allreduce": "all-reduce", "allreduce_coalesced": "all-reduce",
    "allgather": "all-gather", "_allgather_base": "all-gather", "allgather_coalesced": "all-gather",
    "allgather_into_tensor_coalesced": "all-gather",
    "reduce_scatter": "reduce-scatter", "_reduce_scatter_base": "reduce-scatter",
    "reduce_scatter_tensor_coalesced": "reduce-scatter",
    "broadcast": "broadcast", "reduce": "broadcast", "gather": "broadcast", "scatter": "broadcast",
    "alltoall": "broadcast", "alltoall_base": "broadcast", "send": "broadcast", "recv": "broadcast",
    "barrier": None, "monitored_barrier": None,
}


def tensor_bytes(value, torch):
    """Bytes of the tensors in a tensor or nested list."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, (list, tuple)):
        return sum(tensor_bytes(item, torch) for item in value)
    return 0


def watch_process_groups(torch, timeline, patches):
    """Every collective that Python starts, and every wait for one, also of FSDP2. DDP's reducer does not come by here."""
    clock, distributed = timeline.clock, torch.distributed

    def starts(kind):
        def make(original):
            def start(group, *args, **kwargs):
                begin = clock.stamp()
                timeline.arrive(begin)
                if kind is not None:
                    timeline.step.bytes[kind] += max(tensor_bytes(value, torch) for value in (*args, *kwargs.values(), ()))
                return _timed(timeline, begin, original, group, *args, **kwargs)
            return start
        return make

    def waits(original):
        def wait(work, *args, **kwargs):
            return _timed(timeline, clock.stamp(), original, work, *args, **kwargs)
        return wait

    for name, kind in _OPERATIONS.items():
        patches.wrap(distributed.ProcessGroup, name, starts(kind))
    patches.wrap(_work_class(torch), "wait", waits)


def _work_class(torch):
    return getattr(torch.distributed, "Work", None) or torch._C._distributed_c10d.Work


def _timed(timeline, begin, call, *args, **kwargs):
    """The call as exposed communication, unless it goes to a stream beside the one that computes."""
    try:
        return call(*args, **kwargs)
    finally:
        if timeline.clock.on_compute_stream():
            timeline.add("exposed", begin, timeline.clock.stamp())


class DdpWatch:
    """DDP's reducer waits at the end of backward: what is after the last gradient is communication that nothing hides."""

    def __init__(self, torch, timeline, patches, wrapper):
        self._timeline, self._wrapper = timeline, wrapper
        self._ready = None
        ignored = getattr(wrapper, "parameters_to_ignore", set())
        named = [p for name, p in wrapper.module.named_parameters() if p.requires_grad and name not in ignored]
        self._bytes = sum(tensor_bytes(p, torch) for p in named)
        self._watch_gradients(patches, named)
        self._watch_buffers(torch, patches)

    def backward_begins(self):
        self._ready = None

    def backward_ended(self, end):
        if self._ready is None or not self._wrapper.require_backward_grad_sync:
            return
        step = self._timeline.step
        self._timeline.add("exposed", self._ready, end)
        self._timeline.arrive(self._ready)
        step.gradients_ready = self._ready
        step.bytes["all-reduce"] += self._bytes

    def _watch_gradients(self, patches, parameters):
        """A tensor's hook is called before the gradient reaches DDP's, which may begin the last communication."""
        def ready(_):
            self._ready = self._timeline.clock.stamp()
        for parameter in parameters:
            patches.keep(parameter.register_hook(ready))

    def _watch_buffers(self, torch, patches):
        """Before forward the buffers of rank 0 are broadcast."""
        clock = self._timeline.clock

        def make(original):
            def synchronize():
                begin = clock.stamp()
                self._timeline.arrive(begin)
                self._timeline.step.bytes["broadcast"] += sum(tensor_bytes(b, torch) for b in self._wrapper.module.buffers())
                return _timed(self._timeline, begin, original)
            return synchronize
        patches.wrap(self._wrapper, "_sync_buffers", make)


def fsdp_classes():
    """FSDP2's classes that wait for communication, with the methods in which they do; empty before PyTorch 2.4."""
    for package in ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp"):
        try:
            group = importlib.import_module(package + "._fsdp_param_group").FSDPParamGroup
            state = importlib.import_module(package + "._fsdp_state").FSDPState
        except (ImportError, AttributeError):
            continue
        return [(group, ("wait_for_unshard", "post_backward", "finalize_backward")),
                (state, ("_root_post_backward_final_callback",))]
    return []


def watch_stream_waits(timeline, patches, classes, stream_class):
    """On GPUs FSDP2 communicates in streams of its own; its waits in the stream that computes are what nothing hides."""
    inside = threading.local()

    def waiting(original):
        def call(*args, **kwargs):
            inside.depth = getattr(inside, "depth", 0) + 1
            try:
                return original(*args, **kwargs)
            finally:
                inside.depth -= 1
        return call

    def wait(original):
        def wait_event(stream, event):
            if not getattr(inside, "depth", 0) or not timeline.clock.is_compute_stream(stream):
                return original(stream, event)
            begin = timeline.clock.stamp()
            original(stream, event)
            timeline.add("exposed", begin, timeline.clock.stamp())
            return None
        return wait_event

    for owner, names in classes:
        for name in names:
            patches.wrap(owner, name, waiting)
    patches.wrap(stream_class, "wait_event", wait)
