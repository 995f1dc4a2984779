"""`amdahl report --csv`, `--jsonl` and `--metrics`: what other programs read, against records.jsonl; and wrong input."""
import csv
import io
import json
import re
import shutil
import subprocess

import harness
from harness import TINY, lines_of, records_of

STUDY = ("study", "-q", *TINY, "--runs", "3")
METRIC = re.compile(r'([a-z_][a-z0-9_]*)\{((?:[a-z_][a-z0-9_]*="(?:[^"\\]|\\.)*",?)*)\} (-?[0-9.e+-]+)')
LABEL = re.compile(r'([a-z_][a-z0-9_]*)="((?:[^"\\]|\\.)*)"')


def stored(folder):
    """Records with the provenance that their lines name."""
    provenance, records = {}, []
    for line in lines_of(folder):
        if line["type"] == "provenance":
            provenance[line["id"]] = {key: value for key, value in line.items() if key not in ("type", "id")}
        elif line["type"] == "record":
            record = {key: value for key, value in line.items() if key != "type"}
            records.append({**record, "provenance": provenance[line["provenance"]]})
    return records


def text_of(cell):
    return cell[1:] if cell.startswith("'") else cell


def cell_of(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def same(cell, value):
    if isinstance(value, (bool, str)):
        return text_of(cell) == cell_of(value)
    return float(cell) == value


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def with_ratio(record):
    """The record's series, and account_ratio where a step account stands beside a measured step."""
    values = {series["name"]: series["samples"][0] for series in record["series"] if series["samples"]}
    if "account_step" not in values or "step_time" not in values:
        return record["series"]
    return record["series"] + [{"name": "account_ratio", "unit": "1",
                                "samples": [values["account_step"] / values["step_time"]]}]


def expect_csv_of(rows, records):
    """Every sample of every record and the ratio of its step account, in order, and nothing else."""
    expected = []
    for number, record in enumerate(records):
        samples = [(series, i, value) for series in with_ratio(record) for i, value in enumerate(series["samples"])]
        expected += [(number, record, *sample) for sample in samples or [(None, None, None)]]
    assert len(rows) == len(expected), (len(rows), len(expected))
    for row, (number, record, series, sample, value) in zip(rows, expected):
        assert int(row["record"]) == number and text_of(row["kind"]) == record["kind"]
        assert row["status"] == record["status"]["kind"] and text_of(row["reason"]) == record["status"].get("reason", "")
        assert row["origin"] == record["origin"]
        axes = {key[5:]: cell for key, cell in row.items() if key.startswith("axis.") and cell != ""}
        assert axes.keys() == record["axes"].keys(), (axes, record["axes"])
        for axis, cell in axes.items():
            assert same(cell, record["axes"][axis]), (axis, cell)
        if series:
            assert (text_of(row["series"]), text_of(row["unit"])) == (series["name"], series["unit"])
            assert int(row["sample"]) == sample and float(row["value"]) == value
        else:
            assert row["series"] == row["value"] == row["sample"] == ""
        for key in ("host", "device_kind", "start_time", "tool_version", "commit"):
            assert text_of(row[key]) == record["provenance"][key], key
        assert int(row["seed"]) == record["provenance"]["seed"]


def check_round_trip_of_a_study(case):
    case.run(*STUDY, "-o", "r")
    records = stored(case.path("r"))
    assert len(records) == 6
    case.run("report", "r", "--csv", "r.csv")
    data = case.path("r.csv").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") and data.endswith(b"\r\n")
    expect_csv_of(read_csv(data.decode()), records)
    case.run("report", "r", "--jsonl", "r.jsonl")
    assert [json.loads(line) for line in case.path("r.jsonl").read_text().splitlines()] == records


def check_standard_output(case):
    case.run(*STUDY, "-o", "r")
    case.run("report", "r", "--csv", "r.csv")
    piped = subprocess.run([harness.AMDAHL, "report", "r", "--csv", "-"], cwd=case.folder, env=harness.ENVIRONMENT,
                           capture_output=True, check=True).stdout
    assert piped == case.path("r.csv").read_bytes()
    assert [json.loads(line) for line in case.run("report", "r", "--jsonl", "-").stdout.splitlines()] == stored(case.path("r"))
    # A records.jsonl itself is a run too.
    assert case.run("report", "r/records.jsonl", "--jsonl", "-").stdout == case.run("report", "r", "--jsonl", "-").stdout


def odd_run(case):
    """Texts that a spreadsheet runs, that break lines, and that are nothing but quotes; a failed record without samples."""
    case.run(*STUDY, "-o", "r")
    lines = lines_of(case.path("r"))
    for line in lines:
        if line["type"] == "provenance":
            line["host"] = "=HYPERLINK(\"x\")"
        if line["type"] == "record":
            line["axes"] = {"name": "@cmd", "lines": "a\r\nb,\"c\"", "quote": "'", "tab": "\t=1", "minus": "-2+3", "n": -2,
                            "x": -0.1, "flag": False, "umlaut": "\u00fc \u4e2d", "big": 2**62}
    failed = {**lines[-1], "series": [], "status": {"kind": "failed", "reason": "+out of memory"}}
    with open(case.path("r/records.jsonl"), "w") as out:
        for line in [*lines, failed]:
            print(json.dumps(line, ensure_ascii=False), file=out)
    return stored(case.path("r"))


def check_odd_texts(case):
    records = odd_run(case)
    case.run("report", "r", "--csv", "r.csv")
    rows = read_csv(case.path("r.csv").read_bytes().decode())
    expect_csv_of(rows, records)
    numbers = {"record", "sample", "value", "seed", "axis.n", "axis.x", "axis.big"}
    for row in rows:
        for key, cell in row.items():
            assert key in numbers or cell[:1] not in ("=", "+", "-", "@", "\t", "\r"), (key, cell)
    assert rows[-1]["reason"] == "'+out of memory" and rows[-1]["status"] == "failed"
    lines = case.run("report", "r", "--jsonl", "-").stdout.split("\n")[:-1]
    assert [json.loads(line) for line in lines] == records


def check_a_truncated_run(case):
    case.run(*STUDY, "-o", "r")
    whole = stored(case.path("r"))
    text = case.path("r/records.jsonl").read_text()
    text = "".join(text.splitlines(True)[:-1])  # without the line that ends the run
    case.path("r/records.jsonl").write_text(text[:-20])
    result = case.run("report", "r", "--jsonl", "-")
    assert [json.loads(line) for line in result.stdout.splitlines()] == whole[:-1]
    assert "warning: " in result.stderr and "truncated" in result.stderr, result.stderr


def check_wrong_input(case):
    case.refused(2, "usage", "report", "nowhere", "--csv", "-", says=["nowhere"])
    case.run(*STUDY, "-o", "r")
    case.refused(2, "usage", "report", "r", "r", "--csv", "a", says=["--csv of 2 runs"])
    case.refused(2, "usage", "report", "r", "--csv", "a", "--jsonl", "b", says=["at once"])
    case.refused(2, "usage", "report", "r", "--csv", "nowhere/a.csv", says=["nowhere"])
    case.refused(2, "usage", "report", "r", "--csv", "", says=["--csv is empty"])
    lines = case.path("r/records.jsonl").read_text().split("\n")
    lines[3] = lines[3].replace('"series"', '"serie"')
    case.path("r/records.jsonl").write_text("\n".join(lines))
    case.refused(5, "store-corrupt", "report", "r", "--csv", "out.csv", says=["records.jsonl:4"])
    assert not case.path("out.csv").exists()


def metrics(path):
    """name -> [(labels, value)], checked as the format asks for."""
    families, described, current = {}, set(), None
    text = path.read_text()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in described, f"{current} is described twice"
            described.add(current)
            continue
        if line.startswith("# TYPE "):
            assert line == f"# TYPE {current} gauge", line
            continue
        match = METRIC.fullmatch(line)
        assert match and match[1] == current, line
        families.setdefault(match[1], []).append((dict(LABEL.findall(match[2])), float(match[3])))
    promtool = shutil.which("promtool")
    if promtool:
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    return families


def check_metrics_of_a_study(case):
    case.run(*STUDY, "-o", "r")
    case.run("report", "r", "--metrics", "m.prom")
    found = metrics(case.path("m.prom"))
    times = {}
    for record in records_of(case.path("r")):
        series = {s["name"]: s["samples"] for s in record["series"]}
        times.setdefault(str(record["axes"]["devices"]), []).append(series["step_time"][0])
    for devices, samples in times.items():
        value = {labels["statistic"]: value for labels, value in found["amdahl_step_time_seconds"]
                 if labels["devices"] == devices}
        assert abs(value["median"] - sorted(samples)[1] * 1e-6) < 1e-12, value
        assert abs(value["mean"] - sum(samples) / 3e6) < 1e-12, value
        assert [v for labels, v in found["amdahl_step_time_seconds_samples"] if labels["devices"] == devices] == [3]
    verdicts = {labels["verdict"]: value for labels, value in found["amdahl_verdict"]}
    assert sorted(verdicts) == ["FASTER", "SAME", "SLOWER", "UNCLEAR"] and sum(verdicts.values()) == 1
    told = json.loads(case.run("report", "r", "--json").stdout)["comparisons"][0]["speedup"]["verdict"]
    assert verdicts[told] == 1, (verdicts, told)
    assert all(labels["device_kind"] == "cpu-virtual" for labels, _ in found["amdahl_records"])


def check_metrics_of_other_verbs(case):
    case.run("links", "--backend", "cpu", "-q", "-b", "256K", "--copies", "1", "-i", "2", "-t",
             "device_to_device_memcpy_write_ce", "-o", "l")
    case.run("report", "l", "--metrics", "links.prom")
    assert len(metrics(case.path("links.prom"))["amdahl_bandwidth_bytes_per_second"]) == 2 * 2
    case.run("collectives", "--backend", "cpu", "-q", "-b", "1K", "-e", "2K", "-n", "3", "-o", "c")
    case.run("report", "c", "--metrics", "c.prom")
    assert any(name.endswith("_seconds") for name in metrics(case.path("c.prom")))
    case.run("sensor", "bench", "--backend", "cpu", "-q", "--op", "voxelize", "--points", "1000", "--grid", "8", "--samples",
             "2", "--calls", "1", "-o", "s")
    case.run("report", "s", "--metrics", "s.prom")
    assert any(name.endswith("_seconds") for name in metrics(case.path("s.prom")))
    case.run("train", "--backend", "cpu", "-q", "--epochs", "2", "--batch-size", "512", "-o", "t")
    case.run("report", "t", "--metrics", "t.prom")
    trained = metrics(case.path("t.prom"))
    last = {s["name"]: s["samples"] for s in records_of(case.path("t"))[-1]["series"]}
    assert {value for _, value in trained["amdahl_train_loss"]} == {last["train_loss"][0]}


def check_metrics_file_is_replaced_whole(case):
    case.path("m.prom").write_text("old")
    case.run(*STUDY, "-o", "r")
    case.run("report", "r", "--metrics", "m.prom")
    assert metrics(case.path("m.prom"))
    assert sorted(path.name for path in case.folder.iterdir()) == ["m.prom", "r"]


def check_wrong_metrics_files(case):
    case.path("folder.prom").mkdir()
    case.run(*STUDY, "-o", "r")
    for file, says in (("m.txt", ".prom"), ("nowhere/m.prom", "there is no folder nowhere"), ("folder.prom", "is a folder")):
        case.refused(2, "usage", "report", "r", "--metrics", file, says=["--metrics", says])


harness.main(globals())
