"""`measure`: what more devices and other wrappers buy for a model that a function makes."""
import os
import tempfile

from . import _factory
from ._error import Error
from ._rank import _job
from ._verbs import run

WORKER = ("-m", "amdahl_lab._worker")


def measure(factory, devices=None, wrap=("ddp",), batch=64, steps=50, warmup=10, runs=5, output_dir=None, gpus=None, **options):
    """Trains what `factory` makes on one device and on several, and returns the same result as `amdahl run`.

        def make(batch, device):                       # batch: rows of this rank
            model = torch.nn.Linear(64, 10).to(device)
            data = [(torch.randn(batch, 64, device=device), torch.randint(10, (batch,), device=device))]
            return amdahl_lab.Training(model, lambda model, rows: torch.nn.functional.cross_entropy(model(rows[0]), rows[1]),
                                       lambda parameters: torch.optim.SGD(parameters, lr=0.1), data)

        if __name__ == "__main__":
            print(amdahl_lab.measure(make, devices=[1, 2]).text)

    factory: function that takes any of batch (rows of the rank), device (torch.device), rank, world_size and returns a Training.
        It is called once in every process, after torch.manual_seed(0): all ranks make the same weights. It must be importable
        (a module, or a script whose call of measure() is under `if __name__ == "__main__"`), or cloudpickle be installed.
    devices: numbers of devices, as [1, 2, 4]; None: 1, 2, 4, ... GPUs, or 1 and 2 processes on the CPU. gpus: another name of it.
    wrap: of "ddp" and "fsdp2", for more than one device.
    batch: rows of a step over all ranks, or a list of them; each number of devices must divide it.
    steps, warmup, runs: timed steps, steps before them, and fresh groups of processes for each number of devices and wrap.
    output_dir: folder of the run. options: further options of `amdahl run`, with underscores.

    Error("usage") for a factory that cannot be used. In a shell, `amdahl run --batch-sizes 64 -m amdahl_lab._worker FILE.py:make`
    does the same.
    """
    if _job.active():
        _job.fail("measure() was called while a rank imports the script", 'put the call under if __name__ == "__main__":')
    if devices is not None and gpus is not None:
        raise Error("usage", "devices and gpus are given", "one of them: they are the same", 2)
    try:
        words, pickled = _factory.refer(factory)
    except _factory.Refused as problem:
        raise Error("usage", *problem.args, 2) from None
    options = {"devices": devices if gpus is None else gpus, "wrap": wrap or None, "batch_sizes": batch, "steps": steps,
               "warmup": warmup, "runs": runs, "output_dir": output_dir, "variables": _variables(), **options}
    if pickled is None:
        return run(*WORKER, *words, **options)
    with tempfile.TemporaryDirectory(prefix="amdahl-lab-") as folder:
        path = os.path.join(folder, "factory.pickle")
        with open(path, "wb") as file:
            file.write(pickled)
        return run(*WORKER, _factory.PICKLE, path, **options)


def _variables():
    """The ranks find this package, also when it is not installed."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if os.path.basename(package) in ("site-packages", "dist-packages") or package in found:
        return {}
    return {"PYTHONPATH": os.pathsep.join([package, *found])}
