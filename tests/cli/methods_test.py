"""Less communication and unequal shares: studied beside the exact method, trained, saved and resumed; refused by name."""
import json

from harness import main, records_of
from schema_support import valid

TRAIN = ("train", "--backend", "cpu", "--batch-size", "64", "-q")
STUDY = ("study", "--backend", "cpu", "--batch-sizes", "32", "--runs", "2", "--warmup", "1", "-q")
METHODS = {"local2": 1.5, "compress=bf16": 0.5, "compress=int8": 0.26, "compress=topk": 0.1, "async2": 1.0}


def series(record, name):
    return next(s["samples"] for s in record["series"] if s["name"] == name)


def check_methods_stand_beside_the_exact_one(case):
    plans = [f"dp2,{method}" for method in METHODS]
    text = case.run(*STUDY, "--steps", "4", "--plan", "dp2", *plans, "-o", "s").stdout
    assert "Speed and loss beside the exact method" in text and "Against exact (ratio)" in text, text
    records = {r["axes"]["strategy"]: r for r in records_of(case.path("s"))}
    whole = series(records["ddp"], "comm_bytes")[0]
    for plan, (method, most) in zip(plans, METHODS.items()):
        sent = series(records[plan], "comm_bytes")[0]
        assert sent <= most * whole and sent > 0, f"{method}: {sent} of {whole} bytes"
        table = text[text.index("Against exact (ratio)"):].splitlines()
        assert len(next(line for line in table if line.startswith(f"{plan} ")).split()) > 5, table
    assert "Samples: 192" in text, text  # 1 + 1 + 4 steps of 32 rows
    assert series(records["dp2,async2"], "steps_behind") == [2]
    assert "Speed and loss" in case.path("s/report.md").read_text()
    valid("summary.schema.json", json.loads(case.path("s/summary.json").read_text()))
    page = case.run("report", "s", "--html", "p.html")
    assert "Against exact (ratio)" in case.path("p.html").read_text(), page.stderr


def check_shares_follow_speed(case):
    text = case.run(*STUDY, "--steps", "10", "--device-speeds", "1,0.25", "--model", "medium-258k", "--plan", "dp2",
                    "dp2,shares=auto", "dp2,shares=3:1", "-o", "s").stdout
    records = {r["axes"]["strategy"]: r for r in records_of(case.path("s"))}
    assert series(records["dp2,shares=3:1"], "share_rows") == [24, 8]
    measured = records["dp2,shares=auto"]
    rows, speeds = series(measured, "share_rows"), series(measured, "device_speed")
    assert sum(rows) == 32 and rows[0] > rows[1] > 0 and speeds[0] > speeds[1], (rows, speeds)
    assert measured["axes"]["shares"] == "auto" and measured["origin"] == "emulated", measured["axes"]
    assert "24:8" in text and " %" in text, text


def check_a_training_goes_on_with_its_feedback(case):
    for method in ("compress=int8", "local3", "async1"):
        words = (*TRAIN, "--plan", f"dp2,{method}", "--checkpoint-every", "50")
        case.run(*words, "--epochs", "2", "-o", f"w-{method}", "--save", "whole.safetensors")
        case.run(*words, "--epochs", "1", "-o", f"p-{method}")
        case.run(*words, "--epochs", "2", "-o", f"p-{method}", "--resume", "--save", "part.safetensors")
        loss = series(records_of(case.path(f"p-{method}"))[-1], "validation_loss")
        assert loss == series(records_of(case.path(f"w-{method}"))[-1], "validation_loss"), method
    case.refused(2, "usage", *TRAIN, "--plan", "dp2", "--epochs", "3", "-o", "p-compress=int8", "--checkpoint-every", "50",
                 "--resume", says=["error feedback", "compress=int8"])


def check_any_number_of_devices_gives_the_same_bits(case):
    words = (*TRAIN, "--deterministic=any-devices", "--optimizer", "adamw", "--clip-norm", "1", "--checkpoint-every", "20")

    def trained(name, *schedule):
        for epoch, devices in enumerate(schedule, 1):
            resumed = ("--resume",) if epoch > 1 else ()
            case.run(*words, "--devices", str(devices), "--epochs", str(epoch), "-o", name, "--save", f"{name}.safetensors", *resumed)
        return case.path(f"{name}.safetensors").read_bytes()

    whole = trained("one", 1, 1, 1)
    assert trained("shrinks", 4, 3, 2) == whole and trained("grows", 1, 2, 5) == whole
    record = records_of(case.path("shrinks"))[-1]
    assert record["axes"]["strategy"] == "dp2,shards12", record["axes"]
    case.refused(2, "usage", *TRAIN, "--deterministic=all", "-o", "r", says=["any-devices"])
    case.refused(2, "usage", *TRAIN[:3], "--batch-size", "8", "--deterministic=any-devices", "-o", "r",
                 says=["12 virtual shards", "virtual-shards"])


def check_what_does_not_go_together_is_refused(case):
    for plan, says in (("dp2,local8,compress=int8", "exclude each other"), ("dp2,compress=int8,zero1", "zero1"),
                       ("dp2,shares=1:2:3", "3 weights"), ("dp2.tp2,local4", "tensor or pipeline"), ("dp2,shares=200:1", "200:1"),
                       ("dp2,compress=int4", "int4"), ("dp2,async2,local2", "exclude")):
        case.refused(2, "usage", *TRAIN, "--plan", plan, "--epochs", "1", "-o", "r", says=[says])
    case.refused(2, "usage", *TRAIN, "--devices", "2", "--device-speeds", "1,2", "-o", "r", says=["--device-speeds"])
    case.refused(2, "usage", *TRAIN, "--devices", "2", "--device-speeds", "1,1,1", "-o", "r", says=["3 fractions for 2"])
    case.refused(2, "usage", *TRAIN, "--on-failure", "shrink", "-o", "r", says=["--checkpoint-every"])
    case.refused(2, "usage", *TRAIN, "--on-failure", "shrink", "--checkpoint-every", "9", "-o", "r", says=["processes"])
    case.refused(2, "usage", *TRAIN, "--on-failure", "restart", "-o", "r", says=["restart", "shrink"])


main(globals())
