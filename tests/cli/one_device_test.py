"""Studies on one device, and what several would do: the study's modes and variants, its report, advise --assume-devices."""
import json
import statistics
import subprocess
import sys

import harness
import study_fixture
from harness import AMDAHL, SOURCE, keys_of, records_of
from schema_support import valid

ONE = ("study", "--backend", "cpu", "--devices", "1", "--batch-sizes", "16,32", "--warmup", "1", "--steps", "2")


def check_mode_multi_needs_several_devices(case):
    result = case.refused(1, "check-failed", *ONE, "--mode", "multi", "-o", "r",
                          says=["--mode multi", "one CPU virtual device", "--mode single or auto", "--devices 1,2"])
    assert not case.path("r").exists() and result.stdout == "", result
    for mode in (), ("--mode", "single"), ("--mode", "auto"):
        case.run(*ONE, *mode, "--runs", 1, "-q", "-o", "-".join(("r", *mode)))


def check_one_device_says_what_it_does(case):
    result = case.run(*ONE, "--runs", 3, "-o", "r")
    assert "also measured, 3 runs each" in result.stderr and "--variants none" in result.stderr, result.stderr
    assert set(keys_of(case.path("r"))) == {(b, 1, "single", run) for b in (8, 16, 32) for run in range(3)}
    for words in ("One virtual device: up to", "The fastest configuration of each batch on one virtual device", "Step time (us) [95 % CI]",
                  "Memory peak", "Speedup of two, at most (modelled)", "best batch (eager, fp32)",
                  "Measured on CPU virtual devices, not GPUs"):
        assert words in result.stdout, f"'{words}' is not in:\n{result.stdout}"
    assert "Nothing to decide" not in result.stdout and "nvlink4" not in result.stdout, result.stdout
    summary = json.loads(case.path("r/summary.json").read_text())
    valid("summary.schema.json", summary)
    assert [row["cell"]["global_batch"] for row in summary["one_device"]["rows"]] == [8, 16, 32]
    assert ["two_devices_at_most" in row for row in summary["one_device"]["rows"]] == [False, True, True]
    assert "The fastest configuration of each batch on one virtual device" in case.path("r/report.md").read_text()
    case.run("report", "r", "--html", "page.html")
    assert "The fastest configuration of each batch on one virtual device" in case.path("page.html").read_text()


def check_variants_can_be_left_out_and_resumed(case):
    case.run(*ONE, "--runs", 1, "-q", "--variants", "none", "-o", "r")
    assert sorted(keys_of(case.path("r"))) == [(16, 1, "single", 0), (32, 1, "single", 0)]
    case.refused(2, "usage", *ONE, "--runs", 2, "-q", "-o", "r", "--resume", says=["variants"])
    case.run(*ONE, "--runs", 2, "-q", "--variants", "none", "-o", "r", "--resume")
    assert len(keys_of(case.path("r"))) == 4
    case.run(*ONE, "--runs", 1, "-q", "-o", "s")
    case.run(*ONE, "--runs", 2, "-q", "-o", "s", "--resume")
    assert len(keys_of(case.path("s"))) == len(set(keys_of(case.path("s")))) == 6
    case.refused(2, "usage", *ONE, "--variants", "all", "-o", "t", says=["'all'", "none"])


def check_a_trace_is_of_what_was_asked_for(case):
    case.run(*ONE, "--runs", 1, "-q", "--trace", "steps=1:2", "-o", "r")
    trace = json.loads(case.path("r/trace.json").read_text())
    assert trace["global_batch"] == 32, "half of a batch was traced"


def gpu_run(case, **options):
    study_fixture.study(case.path("gpu"), batches=(32, 64, 256), **options)
    return ("report", "gpu", "--assume-devices", "2,4")


def check_prediction_adds_up(case):
    words = gpu_run(case)
    outlook = json.loads(case.run(*words, "--link", "nvlink4", "--json").stdout)
    valid("outlook.schema.json", outlook)
    link = outlook["link"]
    single = {r["axes"]["global_batch"]: [] for r in records_of(case.path("gpu"))}
    for record in records_of(case.path("gpu")):
        if record["axes"]["devices"] == 1:
            single[record["axes"]["global_batch"]].append(record["series"][0]["samples"][0])
    median = {batch: statistics.median(times) for batch, times in single.items()}
    own = {(32, 2): median[32], (64, 2): median[32], (64, 4): median[32], (256, 4): median[64],
           (256, 2): median[64] + (median[256] - median[64]) * (128 - 64) / (256 - 64), (32, 4): median[32]}
    assert len(outlook["predictions"]) == 6
    for p in outlook["predictions"]:
        n, batch = p["devices"], p["single"]["global_batch"]
        expected = {"T1(B/n)": own[batch, n], "all-reduce latency": link["base_us"] + 2 * (n - 1) * link["hop_us"],
                    "gradient bytes": 2 * (n - 1) / n * 4 * 2021379 / (1000 * link["ring_efficiency"] * link["gbps"]),
                    "joins of the graph": 10.8}
        if any(term["name"] == "update after the all-reduce" for term in p["terms"]):
            expected["update after the all-reduce"] = 28 * 2021379 / (1000 * 0.85 * 4800)
        for term in p["terms"]:
            assert abs(term["us"] - expected[term["name"]]) < 1e-6 * term["us"], (batch, n, term, expected)
        assert abs(p["step_us"] - sum(expected.values())) < 1e-6 * p["step_us"], p
        assert abs(p["speedup"] - median[batch] / p["step_us"]) < 1e-6, p
        exact = (batch, n) in ((64, 2), (256, 4))
        assert p["terms"][0]["origin"] == ("measured" if exact else "modelled"), p
        assert [m["strategy"] for m in p["measured"]] == ["ddp"], p
    text = case.run(*words, "--link", "nvlink4", "--model", "large", "--batch-size", "64").stdout
    for part in ("(modelled)", "T1(B/n), batch 64 on 2: measured, batch 32", "all-reduce latency, 2 devices: measured",
                 "gradient bytes, 4 devices: modelled", "measured; error of the prediction", "ddp"):
        assert part in text, f"'{part}' is not in:\n{text}"
    assert " 256 " not in text, text


def check_overlap_hides_backward_at_most(case):
    words = gpu_run(case)
    for link in "nvlink4", "host":
        plain, hidden = (json.loads(case.run(*words, "--link", link, "--json", *more).stdout)["predictions"]
                         for more in ((), ("--overlap",)))
        for a, b in zip(plain, hidden):
            term = b["terms"][-1]
            assert term["name"] == "hidden behind backward" and term["us"] <= 0, term
            assert -term["us"] <= a["terms"][1]["us"] + a["terms"][2]["us"] + 1e-9, "more than all communication"
            assert -term["us"] <= 0.6 * a["terms"][0]["us"] + 1e-9, "more than backward"
            assert abs(a["step_us"] + term["us"] - b["step_us"]) < 1e-9, (a, b)


def check_slower_links_are_slower(case):
    words = gpu_run(case)
    steps = {}
    for link in "nvlink4", "pcie5", "host":
        steps[link] = [p["step_us"] for p in json.loads(case.run(*words, "--link", link, "--json").stdout)["predictions"]]
    assert all(a < b < c for a, b, c in zip(*steps.values())), steps


def check_machine_file_as_link(case):
    words = gpu_run(case)
    machine = SOURCE / "results" / "h200" / "fabric" / "x4" / "links" / "machine.json"
    link = json.loads(case.run(*words, "--link", machine, "--json").stdout)["link"]
    slowest = min(pair["measured_gbps"] for pair in json.loads(machine.read_text())["links"])
    assert link["gbps"] == slowest and link["rate_origin"] == "measured" and "slowest pair" in link["rate_source"], link
    alone = {**json.loads(machine.read_text()), "links": []}
    case.write("alone.json", json.dumps(alone))
    case.refused(2, "usage", *words, "--link", "alone.json", says=["alone.json", "no pair of devices"])


def check_predictions_refused(case):
    words = gpu_run(case)
    for more, says in ((("--link", "nvlink5"), ["'nvlink5'", "nvlink4"]), ((), ["--link"]),
                       (("--link", "pcie5", "--batch-size", "48"), ["48"]), (("--link", "pcie5", "--model", "tiny"), ["tiny"]),
                       (("--link", "pcie5", "--params", "1M"), ["--params"]),
                       (("--link", "pcie5", "--advise=study"), ["--advise with --assume-devices"])):
        case.refused(2, "usage", *words, *more, says=says)
    case.refused(2, "usage", "report", "gpu", "--assume-devices", "1,2", "--link", "pcie5", says=["1"])
    case.refused(2, "usage", "report", "gpu", "--advise", "--params", "1M", "--link", "pcie5", says=["--link", "--assume-devices"])
    study_fixture.study(case.path("cpu"), kind="cpu-virtual")
    case.refused(2, "usage", "report", "cpu", "--assume-devices", "2", "--link", "pcie5",
                 says=["cpu was measured on CPU virtual devices"])


def check_table_of_errors_is_that_of_the_records(case):
    words = [sys.executable, SOURCE / "tools" / "prediction_table.py", AMDAHL, SOURCE / "results" / "h200", "--check"]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    study = SOURCE / "results" / "h200" / "medium-258k"
    first = json.loads(case.run("report", study, "--assume-devices", "2", "--link", "nvlink4", "--json").stdout)
    assert any(m["n"] >= 2 for p in first["predictions"] for m in p["measured"]), "nothing was compared"


harness.main(globals())
