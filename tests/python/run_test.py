"""`amdahl run`: scripts on one process and on several, what it says of their time, and how it ends when they fail.

usage: run_test.py SOURCE_DIR BINARY_DIR

Steps are sleeps, so that the truth is known; the scripts need no PyTorch.
"""
import importlib.util
import json
import os
import signal
import sys
import textwrap
import time

sys.path.append(os.path.join(sys.argv[1], "tests", "cli"))

import harness
from harness import Skip, lines_of

QUICK = ("--backend", "cpu", "--devices", "1,2", "--runs", 5, "--warmup", 1, "--steps", 4, "--account-steps", 0, "-o", "r")

SLEEPS = """
    import os, sys, time
    import amdahl_lab
    ranks = int(os.environ["WORLD_SIZE"])
    rows = {rows}
    while True:
        with amdahl_lab.step(samples=rows):
            time.sleep(0.02 + 0.001 * rows)
"""


def script(case, text, name="train.py"):
    return case.write(name, textwrap.dedent(text))


def summary_of(case, *words, **options):
    return json.loads(case.run("run", "--json", "-q", *words, timeout=240, **options).stdout)


def check_a_fixed_global_batch_is_strong_scaling(case):
    found = summary_of(case, *QUICK, script(case, SLEEPS.format(rows="64 // ranks")))
    one, two = found["cells"]
    assert (one["key"]["devices"], two["key"]["devices"]) == (1, 2) and one["key"]["scaling"] == "strong", found["cells"]
    assert one["key"]["global_batch"] == two["key"]["global_batch"] == 64 and two["key"]["strategy"] == "script", two["key"]
    assert 84e3 <= one["step_time_us"]["median"] < 100e3 and 52e3 <= two["step_time_us"]["median"] < 70e3, found["cells"]
    assert one["step_time_us"]["n"] == one["step_time_us"]["num_processes"] == 5, one
    comparison = found["comparisons"][0]
    assert comparison["speedup"]["verdict"] == "FASTER" and comparison["recommendation"] == "multi", comparison
    assert found["device_kind"] == "cpu-virtual", found["device_kind"]
    page = case.run("report", "r").stdout
    assert "Measured on CPU virtual devices, not GPUs." in page and "Several CPU virtual devices are faster" in page, page


def check_a_fixed_batch_per_process_is_weak_scaling(case):
    found = summary_of(case, *QUICK, script(case, SLEEPS.format(rows="16")))
    assert {cell["key"]["scaling"] for cell in found["cells"]} == {"weak"}, found["cells"]
    assert [cell["key"]["global_batch"] for cell in found["cells"]] == [16, 32], found["cells"]


def check_records_fit_their_schema(case):
    try:
        import jsonschema
    except ImportError:
        raise Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    case.run("run", *QUICK, script(case, SLEEPS.format(rows="64 // ranks")), timeout=240)
    schemas = [json.loads(path.read_text()) for path in (harness.SOURCE / "docs" / "schema").glob("*.json")]
    record = next(schema for schema in schemas if schema["$id"].endswith("/record.schema.json"))
    check = jsonschema.Draft7Validator(record, resolver=jsonschema.RefResolver(record["$id"], record, store={s["$id"]: s for s in schemas}))
    lines = lines_of(case.path("r"))
    for line in lines:
        problems = [f"{list(error.path)}: {error.message}" for error in check.iter_errors(line)]
        assert not problems, problems
    runs = [line for line in lines if line["type"] == "record"]
    assert len(runs) == 10 and {run["kind"] for run in runs} == {"study-run"}, len(runs)


def check_batch_sizes_are_told_to_the_script(case):
    told = script(case, SLEEPS.format(rows="amdahl_lab.batch_size(7)"))
    found = summary_of(case, *QUICK, "--batch-sizes", "32,64", told)
    keys = {(cell["key"]["global_batch"], cell["key"]["devices"]) for cell in found["cells"]}
    assert keys == {(32, 1), (32, 2), (64, 1), (64, 2)}, keys
    assert summary_of(case, *QUICK, "--overwrite", told)["cells"][0]["key"]["global_batch"] == 7
    case.refused(2, "usage", "run", *QUICK, "--overwrite", "--batch-sizes", "32", script(case, SLEEPS.format(rows="8"), "own.py"),
                 says=["has 8 rows in a step of batch 32, 1 device", "amdahl_lab.batch_size"])
    case.refused(2, "usage", "run", *QUICK, "--overwrite", script(case, SLEEPS.format(rows="30 + ranks"), "odd.py"),
                 says=["global batches of 31 on 1 device, 64 on 2 devices"])


def check_options_after_the_script_are_its_own(case):
    text = """
        import json, os, sys, time
        import amdahl_lab
        json.dump([sys.argv, __name__, sorted(k for k in os.environ if k.startswith("AMDAHL_"))], open("seen.json", "w"))
        while True:
            with amdahl_lab.step(samples=4):
                time.sleep(0.001)
    """
    case.run("run", *QUICK[:2], "--devices", 1, "--runs", 1, "--warmup", 1, "--steps", 2, "-o", "r", script(case, text), "--config", "net.toml",
             "--runs", "9", "-o", "x", env={"AMDAHL_STEPS": "3"}, timeout=120)
    argv, name, variables = json.loads(case.path("seen.json").read_text())
    assert argv[1:] == ["--config", "net.toml", "--runs", "9", "-o", "x"] and argv[0].endswith("train.py"), argv
    assert name == "__main__" and variables == ["AMDAHL_LAB_JOB"], (name, variables)
    case.path("package").mkdir()
    case.write("package/__init__.py", "")
    script(case, SLEEPS.format(rows="4"), "package/training.py")
    case.run("run", "--backend", "cpu", "--devices", 1, "--runs", 1, "--steps", 2, "-o", "m", "-m", "package.training", "--x", timeout=120,
             env={"PYTHONPATH": str(case.folder)})


def check_failures_name_rank_and_reason(case):
    text = """
        import os, sys, time
        import amdahl_lab
        for number in range(100):
            with amdahl_lab.step(samples=4):
                time.sleep(0.001)
                if number == 3 and os.environ["RANK"] == "1":
                    print("a line before", file=sys.stderr)
                    raise KeyError("labels")
    """
    case.refused(1, "check-failed", "run", *QUICK, script(case, text), says=["first run on 2 devices", "rank 1", "KeyError: 'labels'"],
                 timeout=120)
    everything = case.path("r/failure.txt").read_text()
    assert "a line before" in everything and "Traceback" in everything, everything
    for body, says in (("pass", "amdahl_lab.step"), ("with amdahl_lab.step(samples=4): pass", "ended after 1 of"),
                       ("raise SystemExit(9)", "ended with code 9"),
                       ("while True:\n    with amdahl_lab.step(): pass", "does not say how many rows"),
                       ("import os; os.kill(os.getpid(), 11)", "by signal 11")):
        name = script(case, "import amdahl_lab\n" + body, "short.py")
        result = case.run("run", *QUICK, "--overwrite", name, code=2 if "how many rows" in says else 1, timeout=120)
        harness.check_error(result.stderr, "usage" if result.returncode == 2 else "check-failed", [says])


def check_wrong_uses(case):
    good = script(case, SLEEPS.format(rows="4"))
    for words, code, cause, says in (((), 2, "usage", "no script is given"), (("-m",), 2, "usage", "no script is given"),
                                     (("missing.py",), 2, "usage", "there is no script missing.py"),
                                     (("--runs", 0, good), 2, "usage", "--runs"), (("--wrap", "dpd", good), 2, "usage", "ddp"),
                                     (("--python", "no-such-python", good), 3, "environment-missing", "no-such-python is not in PATH"),
                                     (("--python", "/bin/false", good), 3, "environment-missing", "cannot import amdahl_lab"),
                                     (("--devices", "0", good), 2, "usage", "--devices"),
                                     (("--devcies", "1", good), 2, "usage", "--devices")):
        case.refused(code, cause, "run", "--backend", "cpu", "-o", "wrong", *words, says=[says], timeout=60)
    assert not case.path("wrong").exists()


def check_a_cell_without_memory_fails_alone(case):
    text = SLEEPS.format(rows="64 // ranks") + """
            if ranks == 2: raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    """
    found = summary_of(case, *QUICK, script(case, text))
    assert [cell["status"]["kind"] for cell in found["cells"]] == ["ok", "failed"], found["cells"]
    assert found["cells"][1]["key"]["global_batch"] == 64, found["cells"][1]["key"]
    assert "out of memory" in found["cells"][1]["status"]["reason"], found["cells"][1]


def check_a_hang_ends_at_the_deadline(case):
    text = """
        import time
        import amdahl_lab
        with amdahl_lab.step(samples=1): pass
        time.sleep(1000)
    """
    started = time.monotonic()
    case.refused(6, "rank-hung", "run", *QUICK, "--timeout", 3, script(case, text), says=["not done within 3 s"], timeout=60)
    assert time.monotonic() - started < 20


def check_ctrl_c_keeps_the_runs_before(case):
    process = case.start("run", *QUICK[:4], "--runs", 500, "--warmup", 1, "--steps", 4, "-o", "r", script(case, SLEEPS.format(rows="64 // ranks")))
    harness.wait_until(lambda: case.path("r/records.jsonl").exists() and len(lines_of(case.path("r"))) > 6, "records", 120)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130, case.output(process)
    assert "error[interrupted]" in case.output(process), case.output(process)
    assert "global batch 64" in case.run("report", "r").stdout


def torch_or_skip():
    if importlib.util.find_spec("torch") is None:
        raise Skip("PyTorch is not installed")


TRAIN = """
    import os, time, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    if ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    {hook}
    if ranks > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(64 // ranks, 32), torch.randint(4, (64 // ranks,))
    while True:
        {before}
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        {between}
        loss.backward()
        optimizer.step()
"""
SLOW_RANK = "model[0].register_forward_hook(lambda *_: time.sleep(0.06) if rank == 1 else None)"


def check_the_cause_of_lost_time_is_named(case):
    """No edit of the script: its optimizer marks the steps."""
    torch_or_skip()
    for number, (fault, name) in enumerate((({"before": "time.sleep(0.06)"}, "waiting for the next batch"),
                                            ({"between": "time.sleep(0.06)"}, "work of the host between the operations"),
                                            ({"hook": SLOW_RANK}, "waiting for the slowest rank"))):
        text = TRAIN.format(**{"hook": "", "before": "", "between": "", **fault})
        found = summary_of(case, *QUICK[:2], "--devices", 2, "--runs", 5, "--warmup", 2, "--steps", 5, "--account-steps", 5, "-o", f"r{number}",
                           "--python", sys.executable, script(case, text))
        cell = found["cells"][0]
        assert cell["account"]["method"] == "partition" and cell["key"]["model"] == "Sequential", cell
        assert cell["key"]["num_parameters"] == 32 * 64 + 64 + 64 * 4 + 4 and cell["key"]["optimizer"] == "SGD", cell["key"]
        assert any(name in note for note in found["notes"]), (name, found["notes"], cell["account"])


if __name__ == "__main__":
    harness.main(globals())
