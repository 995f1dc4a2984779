"""Wraps a model for data parallelism, after a check that all ranks made the same one."""
from collections import Counter

from ._rank import _job

KINDS = ("ddp", "fsdp2")


def check_same_model(torch, model):
    """Ends every rank with one line if the models differ in number, name, shape or type of their parameters."""
    own = [(name, tuple(p.shape), str(p.dtype)) for name, p in model.named_parameters()]
    everyone = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, own)
    remedy = "the factory must make the same model on every rank"
    for rank, other in enumerate(everyone):
        if len(other) != len(everyone[0]):
            _job.fail(f"rank {rank}'s model has {len(other)} parameters, rank 0's {len(everyone[0])}", remedy)
        for theirs, first in zip(other, everyone[0]):
            if theirs != first:
                _job.fail(f"rank {rank}'s parameter {_text(theirs)} is {_text(first)} on rank 0", remedy)
    if not own:
        _job.fail("the model has no parameters", "a model that can be trained")


def _text(parameter):
    name, shape, kind = parameter
    return f"{name} {'x'.join(str(size) for size in shape) or 'scalar'} {kind.replace('torch.', '')}"


def wrap(torch, model, kind, device):
    """The model for this kind of data parallelism."""
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    if kind == "fsdp2":
        return _fsdp2(torch, model, device)
    return _job.fail(f"there is no wrap '{kind}'", f"one of {', '.join(KINDS)}")


def _fsdp2(torch, model, device):
    """fully_shard on every repeated block and on the root, from the weights of rank 0, as DDP does."""
    try:
        from torch.distributed.device_mesh import init_device_mesh
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            from torch.distributed._composable.fsdp import fully_shard
    except ImportError:
        _job.fail(f"fsdp2 needs PyTorch 2.4 or newer, this is {torch.__version__}", "--wrap ddp")
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            torch.distributed.broadcast(tensor.data, 0)
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    for block in blocks(torch, model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def blocks(torch, model):
    """Modules of one class that repeat in a ModuleList or Sequential, and have parameters; the inner ones first."""
    found = []
    for module in model.modules():
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        children = [child for child in module if any(True for _ in child.parameters())]
        repeated = Counter(type(child) for child in children)
        found += [child for child in children if repeated[type(child)] > 1 and child not in found]
    return [block for block in reversed(found) if block is not model]
