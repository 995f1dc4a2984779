"""Modules, DDP wrappers and optimizers that are alive in this process."""
import gc


def _alive(kind):
    return [found for found in gc.get_objects() if issubclass(type(found), kind)]


def optimizers(torch):
    return _alive(torch.optim.Optimizer)


def ddp_wrappers(torch):
    if not torch.distributed.is_available():
        return []
    return _alive(torch.nn.parallel.DistributedDataParallel)


def roots(torch, found_optimizers):
    """Modules that are in no other one and have parameters that an optimizer updates; all that have any without optimizers."""
    modules = _alive(torch.nn.Module)
    inner = {id(child) for module in modules for child in vars(module).get("_modules", {}).values()}
    updated = {id(p) for optimizer in found_optimizers for group in optimizer.param_groups for p in group["params"]}
    found = []
    for module in modules:
        if id(module) in inner or "_parameters" not in vars(module):
            continue
        parameters = {id(p) for p in module.parameters()}
        if parameters & updated if updated else parameters:
            found.append(module)
    return found


def is_compiled(module):
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def watchable(root):
    """The root and its modules outside of what is compiled: a hook in there would compile it again."""
    found, pending = [], [root]
    while pending:
        module = pending.pop()
        if id(module) in {id(m) for m in found}:
            continue
        found.append(module)
        if not is_compiled(module):
            pending += [child for child in module.children() if child is not None]
    return found


def unwrapped(module):
    """The user's module inside of DDP's, FSDP's and the compiler's wrappers."""
    inner = {"DistributedDataParallel": "module", "FullyShardedDataParallel": "module", "DataParallel": "module",
             "OptimizedModule": "_orig_mod"}
    while type(module).__name__ in inner:
        module = getattr(module, inner[type(module).__name__])
    return module


def class_name(module):
    """The name that the user gave: fully_shard makes a subclass FSDPx of class x."""
    kind = type(unwrapped(module))
    return next((base.__name__ for base in kind.__mro__ if not _is_made_by_fsdp(base)), kind.__name__)


def _is_made_by_fsdp(kind):
    return kind.__name__.startswith("FSDP") and any(base.__name__ == "FSDPModule" for base in kind.__mro__)


def num_parameters(module):
    """Of the whole model: what FSDP divided counts as a whole."""
    def size(parameter):
        whole = getattr(parameter, "_unpadded_unsharded_size", None)  # a flat parameter of the first FSDP
        return whole.numel() if whole is not None else parameter.numel()
    return sum(size(parameter) for parameter in module.parameters())
