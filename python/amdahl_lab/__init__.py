"""amdahl_lab: what more GPUs buy for a model on this machine, measured; and robotics preprocessing on arrays.

    import amdahl_lab as lab

    lab.info()                                                            # devices, links, backends
    study = lab.study(model="medium", devices=[1, 2], batch_sizes=[16, 64])
    study.to_pandas()
    lab.compare("before", "after", fail_on_regression=3)

    study = lab.measure(make, devices=[1, 2])                             # what several devices buy your own module
    print(lab.fits(lab.trace(model, loss, batch), devices=2, wrap="fsdp2"))

A training script is `amdahl run train.py`, with its step in `with lab.step():`. Commands of the program `amdahl`: info,
doctor, links, collectives, study, train, plan, compare, cost, report, bench, run, calibrate. Each runs in a process and
returns a Result. Preprocessing in this process: Preprocessor, fuse_multimodal, resample_trajectories,
voxelize_pointcloud. Errors are amdahl_lab.Error.
"""
from __future__ import annotations

from typing import Any

from ._error import Error
from ._preprocess import Preprocessor, Voxels, fuse_multimodal, resample_trajectories, voxelize_pointcloud
from ._program import find_program
from ._result import Record, Result, Series
from ._step import step
from ._verbs import (bench, calibrate, collectives, compare, cost, doctor, example_prices, info, links, plan,
                     program_help, report, run, study, train)

__all__ = [
    "Error", "Preprocessor", "Record", "Result", "Series", "Voxels", "bench", "calibrate", "collectives", "compare",
    "cost", "doctor", "example_prices", "find_program", "fuse_multimodal", "info", "links", "plan", "program_help",
    "report", "resample_trajectories", "run", "step", "study", "train", "voxelize_pointcloud",
]

_LAZY: dict[str, tuple[str, str]] = {
    "Fit": ("._fits", "Fit"), "Trace": ("._trace", "Trace"), "Training": ("._training", "Training"),
    "batch_size": ("._rank._job", "batch_size"), "fits": ("._fits", "fits"), "measure": ("._measure", "measure"),
    "trace": ("._trace", "trace"), "wrap": ("._rank._job", "wrap"), "will_second_gpu_help": ("._second", "will_second_gpu_help"),
}  # name: (module, its name there); imported at its first use


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version
        try:
            return version("amdahl-lab")
        except PackageNotFoundError:  # imported from a checkout
            return "0+checkout"
    if name in _LAZY:
        from importlib import import_module
        module, attribute = _LAZY[name]
        return getattr(import_module(module, __name__), attribute)
    raise AttributeError(f"module 'amdahl_lab' has no attribute '{name}'")
