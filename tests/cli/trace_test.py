"""`amdahl study --trace`: the Chrome Trace, trace.json of the run folder, and wrong input."""
import re
import gzip
import json

import harness
from harness import TINY, num_records

GRID = ("study", "-q", "--backend", "cpu", "--batch-sizes", "16,32", "--devices", "1,2", "--runs", "1", "--warmup", "5")
TRACED = (*GRID, "--steps", "20")


def chrome(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.name.endswith(".gz") else data)


def complete(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def names(trace, kind):
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"]
            if event["ph"] == "M" and event["name"] == kind}


def check_trace_of_the_last_cell(case):
    result = case.run(*TRACED, "--plan", "bucket-mb=0.05", "--trace", "-o", "r")
    assert result.stderr == "", result.stderr
    trace = chrome(case.path("r/trace.json.gz"))
    events = complete(trace)
    assert {event["args"]["step"] for event in events} == {10, 11, 12}
    processes = names(trace, "process_name")
    assert sorted(name.split(",")[0] for name in processes.values()) == ["rank 0", "rank 1"], processes
    ids = [tid for _, tid in names(trace, "thread_name")]
    assert len(set(ids + [pid for pid, _ in processes] + [0])) == len(ids) + len(processes) + 1, "a number used twice"
    threads = {(pid, name) for (pid, _), name in names(trace, "thread_name").items()}
    for rank in (0, 1):
        for thread in ("steps", "compute stream", "communication stream", "host"):
            assert (rank + 1, thread) in threads, threads
    kinds = {event["cat"] for event in events}
    assert {"step", "compute", "communication", "waiting", "optimizer", "host"} <= kinds, kinds
    for event in events:
        assert event["ts"] >= 0 and event["dur"] >= 0, event
    assert min(event["ts"] for event in events) == 0
    buckets = [event for event in events if event["cat"] == "communication"]
    assert len({event["name"] for event in buckets}) > 1, "one bucket alone"
    assert all(event["args"]["bytes"] > 0 for event in buckets)
    other = trace["otherData"]
    assert "batch 32, 2 device(s)" in other["what"] and "no sample" in other["how"], other
    assert re.search(r"A traced step takes [\d.,]+ us, the measured one [\d.,]+ us \(median over", other["how"]), other
    assert "steady clock" in other["clock of rank 1"], other
    small = json.loads(case.path("r/trace.json").read_text())
    assert len(small["events"]) == len(events) and small["devices"] == 2, small["devices"]
    # Every byte of the gradients is in a bucket of every step on every rank: float32, with statistics and padding beside.
    parameters = 4 * json.loads(case.run("report", "r", "--json").stdout)["cells"][0]["key"]["num_parameters"]
    for rank in (0, 1):
        sent = sum(event["args"]["bytes"] for event in buckets if event["pid"] == rank + 1 and event["args"]["step"] == 11)
        assert parameters <= sent <= 1.01 * parameters, (parameters, sent)


def check_schema(case):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    case.run(*TRACED, "--trace", "-o", "r")
    folder = harness.SOURCE / "docs" / "schema"
    schema = json.loads((folder / "trace.schema.json").read_text())
    record = json.loads((folder / "record.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    resolver = jsonschema.RefResolver(schema["$id"], schema, store={each["$id"]: each for each in (schema, record)})
    validator = jsonschema.Draft7Validator(schema, resolver=resolver)
    trace = json.loads(case.path("r/trace.json").read_text())
    validator.validate(trace)
    for change in ({"version": 2}, {"ranks": []}, {"events": [{**trace["events"][0], "duration_us": -1}]},
                   {"events": [{**trace["events"][0], "kind": "gossip"}]}, {"provenance": {}}):
        assert list(validator.iter_errors({**trace, **change})), f"{change} fits the schema"


def check_page_has_the_timeline(case):
    case.run(*TRACED, "--trace", "-o", "r")
    case.run("report", "r", "--html", "page.html")
    page = case.path("page.html").read_text()
    assert "One step on a timeline: ddp, batch 32 on 2 devices" in page and 'id="timeline-1"' in page
    text = case.path("r/trace.json").read_text()
    case.path("r/trace.json").write_text(text[:len(text) // 2])
    case.run("report", "r", "--html", "damaged.html")
    page = case.path("damaged.html").read_text()
    assert "no timeline: r/trace.json" in page and "One step on a timeline" not in page
    case.path("r/trace.json").unlink()
    case.run("report", "r", "--html", "without.html")
    assert "timeline" not in case.path("without.html").read_text().split("<script")[0]


def check_pieces_lie_within_their_step_and_do_not_overlap(case):
    case.run(*TRACED, "--trace", "t.json,steps=3:6,batch=16,devices=2", "-o", "r")
    events = complete(chrome(case.path("t.json")))
    assert {event["args"]["step"] for event in events} == {3, 4, 5}
    for rank in (0, 1):
        steps = {event["args"]["step"]: event for event in events if event["pid"] == rank + 1 and event["cat"] == "step"}
        lane = sorted((event for event in events if event["pid"] == rank + 1 and event["cat"] in
                       ("compute", "waiting", "optimizer", "input")), key=lambda event: event["ts"])
        for before, after in zip(lane, lane[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.002, (before, after)
        for event in lane:
            step = steps[event["args"]["step"]]
            assert step["ts"] - 0.002 <= event["ts"], (step, event)
            assert event["ts"] + event["dur"] <= step["ts"] + step["dur"] + 0.002, (step, event)
    assert not case.path("r/trace.json.gz").exists()


def check_a_trace_is_no_sample(case):
    case.run(*TRACED, "-o", "plain")
    case.run(*TRACED, "--trace", "-o", "traced")
    assert num_records(case.path("plain")) == num_records(case.path("traced")) == 4
    assert not case.path("plain/trace.json").exists()


def check_resumed_study_is_traced(case):
    case.run(*TRACED, "-o", "r")
    case.run(*TRACED, "--trace", "--resume", "-o", "r")
    assert num_records(case.path("r")) == 4
    assert complete(chrome(case.path("r/trace.json.gz")))


def check_strategies(case):
    for strategy in ("zero1", "dp", "replicated"):
        case.run(*TRACED, "--plan", strategy, "--trace", f"{strategy}.json", "-o", strategy)
        events = complete(chrome(case.path(f"{strategy}.json")))
        communicates = any(event["cat"] == "communication" for event in events)
        assert communicates == (strategy != "replicated"), strategy
        assert any(event["cat"] == "input" for event in events) == (strategy == "dp"), strategy
        assert any(event["cat"] == "optimizer" for event in events) == (strategy != "zero1"), strategy


def check_accumulated_steps_have_every_micro_batch(case):
    case.run(*TRACED, "--plan", "m3", "--trace", "t.json,steps=4:5,devices=1", "-o",
             "r")
    forward = [event for event in complete(chrome(case.path("t.json"))) if event["name"] == "forward"]
    assert len(forward) == 3, forward


def check_default_steps_of_a_short_run(case):
    case.run("study", "-q", *TINY, "--runs", "1", "--trace", "t.json", "-o", "r")
    assert {event["args"]["step"] for event in complete(chrome(case.path("t.json")))} == {0, 1, 2}


def check_many_steps(case):
    """More than the stamps that are kept at once; trace.json has only the first ones."""
    case.run(*GRID, "--steps", "200", "--trace", "t.json,steps=7:142", "-o", "r")
    events = complete(chrome(case.path("t.json")))
    steps = {event["args"]["step"]: event["ts"] for event in events if event["cat"] == "step" and event["pid"] == 1}
    assert sorted(steps) == list(range(7, 142))
    assert sorted(steps, key=steps.get) == sorted(steps), "steps are not in order of time"
    small = json.loads(case.path("r/trace.json").read_text())
    assert (small["first_step"], small["end_step"]) == (7, 15)
    assert {event["step"] for event in small["events"]} == set(range(7, 15))


def check_dry_run_says_what_is_traced(case):
    text = case.run("study", *TINY, "--trace", "--dry-run").stdout
    assert "steps 0 to 2 of ddp n=2 b=16 are traced in one more run, which is no sample" in text, text


def check_wrong_ranges(case):
    for steps, says in (("13:10", "has no step"), ("10:10", "has no step"), ("10", "is no value like 1:3"), ("a:b", "'a' is no whole number"),
                        ("-1:3", "'-1' is no"), ("1:2:3", "is no value like"), (":", "'' is no whole"),
                        ("99999999999999999999:3", "is no whole number"), ("24:26", "a run has 25 steps"),
                        ("1000:1001", "numbered from 0")):
        case.refused(2, "usage", *TRACED, f"--trace=steps={steps}", "-o", "r", says=[says])
    case.refused(2, "usage", *GRID, "--steps", "5000", "--trace", "steps=1:2000", "-o", "r",
                 says=["1999 steps", "at most 1000"])
    assert not case.path("r").exists()


def check_wrong_cells(case):
    for cell, says in (("batch=64", "batch 64"), ("batch=16,devices=7", "batch 16 and 7 device(s)"), ("batch=", "--trace batch: '' is no"),
                       ("batch=0", "no cell has as many"), ("devices=99999999999", "no cell has as many"),
                       ("rows=3", "unknown value 'rows'")):
        case.refused(2, "usage", *TRACED, f"--trace={cell}", "-o", "r", says=["--trace", says])
    assert not case.path("r").exists()


def check_wrong_files(case):
    case.path("folder.json").mkdir()
    for file, says in (("t.txt", "unknown kind of file"), ("t.gz", "unknown kind of file"), ("folder.json", "is a folder"),
                       ("nowhere/t.json.gz", "there is no folder nowhere")):
        case.refused(2, "usage", *TRACED, "--trace", file, "-o", "r", says=[says])
        assert num_records(case.path("r")) == 0
    case.refused(2, "usage", *TRACED, "--trace", "a.json,b.json", "-o", "r", says=["'a.json' and 'b.json'"])
    case.refused(2, "usage", *TRACED, "--trace", "", "-o", "r", says=["--trace is empty"])


harness.main(globals())
