"""`amdahl cost`: work per hour and for the money, break-evens and alternatives, as text, Markdown, a page and JSON that fits its
schema; and price files and runs that cannot be used refused by one line."""
import json
import warnings

import harness
from harness import SOURCE, lines_of

warnings.simplefilter("ignore", DeprecationWarning)  # RefResolver is what Debian 12 has
try:
    import jsonschema
except ImportError:
    jsonschema = None
    print("   skipped: validation against docs/schema, jsonschema is not installed (Debian: python3-jsonschema)")

PRICES = SOURCE / "data" / "prices.toml"
RENTED = 'currency = "EUR"\n[[device]]\nmatch = "cpu-virtual"\nhourly_price = 0.5\n'
USAGE = (2, "usage")


def valid(document):
    if jsonschema is None:
        return
    schemas = {path.name: json.loads(path.read_text()) for path in (SOURCE / "docs" / "schema").glob("*.json")}
    schema = schemas["cost.schema.json"]
    store = {s["$id"]: s for s in schemas.values()}
    jsonschema.Draft7Validator(schema, resolver=jsonschema.RefResolver(schema["$id"], schema, store=store)).validate(document)


def study(case, folder="run", steps=((16, 1, 100), (16, 2, 200), (64, 1, 100), (64, 2, 25))):
    """A study with step times in us of (batch, devices) that are made up, within 0.4 %."""
    case.run("study", "--backend", "cpu", "--batch-sizes", "16,64", "--devices", "1,2", "--warmup", "1", "--steps", "2",
             "--runs", 5, "-q", "-o", folder)
    times = {(batch, devices): step for batch, devices, step in steps}
    lines = lines_of(case.path(folder))
    for line in lines:
        if line["type"] == "record":
            axes = line["axes"]
            step = times[axes["global_batch"], axes["devices"]] * (1 + 0.001 * (axes["run"] % 5))
            values = {"step_time": step, "throughput": axes["global_batch"] / step * 1e6}
            for series in line["series"]:
                series["samples"] = [values.get(series["name"], series["samples"][0])]
    case.write(f"{folder}/records.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    case.run("report", folder, "--write")
    return folder


def cost(case, *words, prices="p.toml"):
    found = json.loads(case.run("report", *words, "--prices", prices, "--json").stdout)
    valid(found)
    return found


def row(found, size, devices):
    return next(r for r in found["rows"] if (r["size"], r["devices"]) == (size, devices))


def check_rented(case):
    case.write("p.toml", RENTED)
    found = cost(case, study(case))
    assert found["prices"] == {"file": "p.toml", "currency": "EUR"} and len(found["rows"]) == 4, found
    one, two = row(found, 64, 1), row(found, 64, 2)
    assert (one["price_per_hour"], two["price_per_hour"]) == (0.5, 1.0)
    assert abs(one["work_per_price"] - one["throughput_per_s"] * 3600 / 0.5) <= 1e-6 * one["work_per_price"]
    assert two["gain"]["payoff"] == "pays" and abs(two["gain"]["speedup"] - 4) < 1e-6, two
    assert row(found, 16, 2)["gain"]["payoff"] == "does not pay"
    [curve] = found["break_evens"]
    assert curve["over"] == "global_batch" and curve["faster"] == {"from": 64, "below": 16, "largest": 64}, curve
    assert abs(curve["by_price"]["value"] - 16 * 4 ** (2 / 3)) < 0.01, curve  # 0.5x to 4x: 2x after two thirds
    assert (row(found, 16, 2)["gain"]["recommendation"], two["gain"]["recommendation"]) == ("single", "multi"), found
    assert all("joule_per_work" not in r for r in found["rows"])


def check_the_summary_alone(case):
    case.write("p.toml", RENTED)
    run = study(case)
    assert [r["throughput_per_s"] for r in cost(case, run)["rows"]] == \
           [r["throughput_per_s"] for r in cost(case, f"{run}/summary.json")["rows"]]


def check_text_markdown_and_page(case):
    run = study(case)
    text = case.run("report", run, "--prices", PRICES).stdout
    for words in ("Several devices pay in 1, do not pay in 1 of 2 measured cases", "measured on CPU virtual devices, not GPUs",
                  f"are examples, those of {PRICES} as of", "samples/USD", "USD/h", "not measured",
                  "Alternatives for the same money: modelled", "global batch", "Break-even"):
        assert words in text, (words, text)
    markdown = case.run("report", run, "--prices", PRICES, "--md", "-").stdout
    assert "\n> Several devices pay in 1" in markdown and "## How it was computed" in markdown, markdown
    result = case.run("report", run, "--prices", PRICES, "--html", "cost.html")
    assert "page: cost.html" in result.stderr
    page = case.path("cost.html").read_text()
    assert "Several devices pay in 1" in page and "cost-1" in page and "modelled" in page
    case.refused(*USAGE, "report", run, "--prices", PRICES, "--html", "nowhere/cost.html", says=["nowhere"])


def check_never_in_the_measured_range(case):
    case.write("p.toml", RENTED)
    run = study(case, steps=((16, 1, 100), (16, 2, 300), (64, 1, 100), (64, 2, 200)))
    found = cost(case, run)
    assert {b["by_price"]["answer"] for b in found["break_evens"]} == {"never"}, found["break_evens"]
    assert all("value" not in b["by_price"] and "faster" not in b for b in found["break_evens"])
    assert "never in the measured range; measured from 16" in case.run("report", run, "--prices", "p.toml").stdout


def check_sensors(case):
    case.write("p.toml", RENTED)
    case.write("sensor.json", case.run("sensor", "bench", "--backend", "cpu", "--op", "voxelize", "--mode", "data", "--devices",
                                       "1,2", "--voxel-modes", "count", "--points", "4000,16000", "--grid", "16", "--samples",
                                       "4", "-q", "-o", "s", "--json").stdout)
    for run in ("sensor.json", "s"):
        found = cost(case, run)
        assert {(r["size"], r["devices"]) for r in found["rows"]} == {(4000, 1), (4000, 2), (16000, 1), (16000, 2)}, found["rows"]
        assert {r["unit"] for r in found["rows"]} == {"points"} and len({r["work"] for r in found["rows"]}) == 1
        assert {b["over"] for b in found["break_evens"]} == {"items"}
    both = cost(case, "sensor.json", study(case))
    assert {r["unit"] for r in both["rows"]} == {"points", "samples"}


def check_bought_hardware_and_machines(case):
    case.write("p.toml", 'amortisation_years = 2\nutilisation = 0.5\n[[device]]\nmatch = "cpu-virtual"\npurchase_price = 8766\n'
                         '[[machine]]\ndevices = 1\npurchase_price = 0\n[[machine]]\ndevices = 2\npurchase_price = 8766\n')
    found = cost(case, study(case))
    one, two = row(found, 64, 1), row(found, 64, 2)
    assert abs(one["price_per_hour"] - 1) < 1e-9 and abs(two["price_per_hour"] - 3) < 1e-9 and two["owned"], two
    gain = two["gain"]
    assert abs(gain["break_even_speedup"] - 3) < 1e-9 and gain["further_purchase"] == 2 * 8766
    assert abs(gain["payback_months"] - 2 * 8766 / (3 * 365.25)) < 0.01, gain
    assert row(found, 16, 2)["gain"]["never_paid_back"] is True


def check_results_of_the_project(case):
    for runs, unit in ((("results/cpu/two-devices",), "samples"),
                       (("results/h200/large-6.9m", "results/h200/large-6.9m-zero1", "results/h200/medium-258k"), "samples"),
                       (("results/h200/sensor/fuse-strong.json.gz",), "batches")):
        found = cost(case, *(SOURCE / run for run in runs), prices=PRICES)
        assert {r["unit"] for r in found["rows"]} == {unit} and found["prices"]["currency"] == "USD"
        assert all("work_per_price" in r for r in found["rows"]), runs
        case.run("report", *(SOURCE / run for run in runs), "--prices", PRICES)


def check_bad_prices(case):
    run = study(case)
    device = '[[device]]\nmatch = "cpu-virtual"\nhourly_price = 1\n'
    for text, says in (("utilisation = 0\n" + device, ["p.toml:1", "utilisation"]),
                       ("utilisation = 1.5\n" + device, ["p.toml:1", "utilisation"]),
                       ("amortisation_years = 1\namortisation_months = 1\n" + device, ["amortisation_years with"]),
                       (device + "[[machine]]\ndevices = 0\npurchase_price = 1\n", ["p.toml:5", "devices"]),
                       (device + "[[machine]]\ndevices = 2\n", ["p.toml:4", "[[machine]]"]),
                       (device + "[[machine]]\ndevices = 2\npurchase_price = 1\n" * 2, ["p.toml:7", "there already"]),
                       (device + "machine = 3\n", ["unknown", "'machine'"]),
                       (device + '[[alternative]]\nname = "x"\n', ["p.toml:4", "[[alternative]]"]),
                       (device + '[[alternative]]\nname = "x"\npurchase_price = 1\ngain_low = 0.2\n', ["range of gain"]),
                       (device + '[[alternative]]\nname = "x"\npurchase_price = 1\ngain_low = 0.2\ngain_high = 0.1\n', ["range"]),
                       (device + '[[alternative]]\nname = "x"\npurchase_price = 1\npart = "disk"\n', ["part 'disk'"]),
                       (device + '[[alternative]]\nname = "x"\npurchase_price = 1\nreplaces_device = 1\n', ["p.toml:7", "true"]),
                       (device + '[[alternative]]\nname = "x"\npurchase_price = -1\n', ["purchase_price is -1"])):
        case.write("p.toml", text)
        case.refused(*USAGE, "report", run, "--prices", "p.toml", says=says)
    case.refused(*USAGE, "report", run, "--prices", "no.toml", says=["no.toml"])


def check_bad_runs(case):
    run = study(case)
    case.run("train", "--backend", "cpu", "--epochs", "1", "-q", "-o", "t")
    for runs, says in (((), ["runs"]), (("nowhere",), ["nowhere"]), (("t",), ["t is a train run"]), ((run, run), ["twice"]),
                       ((run, SOURCE / "results/h200/medium"), ["device kinds differ"]),
                       ((SOURCE / "tests/cli/fixtures/robocache_single.json",), ["RoboCache"])):
        case.refused(*USAGE, "report", *runs, "--prices", PRICES, says=says)
    case.refused(*USAGE, "report", run, "--prices", PRICES, "--md", "-", "--json", says=["--md with --json"])
    case.write("q.toml", '[[device]]\nmatch = "H100"\nhourly_price = 1\n')
    found = cost(case, run, prices="q.toml")
    assert any("no price of 'cpu-virtual'" in note for note in found["notes"]), found["notes"]
    lines = lines_of(case.path(run))
    lines[-1]["axes"].pop("global_batch")
    case.write(f"{run}/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    case.refused(5, "store-corrupt", "report", run, "--prices", PRICES, says=["records.jsonl", "global_batch"])


harness.main(globals())
