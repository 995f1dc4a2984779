"""amdahl plan: ranking, explanation, assumptions, validation, and what it refuses."""
import json

import harness
from harness import SOURCE
from schema_support import valid

H200 = ("plan", "--model", "gpt2", "--global-batch", "64", "--what-if", "gpus=4,gpu=h200")


def check_ranking_and_json(case):
    text = case.run(*H200, "--prices", SOURCE / "data" / "prices.toml").stdout
    for words in ("best: dp4", "speedup", "nothing was measured", "USD per 1M rows"):
        assert words in text, f"'{words}' is not in:\n{text}"
    plan = json.loads(case.run(*H200, "--explain", "dp2.tp2,m4", "--json").stdout)
    valid("plan.schema.json", plan)
    for one in plan["ranking"] + [plan["explained"]]:
        parts = sum(v for k, v in one["account"].items() if k != "hidden_dp_us")
        assert abs(parts / one["step_us"] - 1) < 1e-6, one
        assert one["interval"]["low"] < one["step_us"] < one["interval"]["high"], one
    assert abs(sum(t["us"] for t in plan["terms"]) / plan["explained"]["step_us"] - 1) < 1e-6, plan["terms"]
    assert all(c["origin"] == "assumed" for c in plan["calibration"]["constants"])


def machine(case, **changes):
    document = json.loads(case.run("plan", "--model", "gpt2", "--global-batch", "8", "--what-if", "gpus=2,gpu=h200",
                                   "--json").stdout)
    calibration = dict(document["calibration"], host="there", device_name="NVIDIA H200")
    link = {"path": "NV", "peer_access": True, "peer_atomics": True, "measured_gbps": 390.0}
    file = {"version": 1, "host": "there", "os": "Linux", "cpu_name": "a CPU", "num_cores": 8, "num_numa_nodes": 1,
            "versions": {}, "devices": [{"index": i, "kind": "cuda", "name": "NVIDIA H200"} for i in range(2)],
            "links": [dict(link, source=a, destination=1 - a) for a in range(2)], "calibrations": [calibration]}
    file.update(changes)
    case.path("m.json").write_text(json.dumps(file))
    return ("plan", "--model", "gpt2", "--global-batch", "64", "--machine", "m.json"), file


def check_machine_file(case):
    words, file = machine(case)
    valid("machine.schema.json", file)
    plan = json.loads(case.run(*words, "--what-if", "gpus=8,link=pcie5", "--json").stdout)
    assert plan["most_devices"] == 8
    assert json.loads(case.run(*words, "--json").stdout)["most_devices"] == 2
    slow = next(c for c in plan["calibration"]["constants"] if c["name"] == "dp_gbps")
    assert slow["origin"] == "assumed" and slow["value"] < 40, slow


def check_refusals(case):
    words, file = machine(case)
    calibration = file["calibrations"][0]
    machine(case, calibrations=[dict(calibration, host="elsewhere")])
    case.refused(2, "usage", *words, says=["another machine", "elsewhere"])
    machine(case, calibrations=[dict(calibration, device_name="NVIDIA A100")])
    case.refused(2, "usage", *words, says=["another machine"])
    machine(case, calibrations=[])
    case.refused(2, "usage", *words, says=["has no calibration", "amdahl calibrate --machine m.json"])
    machine(case, links=[file["links"][0], dict(file["links"][1], measured_gbps=20.0)])
    case.refused(2, "usage", *words, says=["contradict each other", "390.0 and 20.0 GB/s"])
    machine(case)
    case.refused(2, "usage", *words, "--math", "fp32", says=["no calibration of math fp32"])
    case.refused(2, "usage", *words, "--what-if", "gpus=1,link=pcie5", says=["one device has no link"])
    case.refused(2, "usage", *words, "--what-if", "memory-gb=0.1", says=["fits on no plan", "needs"])
    case.refused(2, "usage", *words, "--what-if", "gpus=4", "--devices", "8", says=["--devices is 8"])
    case.refused(2, "usage", "plan", "--model", "gpt2", says=["--global-batch"])
    case.refused(2, "usage", "plan", "--model", "gpt2", "--global-batch", "8", says=["machine file", "--what-if"])


def check_thresholds(case):
    words, _ = machine(case)
    text = case.run("plan", "--machine", "m.json", "--assume-devices", "2,4", "--link", "nvlink4").stdout
    assert "from which size on several devices pay" in text and "break-even at 15,000,000" in text, text
    found = json.loads(case.run("plan", "--machine", "m.json", "--assume-devices", "2", "--json").stdout)
    assert [t["devices"] for t in found["thresholds"]] == [2] * 5, found
    plan = json.loads(case.run(*words, "--assume-devices", "2,4", "--link", "pcie4", "--json").stdout)
    assert plan["most_devices"] == 4, plan["most_devices"]
    case.refused(2, "usage", "plan", "--machine", "m.json", "--assume-devices", "1", says=["1"])
    case.refused(2, "usage", "plan", "--machine", "m.json", "--assume-devices", "2", "--link", "nvlink9", says=["nvlink4"])


def check_verification_refuses_assumptions(case):
    words, _ = machine(case)
    case.refused(2, "usage", *words, "--what-if", "gpus=4", "--verify", says=["no assumptions"])
    case.refused(2, "usage", *words, "--verify", says=["there"])


def check_validation(case):
    rows = (SOURCE / "tests" / "data" / "planner" / "measured_a100.csv").read_text().splitlines()
    case.path("few.csv").write_text("\n".join(rows[:200]) + "\n")
    case.path("more.csv").write_text("\n".join(rows[:1] + rows[300:340]) + "\n")
    found = json.loads(case.run("plan", "--validate", "few.csv", "--and-predict", "more.csv", "--json").stdout)
    valid("plan-validation.schema.json", found)
    assert found["also"]["rows"] == 40 and found["also"]["mean"] < 0.1, found["also"]
    case.path("bad.csv").write_text(rows[0] + "\n1,2,3\n")
    case.refused(2, "data-corrupt", "plan", "--validate", "bad.csv", says=["bad.csv:2", "3 cells of 11"])


harness.main(globals())
