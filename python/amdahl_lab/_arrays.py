"""What differs between numpy, torch and cupy: dense copies, new arrays beside an array, DLPack without a wait, the
stream."""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Optional

from ._error import Error

TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "uint32")  # of the native module
LEGACY_STREAM = 1  # cudaStreamLegacy: 0 would ask libamdahl for a stream of its own


class Library:
    """Of arrays in memory of the host; the base of the others."""
    name = "numpy"

    def __init__(self, module: Any):
        self.module = module

    def gpu_of(self, array: Any) -> int:
        """Index of the GPU, -1 for the host."""
        return -1

    def dense(self, array: Any) -> Any:
        # ascontiguousarray would make one dimension of a number.
        return array if array.flags.c_contiguous else self.module.ascontiguousarray(array)

    def as_float32(self, array: Any) -> Any:
        return array if array.dtype == self.module.float32 else array.astype(self.module.float32)

    def empty(self, shape: tuple[int, ...], like: Any, dtype: Optional[str] = None) -> Any:
        """An array of the type of `like`, or of float32, int32 or uint32, beside it."""
        return self.module.empty(shape, dtype=dtype or like.dtype)

    def exported(self, array: Any) -> Any:
        """What the native module takes: an array of the host, or a capsule that no stream waits for."""
        return array

    def stream(self, gpu: int) -> tuple[int, Any]:
        """The current stream of a GPU, as a number, and what keeps it alive."""
        return 0, None

    def guard(self, gpu: int) -> Any:
        """A context after which the library's current GPU is what it was."""
        return contextlib.nullcontext()


class CupyLibrary(Library):
    name = "cupy"

    def gpu_of(self, array: Any) -> int:
        return int(array.device.id)

    def empty(self, shape: tuple[int, ...], like: Any, dtype: Optional[str] = None) -> Any:
        with like.device:
            return super().empty(shape, like, dtype)

    def dense(self, array: Any) -> Any:
        with array.device:
            return super().dense(array)

    def as_float32(self, array: Any) -> Any:
        with array.device:
            return super().as_float32(array)

    def exported(self, array: Any) -> Any:
        return array.__dlpack__(stream=-1)

    def stream(self, gpu: int) -> tuple[int, Any]:
        with self.module.cuda.Device(gpu):
            stream = self.module.cuda.get_current_stream()
        return stream.ptr or LEGACY_STREAM, stream

    def guard(self, gpu: int) -> Any:
        return self.module.cuda.Device(gpu)


class TorchLibrary(Library):
    name = "torch"

    def gpu_of(self, array: Any) -> int:
        if array.device.type == "cuda":
            return array.device.index if array.device.index is not None else self.module.cuda.current_device()
        return -1

    def dense(self, array: Any) -> Any:
        return array.detach().contiguous()

    def as_float32(self, array: Any) -> Any:
        return array.to(self.module.float32)

    def empty(self, shape: tuple[int, ...], like: Any, dtype: Optional[str] = None) -> Any:
        # Words of a mask are int32: arithmetic on uint32 is mostly missing in torch.
        chosen = getattr(self.module, "int32" if dtype == "uint32" else dtype) if dtype else like.dtype
        return self.module.empty(shape, dtype=chosen, device=like.device)

    def exported(self, array: Any) -> Any:
        return self.module.utils.dlpack.to_dlpack(array)

    def stream(self, gpu: int) -> tuple[int, Any]:
        stream = self.module.cuda.current_stream(gpu)
        return stream.cuda_stream or LEGACY_STREAM, stream

    def guard(self, gpu: int) -> Any:
        return self.module.cuda.device(gpu) if gpu >= 0 else contextlib.nullcontext()


_LIBRARIES = {"numpy": Library, "torch": TorchLibrary, "cupy": CupyLibrary}


def library_of(name: str, array: Any) -> Library:
    """The library of an array. Error of cause usage for anything else, lists too."""
    for kind in type(array).__mro__:
        top = kind.__module__.split(".")[0]
        # sys.modules: the array could not be there without its library.
        if top in _LIBRARIES and hasattr(array, "__dlpack__") and top in sys.modules:
            return _LIBRARIES[top](sys.modules[top])
    raise Error("usage", f"{name} is {_type_name(array)}", "an array of numpy, torch or cupy", 2)


def require_known_type(name: str, array: Any) -> None:
    """Error of cause usage for booleans, objects, complex numbers, another byte order and so on."""
    found = str(array.dtype).replace("torch.", "")
    if found not in TYPES:
        raise Error("usage", f"{name} is {found}", "an array of " + ", ".join(TYPES), 2)


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
