"""What `amdahl collectives` and `amdahl links` write fits docs/schema, and the schemas refuse what they never write."""
import copy
import json

import harness
from harness import lines_of

COLLECTIVES = ("collectives", "--backend", "cpu", "-q", "-n", "2", "-w", "1", "-b", "256", "-e", "4K", "-f", "16")
ALL = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,sendrecv,all_to_all,gather,scatter"
LINKS = ("links", "--backend", "cpu", "-q", "-t", "all", "-b", "256K")


def validator(name):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    folder = harness.SOURCE / "docs" / "schema"
    schemas = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    schema = next(schema for schema in schemas if schema["$id"].endswith(f"/{name}.schema.json"))
    jsonschema.Draft7Validator.check_schema(schema)
    resolver = jsonschema.RefResolver(schema["$id"], schema, store={s["$id"]: s for s in schemas})
    return jsonschema.Draft7Validator(schema, resolver=resolver)


def fits(check, document, what):
    problems = [f"{list(error.path)}: {error.message}" for error in check.iter_errors(document)]
    assert not problems, f"{what}: {problems[:3]}"


def refused(check, document, change, what):
    changed = copy.deepcopy(document)
    change(changed)
    assert not check.is_valid(changed), f"accepted: {what}"


def series(record, name):
    return next(s for s in record["series"] if s["name"] == name)


def check_collectives(case):
    check = validator("record")
    text = case.run(*COLLECTIVES, "--collective", ALL, "--output-dir", "r", "--json").stdout
    lines = lines_of(case.path("r"))
    for line in lines:
        fits(check, line, "records.jsonl")
    records = [line for line in lines if line["type"] == "record"]
    assert {record["kind"] for record in records} == {"collective"} and len(records) == 32, len(records)
    fits(validator("records"), json.loads(text), "--format json")
    for axis in ("collective", "dtype", "devices", "bytes", "count", "in_place", "launch", "transport"):
        refused(check, records[0], lambda r, axis=axis: r["axes"].pop(axis), f"no axis {axis}")
    for axis, value in (("collective", "all_reduse"), ("dtype", "float"), ("op", "plus"), ("root", -1), ("devices", 1),
                        ("bytes", -8), ("bytes", 1.5), ("in_place", "yes"), ("launch", "")):
        refused(check, records[0], lambda r, axis=axis, value=value: r["axes"].update({axis: value}), f"{axis} {value}")
    for name in ("time", "algbw", "busbw"):
        refused(check, records[0], lambda r, name=name: r["series"].remove(series(r, name)), f"no series {name}")
        refused(check, records[0], lambda r, name=name: series(r, name).update(unit="ms"), f"{name} in another unit")
        refused(check, records[0], lambda r, name=name: series(r, name).update(samples=[]), f"{name} without a sample")
    failed = copy.deepcopy(records[0])
    failed.update(status={"kind": "failed", "reason": "out of memory"}, series=[])
    fits(check, failed, "a size without room")


def check_links(case):
    check = validator("record")
    document = json.loads(case.run(*LINKS, "--output-dir", "r", "--json", timeout=120).stdout)
    lines = lines_of(case.path("r"))
    for line in lines:
        fits(check, line, "records.jsonl")
    records = [line for line in lines if line["type"] == "record" and line["kind"] == "link"]
    found = {s["name"] for record in records for s in record["series"]}
    assert {"bandwidth", "latency", "alpha"} <= found, found
    for axis in ("test", "source", "destination"):
        refused(check, records[0], lambda r, axis=axis: r["axes"].pop(axis), f"no axis {axis}")
        refused(check, records[0], lambda r, axis=axis: r["axes"].update({axis: 3}), f"{axis} as a number")
    for name in ("bandwidth", "latency", "alpha"):
        record = next(r for r in records if any(s["name"] == name for s in r["series"]))
        refused(check, record, lambda r, name=name: r["series"].remove(series(r, name)), f"no series {name}")
        refused(check, record, lambda r, name=name: series(r, name).update(unit="MB/s"), f"{name} in another unit")
    whole = validator("records")
    fits(whole, document, "--json")
    refused(whole, document, lambda d: d.update(version=2), "another version")
    refused(whole, document, lambda d: d["records"][0].pop("provenance"), "a record without provenance")
    refused(whole, document, lambda d: d["records"][0]["provenance"].update(device_kind="gpu"), "an unknown device kind")
    refused(whole, document, lambda d: d["machine"].pop("devices"), "a machine without devices")


harness.main(globals())
