"""What watches a script is there for the account's steps only: nothing in the timed ones, nothing afterwards, no recompilation."""
import gc

import lab_driver
from models import MLP


def state(torch, *objects):
    """Everything that an account replaces or hooks."""
    distributed = torch.distributed
    owners = [torch.autograd, distributed.ProcessGroup, getattr(distributed, "Work", None) or torch._C._distributed_c10d.Work,
              torch.utils.data.dataloader._BaseDataLoaderIter, torch.optim.Optimizer, torch.nn.Module, torch.Tensor]
    found = [dict(vars(owner)) for owner in owners]
    for item in objects:
        found.append({name: value for name, value in vars(item).items() if name not in ("state", "_zero_grad_profile_name")})
        for module in item.modules() if isinstance(item, torch.nn.Module) else ():
            found.append([list(module._forward_pre_hooks), list(module._forward_hooks)])
            found.append([list(p._backward_hooks or ()) for p in module.parameters(recurse=False)])
    found.append(torch.overrides._get_current_function_mode_stack())
    return [{k: id(v) if callable(v) else None for k, v in item.items()} if isinstance(item, dict) else item for item in found]


def check_removes_all_that_it_installed(case):
    torch = lab_driver.need_torch()
    from amdahl_lab._rank import _account
    names = {}
    exec(MLP, names)
    model = names["mlp"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)

    def one_step():
        x, y = names["rows"]()
        torch.nn.functional.cross_entropy(wrapped(x), y).backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    one_step()
    before = state(torch, wrapped, optimizer)
    account = _account.Account(torch, False, None, False)
    assert account.installed() > 20, account.installed()
    assert state(torch, wrapped, optimizer) != before, "the comparison sees nothing"
    for number in range(4):
        account.enter()
        one_step()
        assert account.leave() == number + 1
        if number == 0:
            account.settle()
    assert len(account.timeline.steps) == 3 and account.forward.outermost == {id(wrapped): wrapped}
    account.remove()
    assert account.installed() == 0, account.installed()
    left = [(a, b) for a, b in zip(before, state(torch, wrapped, optimizer)) if a != b]
    assert not left, f"something is left: {left}"
    one_step()
    torch.distributed.destroy_process_group()
    assert gc.isenabled()


IN_THE_WINDOW = MLP + """
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
backward, step = torch.autograd.backward, optimizer.__dict__.get("step")
seen = []
for number in range(1000):
    x, y = rows()
    with {mark}:
        watched = (torch.autograd.backward is not backward, optimizer.__dict__.get("step") is not step,
                   any(m._forward_hooks or m._forward_pre_hooks for m in model.modules()),
                   bool(torch.overrides._get_current_function_mode_stack()), bool(torch.nn.modules.module._global_forward_pre_hooks))
        nn.functional.cross_entropy(model(x), y).backward()
        print(number, any(watched), all(watched[:3]), flush=True)
        optimizer.step()
        optimizer.zero_grad()
"""


def check_nothing_is_there_in_warmup_and_timed_steps(case):
    lab_driver.need_torch()
    for mark in ("amdahl_lab.step()", "contextlib.nullcontext()"):
        script = case.write("window.py", "import amdahl_lab, contextlib\n" + IN_THE_WINDOW.format(mark=mark))
        lines = [line.split() for line in case.good(script, warmup=3, steps=5, account_steps=2).out[0].splitlines()]
        assert [line[1] for line in lines] == ["False"] * 8 + ["True"] * 3, lines
        assert [line[2] for line in lines] == ["False"] * 8 + ["True"] * 3, lines


def check_pytorch_is_found_when_a_script_imports_it_late(case):
    lab_driver.need_torch()
    script = case.write("late.py", """
        import sys
        assert "torch" not in sys.modules
        def train():
            import torch
            weight = torch.zeros(3, requires_grad=True)
            optimizer = torch.optim.SGD([weight], lr=0.1)
            while True:
                (weight * weight).sum().backward()
                optimizer.step()
        train()
        """)
    result = case.good(script).results[0]
    assert result["optimizer"] == "SGD" and "account" in result and result["model"] == "", result
    assert any("No module's forward was seen" in note for note in result["notes"]), result["notes"]


def check_steps_of_the_script_win_over_its_optimizer(case):
    lab_driver.need_torch()
    script = case.write("both.py", MLP + """
import amdahl_lab
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    x, y = rows()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
train()  # before the loop that counts
for number in range(1000):
    with amdahl_lab.step():
        print(number, flush=True)
        train()
        train()
""")
    ranks = case.good(script, warmup=2, steps=3, account_steps=2)
    assert ranks.out[0].split() == [str(number) for number in range(2 + 3 + 1 + 2)], ranks.out


COMPILED = MLP + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return self.inner(x)

import torch._dynamo.utils as utils
model = Model()
loss = lambda x, y: nn.functional.cross_entropy(model(x), y)
{compile}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(1000):
    x, y = rows({rows})
    print(utils.counters["stats"]["unique_graphs"], flush=True)
    loss(x, y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def check_compiled_code_is_not_compiled_again(case):
    lab_driver.need_torch((2, 4))
    ddp = 'torch.distributed.init_process_group("gloo"); model = nn.parallel.DistributedDataParallel(model); '
    for line, known in (('model = torch.compile(model, backend="eager")', True), ('model.compile(backend="eager")', True),
                        (ddp + 'model = torch.compile(model, backend="aot_eager")', True),
                        ('loss = torch.compile(loss, backend="eager")', False)):
        script = case.write("compiled.py", COMPILED.format(compile=line, rows=8))
        ranks = case.good(script, warmup=3, steps=3, account_steps=3)
        result = ranks.results[0]
        assert result["launch"] == "compiled" and result["model"] == "Model", result
        assert len(set(ranks.out[0].split()[1:])) == 1, f"{line}: compiled again: {ranks.out[0]}"
        assert result["samples"] == (8 if known else 0) and bool(result["notes"]) != known, (line, result)


def check_recompilation_in_timed_steps_is_told(case):
    lab_driver.need_torch((2, 4))
    line = 'model = torch.compile(model, backend="eager", dynamic=False)'
    script = case.write("compiled.py", COMPILED.format(compile=line, rows="8 + max(0, min(number - 4, 2))"))
    notes = case.good(script, warmup=3, steps=6).results[0]["notes"]
    assert notes == ["torch.compile compiled 2 graphs in the timed steps: more --warmup, or fixed shapes."], notes


lab_driver.main(globals())
