"""Several ranks on this host with gloo: DDP, FSDP2 and explicit collectives, planted delays, ranks that fail."""
import lab_driver
from models import GPT, GROUP, MLP, RESNET

DDP = """
model = nn.parallel.DistributedDataParallel({model})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x, y = rows()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SLOW = """
import time
class Slow(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if RANK == 1:
            time.sleep(0.04)
        return self.inner(x)
"""
LATE_US, ADDED_US = 40e3, 30e3  # planted, and what a loaded machine may add


def lateness(ranks):
    """Of each step: how much later rank 1 was ready than rank 0, in us."""
    first, second = (result["account"]["arrivals_us"] for result in ranks.results)
    return sorted(b - a for a, b in zip(first, second))


def check_models_under_ddp(case):
    lab_driver.need_torch()
    for text, model in ((MLP, "mlp()"), (RESNET, "TinyResNet()"), (GPT, "TinyGPT()")):
        script = case.write("ddp.py", text + GROUP + f"print(sum(p.numel() for p in {model}.parameters()), flush=True)\n"
                            f"print(sum(b.numel() * b.element_size() for b in {model}.buffers()), flush=True)\n" + DDP.format(model=model))
        ranks = case.good(script, n=2)
        parameters, buffers = (int(word) for word in ranks.out[0].split())
        for result in ranks.results:
            account = result["account"]
            assert result["num_parameters"] == parameters and result["facts"]["wrap"] == "ddp", result
            assert result["model"] == model.split("(")[0].replace("mlp", "Sequential"), result
            assert account["comm_bytes"] == 4 * parameters + buffers, (account, parameters, buffers)
            assert account["total_communication_us"] > 0 and account["exposed_us"] > 0, account
            assert len(account["arrivals_us"]) == len(account["waits_us"]) == 3, account


def check_a_slow_rank_under_ddp(case):
    lab_driver.need_torch()
    script = case.write("slow.py", MLP + GROUP + SLOW + DDP.format(model="Slow(mlp())"))
    ranks = case.good(script, n=2, account_steps=5)
    late = lateness(ranks)[2]  # the median
    assert LATE_US * 0.9 <= late <= LATE_US + ADDED_US, f"{late:.0f} us late instead of {LATE_US:.0f}"
    fast, slow = (result["account"] for result in ranks.results)
    assert fast["exposed_us"] >= LATE_US * 0.8 > slow["exposed_us"], (fast, slow)
    assert slow["compute_us"] >= LATE_US * 0.95 and fast["launch_gaps_us"] < LATE_US / 2, (fast, slow)
    assert sorted(fast["waits_us"])[2] >= LATE_US * 0.9 and sorted(slow["waits_us"])[2] < LATE_US / 2, (fast, slow)


def check_communication_that_nothing_hides(case):
    """A communication hook of DDP that takes 30 ms for the one bucket, which is ready after the last gradient."""
    lab_driver.need_torch()
    hook = """
import time
def slow(group, bucket):
    time.sleep(0.03)
    return torch.distributed.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda done: done.value()[0])
"""
    text = DDP.format(model="mlp()").replace("optimizer = ", "model.register_comm_hook(None, slow)\noptimizer = ", 1)
    ranks = case.good(case.write("hook.py", MLP + GROUP + hook + text), n=2)
    for result in ranks.results:
        assert 28e3 <= result["account"]["exposed_us"] <= 30e3 + ADDED_US, result["account"]


def check_explicit_collectives(case):
    """What overlaps with work of the rank is hidden, what a rank waits for is not, and an early-bound name is seen too."""
    lab_driver.need_torch()
    text = MLP + GROUP + """
import time
import amdahl_lab
from torch.distributed import all_reduce
values = torch.ones(1000)
while True:
    with amdahl_lab.step(samples=1):
        {body}
"""
    hidden = "handle = all_reduce(values, async_op=True); time.sleep(0.04); handle.wait()"
    for result in case.good(case.write("hidden.py", text.format(body=hidden)), n=2).results:
        assert result["account"]["exposed_us"] < 20e3 and result["account"]["comm_bytes"] == 4000, result["account"]
    late = "time.sleep(0.04 * RANK); all_reduce(values)"
    ranks = case.good(case.write("late.py", text.format(body=late)), n=2)
    fast, slow = (result["account"] for result in ranks.results)
    assert LATE_US * 0.9 <= fast["exposed_us"] <= LATE_US + ADDED_US and slow["exposed_us"] < LATE_US / 2, (fast, slow)
    assert lateness(ranks)[1] >= LATE_US * 0.9, (fast, slow)


def check_accumulation_communicates_once(case):
    lab_driver.need_torch()
    script = case.write("accumulate.py", MLP + GROUP + """
import contextlib
model = nn.parallel.DistributedDataParallel(mlp())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    for last in (False, False, True):
        x, y = rows()
        with contextlib.nullcontext() if last else model.no_sync():
            nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    for result in case.good(script, n=2).results:
        assert result["account"]["comm_bytes"] == 4 * result["num_parameters"] and result["samples"] == 24, result
        assert len(result["account"]["arrivals_us"]) == 3, result


FSDP2 = """
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2,))
model = nn.Sequential(*[{block} for _ in range(3)])
for block in model:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
while True:
    x, _ = rows()
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def check_fsdp2(case):
    lab_driver.need_torch((2, 6))
    script = case.write("fsdp2.py", MLP + GROUP + FSDP2.format(block="nn.Sequential(nn.Linear(64, 64), nn.ReLU())"))
    for result in case.good(script, n=2).results:
        account, parameters = result["account"], 3 * (64 * 64 + 64)
        assert result["num_parameters"] == parameters and result["model"] == "Sequential", result
        assert result["facts"]["wrap"] == "fsdp2" and result["samples"] == 8, result
        # All-gathers before forward and backward and a reduce-scatter; the root's are the last block's parameters' or none.
        assert account["comm_bytes"] == 3 * 4 * parameters and account["exposed_us"] > 0, account


def check_a_slow_rank_under_fsdp2(case):
    """It is late for communication in the midst of forward: later ones begin together."""
    lab_driver.need_torch((2, 6))
    script = case.write("slow.py", MLP + GROUP + SLOW + FSDP2.format(block="Slow(nn.Linear(64, 64))"))
    fast, slow = (result["account"] for result in case.good(script, n=2, account_steps=5).results)
    planted = 3 * LATE_US
    assert planted * 0.9 <= sorted(fast["waits_us"])[2] <= planted + 3 * ADDED_US, (fast, slow)
    assert fast["exposed_us"] >= 0.9 * planted and slow["compute_us"] >= 0.9 * planted, (fast, slow)


def check_an_exception_in_one_rank_ends_all(case):
    lab_driver.need_torch()
    text = MLP + GROUP + DDP.format(model="mlp()").replace("while True:", "for number in range(1000):\n"
                                                           "    if number == {at} and RANK == 1:\n        raise ValueError('rank 1')")
    for at in (4, 9):  # in the timed steps, in the account
        ranks = case.ranks(case.write("fails.py", text.format(at=at)), n=2, steps=5, warmup=2)
        assert ranks.codes[1] == 1 and ranks.codes[0] != 0 and ranks.results == [None, None], ranks.shown()
        assert ranks.err[1].rstrip().endswith("ValueError: rank 1") and ranks.seconds < 40, ranks.shown()


def check_a_rank_that_ends_early_is_named_by_its_error(case):
    lab_driver.need_torch()
    text = MLP + GROUP + DDP.format(model="mlp()").replace("while True:", "for number in range(1000 if RANK == 0 else 5):")
    case.refused(case.write("short.py", text), n=2, rank=1, says=["ended after 5 of 11 steps"])


def check_other_ranks_that_do_not_end_are_not_waited_for(case):
    """The deadline of the common end, which is long, with a script that sets it."""
    script = case.write("hangs.py", MLP + GROUP + """
import time
import amdahl_lab
from amdahl_lab._rank import _finish
_finish.DEADLINE_S = 1
while True:
    with amdahl_lab.step(samples=1):
        time.sleep(30 if RANK == 1 else 0)
""")
    lab_driver.need_torch()
    case.refused(script, n=2, account_steps=0, rank=0, timeout=60, says=["did not end within 1 s", "other ranks"])


lab_driver.main(globals())
