"""A rank of `measure`: calls the factory, checks what it returns, wraps the model and trains it."""
import itertools
import os
import sys
from datetime import timedelta

from . import _factory, _wrap
from ._rank import _job, _session
from ._step import step
from ._training import Training

TIMEOUT = timedelta(minutes=10)


def main(words):
    if not _job.active():
        _job.fail("amdahl_lab._worker was started by hand", "amdahl run -m amdahl_lab._worker FILE.py:NAME, or amdahl_lab.measure()")
    job = _job.read()
    rows = rows_of_rank(job)
    try:
        import torch
    except ImportError:
        _job.fail("this Python has no PyTorch", "pip install torch")
    try:
        factory = _factory.find(words)
        device = start_group(torch, job)
        values = {"batch": rows, "device": device, "rank": job.rank, "world_size": job.world_size}
        torch.manual_seed(0)
        training = factory(**_factory.arguments(factory, values))
        train(torch, job, training, device, rows)
    except _factory.Refused as problem:
        _job.fail(*problem.args)
    except RuntimeError as problem:
        if "forked subprocess" in str(problem):
            _job.fail("the factory or its batches use CUDA in a forked process after CUDA was initialised",
                      'multiprocessing_context="spawn" for the DataLoader, or tensors of the CPU in its workers')
        raise


def rows_of_rank(job):
    if job.global_batch < 1:
        _job.fail("no batch is given", "--batch-sizes 64")
    return _job.batch_size(0)


def start_group(torch, job):
    """The device of this rank; the process group for more than one."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = torch.cuda.is_available()
    if on_gpu and local >= torch.cuda.device_count():
        _job.fail(f"rank {job.rank} needs GPU {local}, this process sees {torch.cuda.device_count()}", "fewer --devices")
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if job.world_size > 1:
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    return device


def train(torch, job, training, device, rows):
    """Does not return: the last step ends the process."""
    check_training(torch, training, device)
    if job.world_size > 1:
        _wrap.check_same_model(torch, training.model)
        model = _wrap.wrap(torch, training.model, job.wrap or "ddp", device)
    else:
        model = training.model
    optimizer = training.optimizer(model.parameters())
    if not hasattr(optimizer, "step") or not hasattr(optimizer, "zero_grad"):
        _job.fail(f"Training's optimizer returned {type(optimizer).__name__}", "lambda parameters: torch.optim.SGD(parameters, lr=0.1)")
    session = _session.current()
    first = True
    for batch in endless(training.batches, session):
        if first:
            check_device(torch, "a batch", tensors_of(torch, batch), device)
        with step(samples=rows):
            optimizer.zero_grad()
            loss = training.loss(model, batch)
            if first:
                check_loss(torch, loss)
            loss.backward()
            optimizer.step()
            session.last_loss = loss
        if first:
            session.first_loss = loss.detach().clone()
            first = False


def check_training(torch, training, device):
    if not isinstance(training, Training):
        _job.fail(f"the factory returned {type(training).__name__}", "return amdahl_lab.Training(model, loss, optimizer, batches)")
    if not isinstance(training.model, torch.nn.Module):
        _job.fail(f"Training's model is {type(training.model).__name__}", "a torch.nn.Module")
    for what, value in (("loss", training.loss), ("optimizer", training.optimizer)):
        if not callable(value) or isinstance(value, torch.nn.Module) and what == "optimizer":
            _job.fail(f"Training's {what} is {type(value).__name__}, not a function",
                      "a function of (model, batch)" if what == "loss" else "a function of the parameters")
    check_device(torch, "the model", itertools.chain(training.model.parameters(), training.model.buffers()), device)


def check_device(torch, what, tensors, device):
    for tensor in tensors:
        if tensor.device != device:
            _job.fail(f"{what} has a tensor on {tensor.device}, this rank computes on {device}",
                      "use the factory's argument `device`, as .to(device)")


def check_loss(torch, loss):
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        _job.fail(f"Training's loss returned {found} that backward cannot start from", "return one number that depends on the model")


def tensors_of(torch, value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(torch, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(torch, item)


def endless(batches, session):
    """The batches over and over; an error if there are none or they cannot begin again."""
    while True:
        begun_at, empty = session.count, True
        for batch in batches:
            empty = False
            yield batch
        if empty and begun_at == 0:
            _job.fail("Training's batches are empty", "an iterable of batches, as a list or a DataLoader")
        if empty:
            _job.fail(f"Training's batches ended after {session.count} of {session.total()} steps",
                      "a list or a DataLoader, which can begin again, or a generator without an end")


if __name__ == "__main__":
    main(sys.argv[1:])
