"""`amdahl sensor bench` in modes task, pipeline and hetero on CPU virtual devices: tables, records, wrong input."""
import json
import re

import harness


def changed(words, option, value):
    """The command with another value of an option, which a command takes once."""
    words = list(words)
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option, value]
    return tuple(words)


BENCH = ("sensor", "bench", "--backend", "cpu", "-q", "--samples", "3", "--calls", "2", "--points", "5000", "--grid",
         "20x16x12", "--features", "3", "--shape", "30x16,20x5", "--targets", "12", "--batch-sizes", "6")
TASK = (*BENCH, "--mode", "task", "--op", "fuse,voxelize,resample", "--voxel-modes", "count,max")
HETERO = (*BENCH, "--mode", "hetero", "--voxel-modes", "count,bitmask,mean,max")
PIPELINE = (*BENCH, "--mode", "pipeline", "--op", "fuse")
# Fusing takes long enough that training would overtake it, were it not to wait.
LARGE = changed(PIPELINE, "--batch-sizes", "1024")
SHARES = ("one-device", "even", "proportional", "refreshed")
PLACEMENTS = ("one-device", "even", "compute-here-memory-there", "voxelize-here-fuse-there", "cost")


def measured(case, *words):
    records = json.loads(case.run(*words, "--json").stdout)["records"]
    assert all(record["status"] == {"kind": "ok"} for record in records), [r["status"] for r in records]
    return records


def samples(record, name):
    return next((s["samples"] for s in record["series"] if s["name"] == name), None)


def check_task(case):
    records = measured(case, *TASK, "--devices", "2")
    totals = {r["axes"]["devices"]: r for r in records if r["axes"]["op"] == "all"}
    assert set(totals) == {1, 2}, totals.keys()  # one device is measured unasked
    for devices, total in totals.items():
        tasks = [r for r in records if r["axes"]["devices"] == devices and r["axes"]["op"] != "all"]
        assert [t["axes"]["op"] for t in tasks] == ["fuse", "voxelize", "voxelize", "resample"]
        assert total["axes"]["items"] == 4 and len(samples(total, "time")) == 3
        counts = [sum(t["axes"]["device"] == device for t in tasks) for device in range(devices)]
        assert samples(total, "device_items") == counts, (samples(total, "device_items"), counts)
        costs = [samples(t, "alone_time")[0] for t in tasks]
        bound = max(max(costs), sum(costs) / devices)
        assert abs(samples(total, "makespan_bound")[0] - bound) < 1e-6 * bound
        loads = [sum(c for c, t in zip(costs, tasks) if t["axes"]["device"] == d) for d in range(devices)]
        assert abs(samples(total, "makespan_expected")[0] - max(loads)) < 1e-6 * bound
        assert all(samples(t, "checked")[0] > 0 for t in tasks) and len(samples(total, "utilisation")) == devices
        assert all(t["origin"] == "measured" for t in tasks)


def check_shares(case):
    for extra in ((), ("--merge", "host")):
        records = measured(case, *HETERO, "--device-speeds", "1,0.5", *extra)
        assert len(records) == 4 * len(SHARES)
        for record in records:
            axes = record["axes"]
            assert record["origin"] == "emulated" and axes["devices"] == 2 and axes["mode"] == "hetero"
            assert axes["merge"] == "host" or not extra, axes
            assert sum(samples(record, "device_items")) == 5000 or axes["policy"] == "refreshed", axes
            alone, fastest = samples(record, "alone_time"), samples(record, "fastest_speed")
            assert all(speed >= 5000 / us * 1e6 * (1 - 1e-9) for speed, us in zip(fastest, alone)), (fastest, alone)
            bound = 5000 / sum(fastest) * 1e6
            assert abs(samples(record, "makespan_bound")[0] - bound) < 1e-6 * bound
            assert bound <= min(samples(record, "time")) * (1 + 1e-9), (bound, samples(record, "time"))
            if axes["policy"] == "even":
                assert samples(record, "device_items") == [2500, 2500]
            if axes["policy"] == "one-device":
                assert sorted(samples(record, "device_items")) == [0, 5000]
            shares = [samples(record, f"share_{device}") for device in range(2)]
            assert (shares != [None, None]) == (axes["policy"] == "refreshed"), axes
            if axes["policy"] == "refreshed":
                assert all(abs(a + b - 100) < 1e-9 for a, b in zip(*shares)) and len(shares[0]) == 3


def check_rows_are_shared(case):
    for extra in ((), ("--merge", "host")):
        records = measured(case, *BENCH, "--mode", "hetero", "--op", "fuse", "--devices", "3", "--policy",
                           "even,proportional", "--dtype", "bf16", *extra)
        assert [r["axes"]["policy"] for r in records] == ["even", "proportional"]
        assert samples(records[0], "device_items") == [2, 2, 2] and records[0]["origin"] == "measured"


def check_placements(case):
    records = measured(case, *HETERO, "--op", "fuse,voxelize", "--device-speeds", "0.5,1", "--devices", "2")
    totals = [r for r in records if r["axes"]["op"] == "all"]
    assert [r["axes"]["policy"] for r in totals] == list(PLACEMENTS)
    for record in records:
        assert record["origin"] == "emulated"
    here = [r["axes"] for r in records if r["axes"]["policy"] == "voxelize-here-fuse-there" and "device" in r["axes"]]
    places = {op: {a["device"] for a in here if a["op"] == op} for op in ("fuse", "voxelize")}
    assert len(places["voxelize"]) == len(places["fuse"]) == 1 and places["voxelize"] != places["fuse"], places


def check_pipeline(case):
    for op in ("fuse", "resample"):
        records = measured(case, *changed(LARGE, "--op", op))
        assert [r["axes"]["schedule"] for r in records] == ["sequential", "overlapped", "two-devices"]
        assert [r["axes"]["devices"] for r in records] == [1, 1, 2]
        sequential = samples(records[0], "time")
        assert samples(records[0], "time_hidden") is None
        for record in records[1:]:
            hidden, fuse = samples(record, "time_hidden"), samples(record, "preprocess_time")[0]
            for all_us, us, hidden_us, share in zip(sequential, samples(record, "time"), hidden,
                                                    samples(record, "hidden_share")):
                assert abs(all_us - us - hidden_us) < 1e-6 * all_us
                assert abs(share - 100 * hidden_us / fuse) < 1e-6 * max(1, abs(share))
            assert samples(record, "checked")[0] == 8  # losses


def check_tables_and_report(case):
    text = case.run(*HETERO, "--device-speeds", "1,0.5", "--output-dir", "h").stdout
    assert ("voxelize, mode hetero, 1 x CPU virtual device + 1 x CPU virtual device, 50 % of its speed, emulated, f32, eager, "
            "EMULATED") in text, text
    for policy in SHARES:
        assert any(line.startswith(policy) for line in text.splitlines()), policy
    printed = case.run("report", "h").stdout
    assert printed.splitlines() == text.splitlines()[:-1], (printed, text)
    text = case.run(*TASK, "--devices", "2").stdout
    assert "all, mode task" in text and "tasks, mode task" in text and " 1 " in text, text
    assert "EMULATED" not in text
    text = case.run(*PIPELINE).stdout
    assert "fuse, mode pipeline" in text and "two-devices" in text and "% of fuse" in text, text


def check_records_have_the_schema(case):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    folder = harness.SOURCE / "docs" / "schema"
    schemas = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    schema = next(schema for schema in schemas if schema["$id"].endswith("/record.schema.json"))
    resolver = jsonschema.RefResolver(schema["$id"], schema, store={s["$id"]: s for s in schemas})
    validator = jsonschema.Draft7Validator(schema, resolver=resolver)
    for number, words in enumerate((TASK, HETERO, PIPELINE, (*HETERO, "--op", "fuse,voxelize"))):
        case.run(*words, "--output-dir", f"r{number}")
        for line in harness.lines_of(case.path(f"r{number}")):
            errors = sorted(validator.iter_errors(line), key=str)
            assert not errors, (line, errors[0])


def check_compare_takes_what_several_devices_did_together(case):
    """A task of a round ran on one device, whatever the round had; and fusing is not fusing and training."""
    measured(case, *TASK, "--devices", "2", "-o", "task.json")
    compared = json.loads(case.run("compare", "--single", "task.json", "--multi", "task.json", "--json").stdout)
    assert [w["axes"]["op"] for w in compared["workloads"]] == ["all"], [w["axes"] for w in compared["workloads"]]
    assert any("a task on one of several devices" in note for note in compared["notes"]), compared["notes"]
    measured(case, *PIPELINE, "-o", "pipeline.json")
    measured(case, *changed(BENCH, "--op", "fuse"), "-o", "fuse.json")
    compared = json.loads(case.run("compare", "--single", "pipeline.json", "fuse.json", "--multi", "pipeline.json",
                                   "--json").stdout)
    assert len(compared["workloads"]) == 1 and compared["workloads"][0]["axes"]["model"] == "medium for 252 inputs", compared["workloads"]
    assert all(row["axes"]["mode"] == "pipeline" for row in compared["workloads"][0]["rows"])


def check_limited_devices_are_named_and_never_priced(case):
    """Also in files that were written before: as if whole devices had been measured."""
    prices = 'currency = "EUR"\n[[device]]\nmatch = "H200"\nhourly_price = 4\n[[device]]\nmatch = "cpu-virtual"\nhourly_price = 4\n'
    case.write("p.toml", prices)
    shared = harness.SOURCE / "results" / "h200" / "sensor" / "hetero-fuse.json.gz"
    measured(case, *changed(BENCH, "--op", "fuse"), "--mode", "hetero", "--device-speeds", "1,0.25", "-o", "own.json")
    for file, name in ((str(shared), "NVIDIA H200, 32 of 132 SMs, emulated"),
                       ("own.json", "CPU virtual device, 25 % of its speed, emulated")):
        costs = json.loads(case.run("report", file, "--prices", "p.toml", "--json").stdout)
        assert all(row["origin"] == "emulated" and name in row["configuration"] for row in costs["rows"]), costs["rows"]
        assert not any("price" in key or "joule" in key for row in costs["rows"] for key in row), costs["rows"]
        for words in ((), ("--md", "-")):
            text = case.run("report", file, "--prices", "p.toml", *words).stdout
            assert name in text and "has no price: it is not measured" in text, text
            assert file == "own.json" or "8.00" not in text, text
        for words in ((), ("--md", "-")):
            text = case.run("compare", file, file, *words).stdout
            assert name in text and "emulated cells" in text and re.search("(SAME|UNCLEAR|too few runs).*, emulated", text), text
        document = json.loads(case.run("compare", file, file, "--json").stdout)
        assert all(cell["origin"] == "emulated" for cell in document["cells"])
        case.run("report", file, "--html", "page.html")
        page = case.path("page.html").read_text()
        assert "some numbers are emulated" in page and name in page


def check_compare_of_placements_that_differ(case):
    """Where a task was placed follows from costs measured in the run: it tells no cells apart."""
    document = json.loads(case.run(*TASK, "--devices", "2", "--json").stdout)
    case.write("a.json", json.dumps(document))
    for record in document["records"]:
        if "device" in record["axes"]:
            record["axes"]["device"] = 1 - record["axes"]["device"] if record["axes"]["devices"] == 2 else 0
    case.write("b.json", json.dumps(document))
    compared = json.loads(case.run("compare", "a.json", "b.json", "--json").stdout)
    assert len(compared["cells"]) == len(document["records"]) and not compared["only_a"] and not compared["only_b"]


def check_wrong_input(case):
    for words, says in (
            ((*HETERO, "--device-speeds", "1,1,0.5"), ["device 2", "0 to 1", "--devices"]),
            ((*HETERO, "--device-speeds", "1,0"), ["device 1 is 0", "above 0"]),
            ((*HETERO, "--device-speeds", "1,1.5"), ["device 1 is 1.5", "at most 1"]),
            ((*HETERO, "--device-speeds", "1,nan"), ["'nan' is no fraction"]),
            ((*HETERO, "--device-speeds", "1,x"), ["'x'"]),
            ((*HETERO, "--device-speeds", "1:0.5"), ["'1:0.5'"]),
            ((*HETERO, "--policy", "proportionl"), ["proportionl", " proportional"]),
            ((*HETERO, "--policy", "cost"), ["cost", "proportional"]),
            ((*HETERO, "--op", "fuse,voxelize", "--policy", "refreshed"), ["refreshed", "cost"]),
            ((*HETERO, "--devices", "1"), ["one device", "--devices 2"]),
            ((*HETERO, "--cpu-share"), ["--cpu-share", "--device-speeds"]),
            (changed(HETERO, "--points", "0"), ["nothing to share"]),
            ((*HETERO, "--cache", "cold"), ["cold", "--cache hot"]),
            ((*HETERO, "--merge", "none"), ["none", "host"]),
            ((*BENCH, "--mode", "data", "--merge", "host"), ["--merge host", "hetero"]),
            ((*PIPELINE, "--devices", "1"), ["two stages", "--devices 2"]),
            ((*PIPELINE, "--devices", "3"), ["two stages", "--devices 2"]),
            (changed(PIPELINE, "--op", "voxelize"), ["voxelize", "fuse"]),
            ((*PIPELINE, "--dtype", "bf16"), ["bf16", "--dtype f32"]),
            ((*PIPELINE, "--model", "medum"), ["medum", "medium"]),
            ((*BENCH, "--mode", "task", "--op", "fuse"), ["one task", "--op"]),
            ((*BENCH, "--mode", "task", "--op", "fuse,fuse"), ["fuse twice"]),
            ((*BENCH, "--mode", "task", "--op", "fuse,"), ["--op"]),
            ((*BENCH, "--mode", "single", "--op", "fuse,voxelize"), ["several operations", "task"]),
            ((*BENCH, "--mode", "tasks"), ["tasks", " task"])):
        result = case.refused(2, "usage", *words, says=says)
        assert result.stdout == "", result.stdout


harness.main(globals())
