"""Whether a traced step fits into the memory of devices."""
from __future__ import annotations

import dataclasses

from ._error import Error
from ._trace import Trace

_ALLOCATOR = 1.1  # reserved over allocated bytes: fragments, workspaces; an assumption
_CONTEXT_BYTES = 600_000_000  # CUDA context and NCCL buffers of a process; an assumption
_WRAPS = ("none", "ddp", "fsdp2")


@dataclasses.dataclass
class Fit:
    """Memory of one device, modelled. `ok`: whether it fits into `capacity_bytes`."""

    wrap: str
    devices: int
    tensor_bytes: int
    needed_bytes: int  # with an assumed tenth for the allocator and 600 MB for the process
    capacity_bytes: int

    @property
    def ok(self) -> bool:
        return self.needed_bytes <= self.capacity_bytes

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return (f"{self.wrap} on {self.devices} device{'s' if self.devices > 1 else ''}: {'fits' if self.ok else 'does not fit'}, "
                f"{self.needed_bytes / 1e9:.2f} of {self.capacity_bytes / 1e9:.2f} GB (modelled; tensors {self.tensor_bytes / 1e9:.2f} GB)")


def fits(step: Trace, devices: int = 1, wrap: str | None = None, memory_gb: float | None = None) -> Fit:
    """Whether the step of `trace` fits, its batch divided by the devices.

    wrap: none, ddp or fsdp2; default none on one device, ddp on several. memory_gb: of a device, 10^9 bytes; default the
    least of this machine's GPUs. Modelled: ddp adds a copy of the gradients in its buckets; fsdp2 divides parameters, gradients
    and the optimizer's state, and holds two whole blocks; activations are divided with the batch. Error("usage") for a trace
    without memory, and no GPU and no memory_gb."""
    wrap = wrap or ("none" if devices == 1 else "ddp")
    if wrap not in _WRAPS:
        raise Error("usage", f"unknown wrap '{wrap}'", "none, ddp or fsdp2", 2)
    if devices < 1 or (wrap == "none" and devices > 1):
        raise Error("usage", f"wrap '{wrap}' on {devices} devices", "ddp or fsdp2 on several devices", 2)
    if not step.peak_bytes:
        raise Error("usage", f"the trace has no memory: {step.how}", "torch 2.6 or newer, and a module whose shapes need no data", 2)
    tensors = _tensor_bytes(step, devices, wrap)
    return Fit(wrap, devices, tensors, int(_ALLOCATOR * tensors) + _CONTEXT_BYTES, _capacity(memory_gb))


def _tensor_bytes(step: Trace, devices: int, wrap: str) -> int:
    parts = dict(step.peak_bytes or {})
    rows = parts.get("activations", 0) + parts.get("inputs", 0)
    state = sum(parts.get(kind, 0) for kind in ("parameters", "gradients", "optimizer"))
    rest = sum(parts.values()) - rows - state
    shared = step.parameter_bytes
    if wrap == "fsdp2":
        largest = max((block.parameters for block in step.blocks), default=0) * shared // max(1, step.parameters)
        state = state // devices + 2 * largest
        rest = rest // devices  # temporaries of the optimizer
    elif wrap == "ddp":
        state += shared * step.trainable // max(1, step.parameters)
    return int(rows / devices + state + rest)


def _capacity(memory_gb: float | None) -> int:
    if memory_gb is not None:
        if not memory_gb > 0:
            raise Error("usage", f"memory_gb is {memory_gb}", "a positive number of 10^9 bytes", 2)
        return int(memory_gb * 1e9)
    try:
        import torch
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count:
            return min(torch.cuda.get_device_properties(i).total_memory for i in range(count))
    except ImportError:
        pass
    raise Error("usage", "there is no GPU here whose memory could be asked for", "memory_gb=24", 2)
