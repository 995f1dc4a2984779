"""The account of a step on one CPU: times that a script plants by sleeping are found in the part where they belong."""
import lab_driver
from lab_driver import PARTS
from models import GPT, MLP, RESNET

SLEEP_US = 30e3
LATE_US = 25e3  # that a loaded machine may add

LOOP = MLP + """
import time
import amdahl_lab
{setup}
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batches():
    for number in range(1000):
        {loader}
        yield rows()
for x, y in batches():
    {mark}
        output = model(x)
        {between}
        loss = nn.functional.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        {after}
"""
SLEEP = "time.sleep(0.03)"
MARK = "with amdahl_lab.step():"
NONE = "if True:"


def loop(case, mark=MARK, setup="", loader="pass", between="pass", after="pass"):
    text = LOOP.format(mark=mark, setup=setup, loader=loader, between=between, after=after)
    return case.good(case.write("loop.py", text)).results[0]


def expect_planted(account, part, planted_us=SLEEP_US):
    found = account[part]
    assert planted_us * 0.95 <= found <= planted_us + LATE_US, f"{part} of {planted_us} us: {account}"
    largest = max((other for other in PARTS if other != "compute_us"), key=account.get)
    assert part in (largest, "compute_us"), f"{largest} is larger than {part}: {account}"


def check_a_slow_loader_is_input(case):
    lab_driver.need_torch()
    for mark in (MARK, NONE):
        expect_planted(loop(case, mark, loader=SLEEP)["account"], "input_us")


def check_a_slow_data_set_is_input_wherever_it_is_fetched(case):
    lab_driver.need_torch()
    script = case.write("loader.py", MLP + """
import time
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 8000

    def __getitem__(self, index):
        time.sleep(0.03 / 8)
        return torch.randn(64), index % 10

model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(Slow(), batch_size=8):
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
""")
    account = case.good(script).results[0]["account"]
    expect_planted(account, "input_us")
    assert 19e3 <= account["launch_gaps_us"] <= 20e3 + LATE_US, account  # what the script does otherwise is told apart


def check_a_host_that_does_something_else_is_launch_gaps(case):
    lab_driver.need_torch()
    for mark in (MARK, NONE):
        expect_planted(loop(case, mark, between=SLEEP)["account"], "launch_gaps_us")
    expect_planted(loop(case, after=SLEEP)["account"], "launch_gaps_us")


def check_work_inside_of_the_module_is_compute(case):
    lab_driver.need_torch()
    setup = "class Slow(nn.Module):\n    def forward(self, x):\n        time.sleep(0.03)\n        return x\n" \
            "old = mlp\ndef mlp():\n    return nn.Sequential(Slow(), old())\n"
    account = loop(case, setup=setup)["account"]
    expect_planted(account, "compute_us")
    assert account["forward_us"] >= 0.95 * SLEEP_US, account


def check_operations_outside_of_the_module_are_compute(case):
    """As a loss that is a function."""
    lab_driver.need_torch()
    setup = "big = torch.randn(300, 300)\n" \
            "def work():\n    end = time.monotonic() + 0.03\n    while time.monotonic() < end:\n        big @ big\n"
    account = loop(case, setup=setup, between="work()")["account"]
    expect_planted(account, "compute_us")
    assert account["launch_gaps_us"] < SLEEP_US / 2, account


def check_the_optimizer(case):
    lab_driver.need_torch()
    setup = "class Slow(torch.optim.SGD):\n    def step(self, closure=None):\n        time.sleep(0.03)\n        super().step(closure)\n" \
            "torch.optim.SGD = Slow\n"
    for mark in (MARK, NONE):
        result = loop(case, mark, setup=setup)
        expect_planted(result["account"], "optimizer_us")
        assert result["optimizer"] == "Slow", result


def check_what_the_result_says_about_the_model(case):
    lab_driver.need_torch()
    for text, name, samples, words in ((MLP, "Sequential", 8, "mlp()"), (RESNET, "TinyResNet", 4, "TinyResNet()"),
                                       (GPT, "TinyGPT", 4, "TinyGPT()")):
        script = case.write("model.py", text + f"""
model = {words}
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
print(sum(p.numel() for p in model.parameters()), flush=True)
while True:
    x, y = rows()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
""")
        ranks = case.good(script)
        result = ranks.results[0]
        expected = (name, int(ranks.out[0]), "AdamW", "fp32", samples)
        found = tuple(result[key] for key in ("model", "num_parameters", "optimizer", "math", "samples"))
        assert found == expected and not result["notes"], f"{found} and not {expected}; {result['notes']}"
        account = result["account"]
        assert account["compute_us"] > 0.5 * account["step_us"] - account["optimizer_us"], account
        assert account["arrivals_us"] == [] and account["exposed_us"] == 0 and account["comm_bytes"] == 0, account


def check_types_and_keyword_arguments(case):
    lab_driver.need_torch()
    script = case.write("kinds.py", MLP + """
class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, names=(), *, features=None):
        return self.inner(features)

model = Named()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x, y = rows(6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(features=x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    result = case.good(script).results[0]
    torch = lab_driver.need_torch()
    keywords = int(torch.__version__.split(".")[0]) >= 2  # hooks of PyTorch 1 do not see them
    assert result["math"] == "bf16" and result["samples"] == (6 if keywords else 0), result


def check_gradient_accumulation_is_one_step(case):
    lab_driver.need_torch()
    script = case.write("accumulate.py", MLP + """
import time
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(10000):
    x, y = rows()
    nn.functional.cross_entropy(model(x), y).backward()
    time.sleep(0.01)
    if number % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
""")
    result = case.good(script).results[0]
    assert result["samples"] == 24, result
    step = result["window_us"] / result["steps"]
    assert 30e3 <= step <= 30e3 + 2 * LATE_US, f"three micro-batches with 10 ms of sleep took {step:.0f} us"


def check_several_optimizers_are_one_step(case):
    lab_driver.need_torch()
    script = case.write("gan.py", MLP + """
import time
first, second = mlp(), mlp(layers=3)
optimizers = torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.Adam(second.parameters())
while True:
    x, y = rows()
    for model, optimizer in zip((first, second), optimizers):
        time.sleep(0.01)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
""")
    result = case.good(script).results[0]
    step = result["window_us"] / result["steps"]
    assert 20e3 <= step <= 20e3 + 2 * LATE_US, f"two models with 10 ms of sleep took {step:.0f} us"
    assert result["optimizer"] in ("SGD+Adam", "Adam+SGD") and result["samples"] == 8, result
    parameters = sum(a * b + b for a, b in ((64, 64), (64, 64), (64, 64), (64, 10)))
    assert result["num_parameters"] == parameters, result  # of the larger model


def check_without_account_steps(case):
    lab_driver.need_torch()
    script = case.write("loop.py", LOOP.format(mark=NONE, setup="", loader="pass", between="pass", after="pass"))
    result = case.good(script, account_steps=0).results[0]
    assert "account" not in result and result["optimizer"] == "SGD", result


lab_driver.main(globals())
