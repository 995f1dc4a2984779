"""What a step of a PyTorch module consists of, without running it: blocks with parameters, FLOP, kept activations, and
the peak of its memory."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from ._error import Error
from ._result import frame_of

HOW_TREE = "module tree under FakeTensorMode"
HOW_MEASURED = "measured: a step on the CPU with times of each block"


@dataclasses.dataclass
class Block:
    """One block, or `repeats` equal ones in a row. Parameters, FLOP and bytes are of one of them."""

    name: str
    kind: str
    repeats: int = 1
    parameters: int = 0
    forward_flops: int = 0
    kept_bytes: int = 0  # activations that backward needs, each storage once
    forward_us: float | None = None  # of a trace by measurement
    backward_us: float | None = None


@dataclasses.dataclass
class Trace:
    """A step of a module: forward, loss, backward, optimizer. Bytes are of tensors on one device that has the whole
    batch, as PyTorch's MemTracker counts them: without what an allocator adds by fragments, and workspaces of libraries."""

    how: str
    model: str
    parameters: int
    trainable: int
    parameter_bytes: int
    step_flops: int  # of forward and backward
    peak_bytes: dict[str, int] | None  # by kind: parameters, buffers, gradients, activations, optimizer, temporaries, inputs
    blocks: list[Block]
    notes: list[str]

    @property
    def total_bytes(self) -> int | None:
        """Peak of the memory of tensors in a step of one device; None where it was not found."""
        return sum(self.peak_bytes.values()) if self.peak_bytes else None

    def rows(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(block) for block in self.blocks]

    def to_pandas(self):
        """A pandas DataFrame, one row per block."""
        return frame_of(self.rows(), ".rows()")

    def __str__(self) -> str:
        lines = [f"{self.model}: {self.parameters:,} parameters, {self.step_flops / 1e9:,.1f} GFLOP a step ({self.how})"]
        if self.peak_bytes:
            parts = ", ".join(f"{kind} {size / 1e6:,.1f}" for kind, size in self.peak_bytes.items() if size)
            lines.append(f"peak of tensors {self.total_bytes / 1e6:,.1f} MB: {parts}")
        for block in self.blocks:
            times = "" if block.forward_us is None else f", {block.forward_us:,.0f} + {block.backward_us:,.0f} us"
            count = f" x {block.repeats}" if block.repeats > 1 else ""
            lines.append(f"  {block.name} ({block.kind}){count}: {block.parameters:,} parameters, "
                         f"{block.forward_flops / 1e9:,.2f} GFLOP forward, {block.kept_bytes / 1e6:,.1f} MB kept{times}")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def trace(model: Any, loss: Callable[[Any, Any], Any], batch: Any, optimizer: Callable[[Any], Any] | None = None) -> Trace:
    """What a training step of `model` consists of.

    model: a torch.nn.Module, or a function without arguments that makes one (then nothing of its size is allocated).
    loss: loss(model, batch) -> scalar tensor. batch: what loss takes, a tensor or a structure of them.
    optimizer: optimizer(parameters) -> torch.optim.Optimizer; default AdamW.

    The step runs under FakeTensorMode: shapes and storages without data. A module that needs data (a branch on a value,
    an operation without a shape rule) is run once on the CPU instead, with times of each block, and the result says so.
    Error("usage") for no module, and a loss that is no scalar."""
    import torch

    make = model if not isinstance(model, torch.nn.Module) else None
    optimizer = optimizer or torch.optim.AdamW
    try:
        return _fake_step(make, model, loss, batch, optimizer)
    except Error:
        raise
    except Exception as problem:  # what fails inside depends on the module
        reason = _first_line(problem)
    found = _measured_step(model if make is None else make(), loss, batch)
    found.notes.append(f"without data the step failed: {reason}")
    return found


def _first_line(problem: Exception) -> str:
    text = str(problem).splitlines()
    return f"{type(problem).__name__}: {text[0][:160]}" if text else type(problem).__name__


def _checked_module(module: Any) -> Any:
    import torch

    if isinstance(module, torch.nn.Module):
        return module
    raise Error("usage", f"the model is a {type(module).__name__}", "a torch.nn.Module, or a function that makes one")


def _checked_loss(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value
    what = f"of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
    raise Error("usage", f"the loss is {what}", "one number, for example the mean over the batch")


def _map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_map(lambda leaf: change(leaf) if hasattr(leaf, "untyped_storage") else leaf, value)


def _tensors(value: Any) -> list[Any]:
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(value) if hasattr(leaf, "untyped_storage")]


def _fake_step(make, model, loss, batch, make_optimizer) -> Trace:
    import torch
    from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        if make is None:
            with FakeCopyMode(fake):
                module = copy.deepcopy(_checked_module(model))
        else:
            module = _checked_module(make())
        rows = _map_tensors(batch, lambda t: t if fake.is_our_fake(t) else fake.from_tensor(t))
        optimizer = make_optimizer(module.parameters())
        _as_on_gpus(optimizer)
        watch = BlockWatch(module)
        flops = FlopCounterMode(display=False)
        with torch.backends.mkldnn.flags(enabled=False):  # whose recurrent layers have no FLOP rule
            with watch, flops:
                value = _checked_loss(loss(module, rows))
                watch.end_forward(flops)
                value.backward()
            optimizer.step()
            optimizer.zero_grad()
            del value
            notes = []
            try:
                peak = _peak_of_step(module, optimizer, loss, rows)
            except Exception as problem:  # hooks of the tracker do not suit every module
                peak = _peak_of_parts(module, optimizer, rows, watch.blocks)
                notes.append(f"the peak is that of kept activations and of the optimizer's step; MemTracker failed: {_first_line(problem)}")
    return _trace_of(HOW_TREE, module, flops.get_total_flops(), peak, watch.blocks, notes)


def _as_on_gpus(optimizer) -> None:
    """Optimizers update lists of tensors at once where these are on a GPU, which takes temporaries of their size."""
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


def _peak_of_step(module, optimizer, loss, rows) -> dict[str, int] | None:
    """Of a second step, which has the optimizer's state; None where torch has no tracker of memory."""
    try:
        from torch.distributed._tools.mem_tracker import MemTracker
    except ImportError:
        return None
    names = {"PARAM": "parameters", "BUFFER": "buffers", "GRAD": "gradients", "ACT": "activations", "OPT": "optimizer",
             "TEMP": "temporaries", "OTH": "inputs"}
    tracker = MemTracker()
    tracker.track_external(module, optimizer, *_tensors(rows))
    with tracker:
        value = loss(module, rows)
        value.backward()
        del value
        optimizer.step()
        optimizer.zero_grad()
    sizes: dict[str, int] = {}
    for snapshot in tracker.get_tracker_snapshot("peak").values():
        for kind, size in snapshot.items():
            name = names.get(getattr(kind, "name", str(kind)))
            if name:
                sizes[name] = sizes.get(name, 0) + int(size)
    return sizes


def _peak_of_parts(module, optimizer, rows, blocks) -> dict[str, int]:
    """Before backward all activations are kept, in the optimizer's step all gradients and temporaries of their size."""
    def size(tensors) -> int:
        return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())

    sizes = {"parameters": size(module.parameters()), "buffers": size(module.buffers()), "inputs": size(_tensors(rows)),
             "optimizer": size(t for state in optimizer.state.values() for t in _tensors(state))}
    kept = sum(block.kept_bytes for block in blocks)
    gradients = size(p for p in module.parameters() if p.requires_grad)
    if kept > 2 * gradients:
        sizes["activations"] = kept
    else:
        sizes["gradients"] = sizes["temporaries"] = gradients
    return sizes


def _trace_of(how, module, step_flops, peak, blocks, notes) -> Trace:
    parameters = {id(p): p for p in module.parameters()}.values()
    return Trace(how, type(module).__name__, sum(p.numel() for p in parameters),
                 sum(p.numel() for p in parameters if p.requires_grad), sum(p.numel() * p.element_size() for p in parameters),
                 int(step_flops), peak, _grouped(blocks), notes)


def _grouped(blocks: Sequence[Block]) -> list[Block]:
    """Equal neighbours as one."""
    groups: list[Block] = []
    for block in blocks:
        same = groups and all(getattr(groups[-1], field) == getattr(block, field)
                              for field in ("kind", "parameters", "forward_flops", "kept_bytes")) \
            and groups[-1].forward_us is None
        if same:
            groups[-1].repeats += 1
        else:
            groups.append(dataclasses.replace(block))
    return groups


def _is_list(module: Any) -> bool:
    import torch

    return isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(module) > 0


def _block_modules(module: Any) -> list[tuple[str, Any]]:
    """The parts of the module: members of its lists of blocks, and else its children, in order."""
    import torch

    parts: list[tuple[str, Any]] = []

    def add(prefix: str, owner: Any) -> None:
        for name, child in owner.named_children():
            in_sequence, in_list = isinstance(owner, torch.nn.Sequential), isinstance(owner, torch.nn.ModuleList)
            holds_list = not in_sequence and any(_is_list(inner) for inner in child.modules())
            if not in_list and (_is_list(child) or holds_list):
                add(f"{prefix}{name}.", child)
            else:
                parts.append((f"{prefix}{name}", child))

    add("", module)
    return parts or [("", module)]


class BlockWatch:
    """Notes kept activations, FLOP and, with `times`, time of each block while a step runs."""

    def __init__(self, module: Any, times: bool = False) -> None:
        self.blocks: list[Block] = []
        self._times = times
        self._current: list[Block] = []
        self._seen: set[int] = set()
        self._own = {p.untyped_storage()._cdata for p in list(module.parameters()) + list(module.buffers())}
        self._hooks: list[Any] = []
        self._starts: dict[str, float] = {}
        self._forward = True
        counted: set[int] = set()
        for name, part in _block_modules(module):
            fresh = [p for p in part.parameters() if id(p) not in counted]
            counted.update(id(p) for p in fresh)
            block = Block(name or type(part).__name__, type(part).__name__, 1, sum(p.numel() for p in fresh))
            self.blocks.append(block)
            self._hooks.append(part.register_forward_pre_hook(lambda _m, _a, b=block: self._enter(b)))
            self._hooks.append(part.register_forward_hook(lambda _m, _a, _o, b=block: self._leave(b)))
            if times:
                self._hooks.append(part.register_full_backward_pre_hook(lambda _m, _g, b=block: self._begin_backward(b)))
                self._hooks.append(part.register_full_backward_hook(lambda _m, _i, _o, b=block: self._end_backward(b)))
                block.forward_us = block.backward_us = 0.0
        rest = [p for p in module.parameters() if id(p) not in counted]
        self.rest = Block("(outside the blocks)", type(module).__name__, 1, sum(p.numel() for p in rest))

    def _enter(self, block: Block) -> None:
        self._current.append(block)
        self._starts[block.name] = time.perf_counter()

    def _leave(self, block: Block) -> None:
        if self._times and self._forward:
            block.forward_us += 1e6 * (time.perf_counter() - self._starts[block.name])
        self._current.pop()

    def _begin_backward(self, block: Block) -> None:
        self._starts[block.name] = time.perf_counter()

    def _end_backward(self, block: Block) -> None:
        block.backward_us += 1e6 * (time.perf_counter() - self._starts[block.name])

    def end_forward(self, flops: Any = None) -> None:
        """flops: the FlopCounterMode that the step runs under."""
        self._forward = False
        if flops is None:
            return
        counts = {name.partition(".")[2]: sum(each.values()) for name, each in flops.get_flop_counts().items()}
        for block in self.blocks:
            block.forward_flops = counts.get(block.name, 0)

    def _pack(self, tensor: Any) -> Any:
        key = tensor.untyped_storage()._cdata
        if key not in self._own and key not in self._seen:
            self._seen.add(key)
            (self._current[-1] if self._current else self.rest).kept_bytes += tensor.untyped_storage().nbytes()
        return tensor

    def __enter__(self) -> BlockWatch:
        import torch

        self._saved = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self._saved.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._saved.__exit__(*problem)
        for hook in self._hooks:
            hook.remove()
        if self.rest.kept_bytes or self.rest.parameters:
            self.blocks.append(self.rest)


def _measured_step(module, loss, batch) -> Trace:
    module = _checked_module(module)
    from torch.utils.flop_counter import FlopCounterMode

    flops = FlopCounterMode(display=False)
    counted, timed = BlockWatch(module), BlockWatch(module, times=True)
    for watch, counter in ((counted, flops), (timed, None)):
        with watch, counter or contextlib.nullcontext():
            value = _checked_loss(loss(module, batch))
            watch.end_forward(counter)
            value.backward()
        module.zero_grad()
    for block, other in zip(timed.blocks, counted.blocks):
        block.forward_flops = other.forward_flops
    return _trace_of(HOW_MEASURED, module, flops.get_total_flops(), None, timed.blocks, [])
