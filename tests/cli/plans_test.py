"""Parallel plans: listed with their memory, trained and studied under, refused with the nearest one that works; a
checkpoint of one plan continues under another."""
import json

from harness import main, records_of
from schema_support import valid

TOKENS = {"version": 1, "name": "tokens", "loss": "softmax_cross_entropy", "input_width": 9, "input_shape": [9],
          "layers": [{"kind": "embedding", "units": 16, "vocabulary": 37},
                     {"kind": "transformer_block", "units": 16, "heads": 4, "causal": True},
                     {"kind": "transformer_block", "units": 16, "heads": 4, "causal": True}, {"kind": "layer_norm"},
                     {"kind": "token_head", "vocabulary": 37, "tied": True}]}
TRAIN = ("train", "--backend", "cpu", "--optimizer", "sgd", "--lr", "0.05", "--batch-size", "64", "-q")


def losses(case, name):
    return {s["name"]: s["samples"][0] for s in records_of(case.path(name))[-1]["series"] if "loss" in s["name"]}


def check_plans_are_listed(case):
    text = case.run("plan", "--list", "--devices", "8", "--model", "gpt2").stdout
    lines = text.splitlines()
    assert lines[0].startswith("gpt2 (124,439,808 parameters), 8 devices, batch 64: "), lines[0]
    assert any(line.startswith("dp4.pp2,m4,1f1b ") for line in lines), text
    outcome = json.loads(case.run("plan", "--list", "--devices", "8", "--model", "gpt2", "--all-schedules", "--json").stdout)
    valid("plans.schema.json", outcome)
    texts = [plan["plan"] for plan in outcome["plans"]]
    assert len(set(texts)) == len(texts) and "dp2.tp2.pp2,m4,1f1b" in texts, texts
    for plan in outcome["plans"]:
        mesh, memory = plan["mesh"], plan["memory"]
        assert mesh["dp"] * mesh["tp"] * mesh["pp"] == 8
        assert memory["total"] == sum(memory[part] for part in ("parameters", "gradients", "optimizer", "activations", "workspace"))
    case.refused(2, "usage", "plan", "--list", "--model", "gpt3", says=["gpt3"])
    case.refused(2, "usage", "plan", "--list", "--devices", "0", says=["devices"])


def check_training_is_that_of_one_device(case):
    """Sums are taken in another order: 1e-6 of the loss, after 125 steps of SGD."""
    case.run(*TRAIN, "--epochs", "1", "-o", "one")
    one = losses(case, "one")
    for i, plan in enumerate(("pp2,1f1b,m4", "tp2", "dp2.pp2,gpipe,m2", "dp2.tp2.pp2,m2,zero1", "pp2,zb-v,m4", "dp2,zero2,m2",
                              "dp3,zero3",
                              "pp2,interleaved,m4", "pp4,zb-h1,m4", "dp2.pp2,m4,zb-h1,zero3")):
        case.run(*TRAIN, "--epochs", "1", "--plan", plan, "-o", f"p{i}")
        several = losses(case, f"p{i}")
        for name, value in one.items():
            assert abs(several[name] - value) < 1e-6 * value, f"{plan}: {name} {several[name]} and {value}"


def check_modelled_memory_counts_the_communicators_of_groups(case):
    """Each group of a mesh has a communicator of its own, which in symmetric memory takes megabytes."""
    for plan in ("tp2", "pp2,1f1b,m4"):
        case.run(*TRAIN, "--epochs", "1", "--devices", "2", "--comm", "symmetric", "--plan", plan, "-o", f"train-{plan}")
        case.run("study", "--backend", "cpu", "--comm", "symmetric", "--plan", plan, "--batch-sizes", "64", "--runs", "1",
                 "--steps", "3", "--warmup", "1", "-q", "-o", f"study-{plan}")
        for name, devices in ((f"train-{plan}", 2), (f"study-{plan}", 2)):
            record = [r for r in records_of(case.path(name)) if r.get("axes", {}).get("devices") == devices][-1]
            series = {s["name"]: s["samples"][0] for s in record["series"]}
            peak, modelled = series["memory_peak"], series["memory_modelled"]
            assert peak > 5e6 and abs(modelled / peak - 1) < 0.08, f"{name}: {modelled} modelled, {peak} measured"


def check_token_models(case):
    case.write("tokens.json", json.dumps(TOKENS))
    case.run(*TRAIN, "--epochs", "1", "--model", "tokens.json", "-o", "one")
    one = losses(case, "one")
    for i, plan in enumerate(("tp2", "tp4", "pp2,m2", "tp2.pp2,m2,recompute=block", "tp2,sp", "dp2.tp2,sp,zero3", "dp2.tp2.pp2,m2,zb-v,split=flops")):
        case.run(*TRAIN, "--epochs", "1", "--model", "tokens.json", "--plan", plan, "-o", f"p{i}")
        several = losses(case, f"p{i}")
        for name, value in one.items():
            assert abs(several[name] - value) < 2e-6 * value, f"{plan}: {name} {several[name]} and {value}"


def check_a_checkpoint_continues_under_another_plan(case):
    """dp4, then tp2.pp2, then dp3: the loss of one device that was not interrupted."""
    case.write("tokens.json", json.dumps(TOKENS))
    words = (*TRAIN, "--model", "tokens.json", "--checkpoint-dir", "c", "--checkpoint-every", "50")
    case.run(*TRAIN, "--model", "tokens.json", "--epochs", "3", "-o", "whole", "--save", "whole.safetensors")
    case.run(*words, "--epochs", "1", "--plan", "dp4", "-o", "a")
    case.run(*words, "--epochs", "2", "--plan", "tp2.pp2,m2", "-o", "b", "--resume")
    case.run(*words, "--epochs", "3", "--plan", "dp3,zero1", "-o", "c3", "--resume")
    case.run(*words, "--epochs", "4", "--plan", "dp2.pp2,m2,zero3", "-o", "d", "--resume")
    case.run(*TRAIN, "--model", "tokens.json", "--epochs", "4", "-o", "longer")
    for run, other in (("whole", "c3"), ("longer", "d")):
        for name, value in losses(case, run).items():
            assert abs(losses(case, other)[name] - value) < 1e-5 * value, f"{other}: {name}"


def check_studies_compare_plans(case):
    case.run("study", "--backend", "cpu", "--batch-sizes", "16", "--plan", "dp2", "tp2", "pp2,1f1b,m4", "--runs", "2",
             "--warmup", "1", "--steps", "2", "-o", "s", "-q")
    records = records_of(case.path("s"))
    assert all(r["status"]["kind"] == "ok" for r in records), records
    cells = {(r["axes"]["devices"], r["axes"]["strategy"]) for r in records}
    assert cells == {(1, "single"), (2, "ddp"), (2, "tp2"), (2, "pp2,m4,1f1b")}, cells
    report = case.path("s/report.md").read_text()
    assert "pp2,m4,1f1b" in report and "tp2" in report
    case.run("study", "--backend", "cpu", "--batch-sizes", "16", "--plan", "dp2", "tp2", "pp2,1f1b,m4", "--runs", "2",
             "--warmup", "1", "--steps", "2", "-o", "s", "-q", "--resume")
    assert len(records_of(case.path("s"))) == len(records)


def check_plans_that_name_no_devices(case):
    """One is the study's on every number of devices; several are compared on each."""
    study = ("study", "--backend", "cpu", "--batch-sizes", "16", "--runs", "1", "--warmup", "1", "--steps", "2", "-q")
    case.run(*study, "--devices", "1,2,3", "--plan", "zero1,m2", "-o", "one")
    axes = [r["axes"] for r in records_of(case.path("one"))]
    assert {(a["devices"], a["strategy"], a["accumulate"]) for a in axes} == {(1, "single", 2), (2, "zero1", 2), (3, "zero1", 2)}, axes
    case.run(*study, "--devices", "2,3", "--plan", "ddp", "zero1", "-o", "several")
    cells = {(r["axes"]["devices"], r["axes"]["strategy"]) for r in records_of(case.path("several"))}
    assert cells == {(1, "single"), (2, "ddp"), (3, "ddp"), (2, "zero1"), (3, "zero1")}, cells
    case.refused(2, "usage", *study, "--plan", "ddp", "zero1", "-o", "r", says=["name no devices", "--devices 2"])
    case.refused(2, "usage", *study, "--devices", "2", "--plan", "dp2", "dp2,zero1", "-o", "r", says=["--plan", "--devices"])


def check_plans_with_and_without_devices_go_together(case):
    cells = case.run("study", "--devices", "4", "--plan", "ddp", "pp2,m4", "--backend", "cpu", "--dry-run", "-q").stdout
    assert "4 x ddp" in cells and "2 x pp2,m4,1f1b" in cells, cells


def check_every_part_of_a_plan_is_described(case):
    text = case.run("plan", "--help-all").stdout
    for part in ("dp2.tp2.pp2", "ddp", "zero1", "zero2", "zero3", "dp", "replicated", "mN", "no-overlap", "bucket-mb=25",
                 "recompute=", "sp", "1f1b", "vN", "split=", "input=", "localN", "compress=", "keep=", "asyncN", "shardsN", "shares=",
                 "peer-blocks="):
        assert f"\n  {part}" in text, part


def check_bad_plans_are_refused(case):
    for words, says in ((("--plan", "pp3,interleaved,m4"), ("multiples of the 3 ranks", "the nearest plan that works is")),
                        (("--plan", "pp9"), ("4 layers", "the nearest plan that works is")),
                        (("--plan", "pp2,zero1"), ("dp is 1", "pp2,m4,1f1b")),
                        (("--plan", "dp2.pp2,dp"), ("strategy dp", "dp2.pp2")),
                        (("--plan", "dp2,zero4"), ("'zero4'", "zero1")), (("--plan", "dp2,sp"), ("tp is 1",)),
                        (("--plan", "dp2,ddp,m4x"), ("'m4x'",)), (("--plan", "pp2", "--devices", "3"), ("2 devices", "3")),
                        (("--plan", "dp2", "--plan", "zero1"), ("--plan",)),
                        (("--plan", "gpipe"), ("pp is 1",)), (("--plan", ""), ("empty",)),
                        (("--plan", "pp2", "--launch", "graph"), ("graph",))):
        case.refused(2, "usage", "train", "--backend", "cpu", *words, "-o", "r", says=says)
    case.refused(2, "usage", "train", "--backend", "cpu", "--model", "gpt2", "--plan", "tp5", "-o", "r",
                 says=["12 heads", "the nearest plan that works is"])
    case.refused(2, "usage", "study", "--backend", "cpu", "--plan", "dp2", "--devices", "2", "-o", "s", says=["--plan"])


main(globals())
