"""What a rank ran: model, math, launch, and the versions and settings behind its numbers."""
import os
import platform
import re
import sys

from . import _objects


def compiled_graphs():
    """The number of graphs that torch.compile has made in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["stats"]["unique_graphs"]) if utils is not None else 0


def launch(account):
    """How the step's operations get to the device: "compiled", "graph" (CUDA graphs of the script's own) or "eager"."""
    if compiled_graphs():
        return "compiled"
    return "graph" if account is not None and account.replays else "eager"


def math(torch, model, autocast, on_gpu):
    """The type that most of the model is computed in."""
    if autocast:
        return _name_of(torch, next(iter(autocast)))
    mixed = _fsdp_type(model)
    if mixed is not None:
        return _name_of(torch, mixed)
    sizes = {}
    for parameter in (model.parameters() if model is not None else ()):
        sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
    kind = max(sizes, key=sizes.get) if sizes else torch.get_default_dtype()
    return "tf32" if kind == torch.float32 and on_gpu and _allows_tf32(torch) else _name_of(torch, kind)


def _name_of(torch, kind):
    names = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
    return names.get(kind, str(kind).replace("torch.", ""))


def _fsdp_type(model):
    """The parameters' type that FSDP2's policy asks for."""
    if model is None or not hasattr(model, "_get_fsdp_state"):
        return None
    return getattr(getattr(model._get_fsdp_state(), "_mp_policy", None), "param_dtype", None)


def _allows_tf32(torch):
    matmul = torch.backends.cuda.matmul
    try:
        return matmul.fp32_precision == "tf32"
    except (AttributeError, AssertionError):  # before PyTorch 2.9
        return bool(matmul.allow_tf32)


def device_name(torch):
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()


def facts(torch, on_gpu):
    """Versions and settings, as texts."""
    found = {"python": platform.python_version()}
    if torch is None:
        return found
    found["torch"] = torch.__version__
    found["torch_threads"] = str(torch.get_num_threads())
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        found["process_group"] = torch.distributed.get_backend()
    if on_gpu:
        found["cuda"] = str(torch.version.cuda)
        found["cudnn"] = str(torch.backends.cudnn.version())
        found["cudnn_benchmark"] = "on" if torch.backends.cudnn.benchmark else "off"
        found["memory_reserved_peak_bytes"] = str(torch.cuda.max_memory_reserved())
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            if os.environ.get(variable):
                found["allocator"] = os.environ[variable]
    return found


def wrappers(account):
    """"ddp", "fsdp2", "fsdp" or "none", by what the modules of the account are."""
    model = account.model()
    if account.ddp:
        return "ddp"
    kinds = {base.__name__ for module in (model.modules() if model is not None else ()) for base in type(module).__mro__}
    return "fsdp2" if "FSDPModule" in kinds else "fsdp" if "FullyShardedDataParallel" in kinds else "none"


def notes():
    """What in this process makes its numbers doubtful."""
    libraries = loaded_nccl()
    if len(libraries) > 1:
        return [f"{len(libraries)} different NCCL libraries are loaded ({', '.join(libraries)}): two in one process can hang."]
    return []


def loaded_nccl():
    """Paths of the NCCL libraries in this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            return sorted({path for path in re.findall(r"(/\S+)$", file.read(), re.MULTILINE)
                           if re.match(r"libnccl\.so", os.path.basename(path))})
    except OSError:
        return []


def optimizer_names(account):
    """Classes of the optimizers that stepped, in their order."""
    stepped = {}
    for step in account.timeline.steps:
        stepped.update(step.optimizers)
    return "+".join(dict.fromkeys(type(optimizer).__name__ for optimizer in stepped.values()))


def model_fields(account):
    model = account.model()
    if model is None:
        return {"model": "", "num_parameters": 0}
    return {"model": _objects.class_name(model), "num_parameters": _objects.num_parameters(model)}
