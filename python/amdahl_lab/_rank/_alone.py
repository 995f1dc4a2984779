"""The communication of a step alone: the same bytes with nothing beside, after all steps."""
from . import _clock

CALLS = 5
LARGEST_BYTES = 256 << 20  # of one call; more is this call several times


def total_us(torch, bytes_by_kind):
    """Microseconds of the step's communication alone, mean of CALLS; every rank calls it with its own bytes."""
    distributed = torch.distributed
    device = torch.device("cuda", torch.cuda.current_device()) if distributed.get_backend() == "nccl" else torch.device("cpu")
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "broadcast")
    largest = torch.tensor([float(bytes_by_kind.get(kind, 0)) for kind in kinds], dtype=torch.float64, device=device)
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)  # all ranks need the same calls
    return sum(_kind_us(torch, kind, size, device) for kind, size in zip(kinds, largest.tolist()) if size > 0)


def _kind_us(torch, kind, size, device):
    calls = max(1, -(-int(size) // LARGEST_BYTES))
    call = _call(torch, kind, int(size / calls), device)
    _synchronize(torch, device, call)
    begin = _clock.now_us()
    for _ in range(CALLS * calls):
        call()
    _synchronize(torch, device)
    return (_clock.now_us() - begin) / CALLS


def _synchronize(torch, device, call=None):
    """After one call of `call` that warms up, for all ranks."""
    if call is not None:
        call()
        torch.distributed.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _call(torch, kind, size, device):
    distributed = torch.distributed
    ranks = distributed.get_world_size()
    share = max(1, size // 4 // ranks)
    whole = torch.zeros(share * ranks, device=device)
    part = torch.zeros(share, device=device)
    if kind == "all-reduce":
        return lambda: distributed.all_reduce(whole)
    if kind == "all-gather":
        gather = getattr(distributed, "all_gather_into_tensor", None) or distributed._all_gather_base
        return lambda: gather(whole, part)
    if kind == "reduce-scatter":
        scatter = getattr(distributed, "reduce_scatter_tensor", None) or distributed._reduce_scatter_base
        return lambda: scatter(part, whole)
    return lambda: distributed.broadcast(whole, 0)
