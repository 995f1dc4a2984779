"""`amdahl study --processes`: runs spread over fresh processes, what the Records say of them, how they are compared, resumed and
calibrated."""
import json
import math
import pathlib
import re
import shutil
import statistics

import harness
from harness import lines_of, records_of

STUDY = ("study", "--backend", "cpu", "--batch-sizes", "16", "--devices", "1,2", "--warmup", "1", "--steps", "2", "-q")
USAGE = (2, "usage")
T_5 = 2.5705818366147395  # 97.5 % quantile of Student's t with 5 degrees of freedom
HOST_DRIFT = 0.75  # kHostDrift: what studies of one host differ by, over what its processes do


def spread(case, folder, processes=5, runs=10, *more):
    return case.run(*STUDY, "--processes", processes, "--runs", runs, "-o", folder, *more)


def check_runs_are_spread_over_fresh_processes(case):
    result = spread(case, "r", 3, 7)
    assert "verdict" in result.stdout and "report: r/report.md" in result.stdout, result.stdout
    found = records_of(case.path("r"))
    runs = {}
    for record in found:
        runs.setdefault(record["axes"]["process"], set()).add(record["axes"]["run"])
    assert runs == {0: {0, 1}, 1: {2, 3}, 2: {4, 5, 6}}, runs
    assert len(found) == 2 * 7 and len({(r["axes"]["devices"], r["axes"]["run"]) for r in found}) == 14
    header = lines_of(case.path("r"))[0]
    assert header["config"]["processes"] == "3", header
    summary = json.loads(case.path("r/summary.json").read_text())
    for cell in summary["cells"]:
        assert (cell["step_time_us"]["n"], cell["step_time_us"]["num_processes"]) == (7, 3), cell
    assert summary["comparisons"][0]["speedup"]["level"] == "processes", summary["comparisons"]
    # The first run of each process and cell says how it was warmed up, the others were warm.
    for record in found:
        names = {series["name"]: series["samples"][0] for series in record["series"]}
        first = record["axes"]["run"] == min(runs[record["axes"]["process"]])
        assert first == ("warmup_settled" in names), record
        assert not first or (names["warmup_time"] >= 100_000 and names["warmup_steps"] > 1), names
        assert pathlib.Path("/proc/self/schedstat").exists() == ("processor_wait" in names), names
        # Each process's first cell on a device it has not used before has three rehearsals.
        assert not first or names["warmup_rehearsals"] == 3, names


def check_only_the_first_cell_is_rehearsed_more(case):
    assert case.run("study", "--backend", "cpu", "--batch-sizes", "8,16", "--devices", "1,2", "--warmup", "1", "--steps", "2",
                    "--runs", 1, "-q", "-o", "r").returncode == 0
    rehearsals = {(r["axes"]["global_batch"], r["axes"]["devices"]): series["samples"][0]
                  for r in records_of(case.path("r")) for series in r["series"] if series["name"] == "warmup_rehearsals"}
    assert rehearsals == {(8, 1): 3, (8, 2): 3, (16, 1): 1, (16, 2): 1}, rehearsals


def check_folders_are_compared_between_processes(case):
    for name in ("a", "b"):
        spread(case, name)
    text = case.run("compare", "a", "b").stdout
    assert "5x2+5x2" in text and "Verdicts are between processes" in text, text
    one = case.run(*STUDY, "--runs", 10, "-o", "one")
    assert one.returncode == 0
    text = case.run("compare", "one", "b").stdout
    assert "2 cells measured by one process per side" in text and "calibrate" in text, text
    assert "verdict: UNCLEAR (one process per side)" in text, text
    case.refused(*USAGE, "compare", "one", "b", "--fail-on-regression", "5%", says=["one process", "--processes 5"])
    # Several runs of one side are processes of it.
    for i in range(3):
        case.run(*STUDY, "--runs", 2, "-o", f"n{i}")
    found = json.loads(case.run("compare", "n0+n1+n2", "b", "--json").stdout)
    assert {cell["a_over_b_speed"]["processes_first"] for cell in found["cells"]} == {3}, found
    assert {cell["a_over_b_speed"]["level"] for cell in found["cells"]} == {"processes"}, found
    case.run("compare", "n0+n1+n2", "b", "--fail-on-regression", "100%")
    case.refused(*USAGE, "compare", "n0+nowhere", "b", says=["n0+nowhere"])
    shutil.copytree(case.path("n0"), case.path("with+plus"))
    case.run("compare", "with+plus", "n1")


def check_cells_of_one_run_are_judged_within_it(case):
    spread(case, "r")
    found = json.loads(case.run("compare", "r@devices=1", "r@devices=2", "--json").stdout)
    assert found["cells"][0]["a_over_b_speed"]["level"] == "processes", found


def process_medians(folder):
    """By number of devices: the median step time of each process."""
    samples = {}
    for record in records_of(folder):
        process = samples.setdefault(record["axes"]["devices"], {}).setdefault(record["axes"].get("process", 0), [])
        process += next(series["samples"] for series in record["series"] if series["name"] == "step_time")
    return {devices: [statistics.median(values) for values in by_process.values()]
            for devices, by_process in samples.items()}


def check_calibration(case):
    spread(case, "cal", 6, 12)
    for name in ("a", "b"):
        case.run(*STUDY, "--runs", 10, "-o", name)
    result = case.run("calibrate", "cal", "--machine", "m.json")
    assert "5 processes per side resolve" in result.stdout and "written to m.json" in result.stdout, result.stdout
    machine = json.loads(case.path("m.json").read_text())
    assert len(machine["process_spreads"]) == 2, machine
    expected = {devices: statistics.stdev(math.log(median) for median in medians)
                for devices, medians in process_medians(case.path("cal")).items()}
    for entry in machine["process_spreads"]:  # whatever this machine scattered by, it is what was written and shown
        assert entry["processes"] == 6 and entry["runs"] == 2, entry
        devices = int(re.search(r"devices=(\d)", entry["cell"]).group(1))
        assert abs(entry["relative_sd"] - expected[devices]) <= 1e-9 + 1e-6 * expected[devices], (entry, expected)
        # Welch's test of 5 and 5 processes: noncentrality 3.67 for 8 degrees of freedom, 0.025, power 0.8
        resolved = 100 * math.expm1(3.67 * entry["relative_sd"] * math.sqrt(2 / 5))
        row = re.search(rf"devices={devices} .* 6 +2 +(\S+) % +(\S+) %$", result.stdout, re.MULTILINE)
        assert row, result.stdout
        assert abs(float(row[1]) - 100 * entry["relative_sd"]) < 0.006, (row[0], entry)
        assert abs(float(row[2]) - resolved) < 0.06, (row[0], entry)
    text = case.run("compare", "a", "b", "--machine", "m.json").stdout
    assert "one process per side" not in text and "spread of processes in the machine file" in text, text
    found = json.loads(case.run("compare", "a", "b", "--machine", "m.json", "--json").stdout)
    medians = [process_medians(case.path(name)) for name in ("a", "b")]
    for cell in found["cells"]:  # the interval is the calibrated spread's, of one process against one
        test, devices = cell["a_over_b_speed"], cell["axes"]["devices"]
        assert test["level"] == "calibrated", cell
        ratio = medians[1][devices][0] / medians[0][devices][0]
        margin = T_5 * expected[devices] * math.sqrt(2 * (1 + HOST_DRIFT))
        assert abs(test["ratio"] / ratio - 1) < 1e-9, (cell, ratio)
        for end, sign in (("low", -1), ("high", 1)):
            assert abs(test["ci"][end] / (ratio * math.exp(sign * margin)) - 1) < 1e-6, (cell, end, ratio, margin)
    case.run("links", "--backend", "cpu", "-q", "-t", "device_to_device_memcpy_read_ce", "-b", "64K", "--machine", "m.json")
    kept = json.loads(case.path("m.json").read_text())
    assert kept["process_spreads"] == machine["process_spreads"], "links dropped the calibration"
    case.refused(*USAGE, "calibrate", "a", "--machine", "m.json", says=["a has no cell that 5 processes measured"])
    other = dict(machine, host="another-host")
    case.write("other.json", json.dumps(other))
    case.refused(*USAGE, "compare", "a", "b", "--machine", "other.json", says=["another-host"])
    case.write("bare.json", json.dumps({k: v for k, v in machine.items() if k != "process_spreads"}))
    case.refused(*USAGE, "compare", "a", "b", "--machine", "bare.json", says=["no spread of processes", "calibrate"])


def check_resume_starts_new_processes(case):
    spread(case, "r", 3, 6)
    lines = lines_of(case.path("r"))
    kept, dropped = [], 0
    for line in lines:  # as if it had been killed while process 1 had done one of its two runs
        if line["type"] == "record" and (line["axes"]["process"] == 2 or line["axes"]["run"] == 3):
            dropped += 1
            continue
        kept.append(line)
    assert dropped == 6
    case.write("r/records.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))
    case.run(*STUDY, "--processes", 3, "--runs", 6, "-o", "r", "--resume")
    found = records_of(case.path("r"))
    assert sorted((r["axes"]["devices"], r["axes"]["run"]) for r in found) == [(n, i) for n in (1, 2) for i in range(6)]
    by_run = {r["axes"]["run"]: r["axes"]["process"] for r in found}
    assert by_run[2] == 1 and by_run[3] == 3 and by_run[4] == by_run[5] == 2, by_run


def check_refusals(case):
    case.refused(*USAGE, *STUDY, "--processes", 0, "-o", "r", says=["--processes is 0"])
    case.refused(*USAGE, *STUDY, "--processes", 5, "--runs", 4, "-o", "r", says=["--processes is 5", "--runs is 4"])
    case.refused(*USAGE, *STUDY, "--processes", 2, "--rel-ci", 0.1, "-o", "r", says=["--rel-ci"])
    case.refused(*USAGE, *STUDY, "--fresh-process", "x", "-o", "r", says=["--fresh-process"])
    case.refused(*USAGE, *STUDY, "--processes", 2, "-o", "r", says=["--processes is 2", "one of several"],
                 env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29557"})
    case.write("bad.csv", "a,b\n1,2\n")
    result = case.run(*STUDY, "--processes", 2, "--data", "bad.csv", "--target", "nowhere", "-o", "r", code=2)
    assert "nowhere" in result.stderr, result.stderr
    assert "fresh-process" not in case.run("study", "--help").stdout


harness.main(globals())
