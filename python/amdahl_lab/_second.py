"""What a second GPU would buy, from one."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._error import Error


def will_second_gpu_help(factory: Callable[..., Any], batch: int = 64, link: str = "nvlink4", devices: int = 2,
                         **options: Any) -> Any:
    """Predicts the speedup of DistributedDataParallel on several GPUs from measurements on one.

    factory, batch, options: as of measure(). link: between the GPUs, nvlink4, pcie5, host, or a machine file of
    `amdahl links`. devices: how many GPUs, 2 or more; they divide the batch.

    The factory's module is trained on one GPU with the whole batch and with the rows that each of the GPUs would have; the
    all-reduce of its gradients is modelled, less what backward hides of it. The Result's json has the prediction with its
    interval and the source of every term, its text the same for people. The interval is that of the measured steps; the
    model's own error is not in it. Error("usage") on a machine without a GPU."""
    from ._measure import measure
    from ._verbs import report

    if devices < 2 or batch % devices:
        raise Error("usage", f"a batch of {batch} on {devices} devices", "2 devices or more, which divide the batch", 2)
    measured = measure(factory, devices=[1], batch=[batch, batch // devices], **options)
    return report(measured.run_dir, assume_devices=[devices], link=link)
