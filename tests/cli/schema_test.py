"""Validates a sample run folder against docs/schema, and checks that the schemas refuse what the program never writes.

The unit test SpecSampleRun writes the folder; it is run here, so that the order of tests does not matter.
"""
import copy
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


try:
    import jsonschema
except ImportError:
    skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)")

source, binary = (pathlib.Path(a) for a in sys.argv[1:3])


def load_schema(name):
    schema = json.loads((source / "docs" / "schema" / name).read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return schema


SCHEMAS = {n: load_schema(n) for n in ("record.schema.json", "summary.schema.json", "model.schema.json")}
STORE = {schema["$id"]: schema for schema in SCHEMAS.values()}


def errors(name, document):
    schema = SCHEMAS[name]
    resolver = jsonschema.RefResolver(schema["$id"], schema, store=STORE)
    return [f"{list(e.path)}: {e.message}" for e in jsonschema.Draft7Validator(schema, resolver=resolver).iter_errors(document)]


def strict(text):
    def refuse(constant):
        raise ValueError(f"{constant} in JSON")
    return json.loads(text, parse_constant=refuse)


failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def accepted(name, document, what):
    found = errors(name, document)
    expect(not found, f"{what} does not fit {name}: {found[:3]}")


def refused(name, document, change, what):
    changed = copy.deepcopy(document)
    change(changed)
    expect(errors(name, changed), f"{name} accepts {what}")


unit_report_tests = binary / "tests" / "unit_report_tests"
if not unit_report_tests.exists():
    skip(f"{unit_report_tests} is not built")
run = binary / "test-output" / "sample-run-for-schema"
subprocess.run([unit_report_tests.resolve(), "--gtest_filter=SpecSampleRun.*"], check=True, stdout=subprocess.DEVNULL,
               env={**os.environ, "AMDAHL_TEST_SAMPLE_RUN": run.name})

lines = [strict(line) for line in (run / "records.jsonl").read_text().splitlines()]
kinds = [line["type"] for line in lines]
expect(kinds[0] == "run" and kinds.count("provenance") == 1 and kinds.count("record") > 20, f"unexpected lines: {set(kinds)}")
for number, line in enumerate(lines, 1):
    accepted("record.schema.json", line, f"line {number}")
summary = strict((run / "summary.json").read_text())
accepted("summary.schema.json", summary, "summary.json")
model = strict((run / "model.json").read_text())
accepted("model.schema.json", model, "model.json")
expect(len(summary["comparisons"]) == 3, "the sample study has three comparisons")
expect(all(math.isfinite(c["speedup"]["ratio"]) for c in summary["comparisons"]), "a speedup is not finite")

record = next(line for line in lines if line["type"] == "record" and line["status"]["kind"] == "ok")
refused("record.schema.json", record, lambda r: r["series"][0]["samples"].append(None), "a null sample")
refused("record.schema.json", record, lambda r: r["series"][0].pop("unit"), "a series without unit")
refused("record.schema.json", record, lambda r: r["axes"].pop("global_batch"), "a study run without its batch")
refused("record.schema.json", record, lambda r: r.update(status={"kind": "failed"}), "a failure without a reason")
refused("record.schema.json", lines[0], lambda r: r.update(version=2), "another version")
refused("record.schema.json", lines[1], lambda r: r.update(device_kind="gpu"), "an unknown device kind")
refused("summary.schema.json", summary, lambda s: s["comparisons"][0]["speedup"].update(verdict="BETTER"), "an unknown verdict")
refused("summary.schema.json", summary, lambda s: s["cells"][0]["step_time_us"].pop("n"), "a mean without n")
refused("model.schema.json", model, lambda m: m["layers"][0].update(unit=3), "an unknown key")
refused("model.schema.json", model, lambda m: m["layers"][0].update(dropout=1.0), "a dropout of 1")

with tempfile.TemporaryDirectory() as folder:
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    subprocess.run([(binary / "bin" / "amdahl").resolve(), "collectives", "--backend", "cpu", "--arena", "-q", "-n", "2", "-b", "1K", "-e",
                    "1K", "--collective", "all", "--output-dir", "a"], cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    arena = [strict(line) for line in (pathlib.Path(folder) / "a" / "records.jsonl").read_text().splitlines()]
for number, line in enumerate(arena, 1):
    accepted("record.schema.json", line, f"line {number} of an arena")
measured = next(line for line in arena if line["type"] == "record")
expect(measured["kind"] == "collective", f"unexpected kind: {measured['kind']}")
refused("record.schema.json", measured, lambda r: r["axes"].pop("bytes"), "a collective without its size")
refused("record.schema.json", measured, lambda r: r["axes"].update(collective="all_reduse"), "an unknown collective")
absent = {**measured, "kind": "transport", "axes": {"transport": "nccl", "devices": 2}, "status": {"kind": "waived", "reason": "not here"}}
accepted("record.schema.json", absent, "a transport that is not here")
refused("record.schema.json", absent, lambda r: r.update(status={"kind": "ok"}), "a transport without measurement that is ok")

if failures:
    print("\n".join(failures))
    sys.exit(1)
print(f"{len(lines)} lines, summary and model fit their schemas; 13 damaged documents were refused")
