"""`amdahl_lab.measure`: how the factory reaches the ranks, what they do with it, and one clear line for what it gets wrong.

A script stands for the program amdahl: it notes its arguments and starts one group of ranks as they say.
"""
import json
import os
import subprocess
import sys

import lab_driver
from models import GPT, MLP, RESNET

PROGRAM = """#!{python}
import json, os, sys, pathlib
words = sys.argv[1:]
sys.argv = ["program", {source!r}, {source!r}]
sys.path.insert(0, {tests!r})
import lab_driver
pathlib.Path("words.json").write_text(json.dumps(words))
options = dict(word.split("=", 1) for word in words[:words.index("-m")] if "=" in word)
if options["--python"] != sys.executable:
    sys.exit("another Python: " + options["--python"])
n = int(options.get("--devices", "2").split(",")[-1])
case = lab_driver.Case(os.getcwd())
ranks = case.ranks(*words[words.index("-m"):], n=n, batch=int(options["--batch-sizes"]), steps=3, warmup=2, account_steps=2,
                   wrap=options["--wrap"].split(",")[-1] if n > 1 else "",
                   env={{"PYTHONPATH": os.environ["PYTHONPATH"]}})
print(json.dumps({{"codes": ranks.codes, "results": ranks.results, "err": ranks.err}}))
"""
FACTORY = """
import amdahl_lab
{text}
def make(batch, device):
    data = [rows(batch)]
    return amdahl_lab.Training({model}, lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
                               lambda parameters: torch.optim.SGD(parameters, lr=0.01), data)
"""
CALL = """
if __name__ == "__main__":
    import json
    result = amdahl_lab.measure({factory}, devices={devices}, batch={batch}, wrap={wrap}, runs=1, output_dir="run")
    json.dump(result.json, open("result.json", "w"))
"""


def program(case):
    path = case.folder / "amdahl"
    path.write_text(PROGRAM.format(python=sys.executable, source=str(lab_driver.SOURCE), tests=str(lab_driver.SOURCE / "tests" / "python")))
    path.chmod(0o755)
    return str(path)


def run(case, text, name="script.py", words=None, code=0, env=None):
    """The process that ran a script which calls measure(), and what the ranks did."""
    case.write(name, text)
    own = {k: v for k, v in os.environ.items() if not k.startswith("AMDAHL_")}
    done = subprocess.run([sys.executable, *(words or [name])], cwd=case.folder, capture_output=True, text=True, timeout=300,
                          env={**own, "PYTHONPATH": str(lab_driver.PACKAGE), "AMDAHL_LAB_PROGRAM": program(case), **(env or {})})
    assert done.returncode == code, f"code {done.returncode}\n{done.stdout}{done.stderr}"
    result = case.folder / "result.json"
    return done, json.loads(result.read_text()) if result.exists() else None


def measured(case, text=MLP, model="mlp()", devices=(2,), batch=8, wrap=("ddp",), factory="make"):
    text = FACTORY.format(text=text, model=model) + CALL.format(factory=factory, devices=list(devices), batch=batch, wrap=wrap)
    result = run(case, text)[1]
    assert all(code == 0 for code in result["codes"]), result["err"]
    for rank, one in enumerate(result["results"]):
        lab_driver.check_result(one, rank, len(result["results"]))
    return result["results"]


def check_models_on_one_and_two_devices(case):
    lab_driver.need_torch()
    for text, model in ((MLP, "mlp()"), (RESNET, "TinyResNet()"), (GPT, "TinyGPT()")):
        for n in (1, 2):
            for result in measured(case, text, model, devices=[n]):
                assert result["samples"] == 8 // n and result["optimizer"] == "SGD", result
                assert result["facts"]["wrap"] == ("ddp" if n > 1 else "none"), result
                assert 0 < result["loss_last"] < result["loss_first"], "the same batch again and again is not learned"
                assert (result["account"]["comm_bytes"] > 0) == (n > 1), result
    words = json.loads((case.folder / "words.json").read_text())
    assert words == ["run", "--devices=2", "--wrap=ddp", "--batch-sizes=8", "--steps=50", "--warmup=10", "--runs=1", "--output-dir=run",
                     f"--python={sys.executable}", "--json", "-m", "amdahl_lab._worker", f"{case.folder / 'script.py'}:make"], words


def check_fsdp2(case):
    lab_driver.need_torch((2, 4))
    for text, model in ((MLP, "mlp()"), (RESNET, "TinyResNet()"), (GPT, "TinyGPT()")):
        for result in measured(case, text, model, wrap=("ddp", "fsdp2")):
            assert result["facts"]["wrap"] == "fsdp2" and result["loss_last"] < result["loss_first"], result
            assert result["model"] in ("Sequential", "TinyResNet", "TinyGPT"), result


def check_fresh_processes_begin_with_the_same_weights(case):
    lab_driver.need_torch()
    losses = [measured(case, devices=[n])[0]["loss_first"] for n in (1, 1)]
    assert losses[0] == losses[1], f"two runs of one seed begin with {losses}"


def check_a_factory_of_a_module(case):
    """In a package, in the main module of one, and beside a script that is started from another folder."""
    lab_driver.need_torch()
    (case.folder / "pack").mkdir()
    case.write("pack/__init__.py", "")
    case.write("pack/factories.py", FACTORY.format(text=MLP, model="mlp()"))
    text = "import amdahl_lab\nfrom pack.factories import make\n" + CALL.format(factory="make", devices=[1], batch=8, wrap=["ddp"])
    result = run(case, text)[1]
    assert result["codes"] == [0], result
    case.write("pack/main.py", FACTORY.format(text=MLP, model="mlp()") + CALL.format(factory="make", devices=[1], batch=8, wrap=["ddp"]))
    (case.folder / "result.json").unlink()
    result = run(case, "", words=["-m", "pack.main"])[1]
    assert result["codes"] == [0], result


def check_a_module_beside_the_script(case):
    lab_driver.need_torch()
    (case.folder / "far").mkdir()
    case.write("far/beside.py", FACTORY.format(text=MLP, model="mlp()"))
    text = "import amdahl_lab\nfrom beside import make\n" + CALL.format(factory="make", devices=[1], batch=8, wrap=["ddp"])
    case.write("far/start.py", text)
    result = run(case, "", name="unused.py", words=["far/start.py"])[1]
    assert result["codes"] == [0], result
    words = json.loads((case.folder / "words.json").read_text())
    assert words[-3:] == ["beside:make", "--path", str(case.folder / "far")], words


def check_what_is_no_factory(case):
    lab_driver.need_torch()
    head = "import amdahl_lab\n" + MLP + FACTORY.format(text="", model="mlp()")
    for value, says in (("mlp()", ["got Sequential, not a function", "def make(batch, device)"]), ("(mlp(), 1)", ["got tuple"]),
                        ("make(8, torch.device('cpu'))", ["got Training"]), ("nn.Linear", ["got Linear", "not a function"])):
        done, _ = run(case, head + CALL.format(factory=value, devices=[1], batch=8, wrap=["ddp"]), code=1)
        last = done.stderr.rstrip().split("\n")[-1]
        assert last.startswith("amdahl_lab._error.Error: usage: ") and all(word in last for word in says), last
    wants = head.replace("def make(batch, device)", "def make(batch, sizes)")
    done, _ = run(case, wants + CALL.format(factory="make", devices=[1], batch=8, wrap=["ddp"]), code=1)
    assert "takes 'sizes', which measure() does not give" in done.stderr, done.stderr


def check_functions_without_a_file(case):
    """With cloudpickle they travel, without it one line says so."""
    lab_driver.need_torch()
    text = FACTORY.format(text=MLP, model="mlp()") + "def outer():\n    def inner(batch, device):\n        return make(batch, device)\n" \
        "    return inner\n" + CALL.format(factory="outer()", devices=[1], batch=8, wrap=["ddp"])
    case.write("cloudpickle.py", "raise ImportError('hidden')\n")
    done, _ = run(case, text, code=1)
    last = done.stderr.rstrip().split("\n")[-1]
    assert "inside another function" in last and "pip install cloudpickle" in last, last
    case.write("cloudpickle.py", "import pickle, marshal\n"
               "def dumps(function):\n    return pickle.dumps(('seen', function.__name__))\n")
    from amdahl_lab import _factory
    sys.path.insert(0, str(case.folder))
    try:
        words, pickled = _factory.refer(lambda batch: None)
        assert not words and pickled
    finally:
        sys.path.remove(str(case.folder))
        sys.modules.pop("cloudpickle", None)


def check_a_call_without_its_guard(case):
    lab_driver.need_torch()
    text = FACTORY.format(text=MLP, model="mlp()") + "import json\nresult = amdahl_lab.measure(make, devices=[1], batch=8)\n" \
        "json.dump(result.json, open('result.json', 'w'))\n"
    result = run(case, text)[1]
    assert result["codes"] == [3] and "__main__" in result["err"][0].rstrip().split("\n")[-1], result


lab_driver.main(globals())
