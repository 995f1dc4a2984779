"""`measure`: what more devices and other wrappers buy for a model that a function makes."""
import os
import sys
import tempfile

from . import _factory, _job
from ._error import Error
from ._verbs import _call

WORKER = ("-m", "amdahl_lab._worker")


def measure(factory, devices=None, wrap=("ddp",), batch=64, steps=50, warmup=10, runs=5, output_dir=None, **options):
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
    devices: numbers of devices, as [1, 2, 4]; None: what the program takes without it.
    wrap: of "ddp" and "fsdp2", for more than one device.
    batch: rows of a step over all ranks, or a list of such numbers; each number of devices must divide it.
    steps, warmup, runs: timed steps, steps before them, and fresh groups of processes for each number of devices and wrap.
    output_dir: folder of the run. options: further options of `amdahl run`, with underscores.

    Raises Error of cause "usage" for a factory that cannot be used. The processes run this Python.
    `amdahl run --batch-sizes 64 -m amdahl_lab._worker script.py:make` does the same in a shell.
    """
    if _job.active():
        _job.fail("measure() was called while a rank imports the script", 'put the call under if __name__ == "__main__":')
    options = {"devices": devices, "wrap": wrap, "batch_sizes": batch, "steps": steps, "warmup": warmup, "runs": runs,
               "output_dir": output_dir, "python": sys.executable, **options}
    try:
        words, pickled = _factory.refer(factory)
    except _factory.Refused as problem:
        raise Error("usage", *problem.args, 2) from None
    if pickled is None:
        return _call("run", (*WORKER, *words), options)
    with tempfile.TemporaryDirectory(prefix="amdahl-lab-") as folder:
        path = os.path.join(folder, "factory.pickle")
        with open(path, "wb") as file:
            file.write(pickled)
        return _call("run", (*WORKER, _factory.PICKLE, path), options)
