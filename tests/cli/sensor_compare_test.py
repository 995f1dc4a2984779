"""`amdahl compare` of sensor runs: --single, --multi and --hetero against a price table, as text, Markdown and JSON that
fits its schema; two sensor runs cell by cell; and everything that cannot be compared refused by one line. The numbers of
the fixtures are made up (tests/support/sensor_records.h)."""
import copy
import json
import statistics

import harness

FIXTURES = harness.SOURCE / "tests" / "cli" / "fixtures"
PRICES = harness.SOURCE / "data" / "prices.toml"
USAGE = (2, "usage")


def fixture(case, name, change=lambda document: None, to=None):
    document = json.loads((FIXTURES / f"sensor_{name}.json").read_text())
    change(document)
    return case.write(to or f"{name}.json", json.dumps(document))


def sides(case):
    for name in ("h100", "a100", "2xh100", "2xa100", "hetero"):
        fixture(case, name)
    return ("--single", "h100.json", "a100.json", "--multi", "2xh100.json", "2xa100.json", "--hetero", "hetero.json")


def compared(case, *words):
    return json.loads(case.run("compare", *words, "--json").stdout)


def samples(name, series, op):
    records = json.loads((FIXTURES / f"sensor_{name}.json").read_text())["records"]
    return next(s["samples"] for r in records if r["axes"]["op"] == op for s in r["series"] if s["name"] == series)


def rate(run, op):
    """Work over the median time; throughput x time is the work of every sample."""
    times = samples(run, "time", op)
    return samples(run, "throughput", op)[0] * times[0] / statistics.median(times)


def near(found, expected, what):
    assert abs(found - expected) <= 1e-9 * abs(expected), f"{what}: {found}, not {expected}"


def check_numbers_from_the_files_alone(case):
    found = compared(case, *sides(case), "--prices", PRICES)
    assert found["prices"] == {"file": str(PRICES), "currency": "USD", "as_of": found["prices"]["as_of"]}
    assert [w["axes"]["op"] for w in found["workloads"]] == ["fuse", "voxelize"], found
    hourly = {"h100.json": 3.5, "a100.json": 2.5, "2xh100.json": 7, "2xa100.json": 5, "hetero.json": 6}
    for workload in found["workloads"]:
        op, rows = workload["axes"]["op"], {row["run"]: row for row in workload["rows"]}
        assert list(rows) == list(hourly) and workload["baseline"] == 0, list(rows)
        alone = {name: rate(name, op) for name in ("h100", "a100")}
        for run, row in rows.items():
            own = rate(run.removesuffix(".json"), op)
            near(row["throughput"]["value"], own, run)
            assert row["throughput"]["n"] == 10 and row["throughput"]["ci"]["low"] < own < row["throughput"]["ci"]["high"]
            near(row["work_per_hour"], 3600 * own, run)
            near(row["cost"]["hourly_price"], hourly[run], run)
            near(row["cost"]["work_per_price"], 3600 * own / hourly[run], run)
        for run in ("2xh100", "2xa100"):  # strong scaling: T1 / Tn, over the best single result
            ratio = statistics.median(samples("h100", "time", op)) / statistics.median(samples(run, "time", op))
            near(rows[f"{run}.json"]["speedup"]["ratio"], ratio, run)
        near(rows["2xh100.json"]["efficiency"], rows["2xh100.json"]["speedup"]["ratio"] / 2, "2xh100")
        near(rows["2xa100.json"]["efficiency"], rate("2xa100", op) / (2 * alone["a100"]), "2xa100")
        hetero = rate("hetero", op)
        near(rows["hetero.json"]["speedup"]["ratio"], hetero / alone["h100"], "hetero")
        near(rows["hetero.json"]["efficiency"], hetero / (alone["h100"] + alone["a100"]), "hetero")
        assert "speedup" not in rows["h100.json"] and "recommendation" not in rows["a100.json"]
        best = max(workload["rows"], key=lambda row: row["cost"]["work_per_price"])
        assert workload["rows"][workload["best_per_price"]] is best
    fuse, voxelize = found["workloads"]
    assert (fuse["recommendation"], voxelize["recommendation"]) == ("multi", "marginal")
    assert fuse["rows"][fuse["best_throughput"]]["run"] == "2xh100.json"
    assert voxelize["rows"][4]["recommendation"] == "single"


def check_text_and_markdown(case):
    words = sides(case)
    text = case.run("compare", *words, "--prices", PRICES).stdout
    for part in ("fuse f32 b4 30x512+100x64+200x12->50 hot graph", "multi-GPU beneficial", "1.66x [", "USD/h", "batches/USD",
                 "best throughput: 2x NVIDIA H100", "most for the price: 1x NVIDIA H100", "not measured"):
        assert part in text, f"'{part}' is not in {text}"
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("devices"))
    end = lines[start].index("batches/s [95 % CI]") + len("batches/s [95 % CI]")
    assert all(line[end - 1:end + 2] == "]  " for line in lines[start:start + 6]), "the table is not aligned"
    markdown = case.run("compare", *words, "--prices", PRICES, "--md", "-").stdout
    head = next(line for line in markdown.splitlines() if line.startswith("| devices"))
    assert markdown.startswith("# ") and markdown.count("|---") == 2 * (head.count("|") - 1), markdown
    plain = case.run("compare", *words).stdout
    assert "USD" not in plain and "--prices FILE" in plain, plain
    without = compared(case, *words)
    assert "prices" not in without and all("cost" not in row for w in without["workloads"] for row in w["rows"])


def check_schema(case):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    schemas = [json.loads(path.read_text()) for path in (harness.SOURCE / "docs" / "schema").glob("*.json")]
    store = {schema["$id"]: schema for schema in schemas}

    def validator(name):
        schema = next(s for s in schemas if s["$id"].endswith(f"/{name}.schema.json"))
        jsonschema.Draft7Validator.check_schema(schema)
        return jsonschema.Draft7Validator(schema, resolver=jsonschema.RefResolver(schema["$id"], schema, store=store))
    words = sides(case)
    check = validator("sensor-comparison")
    for name in ("h100", "hetero"):
        validator("records").validate(json.loads(case.path(f"{name}.json").read_text()))
    case.write("owned.toml", "amortisation_months = 36\n[[device]]\nmatch = \"H100\"\npurchase_price = 30000\n")
    for prices in ((), ("--prices", PRICES), ("--prices", "owned.toml")):
        found = compared(case, *words, *prices)
        check.validate(found)
    assert found["workloads"][0]["rows"][0]["cost"]["owned"] is True
    assert "cost" not in found["workloads"][0]["rows"][1] and any("A100" in note for note in found["notes"])
    validator("comparison").validate(compared(case, "h100.json", "h100.json"))
    for change, what in ((lambda d: d.update(version=2), "another version"), (lambda d: d.pop("notes"), "no notes"),
                         (lambda d: d.update(workloads=[]), "no workload"), (lambda d: d.update(surprise=1), "a new key"),
                         (lambda d: d["workloads"][0].pop("recommendation"), "no recommendation"),
                         (lambda d: d["workloads"][0].update(unit="batches"), "a unit without time"),
                         (lambda d: d["workloads"][0]["axes"].pop("op"), "a workload without op"),
                         (lambda d: d["workloads"][0]["rows"][0].update(efficiency=1), "efficiency of one device"),
                         (lambda d: d["workloads"][0]["rows"][2].pop("speedup"), "several devices without speedup"),
                         (lambda d: d["workloads"][0]["rows"][2].update(device_kind="gpu"), "an unknown device kind"),
                         (lambda d: d["workloads"][0]["rows"][0]["throughput"].pop("n"), "a rate without n"),
                         (lambda d: d["workloads"][0]["rows"][0]["cost"].update(hourly_price=0), "an hour for nothing"),
                         (lambda d: d["workloads"][0]["rows"][0]["cost"].update(work_per_price=None), "null")):
        changed = copy.deepcopy(found)
        change(changed)
        assert not check.is_valid(changed), f"accepted: {what}"


def check_two_runs_cell_by_cell(case):
    def slower(document):
        for record in document["records"]:
            for series in record["series"]:
                factor = 1.25 if series["unit"] == "us" else 0.8
                series["samples"] = [factor * sample for sample in series["samples"]]
    a, b = fixture(case, "2xh100"), fixture(case, "2xh100", slower, "slow.json")
    def processes(name, factor=1.0):
        """The same from five processes: copies of the file as runs of one side."""
        def change(p):
            def shift(document):
                for record in document["records"]:
                    for series in record["series"]:
                        times = series["unit"] == "us"
                        series["samples"] = [sample * (factor * (1 + 0.002 * p)) ** (1 if times else -1)
                                             for sample in series["samples"]]
            return shift
        return "+".join(fixture(case, "2xh100", change(p), f"{name}{p}.json") for p in range(5))
    assert {cell["a_over_b_speed"]["level"] for cell in compared(case, a, b)["cells"]} == {"none"}
    case.refused(*USAGE, "compare", a, b, "--fail-on-regression", "10", says=["one process", "--processes 5"])
    a, b = processes("a"), processes("b", 1.25)
    found = compared(case, a, b)
    assert (found["series"], found["unit"], len(found["cells"])) == ("time", "us", 2), found
    for cell in found["cells"]:
        near(cell["a_over_b_speed"]["ratio"], 1.25, "ratio")
        assert cell["a_over_b_speed"]["verdict"] == "FASTER" and cell["a_over_b_speed"]["n_first"] == 50, cell
    case.run("compare", a, b, "--fail-on-regression", "10", code=1)
    assert "B over A [95 % CI]" in case.run("compare", a, b).stdout
    case.refused(*USAGE, "compare", a, fixture(case, "h100"), says=["no cell"])


def check_run_folder(case):
    document = json.loads((FIXTURES / "sensor_h100.json").read_text())
    case.path("run").mkdir()
    lines = [{"type": "run", "version": 1, "kind": "sensor", "config": {}}]
    for i, record in enumerate(document["records"]):
        lines.append({"type": "provenance", "id": f"p{i}", **record["provenance"]})
        lines.append({**record, "type": "record", "provenance": f"p{i}"})
    case.write("run/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    found = compared(case, "--single", "run", "--multi", fixture(case, "2xh100"))
    assert len(found["workloads"]) == 2 and found["workloads"][0]["rows"][0]["run"] == "run", found


def check_options(case):
    words = sides(case)
    for options, says in (((*words, "--fail-on-regression", "3"), ["--fail-on-regression"]),
                          (("x", "y", *words), ["x with"]), (("x", "--single", "h100.json"), ["x with"]),
                          (words[:3], ["--multi or --hetero"]), (words[3:], ["--single"]),
                          (("--prices", PRICES), ["--prices without --single"]), (("--md", "-"), ["lacks a and b"]),
                          ((*words, "--md", "-", "--json"), ["--md with --json"]),
                          (("a", "b", "--prices", PRICES), ["a with --prices"]), ((), ["a and b"]), (("a",), ["lacks b"]),
                          ((*words, "--prices", ""), ["--prices"]), (("--single", "", *words[3:]), ["--single"])):
        case.refused(*USAGE, "compare", *options, says=says)


def check_bad_files(case):
    sides(case)
    pair = ("--multi", "2xh100.json")
    case.run("collectives", "--backend", "cpu", "-q", "-n", "2", "-b", "64", "-e", "64", "-o", "other.json")
    case.refused(*USAGE, "compare", "--single", "other.json", *pair, says=["other.json is a collectives run by amdahl"])
    nccl = FIXTURES / "nccl_tests_all_reduce.json"
    case.refused(*USAGE, "compare", "--single", nccl, *pair, says=["collectives run by nccl-tests"])
    case.refused(*USAGE, "compare", "--single", "nowhere.json", *pair, says=["nowhere.json"])
    case.refused(*USAGE, "compare", "--single", PRICES, *pair, says=["prices.toml", "not valid JSON"])
    case.refused(*USAGE, "compare", "h100.json", "other.json", says=["sensor", "collectives"])
    case.refused(*USAGE, "compare", "--single", "h100.json", "h100.json", *pair, says=["h100.json twice"])
    case.refused(*USAGE, "compare", "--single", "2xa100.json", *pair, says=["--single: no result on one device"])
    case.refused(*USAGE, "compare", "--single", "h100.json", "--hetero", "2xh100.json", says=["--hetero: no result"])

    def other_type(document):
        for record in document["records"]:
            record["axes"]["dtype"] = "bf16"
    fixture(case, "2xh100", other_type, "bf16.json")
    case.refused(*USAGE, "compare", "--single", "h100.json", "--multi", "bf16.json",
                 says=["no workload in common", "fuse bf16", "fuse f32"])

    def on_cpu(document):
        for record in document["records"]:
            record["provenance"]["device_kind"] = "cpu-virtual"
            record["provenance"]["facts"]["device.0"] = "CPU virtual device 0"
    fixture(case, "h100", on_cpu, "cpu.json")
    case.refused(*USAGE, "compare", "--single", "cpu.json", *pair, says=["cpu-virtual", "cuda", "--allow-unlike"])
    allowed = case.run("compare", "--single", "cpu.json", *pair, "--allow-unlike", "--prices", PRICES).stdout
    assert "\ndevice kinds differ" in allowed and "1x CPU virtual device" in allowed, allowed

    for damage, says in ((lambda r: r["axes"].pop("items"), ["'items'"]), (lambda r: r["axes"].update(devices=0), ["'devices'"]),
                         (lambda r: r["axes"].update(mode=3), ["'mode'"]), (lambda r: r["series"].pop(1), ["'throughput'"]),
                         (lambda r: r["series"][0].update(unit="ms"), ["'time'", "ms"]),
                         (lambda r: r["series"][1]["samples"].append(0), ["throughput"])):
        fixture(case, "2xh100", lambda document, damage=damage: damage(document["records"][1]), "damaged.json")
        case.refused(5, "store-corrupt", "compare", "--single", "h100.json", "--multi", "damaged.json",
                     says=["damaged.json: records[1]", *says])


def check_bad_prices(case):
    words = sides(case)
    row = "[[device]]\nmatch = \"H100\"\n"
    for text, says in ((row + "hourly_price = -1\n", ["p.toml:3", "hourly_price is -1"]),
                       (row + "hourly_price = 1\nprice = 1\n", ["p.toml:4", "'price'", "hourly_price"]),
                       (row, ["p.toml:1", "has no price"]), ("[[device]]\n", ["p.toml:1", "match"]),
                       (row + "hourly_price =\n", ["p.toml:3", "not valid TOML"]), ("", ["p.toml:1", "no device"]),
                       ("\0\x07{", ["p.toml:1", "not valid TOML"])):
        case.write("p.toml", text)
        case.refused(*USAGE, "compare", *words, "--prices", "p.toml", says=says)
    case.refused(*USAGE, "compare", *words, "--prices", "none.toml", says=["none.toml"])
    case.refused(*USAGE, "compare", *words, "--prices", ".", says=["."])


def check_measured_here(case):
    """What `sensor bench` writes for one device and for several is compared, under both kinds of scaling."""
    bench = ("sensor", "bench", "--op", "fuse", "--backend", "cpu", "--shape", "30x16,10x8", "--batch-sizes", "4", "--samples", "3",
             "--calls", "2", "--cache", "hot", "-q")
    case.run(*bench, "--devices", "1", "-o", "one.json")
    for scaling in ("strong", "weak"):
        case.run(*bench, "--mode", "data", "--devices", "2", "--scaling", scaling, "-o", f"{scaling}.json")
        rows = compared(case, "--single", "one.json", "--multi", f"{scaling}.json")["workloads"][0]["rows"]
        assert [row["axes"]["devices"] for row in rows] == [1, 2], rows
        assert rows[1]["axes"]["items"] == (4 if scaling == "strong" else 8), rows[1]["axes"]
        assert rows[1]["speedup"]["ratio"] > 0, rows[1]


harness.main(globals())
