"""What a rank of `measure` says about factories that it cannot use, in one line each, and what is no error."""
import os
import subprocess
import sys

import lab_driver
from models import MLP

FACTORY = """
def make(batch, device):
    data = [rows(batch)]
    return amdahl_lab.Training(mlp(), lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
                               lambda parameters: torch.optim.SGD(parameters, lr=0.01), data)
"""


def refused(case, body, says, n=2, batch=8, wrap="ddp", rank=0):
    """The one line of a rank whose factory is `make` of this script."""
    script = case.write("script.py", "import amdahl_lab\n" + MLP + body)
    case.refused("-m", "amdahl_lab._worker", f"{script}:make", n=n, batch=batch, wrap=wrap if n > 1 else "", rank=rank, says=says)


def check_fsdp2_with_an_old_pytorch(case):
    torch = lab_driver.need_torch()
    if hasattr(torch.distributed, "device_mesh"):
        raise lab_driver.Skip(f"PyTorch {torch.__version__} has it")
    refused(case, FACTORY, ["fsdp2 needs PyTorch 2.4", "--wrap ddp"], wrap="fsdp2")


def check_a_factory_takes_what_it_wants(case):
    lab_driver.need_torch()
    for signature in ("batch, device, rank, world_size", "rank, batch", "batch, device, extra=3", "**given"):
        body = FACTORY.replace("batch, device)", signature + ")", 1).replace("rows(batch)", "rows(8)")
        script = case.write("script.py", "import amdahl_lab\n" + MLP + body)
        case.good("-m", "amdahl_lab._worker", f"{script}:make", batch=8)


def check_wrong_factories(case):
    lab_driver.need_torch()
    good = FACTORY
    refused(case, good, ["a batch of 9 cannot be divided by 2 ranks", "--batch-sizes 8"], batch=9)
    case.refused("-m", "amdahl_lab._worker", "no.py:make", batch=8, says=["there is no no.py"])
    case.refused("-m", "amdahl_lab._worker", "script.py:none", batch=8, says=["script.py has no none"])
    case.refused("-m", "amdahl_lab._worker", "script", batch=8, says=["names no factory", "FILE.py:NAME"])
    case.refused("-m", "amdahl_lab._worker", "script.py:make", says=["no batch is given", "--batch-sizes"])
    case.refused("-m", "amdahl_lab._worker", "absent.module:make", batch=8, says=["absent.module cannot be imported"])
    refused(case, "def make(): return mlp()\n", ["returned Sequential", "amdahl_lab.Training("])
    refused(case, good.replace("mlp()", "mlp"), ["model is function", "torch.nn.Module"])
    refused(case, good.replace("mlp()", "mlp().to('meta')"), ["the model has a tensor on meta", "this rank computes on cpu"], n=1)
    refused(case, good.replace("[rows(batch)]", "[tuple(t.to('meta') for t in rows(batch))]"), ["a batch has a tensor on meta"], n=1)
    refused(case, good.replace("[rows(batch)]", "[]"), ["batches are empty"], n=1)
    refused(case, good.replace("[rows(batch)]", "iter([rows(batch)] * 3)"), ["ended after 3 of 11 steps"], n=1)
    refused(case, good.replace("cross_entropy(model(batch[0]), batch[1])", "relu(model(batch[0]))"), ["shape (8, 10)"], n=1)
    refused(case, good.replace("lambda parameters: torch.optim.SGD(parameters, lr=0.01)", "lambda parameters: 3"), ["returned int"],
            n=1)


def check_ranks_that_make_different_models(case):
    lab_driver.need_torch()
    good = FACTORY.replace("def make(batch, device)", "def make(batch, rank)")
    for rank in (0, 1):
        refused(case, good.replace("mlp()", "mlp(layers=2 + rank)"), ["rank 1's model has 8 parameters, rank 0's 6"], rank=rank)
    refused(case, good.replace("mlp()", "nn.Sequential(nn.Linear(64, 32 + rank), nn.Linear(32 + rank, 10))"),
            ["rank 1's parameter 0.weight 33x64 float32 is 0.weight 32x64 float32 on rank 0"])


def check_different_losses_are_no_error(case):
    lab_driver.need_torch()
    body = FACTORY.replace("def make(batch, device):", "def make(batch, rank):\n    torch.manual_seed(rank)")
    script = case.write("script.py", "import amdahl_lab\n" + MLP + body)
    first, second = (one["loss_first"] for one in case.good("-m", "amdahl_lab._worker", f"{script}:make", n=2, batch=8).results)
    assert first != second, "the ranks had the same batch"


def check_the_worker_is_not_started_by_hand(case):
    done = subprocess.run([sys.executable, "-m", "amdahl_lab._worker", "script.py:make"], capture_output=True, text=True, timeout=60,
                          env={"PYTHONPATH": str(lab_driver.PACKAGE), "PATH": os.environ["PATH"]})
    assert done.returncode == 3 and "started by hand" in done.stderr and "amdahl_lab.measure()" in done.stderr, done


lab_driver.main(globals())
