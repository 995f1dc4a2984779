"""amdahl plan: ranking, explanation, assumptions, validation, and what it refuses."""
import copy
import json
import os
import random
import re
import subprocess

import harness
import table_text
from harness import SOURCE
from schema_support import valid

H200 = ("plan", "--model", "gpt2", "--batch-size", "64", "--what-if", "gpus=4,gpu=h200")


def check_ranking_and_json(case):
    text = case.run(*H200, "--prices", SOURCE / "data" / "prices.toml").stdout
    for words in ("Best: dp4", "speedup", "Nothing was measured", "USD per 1M rows"):
        assert words in text, f"'{words}' is not in:\n{text}"
    plan = json.loads(case.run(*H200, "--plan", "dp2.tp2,m4", "--json").stdout)
    valid("plan.schema.json", plan)
    for one in plan["ranking"] + [plan["explained"]]:
        parts = sum(v for k, v in one["account"].items() if k != "hidden_dp_us")
        assert abs(parts / one["step_us"] - 1) < 1e-6, one
        assert one["interval"]["low"] < one["step_us"] < one["interval"]["high"], one
    assert abs(sum(t["us"] for t in plan["terms"]) / plan["explained"]["step_us"] - 1) < 1e-6, plan["terms"]
    assert all(c["origin"] == "assumed" for c in plan["calibration"]["constants"])


def machine(case, **changes):
    document = json.loads(case.run("plan", "--model", "gpt2", "--batch-size", "8", "--what-if", "gpus=2,gpu=h200",
                                   "--json").stdout)
    calibration = dict(document["calibration"], host="there", device_name="NVIDIA H200")
    link = {"path": "NV", "peer_access": True, "peer_atomics": True, "measured_gbps": 390.0}
    file = {"version": 1, "host": "there", "os": "Linux", "cpu_name": "a CPU", "num_cores": 8, "num_numa_nodes": 1,
            "versions": {}, "devices": [{"index": i, "kind": "cuda", "name": "NVIDIA H200"} for i in range(2)],
            "links": [dict(link, source=a, destination=1 - a) for a in range(2)], "calibrations": [calibration]}
    file.update(changes)
    case.path("m.json").write_text(json.dumps(file))
    return ("plan", "--model", "gpt2", "--batch-size", "64", "--machine", "m.json"), file


def check_machine_file(case):
    words, file = machine(case)
    valid("machine.schema.json", file)
    plan = json.loads(case.run(*words, "--what-if", "gpus=8,link=pcie5", "--json").stdout)
    assert plan["most_devices"] == 8
    assert json.loads(case.run(*words, "--json").stdout)["most_devices"] == 2
    slow = next(c for c in plan["calibration"]["constants"] if c["name"] == "dp_gbps")
    assert slow["origin"] == "assumed" and slow["value"] < 40, slow


def check_gpu_of_a_file(case):
    words, _ = machine(case)
    example = SOURCE / "data" / "gpu-a100-40gb.toml"
    alone = ("plan", "--model", "gpt2", "--batch-size", "64", "--math", "bf16")
    plan = json.loads(case.run(*alone, "--what-if", f"gpus=4,gpu={example}", "--json").stdout)
    assert plan["calibration"]["device_name"] == "NVIDIA A100-PCIE-40GB", plan["calibration"]
    assert plan["calibration"]["memory_bytes"] == 40e9 and plan["most_devices"] == 4, plan["calibration"]
    named = json.loads(case.run(*alone, "--what-if", "gpus=4,gpu=a100,link=pcie4", "--json").stdout)
    rates = [{c["name"]: c["value"] for c in p["calibration"]["constants"]} for p in (plan, named)]
    differ = {name for name in rates[0] if rates[0][name] != rates[1][name]}
    assert differ == {"memory_gbps", "gemm_gbps", "optimizer_ps"}, differ  # 1,555 and 2,039 GB/s
    scaled = json.loads(case.run(*words, "--what-if", f"gpu={example}", "--json").stdout)["calibration"]
    sources = {c["name"]: c["source"] for c in scaled["constants"]}
    assert "scaled by data sheets: NVIDIA A100 data sheet, 40 GB PCIe" in sources["gemm_tflops"], sources
    lines = example.read_text().splitlines()
    for key, line, says in (("memory_gbps", "memory_gbps = 2e9", ["bad.toml:6", "memory_gbps is 2000000000", "at most"]),
                            ("memory_gb ", "", ["'memory_gb' is missing"]), ("link", 'link = "pcie9"', ["bad.toml", "pcie9", "pcie4"]),
                            ("name", "name = 3", ["bad.toml:2", "name is no text"]),
                            ("multiprocessors", "multiprocessors = 0", ["multiprocessors", "no count"]),
                            ("cache_mb", "cache = 40", ["key 'cache' is unknown", "cache_mb"])):
        case.path("bad.toml").write_text("\n".join(line if old.startswith(key) else old for old in lines) + "\n")
        case.refused(2, "usage", *words, "--what-if", "gpu=bad.toml", says=says)
    case.refused(2, "usage", *words, "--what-if", "gpu=none.toml", says=["none.toml", "cannot be read"])
    case.refused(2, "usage", *words, "--what-if", "gpu=b300", says=["unknown GPU 'b300'", "FILE.toml"])
    case.refused(2, "usage", *words, "--what-if", f"gpus=4,link=nvlink4,gpu={example}", says=["no NVLink", "link=pcie4"])


def check_refusals(case):
    words, file = machine(case)
    calibration = file["calibrations"][0]
    machine(case, calibrations=[dict(calibration, host="elsewhere")])
    case.refused(2, "usage", *words, says=["another machine", "elsewhere"])
    machine(case, calibrations=[dict(calibration, device_name="NVIDIA A100")])
    case.refused(2, "usage", *words, says=["another machine"])
    machine(case, calibrations=[])
    case.refused(2, "usage", *words, says=["has no calibration", "amdahl calibrate --machine m.json"])
    earlier = [c for c in calibration["constants"] if c["name"] != "event_us"]
    machine(case, calibrations=[dict(calibration, constants=earlier)])
    case.refused(2, "usage", *words, says=["of an earlier version", "amdahl calibrate --machine m.json"])
    machine(case, links=[file["links"][0], dict(file["links"][1], measured_gbps=20.0)])
    case.refused(2, "usage", *words, says=["contradict each other", "390.0 and 20.0 GB/s"])
    machine(case)
    case.refused(2, "usage", *words, "--math", "fp32", says=["no calibration of math fp32"])
    case.refused(2, "usage", *words, "--what-if", "gpus=1,link=pcie5", says=["one device has no link"])
    case.refused(2, "usage", *words, "--what-if", "memory-gb=0.1", says=["fits on no plan", "needs"])
    case.refused(2, "usage", *words, "--what-if", "gpus=4", "--devices", "8", says=["--devices is 8"])
    case.refused(2, "usage", *words, "--devices", "1000000", says=["--devices is 1000000", "at most 4096"])
    case.refused(2, "usage", *words, "--what-if", "gpus=4,link=nvlink5", says=["h200 has nvlink4"])
    case.refused(2, "usage", "plan", "--model", "gpt2", "--batch-size", "8", "--what-if", "gpus=2,gpu=rtx4090,link=nvlink4",
                 says=["rtx4090 has no NVLink", "link=pcie4"])
    for text, says in (("nodes=2", ["without a network", "network=net400"]), ("network=net400", ["of how many nodes"]),
                       ("gpus=9,nodes=2,network=net400", ["unequal nodes"]), ("nodes=512,gpus=8192,network=net400", ["4096"])):
        case.refused(2, "usage", *words, "--what-if", text, says=says)
    case.refused(2, "usage", "plan", "--model", "gpt2", says=["--batch-size"])
    case.refused(2, "usage", "plan", "--model", "gpt2", "--batch-size", "8", says=["machine file", "--what-if"])


def check_thresholds(case):
    words, _ = machine(case)
    text = case.run("plan", "--machine", "m.json", "--assume-devices", "2,4", "--what-if", "link=nvlink4").stdout
    assert "from which size on several devices pay" in text and "break-even at 15,000,000" in text, text
    found = json.loads(case.run("plan", "--machine", "m.json", "--assume-devices", "2", "--json").stdout)
    assert [t["devices"] for t in found["thresholds"]] == [2] * 5, found
    plan = json.loads(case.run(*words, "--assume-devices", "2,4", "--what-if", "link=pcie4", "--json").stdout)
    assert plan["most_devices"] == 4, plan["most_devices"]
    case.refused(2, "usage", "plan", "--machine", "m.json", "--assume-devices", "1", says=["1"])
    case.refused(2, "usage", "plan", "--machine", "m.json", "--assume-devices", "2", "--what-if", "link=nvlink9", says=["nvlink4"])


def check_advice_from_a_calibration(case):
    _, file = machine(case)
    machine(case, calibrations=[dict(file["calibrations"][0], interval_factor=0.5)])
    said = case.run("plan", "--advise", "--params", "100k", "--batch-size", "64", "--machine", "m.json", "--devices", "4").stdout
    assert said.startswith("single: predicted from the calibration of NVIDIA H200"), said
    said = case.run("plan", "--advise", "--model", "gpt2", "--batch-size", "512", "--machine", "m.json").stdout
    assert said.startswith("multi: predicted from the calibration of NVIDIA H200: 2 devices, dp2"), said
    case.refused(2, "usage", "plan", "--advise=study", "--params", "1M", "--machine", "m.json", says=["calibration"])
    case.refused(2, "usage", "report", "r", "--assume-devices", "2", "--machine", "m.json", says=["--machine without"])


def check_calibrate_verify_and_study(case):
    """In less time than constants need to be good: what is checked is the course of it."""
    text = table_text.at_width(case, 80, "calibrate", "--backend", "cpu", "--devices", "2", "--seconds", "1", "--machine", "c.json",
                               "--html", "c.html")
    assert max(map(len, text.splitlines())) <= 80, text
    for row in table_text.rows_with(text, "plan", "measured", "predicted without it", "error"):
        share = table_text.microseconds(row["predicted without it"]) / table_text.microseconds(row["measured"]) - 1
        assert abs(100 * share - table_text.number(row["error"])) < 0.1 + 0.002 * abs(100 + 100 * share), row
    found = json.loads(re.search(r'id="amdahl-records">(.*?)</script>', case.path("c.html").read_text(), re.S).group(1))
    valid("machine.schema.json", json.loads(case.path("c.json").read_text()))
    assert {s["plan"] for s in found["steps"]} == {"dp1", "dp2", "tp2", "pp2,m8,1f1b"} and found["calibration"]["seconds"] < 60, found
    words = ("plan", "--model", "medium", "--machine", "c.json", "--verify", "--seconds", "4", "-o", "pairs")
    verified = json.loads(case.run(*words, "--plan", "dp1", "dp2", "tp2", "--json").stdout)
    valid("plan-verification.schema.json", verified)
    assert [p["prediction"]["plan"] for p in verified["plans"]] == ["dp1", "dp2", "tp2"], verified["plans"]
    for one in verified["plans"]:
        low, high = one["prediction"]["interval"]["low"], one["prediction"]["interval"]["high"]
        assert one["inside"] == (low <= one["measured_us"] <= high), one
        parts = sum(part["measured_us"] for part in one["parts"])
        assert abs(parts / one["measured_us"] - 1) < 1e-6, one
        # Counted are also copies that a CPU's products make.
        assert one["prediction"]["memory_bytes"]["total"] < one["modelled_bytes"] < 1.01 * one["memory_bytes"], one
    table_text.check_fits(case, "report", "pairs")
    case.run("report", "pairs", "--html", "pairs.html")
    assert "Measured and predicted time of a step by plan" in case.path("pairs.html").read_text()
    assert verified["refitted_error"] <= verified["median_error"] or not verified["corrected"], verified
    report = case.run("report", "pairs").stdout
    assert "3 plans: median error" in report and "tp2" in report, report
    case.refused(2, "usage", "plan", "--model", "medium", "--machine", "c.json", "--verify", "--seconds", "0.0001",
                 says=["needs about", "--seconds is"])
    case.refused(2, "usage", *H200, "--seconds", "3", says=["without --verify"])
    study = ("study", "--backend", "cpu", "--mode", "single", "--devices", "1", "--batch-sizes", "32", "--runs", "2", "--steps", "5",
             "--warmup", "2")
    assert "devices pay: `amdahl calibrate --machine FILE`" in case.run(*study, "-o", "s1").stdout
    last = case.run(*study, "--machine", "c.json", "-o", "s2").stdout
    assert "parameters from which on 2, 4 and 8 devices pay" in last and "at batch 32: 2 " in last, last
    auto = case.run("study", "--backend", "cpu", "--mode", "auto", "--devices", "1,2", "--batch-sizes", "32", "--machine", "c.json",
                    "--dry-run").stdout
    assert "predicted from the calibration of" in auto, auto


def attempt(case, *words):
    return subprocess.run([harness.AMDAHL, *words], cwd=case.folder, env=harness.ENVIRONMENT, capture_output=True, text=True,
                          timeout=30)


def check_machine_files_with_impossible_values(case):
    """Every number of a machine file, edited: an answer of finite numbers, or one line that names the field."""
    _, file = machine(case)
    ask = ("plan", "--model", "medium", "--batch-size", "64", "--machine", "m.json", "--devices", "4", "--json")
    refused = answered = 0

    def places(value, path=()):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from places(inner, (*path, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from places(inner, (*path, index))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield path

    choice = random.Random(5)
    for path in places(file):
        for bad in choice.sample((0, -1, 1e300, 1e-300, -0.0, 2**40), 2):
            edited = copy.deepcopy(file)
            at = edited
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = bad
            case.path("m.json").write_text(json.dumps(edited))
            result = attempt(case, *ask)
            if result.returncode == 0:
                answered += 1
                assert "nan" not in result.stdout and "inf" not in result.stdout, (path, bad)
                continue
            refused += 1
            assert result.returncode in (2, 5) and result.stderr.count("error[") == 1, (path, bad, result)
            name = path[-1] if path[-1] != "value" else at["name"]
            assert str(name) in result.stderr or path[0] in result.stderr, (path, bad, result.stderr)
    assert refused > 50 and answered > 10, (refused, answered)


def check_constants_that_must_be_positive(case):
    _, file = machine(case)
    for name in ("gemm_tflops", "memory_gbps", "dp_gbps", "gemm_tile", "queue_exponent"):
        for bad in (0, -3, 1e308):
            edited = copy.deepcopy(file)
            next(c for c in edited["calibrations"][0]["constants"] if c["name"] == name)["value"] = bad
            case.path("m.json").write_text(json.dumps(edited))
            result = attempt(case, "plan", "--model", "medium", "--batch-size", "64", "--machine", "m.json")
            assert result.returncode in (2, 5) and (name in result.stderr or bad < 0), (name, bad, result)


def check_bounds_of_questions(case):
    what_if = ("plan", "--model", "medium", "--what-if")
    for words, says in (((*what_if, "gpus=8,gpu=h200", "--batch-size", str(2**63 - 1)), "1,073,741,824"),
                        ((*what_if, "gpus=8,gpu=h200", "--batch-size", str(2**30 + 1)), "batch-size"),
                        ((*what_if, "gpus=5000,gpu=h200", "--batch-size", "64"), "4096"),
                        (("plan", "--assume-devices", str(2**33 + 2), "--what-if", "gpu=h200"), "--assume-devices"),
                        (("plan", "--assume-devices", "100000", "--what-if", "gpu=h200"), "4096")):
        case.refused(2, "usage", *words, says=[says])
    for gpus, batch in ((256, 2048), (1024, 8192), (4096, 2**30), (64, 735134400)):
        start = os.times()
        answer = json.loads(case.run(*what_if, f"gpus={gpus},gpu=h200,link=nvlink4", "--batch-size", str(batch), "--json").stdout)
        seconds = os.times().children_user - start.children_user
        assert seconds < 10, f"{gpus} GPUs take {seconds:.1f} s"
        assert answer["by_devices"][-1]["devices"] == gpus and any("powers of two" in note for note in answer["notes"]), answer["notes"]


def check_verification_refuses_assumptions(case):
    words, _ = machine(case)
    case.refused(2, "usage", *words, "--what-if", "gpus=4", "--verify", says=["no assumptions"])
    case.refused(2, "usage", *words, "--verify", says=["there"])


def check_validation(case):
    rows = (SOURCE / "tests" / "data" / "planner" / "measured_a100.csv").read_text().splitlines()
    case.path("few.csv").write_text("\n".join(rows[:200]) + "\n")
    case.path("more.csv").write_text("\n".join(rows[:1] + rows[300:340]) + "\n")
    found = json.loads(case.run("plan", "--validate", "few.csv", "more.csv", "--json").stdout)
    valid("plan-validation.schema.json", found)
    assert found["also"]["rows"] == 40 and found["also"]["mean"] < 0.1, found["also"]
    case.path("tool.csv").write_text("\n".join(rows[:1] + [r.rsplit(",", 1)[0] + ",100" for r in rows[1:200]]) + "\n")
    beside = json.loads(case.run("plan", "--validate", "few.csv", "--beside", "tool.csv", "--json").stdout)
    worst = max(abs(100 / float(r.rsplit(",", 1)[1]) - 1) for r in rows[1:200])
    tool = next(b for b in beside["baselines"] if b["name"] == "tool.csv")
    assert tool["rows"] == 199 and abs(tool["worst"] - worst) < 1e-9, tool
    case.refused(2, "usage", "plan", "--validate", "few.csv", "--beside", "more.csv", says=["another iteration"])
    case.path("bad.csv").write_text(rows[0] + "\n1,2,3\n")
    case.refused(2, "data-corrupt", "plan", "--validate", "bad.csv", says=["bad.csv:2", "3 cells of 11"])


harness.main(globals())
