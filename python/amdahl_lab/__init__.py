"""Measures what more devices buy for the training step of a user's own PyTorch program."""
from ._asked import batch_size, wrap
from ._step import step

__all__ = ["Training", "batch_size", "measure", "step", "wrap"]


def __getattr__(name):
    if name == "measure":
        from ._measure import measure
        return measure
    if name == "Training":
        from ._training import Training
        return Training
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
