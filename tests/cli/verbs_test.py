"""What each verb answers: compare, advise, info, the plan of a study and its options, and their JSON."""
import json
import shutil

import harness
from harness import DIGITS, SOURCE, TINY, keys_of, lines_of, records_of
from schema_support import jsonschema, valid


def study(case, folder, *words, runs=3, base=TINY):
    return case.run("study", *base, "--runs", runs, "-q", "-o", folder, *words)


def steady_run(case, folder, factor=1.0, change=None):
    """A run whose step times are made up: 100 us on one device, 200 us on two, within 1 %, times the factor."""
    if not case.path("measured").exists():
        study(case, "measured", runs=8)
    shutil.copytree(case.path("measured"), case.path(folder))
    lines = lines_of(case.path(folder))
    for line in lines:
        if line["type"] == "record":
            axes = line["axes"]
            axes["process"] = axes["run"] // 2
            step = 100.0 * axes["devices"] * factor * (1 + 0.002 * (axes["run"] % 5))
            for series in line["series"]:
                if series["name"] == "step_time":
                    series["samples"] = [step]
                if series["name"] == "throughput":
                    series["samples"] = [axes["global_batch"] / step * 1e6]
        if change:
            change(line)
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    case.write(f"{folder}/records.jsonl", text)


def verdicts(result):
    return [cell["a_over_b_speed"]["verdict"] for cell in json.loads(result.stdout)["cells"]]


def check_compare_a_run_with_itself(case):
    steady_run(case, "a")
    shutil.copytree(case.path("a"), case.path("b"))
    result = case.run("compare", "a", "b")
    assert "FASTER" not in result.stdout and "SLOWER" not in result.stdout, result.stdout
    assert "CPU virtual devices, not GPUs" in result.stdout, result.stdout
    found = verdicts(case.run("compare", "a", "b", "--json"))
    assert len(found) == 2 and set(found) <= {"SAME", "UNCLEAR"}, found
    case.run("compare", "a", "b", "--fail-on-regression", "0")


def check_compare_two_cells(case):
    steady_run(case, "a")
    result = case.run("compare", "a@batch=16,devices=1", "a@batch=16,devices=2", "--json")
    assert verdicts(result) == ["FASTER"], result.stdout
    text = case.run("compare", "a@batch=16,devices=1", "a@batch=16,devices=2").stdout
    assert "0.50x [" in text, text
    case.refused(2, "usage", "compare", "a@batch=999", "a", says=["a", "cell"])
    case.refused(2, "usage", "compare", "a@batch", "a", says=["a@batch"])
    case.refused(2, "usage", "compare", "a", "nowhere", says=["nowhere"])


def check_compare_fails_on_a_regression(case):
    steady_run(case, "a")
    steady_run(case, "slow", 1.2)
    steady_run(case, "close", 1.03)
    assert verdicts(case.run("compare", "a", "slow", "--json")) == ["FASTER", "FASTER"]
    result = case.run("compare", "a", "slow", "--fail-on-regression", "10", code=1)
    assert result.stdout.startswith("B against A: slower in 2 of 2 cells"), result.stdout
    case.run("compare", "a", "close", "--fail-on-regression", "10")
    case.run("compare", "slow", "a", "--fail-on-regression", "10")
    case.run("compare", "a", "slow", "--fail-on-regression", "10", "--json", code=1)


def check_compare_refuses_unlike_runs(case):
    def host(line):
        if line["type"] == "provenance":
            line["host"] = "another-host"

    def kind(line):
        if line["type"] == "provenance":
            line["device_kind"] = "cuda"

    def math(line):
        if line["type"] == "record":
            line["axes"]["math"] = "tf32"

    steady_run(case, "a")
    steady_run(case, "host", change=host)
    steady_run(case, "kind", change=kind)
    steady_run(case, "math", change=math)
    case.refused(2, "usage", "compare", "a", "host", says=["host", "another-host", "--allow-unlike"])
    case.refused(2, "usage", "compare", "a", "math", says=["math", "tf32", "--allow-unlike"])
    case.refused(2, "usage", "compare", "a", "kind", says=["cpu-virtual", "cuda"])
    case.refused(2, "usage", "compare", "a", "kind", "--allow-unlike", says=["cpu-virtual", "cuda"])
    assert "host differs" in case.run("compare", "a", "host", "--allow-unlike").stdout


def check_published_rules(case):
    wanted = [("0.5M", 64, "single", ["single"]), ("0.5M", 1024, "single", ["single"]),
              ("2M", 64, "single", ["single"]), ("2M", 128, "evaluate", ["single", "multi"]),
              ("6.9M", 64, "benchmark", ["single", "multi"]), ("12M", 32, "single", ["single"]),
              ("12M", 64, "multi", ["single", "multi"])]
    for params, batch, decision, modes in wanted:
        words = ("plan", "--advise=study", "--params", params, "--batch-size", batch)
        advice = json.loads(case.run(*words, "--json").stdout)
        assert (advice["decision"], advice["modes_to_measure"]) == (decision, modes), (params, batch, advice)
        text = case.run(*words).stdout
        assert text.startswith(f"{decision}: published selector: "), text
        assert "contradict each other" in text and "nothing was measured here" in text, text
    assert json.loads(case.run("plan", "--advise=study", "--model", "large-6.9m", "--json").stdout)["decision"] == "benchmark"


def check_advice_from_records(case):
    steady_run(case, "a")
    advice = json.loads(case.run("report", "a", "--advise", "--params", "54403", "--batch-size", "16", "--json").stdout)
    assert advice["decision"] == "single", advice
    assert "CPU virtual devices (says nothing about GPUs)" in " ".join(advice["evidence"]), advice
    near = case.run("report", "a", "--advise", "--params", "60k", "--batch-size", "20").stdout
    assert near.startswith("single: measured near it"), near
    far = case.run("report", "a", "--advise", "--params", "600M", "--batch-size", "16").stdout
    assert far.startswith("unknown: not measured") and "measure it: amdahl study" in far, far
    assert case.run("plan", "--advise", "--params", "1M").stdout.startswith("unknown: not measured")


def check_mode_auto(case):
    steady_run(case, "a")
    unsure = case.run("study", *TINY, "--runs", 1, "--mode", "auto", "-o", "r")
    assert "selector, batch 16: unknown (not measured" in unsure.stderr, unsure.stderr
    assert len(keys_of(case.path("r"))) == 2, "unsure, and yet not both were measured"
    sure = case.run("study", *TINY, "--runs", 1, "--mode", "auto", "--from", "a", "--variants", "none", "-o", "s")
    assert "selector, batch 16: single (measured at this model size and batch" in sure.stderr, sure.stderr
    assert keys_of(case.path("s")) == [(16, 1, "single", 0)], keys_of(case.path("s"))
    near = case.run("study", *TINY[:3], "20", *TINY[4:], "--runs", 1, "--mode", "auto", "--from", "a", "-o", "n")
    assert "selector, batch 20: single (measured near it" in near.stderr, near.stderr
    assert len(keys_of(case.path("n"))) == 2, "only near evidence, and yet not both were measured"
    study(case, "t", "--mode", "single", "--variants", "none", runs=1)
    assert keys_of(case.path("t")) == [(16, 1, "single", 0)]
    case.refused(2, "usage", "study", *TINY, "--mode", "auto", "--from", "nowhere", "-o", "u", says=["nowhere"])
    assert not case.path("u").exists()


def check_dry_run(case):
    text = case.run("study", "--backend", "cpu", "--model", "large", "--batch-sizes", "32,64", "--devices", "1,2",
                    "--dry-run", "-o", "r").stdout
    assert text.startswith("plan: large (2,021,379 parameters) on synthetic, cpu-virtual\n"), text
    for words in ("batch     32  1 x single", "batch     64  2 x ddp", "per device (modelled)", "say nothing about a GPU"):
        assert words in text, f"'{words}' is not in:\n{text}"
    assert not list(case.folder.iterdir()), "a dry run left something behind"


def check_weak_scaling(case):
    words = list(TINY)
    words[words.index("--devices") + 1] = "1,2,3"
    study(case, "r", "--scaling", "weak", runs=2, base=words)
    assert {key[:2] for key in keys_of(case.path("r"))} == {(16, 1), (32, 2), (48, 3)}, keys_of(case.path("r"))
    summary = json.loads(case.path("r/summary.json").read_text())
    valid("summary.schema.json", summary)
    assert [c["multi"]["devices"] for c in summary["comparisons"]] == [2, 3]


def axes(case, folder):
    return [record["axes"] for record in records_of(case.path(folder)) if record["axes"]["devices"] > 1]


def check_options_of_a_step(case):
    study(case, "accumulate", "--plan", "m2", runs=1)
    assert [a["accumulate"] for a in axes(case, "accumulate")] == [2]
    study(case, "overlap", "--plan", "no-overlap,bucket-mb=0.05", runs=1)
    assert [(a["overlap"], a["bucket_bytes"]) for a in axes(case, "overlap")] == [(False, 52429)]
    for strategy in ("dp", "replicated"):
        study(case, strategy, "--plan", strategy, runs=1)
        assert [a["strategy"] for a in axes(case, strategy)] == [strategy]
    study(case, "sgd", "--optimizer", "sgd", "--learning-rate", "0.01", runs=1)
    assert [a["optimizer"] for a in axes(case, "sgd")] == ["sgd"]
    study(case, "twice", runs=1, base=[*TINY[:3], "16,32,16", "--devices", "2,1,2", *TINY[6:]])
    assert sorted(keys_of(case.path("twice"))) == sorted(
        (batch, n, s, 0) for batch in (16, 32) for n, s in ((1, "single"), (2, "ddp"))), "a value named twice"


def check_slow_work_is_not_a_hang(case):
    study(case, "slow", "--mode", "single", "--variants", "none", "--timeout", "1", runs=1,
          base=("--backend", "cpu", "--model", "large", "--batch-sizes", "128", "--warmup", "1", "--steps", "40"))
    step = next(s["samples"][0] for s in records_of(case.path("slow"))[0]["series"] if s["name"] == "step_time")
    print(f"   {40 * step * 1e-6:.1f} s of steps in one wait, timeout 1 s")


def check_losses_of_strategies_agree(case):
    losses = {}
    for strategy in ("ddp", "dp", "replicated"):
        study(case, strategy, "--plan", strategy, runs=1)
        for record in records_of(case.path(strategy)):
            series = {s["name"]: s["samples"][0] for s in record["series"]}
            losses[record["axes"]["strategy"]] = series["loss_first"]
    for name, loss in losses.items():
        assert abs(loss - losses["single"]) <= 1e-5 * losses["single"], losses
    assert len(losses) == 4, losses


def check_json(case):
    result = case.run("study", *TINY, "--runs", 5, "-q", "-o", "r", "--json")
    summary = json.loads(result.stdout)
    valid("summary.schema.json", summary)
    assert summary == json.loads(case.path("r/summary.json").read_text())
    for line in lines_of(case.path("r")):
        valid("record.schema.json", line)
    assert json.loads(case.run("report", "r", "--json").stdout) == summary
    assert json.loads(case.run("compare", "r", "r", "--json").stdout)["version"] == 1
    case.run("train", "--epochs", 1, "-q", "-o", "t", "--json")
    for line in lines_of(case.path("t")):
        valid("record.schema.json", line)
    trained = json.loads(case.run("train", "--epochs", 1, "-q", "-o", "u", "--json").stdout)
    valid("record.schema.json", {**trained, "type": "record", "provenance": "p1"})
    info = json.loads(case.run("info", "--json").stdout)
    assert info["machine"]["num_cores"] >= 1
    assert {backend["name"] for backend in info["backends"]} >= {"cpu", "cuda", "threads", "gloo", "nccl"}
    for backend in info["backends"]:
        assert backend["ok"] or (backend["reason"] and backend["remedy"]), backend
    text = case.run("info").stdout
    assert text.startswith("amdahl ") and "backends" in text, text
    assert case.run("--version").stdout.startswith("amdahl 0.1.0 (")
    for verb in ("study", "train", "plan", "compare", "report", "info"):
        assert verb in case.run("--help").stdout and f"usage: amdahl {verb}" in case.run(verb, "--help").stdout


def check_model_file(case):
    model = SOURCE / "examples" / "model.json"
    valid("model.schema.json", json.loads(model.read_text()))
    case.run("train", "--backend", "cpu", "--model", model, "--data", DIGITS, "--target", "label", "--epochs", 1, "-o", "t")
    assert records_of(case.path("t"))[0]["axes"]["model"] == "three-layers"
    study(case, "s", "--model", model, runs=1)
    assert keys_of(case.path("s"))
    case.run("plan", "--advise=study", "--model", model)
    whole = json.loads(model.read_text())
    broken = [("cut.json", model.read_text()[:-30], "usage", ["JSON"]),
              ("key.json", json.dumps({**whole, "layer": []}), "usage", ["layer", "layers"]),
              ("units.json", json.dumps({**whole, "layers": [{"units": 0}]}), "usage", ["units"]),
              ("none.json", json.dumps({**whole, "layers": []}), "usage", ["layer"]),
              ("text.json", json.dumps({**whole, "input_width": "64"}), "usage", ["input_width"])]
    for name, text, cause, says in broken:
        case.write(name, text)
        case.run("train", "--model", name, "-o", "b", code=2)
        error = case.run("study", "--model", name, "-o", "b", code=2).stderr
        assert error.startswith(f"error[{cause}]: ") and error.count("\n") == 1, error
        for word in (name.removesuffix(".json") if name == "units.json" else name, *says):
            assert word in error, f"'{word}' is not in: {error}"
    case.write("new.json", json.dumps({**whole, "version": 2}))
    case.refused(5, "version-refused", "train", "--model", "new.json", says=["new.json", "version 2"])
    assert not case.path("b").exists()


def check_json_of_readers(case):
    """compare, advise and info print what docs/schema says, and the schemas refuse what they never print."""
    steady_run(case, "a")
    outputs = {
        "comparison": [("compare", "a", "a"), ("compare", "a@devices=1", "a@devices=2")],
        "advice": [("report", "a", "--advise", "--params", "54403", "--batch-size", "16"), ("plan", "--advise", "--params", "1M"),
                   ("plan", "--advise=study", "--params", "2M", "--batch-size", "128")],
        "info": [("info",)],
    }
    printed = {}
    for name, commands in outputs.items():
        for words in commands:
            printed[name] = json.loads(case.run(*words, "--json").stdout)
            valid(f"{name}.schema.json", printed[name])
    if jsonschema is None:
        return
    damage = [("comparison", lambda d: d["cells"][0].pop("a")), ("comparison", lambda d: d.update(device_kind="gpu")),
              ("comparison", lambda d: d["cells"][0]["a_over_b_speed"].update(verdict="BETTER")),
              ("advice", lambda d: d.update(decision="perhaps")), ("advice", lambda d: d.pop("reason")),
              ("info", lambda d: d["machine"].update(num_cores=0)),
              ("info", lambda d: d["backends"].append({"name": "x", "ok": False})), ("info", lambda d: d.update(version=2))]
    for name, change in damage:
        document = json.loads(json.dumps(printed[name]))
        change(document)
        try:
            valid(f"{name}.schema.json", document)
        except jsonschema.ValidationError:
            continue
        raise AssertionError(f"{name}.schema.json accepts {document}")


def check_compare_of_training_runs(case):
    case.run("train", "--backend", "cpu", "--epochs", "1", "-q", "-o", "t")
    case.refused(2, "usage", "compare", "t", "t", says=["t is a train run"])


harness.main(globals())
