"""The columns of every table divide: throughput x time = work, speedup = ratio of the two rows' times, cost = price over work.
Every number that two pages show of the same data is the same, each row has one verdict and one count of further runs, and the
tables of every command fit 80 and 120 columns. Texts are read as they are printed, and JSON as it is written."""
import json
import re
import statistics

import harness
from harness import SOURCE, lines_of
import study_fixture
from table_text import check_fits, check_one_verdict, near, number, rows_with, tables

PRICES = 'currency = "EUR"\n[[device]]\nmatch = "%s"\nhourly_price = 0.5\n'
# ---- studies ----


def check_study_rows(text, summary):
    """The comparisons of a study: throughputs, speedup and efficiency of each row, in the text and in the JSON."""
    heads = ("Global batch", "Devices", "One device (samples/s)", "Several (samples/s)", "Speedup", "Efficiency")
    rows = rows_with(text, *heads)
    assert len(rows) == len(summary["comparisons"]), (len(rows), len(summary["comparisons"]))
    for row in rows:
        one, several, speedup = (number(row[head]) for head in heads[2:5])
        assert near(several / one, speedup), f"{several} / {one} is not {speedup}: {row}"
        assert near(100 * speedup / number(row["Devices"]), number(row["Efficiency"])), row
    cells = {json.dumps(cell["key"], sort_keys=True): cell for cell in summary["cells"]}
    for cell in summary["cells"]:
        time, rate = cell["step_time_us"], cell["throughput_samples_per_s"]
        assert near(rate["value"] * time["median"], 1e6 * cell["key"]["global_batch"], 1e-9), cell["key"]
        if "ci" in rate:
            assert near(rate["ci"]["low"] * time["median_ci"]["high"], 1e6 * cell["key"]["global_batch"], 1e-9)
    for c in summary["comparisons"]:
        one, many = (cells[json.dumps(c[side], sort_keys=True)] for side in ("single", "multi"))
        ratio = many["throughput_samples_per_s"]["value"] / one["throughput_samples_per_s"]["value"]
        assert near(ratio, c["speedup"]["ratio"], 1e-9), (ratio, c["speedup"])
        assert near(c["efficiency"] * c["multi"]["devices"], ratio, 1e-9)


def report_of(case, folder, *words):
    text = case.run("report", folder, *words).stdout
    return text, json.loads(case.run("report", folder, *words, "--json").stdout)


def check_studies_divide(case):
    study_fixture.study(case.path("run"))
    text, summary = report_of(case, "run")
    check_study_rows(text, summary)
    check_one_verdict(text)
    best = max(summary["comparisons"], key=lambda c: c["speedup"]["ratio"])
    assert f"{best['speedup']['ratio']:.2f} times" in text.splitlines()[0], f"the headline is not the best row:\n{text}"
    check_fits(case, "report", "run")


def check_measured_studies_divide(case):
    for scaling in ("strong", "weak"):
        case.run("study", "--backend", "cpu", "--batch-sizes", "16,64", "--devices", "1,2", "--warmup", "1", "--steps", "3",
                 "--runs", 6, "--scaling", scaling, "-q", "-o", scaling)
        text, summary = report_of(case, scaling)
        check_study_rows(text, summary)
        check_one_verdict(text)
        if summary.get("warnings"):
            assert text.startswith("warning: "), f"a busy host is not the first line:\n{text}"
        assert "the host was busy" not in text.split("\nNotes")[-1] or "\nNotes" not in text, text


def check_one_device_divides(case):
    study_fixture.study(case.path("run"), devices=(1,), batches=(64, 128, 256))
    text, _ = report_of(case, "run")
    for row in rows_with(text, "Global batch", "Throughput", "Step time"):
        assert near(number(row["Throughput"]) * number(row["Step time"]), 1e6 * number(row["Global batch"])), row
    check_one_verdict(text)
    check_fits(case, "report", "run")


def check_few_runs_say_so(case):
    study_fixture.study(case.path("run"), devices=(1, 2), batches=(64,), runs=3)
    text, summary = report_of(case, "run")
    assert "too few runs (2 more)" in text, text
    assert " [n/a]" in text and "CI [" not in text, text
    assert "ci" not in summary["comparisons"][0]["speedup"], summary["comparisons"]
    case.run("study", "--backend", "cpu", "--batch-sizes", "16", "--devices", "1,2", "--warmup", "1", "--steps", "2", "--runs", 2,
             "-q", "-o", "short")
    text = case.run("report", "short").stdout
    assert "too few runs (3 more)" in text, text
    assert not re.search(r"±|\+- *\d", text), text


# ---- costs ----


def cost_of(case, *words):
    return (case.run("report", *words, "--prices", "p.toml").stdout,
            json.loads(case.run("report", *words, "--prices", "p.toml", "--json").stdout))


def check_cost_rows(text, found):
    for row in found["rows"]:
        assert near(row["work_per_hour"], 3600 * row["throughput_per_s"], 1e-9), row
        if "price_per_hour" in row:
            assert near(row["work_per_price"] * row["price_per_hour"], row["work_per_hour"], 1e-9), row
        if "gain" in row:
            one = found["rows"][row["gain"]["baseline"]]
            assert near(row["throughput_per_s"] / one["throughput_per_s"], row["gain"]["speedup"], 1e-9), row
            assert near(row["gain"]["break_even_speedup"], row["price_per_hour"] / one["price_per_hour"], 1e-9), row
    unit = found["rows"][0]["unit"]
    for row in rows_with(text, f"{unit}/s", f"{unit}/h", "EUR/h", f"{unit}/EUR"):
        assert near(number(row[f"{unit}/s"]) * 3600, number(row[f"{unit}/h"])), row
        assert near(number(row[f"{unit}/EUR"]) * number(row["EUR/h"]), number(row[f"{unit}/h"])), row


def check_costs_divide_and_agree_with_the_study(case):
    watt = 700
    study_fixture.study(case.path("run"), watt=watt)
    case.write("p.toml", PRICES % "NVIDIA Test")
    text, found = cost_of(case, "run")
    check_cost_rows(text, found)
    summary = report_of(case, "run")[1]
    speedups = {(c["multi"]["global_batch"], c["multi"]["devices"]): c["speedup"] for c in summary["comparisons"]}
    for row in found["rows"]:
        assert near(row["joule_per_work"] * row["throughput_per_s"], watt * row["devices"], 0.002), "J/sample x samples/s is no power"
        if "gain" in row:
            speedup = speedups[row["size"], row["devices"]]
            assert row["gain"]["speedup"] == speedup["ratio"] and row["gain"]["speedup_ci"] == speedup["ci"], \
                f"two intervals for the same data: {row['gain']}, {speedup}"
    case.run("report", "run")
    if case.path("run/summary.json").exists():  # of the summary alone, the same
        alone = cost_of(case, "run/summary.json")[1]
        for a, b in zip(found["rows"], alone["rows"]):
            assert (a["throughput_per_s"], a.get("gain", {}).get("speedup_ci")) == \
                   (b["throughput_per_s"], b.get("gain", {}).get("speedup_ci")), (a, b)
    check_fits(case, "report", "run", "--prices", "p.toml")


# ---- comparisons ----


def check_comparisons_divide(case):
    study_fixture.study(case.path("a"), devices=(1,), batches=(64, 512))
    study_fixture.study(case.path("b"), devices=(1,), batches=(64, 512), seed=2, parameters=2021379)
    text = case.run("compare", "a", "b").stdout
    for row in rows_with(text, "A", "B", "B over A"):
        assert near(number(row["A"]) / number(row["B"]), number(row["B over A"])), row
    check_one_verdict(text)
    found = json.loads(case.run("compare", "a", "b", "--json").stdout)
    for cell in found["cells"]:
        assert near(cell["a"]["median"] / cell["b"]["median"], cell["b_over_a_speed"]["ratio"], 1e-9), cell
    check_fits(case, "compare", "a", "b")


# ---- sensors ----


def with_stragglers(case, folder):
    """Every fifth sample of time takes three times as long, and its rates are a third: means of both do not divide."""
    lines = lines_of(case.path(folder))
    for line in lines:
        if line["type"] != "record":
            continue
        for series in line["series"]:
            if len(series["samples"]) < 5 or series["name"] not in ("time", "throughput", "bandwidth"):
                continue
            factor = 3 if series["name"] == "time" else 1 / 3
            series["samples"] = [value * (factor if i % 5 == 0 else 1) for i, value in enumerate(series["samples"])]
    case.write(f"{folder}/records.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def check_sensors_divide(case):
    case.run("sensor", "bench", "--mode", "data", "--devices", "1,2", "--points", 20000, "--samples", 11, "--voxel-modes", "count,mean",
             "--grid", 32, "-q", "-o", "s")
    with_stragglers(case, "s")
    text = case.run("report", "s").stdout
    one = {}
    for row in rows_with(text, "Workload", "Voxels", "Devices", "Time", "Throughput", "Speedup", "Efficiency"):
        time = number(row["Time"])
        head = next(name for heads, lines in tables(text) for name in heads if name.startswith("Throughput"))
        factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(re.search(r"\((.)", head).group(1), 1)
        assert near(number(row["Throughput"]) * factor * time, 20000 * 1e6), row
        key = (row["Workload"], row["Voxels"])
        if row["Devices"] == "1":
            one[key] = time
        else:
            assert near(one[key] / time, number(row["Speedup"])), (one[key], row)
            assert near(100 * number(row["Speedup"]) / number(row["Devices"]), number(row["Efficiency"])), row
    for row in rows_with(text, "Devices", "Time", "Merge (us)", "Merge (%"):
        if row["Devices"] == "2":
            assert near(number(row["Merge (us)"]) / number(row["Time"]), number(row["Merge (%"]) / 100), \
                f"the merge is not of the time: {row}"
    check_fits(case, "report", "s")
    best = max(number(row["Speedup"]) for row in rows_with(text, "Devices", "Speedup") if row["Devices"] == "2")
    assert f"{best:.2f}" in "\n".join(text.splitlines()[:4]), f"the headline is not the best row, {best}:\n{text}"
    check_sensor_comparison(case)


def check_sensor_comparison(case):
    case.write("p.toml", PRICES % "cpu-virtual")
    words = ("compare", "--single", "s", "--multi", "s", "--prices", "p.toml")
    check_one_verdict(case.run(*words).stdout)
    found = json.loads(case.run(*words, "--json").stdout)
    records = [line for line in lines_of(case.path("s")) if line["type"] == "record"]
    times = {(r["axes"]["voxel_mode"], r["axes"]["devices"]): statistics.median(
        next(s["samples"] for s in r["series"] if s["name"] == "time")) for r in records}
    for workload in found["workloads"]:
        baseline = workload["rows"][0]
        for row in workload["rows"]:
            rate = row["throughput"]["value"]
            assert near(rate * times[row["axes"]["voxel_mode"], row["axes"]["devices"]], 20000 * 1e6, 1e-9), row
            assert near(row["work_per_hour"], 3600 * rate, 1e-9)
            assert near(row["cost"]["work_per_price"] * row["cost"]["hourly_price"], row["work_per_hour"], 1e-9), row
            if "speedup" in row:
                assert near(rate / baseline["throughput"]["value"], row["speedup"]["ratio"], 1e-9), row
    check_fits(case, *words)
    check_cost_rows(*cost_of(case, "s"))


def check_unlike_devices_divide(case):
    bench = ("sensor", "bench", "--op", "voxelize", "--points", 20000, "--grid", 16, "--samples", 5, "--voxel-modes", "count", "-q")
    case.run(*bench, "--mode", "hetero", "--devices", 2, "--device-speeds", "1,0.5", "-o", "h")
    text = case.run("report", "h").stdout
    rows = rows_with(text, "Method", "Time", "Speedup", "Time / bound", "Bound")
    one = next(number(row["Time"]) for row in rows if row["Method"] == "one-device")
    for row in rows:
        assert near(one / number(row["Time"]), number(row["Speedup"])), (one, row)
        assert near(number(row["Time"]) / number(row["Bound"]), number(row["Time / bound"])), row
    case.run(*bench, "--mode", "data", "--devices", "1,2", "-o", "s")
    sides = ("compare", "--single", "s", "--multi", "s", "--hetero", "h")
    check_one_verdict(case.run(*sides).stdout)
    workload, = json.loads(case.run(*sides, "--json").stdout)["workloads"]
    baseline = workload["rows"][0]["throughput"]["value"]
    assert len(workload["rows"]) > 4, workload["rows"]
    for row in workload["rows"]:
        if "speedup" in row:
            assert near(row["throughput"]["value"] / baseline, row["speedup"]["ratio"], 1e-9), row
    for words in (("report", "h"), sides, ("compare", "h", "h")):
        check_fits(case, *words)


# ---- fabric ----


def check_collectives_divide(case):
    for processes in (1, 2):
        folder = f"c{processes}"
        case.run("collectives", "--backend", "cpu", "--collective", "all_reduce,all_gather", "-b", "1K", "-e", "64K", "-f", 8, "-n", 5,
                 "--processes", processes, "-q", "-o", folder)
        text = case.run("report", folder).stdout
        for _, lines in tables(text):
            for row in lines:
                size = next((v for k, v in row.items() if k.startswith("Size (bytes)")), None)
                time = next((v for k, v in row.items() if k.startswith("Time (us)")), None)
                rate = next((v for k, v in row.items() if k.startswith("Algorithm (GB/s)")), None)
                if size and time and rate:
                    assert near(number(size) / number(time) * 1e-3, number(rate)), row
        assert rows_with(text, "Size (bytes)", "Time (us)", "Algorithm (GB/s)")
        check_fits(case, "report", folder)


def check_links_show_what_they_measured(case):
    case.run("links", "--backend", "cpu", "--devices", 2, "-t", "memory_under_traffic,sweep", "-b", "256K", "-q", "-o", "l")
    text = case.run("report", "l").stdout
    block = text[text.index("memory_under_traffic: GB/s"):].splitlines()[:4]
    assert all(len(re.findall(r"\d", line)) > 2 and " -" not in line for line in block[2:]), block
    assert "with traffic" in block[1] and "alone" in block[1], block
    assert "+0.0" not in text.replace("+0.00", ""), text
    check_fits(case, "report", "l")


ONESIDED = ("collectives", "--backend", "cpu", "-q", "--samples", 2, "--least-sample-us", 50, "--ranks", "threads")


def check_onesided_divides(case):
    kinds = {"operations": ("--operations", "put,all_reduce", "-b", 8, "-e", 16), "gemm": ("--shapes", "8x8x8", "--tiles", 1),
             "norm": ("--shapes", "4x64"), "patterns": (), "locality": ("-b", "256K", "-e", "256K")}
    texts = {}
    for kind, words in kinds.items():
        case.run(*ONESIDED, f"--onesided={kind}", *words, "-o", kind, timeout=120)
        texts[kind] = case.run("report", kind).stdout
        check_fits(case, "report", kind)
    for row in rows_with(texts["operations"], "Bytes", "Latency, median", "Bandwidth"):
        assert near(number(row["Bytes"]) / number(row["Latency, median"]) * 1e-3, number(row["Bandwidth"])), row
    gemms = re.findall(r"^\w+_\w+ +\S.*?  +\S+  +([\d.,]+)  +[\d.,]+  +([\d.,]+)", texts["gemm"], re.MULTILINE)
    assert len(gemms) > 4, texts["gemm"]
    for time, rate in gemms:
        assert near(2 * 8**3 / number(time) * 1e-3, number(rate)), (time, rate)
    for row in rows_with(texts["locality"], "Bytes", "Passes", "Time, median", "Bandwidth"):
        moved = number(row["Bytes"]) * number(row["Passes"])
        assert near(moved / number(row["Time, median"]) * 1e-3, number(row["Bandwidth"])), row
    first = {}
    for row in rows_with(texts["patterns"], "Pattern", "Time, median", "Speedup over the first"):
        one = first.setdefault(row["Pattern"], number(row["Time, median"]))
        assert near(one / number(row["Time, median"]), number(row["Speedup over the first"])), row
    check_fits(case, "compare", "operations", twice_as_slow(case, "operations"))
    for row in rows_with(case.run("compare", "operations", "slow").stdout, "bytes", "A", "B"):
        assert near(2 * number(row["A"]), number(row["B"])), row


def twice_as_slow(case, folder):
    """A copy of a run in which everything took twice as long."""
    case.path("slow").mkdir()
    lines = lines_of(case.path(folder))
    for line in lines:
        for series in line.get("series", []):
            series["samples"] = [value * (2 if series["unit"] == "us" else 1) for value in series["samples"]]
    return case.write("slow/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines)).split("/")[0]


# ---- predictions ----


def check_assumed_predictions_say_so(case):
    words = ("plan", "--model", "large", "--batch-size", 512, "--math", "bf16", "--what-if", "gpus=4,gpu=h200")
    text = case.run(*words).stdout
    assert text.startswith("warning: Nothing was measured"), text
    assert "range (assumed)" in text and "95 % interval" not in text, text
    assert not re.search(r"(?<!would )\b(pays|does not pay)\b", text), text
    found = json.loads(case.run(*words, "--json").stdout)
    one = next(a for a in found["by_devices"] if a["devices"] == 1)
    for answer in found["by_devices"]:
        assert near(one["step_us"] / answer["step_us"], answer["speedup"], 1e-9), answer


def check_outlook_divides(case):
    study_fixture.study(case.path("g"), devices=(1,), batches=(32, 64, 256))
    words = ("report", "g", "--assume-devices", "2,4", "--link", "nvlink4")
    for prediction in json.loads(case.run(*words, "--json").stdout)["predictions"]:
        assert near(prediction["single_us"] / prediction["step_us"], prediction["speedup"], 1e-9), prediction
    text = case.run(*words).stdout
    terms = ("T1(B/n)", "latency", "bytes", "joins")
    for row in rows_with(text, "T1(B) us", *terms, "step", "speedup"):
        assert near(number(row["T1(B) us"]) / number(row["step"]), number(row["speedup"]), 0.02), row
        assert near(sum(number(row[term]) for term in terms), number(row["step"]), 0.01), row
    check_one_verdict(text)
    check_fits(case, *words)


def check_other_tables_fit(case):
    case.run("train", "--model", "medium", "--backend", "cpu", "--epochs", 3, "-q", "-o", "t")
    text = case.run("report", "t").stdout
    for row in rows_with(text, "Epoch", "Throughput", "Time (s)"):
        assert near(number(row["Throughput"]) * number(row["Time (s)"]),
                    number(rows_with(text, "Epoch", "Throughput", "Time (s)")[0]["Throughput"]) *
                    number(rows_with(text, "Epoch", "Throughput", "Time (s)")[0]["Time (s)"]), 0.02), text
    assumed = ("plan", "--model", "medium", "--batch-size", 512, "--what-if", "gpus=8,gpu=h200")
    measured = (SOURCE / "tests/data/planner/measured_a100_multi.csv").read_text().splitlines(True)
    for words in (("report", "t"), ("info",), ("plan", "--list", "--model", "medium"), assumed, (*assumed, "--plan", "dp4.tp2,m4"),
                  ("plan", "--advise=study", "--params", "6.9M", "--batch-size", 64),
                  ("plan", "--assume-devices", "2,4", "--what-if", "gpu=h200"),
                  ("plan", "--validate", case.write("measured.csv", "".join(measured[:13]))), ("doctor", "--backend", "cpu"),
                  ("help",), *((command, "--help-all") for command in ("study", "train", "plan", "collectives", "report"))):
        check_fits(case, *words)


def check_verified_plans_and_resampled_streams_fit(case):
    case.run("calibrate", "--backend", "cpu", "--devices", "2", "--seconds", "1", "--machine", "c.json", "-q")
    check_fits(case, "plan", "--model", "medium", "--machine", "c.json", "--verify", "--seconds", "4", "--plan", "dp1", "tp2")
    rows = "".join(f"{i / 10},{47.3977418 + i * 1e-7:.9f},{i}\n" for i in range(20))
    check_fits(case, "sensor", "resample", case.write("gps.csv", f"time,latitude,altitude\n{rows}"), "--rate", "20", "--backend", "cpu")


harness.main({name: check for name, check in globals().items() if name.startswith("check_") and name not in (
    "check_one_verdict", "check_fits", "check_study_rows", "check_cost_rows", "check_sensor_comparison")})
