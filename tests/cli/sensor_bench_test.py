"""`amdahl sensor bench` on CPU virtual devices: table, records, run folder, report, wrong input."""
import copy
import json

import harness
from harness import lines_of, records_of

BENCH = ("sensor", "bench", "--backend", "cpu", "-q", "--samples", "4", "--calls", "2")
CLOUD = (*BENCH, "--points", "20000", "--grid", "20x16x12", "--features", "3")
FUSE = (*BENCH, "--op", "fuse", "--shape", "30x16,20x5", "--targets", "12")
MODES = "count,occupancy,bitmask,mean,max"


def measured(case, *words):
    return json.loads(case.run(*words, "--json").stdout)["records"]


def series(record, name):
    found = [s for s in record["series"] if s["name"] == name]
    return found[0] if found else None


def samples(record, name):
    return series(record, name)["samples"]


def validator(name):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    folder = harness.SOURCE / "docs" / "schema"
    schemas = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    schema = next(schema for schema in schemas if schema["$id"].endswith(f"/{name}.schema.json"))
    resolver = jsonschema.RefResolver(schema["$id"], schema, store={s["$id"]: s for s in schemas})
    return jsonschema.Draft7Validator(schema, resolver=resolver)


def check_the_default_is_the_originals_table(case):
    text = case.run("sensor", "bench", "--backend", "cpu", "-q", "--samples", "5", "--calls", "1").stdout
    assert "\nMeasured on CPU virtual devices, not GPUs.\n" in text, text
    assert "voxelize, mode single, f32, hot, eager" in text, text
    for mode in ("count", "occupancy", "mean", "max"):
        row = next(line for line in text.splitlines() if line.startswith("p500000 128x128x128") and f" {mode} " in line)
        assert " [" in row, row


def check_series_of_one_device(case):
    records = measured(case, *CLOUD, "--voxel-modes", MODES)
    assert [r["axes"]["voxel_mode"] for r in records] == MODES.split(",")
    for record in records:
        axes = record["axes"]
        assert record["kind"] == "sensor" and record["status"] == {"kind": "ok"}, record["status"]
        assert (axes["mode"], axes["devices"], axes["items"], axes["points"]) == ("single", 1, 20000, 20000), axes
        assert "merge" not in axes and "scaling" not in axes, axes
        time = samples(record, "time")
        assert len(time) == 4 and all(us > 0 for us in time)
        # 12 bytes a point, 4 a feature of it, and the grid once.
        valued = axes["voxel_mode"] in ("mean", "max")
        grid = 20 * 16 * 12 * (12 if valued else 4) if axes["voxel_mode"] != "bitmask" else 20 * 16 * 12 / 8
        useful = 20000 * (24 if valued else 12) + grid
        for us, rate, gbps in zip(time, samples(record, "throughput"), samples(record, "bandwidth")):
            assert abs(rate * us / 20000e6 - 1) < 1e-9 and abs(gbps * us * 1e3 / useful - 1) < 1e-9, (us, rate, gbps)
        assert series(record, "throughput")["unit"] == "points/s"
        assert len(samples(record, "call_time")) == 4 and samples(record, "checked")[0] > 500
        assert samples(record, "device_memory")[0] >= useful
        assert series(record, "merge_time") is None
    workloads = {r["axes"]["voxel_mode"]: r["axes"]["workload"] for r in records}
    assert workloads["count"] == "p20000 20x16x12" and workloads["max"] == "p20000 20x16x12 f3", workloads
    assert records[3]["axes"]["deterministic"] is False and "deterministic" not in records[0]["axes"]


def check_devices_share_a_cloud(case):
    records = measured(case, *CLOUD, "--mode", "data", "--devices", "1,3", "--voxel-modes", MODES)
    assert [r["axes"]["devices"] for r in records] == [1, 3] * 5
    for record in records:
        axes = record["axes"]
        assert axes["items"] == 20000 and axes["scaling"] == "strong" and record["status"]["kind"] == "ok", record
        assert sum(samples(record, "device_items")) == 20000
        assert len(samples(record, "device_time")) == axes["devices"] and len(samples(record, "time")) == 4
        if axes["devices"] == 1:
            assert axes["merge"] == "none" and series(record, "merge_time") is None
            continue
        assert samples(record, "device_items") == [6667, 6667, 6666], samples(record, "device_items")
        assert axes["merge"] == ("bitmask" if axes["voxel_mode"] in ("occupancy", "bitmask") else "collective"), axes
        assert all(0 < share < 100 for share in samples(record, "communication_share"))
        assert len(samples(record, "merge_time")) == 4 and samples(record, "checked")[0] > 500
    by_bytes = measured(case, *CLOUD, "--mode", "data", "--devices", "3", "--voxel-modes", "count", "--merge", "bytes")
    assert by_bytes[0]["axes"]["merge"] == "bytes" and by_bytes[0]["status"]["kind"] == "ok", by_bytes[0]
    weak = measured(case, *CLOUD, "--mode", "data", "--devices", "2", "--scaling", "weak", "--voxel-modes", "count")
    assert weak[0]["axes"]["items"] == 40000 and weak[0]["axes"]["workload"] == "p20000 20x16x12", weak[0]["axes"]


def check_fewer_items_than_devices(case):
    for points in ("0", "2"):
        records = measured(case, *BENCH, "--points", points, "--grid", "8", "--mode", "data", "--devices", "3",
                           "--voxel-modes", MODES, "--deterministic")
        assert all(r["status"]["kind"] == "ok" for r in records), [r["status"] for r in records]
        assert [r["axes"]["deterministic"] for r in records if r["axes"]["voxel_mode"] == "mean"] == [True]
    rows = measured(case, *FUSE, "--batch-sizes", "2", "--mode", "data", "--devices", "3")
    assert samples(rows[0], "device_items") == [1, 1, 0] and rows[0]["status"]["kind"] == "ok", rows[0]


def check_every_distribution_layout_and_type(case):
    for distribution in ("uniform", "corner", "readme", "clusters", "scan"):
        for layout, dtype in (("xyz", "bf16"), ("zyx", "f16")):
            records = measured(case, *CLOUD, "--distribution", distribution, "--layout", layout, "--dtype", dtype,
                               "--voxel-modes", "count,mean,max", "--deterministic")
            assert all(r["status"]["kind"] == "ok" for r in records), [r["status"] for r in records]
            assert [r["axes"]["dtype"] for r in records] == ["f32", dtype, dtype]
            if distribution != "uniform":
                assert all(r["axes"]["workload"].endswith(f" {distribution}") for r in records), records[0]["axes"]


def check_fuse_and_resample(case):
    for dtype in ("f32", "bf16", "f16"):
        records = measured(case, *FUSE, "--batch-sizes", "3,8", "--dtype", dtype, "--cache", "both")
        assert [(r["axes"]["batch"], r["axes"]["cache"]) for r in records] == [
            (3, "hot"), (3, "cold"), (8, "hot"), (8, "cold")]
        for record in records:
            assert record["status"]["kind"] == "ok" and series(record, "throughput")["unit"] == "batches/s", record
            assert samples(record, "checked") == [record["axes"]["batch"] * 12 * 21], samples(record, "checked")
        assert records[0]["axes"]["workload"] == "b3 30x16+20x5->12", records[0]["axes"]
    record = measured(case, *BENCH, "--op", "resample", "--shape", "30x16", "--targets", "12")[0]
    assert record["axes"]["op"] == "resample" and record["axes"]["workload"] == "b4 30x16->12", record["axes"]


def check_documents_fit_the_schemas(case):
    text = case.run(*CLOUD, "--mode", "data", "--devices", "1,2", "--voxel-modes", "mean,occupancy", "--output-dir",
                    "r", "--json").stdout
    case.run(*FUSE, "--output-dir", "f")
    check = validator("record")
    for folder in ("r", "f"):
        for line in lines_of(case.path(folder)):
            problems = [f"{list(error.path)}: {error.message}" for error in check.iter_errors(line)]
            assert not problems, problems[:3]
    assert validator("records").is_valid(json.loads(text))
    record = records_of(case.path("r"))[0]
    for axis in ("op", "mode", "devices", "dtype", "workload", "items", "path", "cache", "points", "voxel_mode",
                 "launch"):
        changed = copy.deepcopy(record)
        del changed["axes"][axis]
        assert not check.is_valid(changed), f"accepted without {axis}"
    for name in ("time", "throughput", "bandwidth", "checked"):
        changed = copy.deepcopy(record)
        changed["series"].remove(series(changed, name))
        assert not check.is_valid(changed), f"accepted without {name}"


def check_report_is_what_the_run_printed(case):
    words = (*CLOUD, "--mode", "data", "--devices", "1,2", "--output-dir", "r")
    printed = case.run(*words).stdout
    assert "Speedup" in printed and "Merge (us)" in printed, printed
    written = case.path("r/report.txt").read_text()
    assert printed == written + "run: r\n", printed
    case.path("r/report.txt").unlink()
    assert case.run("report", "r", "--write").stdout.startswith(written)
    assert case.path("r/report.txt").read_text() == written
    case.refused(2, "usage", *words, says=["r"])


def check_the_same_seed_makes_the_same_cloud(case):
    def checked(*words):
        # Voxels of points are among those that are checked: how many differs from cloud to cloud.
        words = (*BENCH, "--points", "20000", "--grid", "64", "--voxel-modes", "count", *words)
        return samples(measured(case, *words)[0], "checked")
    assert checked("--seed", "1") == checked("--seed", "1") != checked("--seed", "2")


def check_wrong_input(case):
    for words, says in (
            (("--op", "fuze"), ["--op", "fuse"]),
            (("--mode", "date"), ["--mode", "data"]),
            (("--mode", "single", "--devices", "2"), ["--devices is 2", "--mode data"]),
            (("--devices", "0"), ["--devices"]),
            (("--grid", "12x12"), ["--grid", "12x12"]),
            (("--grid", "12xx12"), ["--grid"]),
            (("--grid", "0"), ["--grid: 0 is too small"]),
            (("--points", "-4"), ["--points"]),
            (("--features", "0"), ["--features is 0"]),
            (("--voxel-modes", "count,mode"), ["--voxel-modes", "mode"]),
            (("--voxel-modes", "count", "--merge", "bitmask", "--mode", "data"), ["--merge bitmask", "count"]),
            (("--voxel-modes", "bitmask", "--merge", "collective", "--mode", "data"), ["--merge collective"]),
            (("--voxel-modes", "max", "--merge", "bytes", "--mode", "data"), ["--merge bytes", "max"]),
            (("--merge", "tree"), ["--merge", "collective"]),
            (("--op", "fuse", "--shape", "30"), ["--shape", "30"]),
            (("--op", "fuse", "--shape", "0x4"), ["--shape: 0 is too small"]),
            (("--op", "fuse", "--targets", "0"), ["--targets is 0"]),
            (("--op", "fuse", "--batch-sizes", "0"), ["--batch-sizes"]),
            (("--dtype", "i32"), ["--dtype", "bf16"]),
            (("--layout", "yzx"), ["--layout"]),
            (("--distribution", "normal"), ["--distribution"]),
            (("--cache", "warm"), ["--cache"]),
            (("--path", "pcie"), ["--path"]),
            (("--path", "host"), ["--path host", "CPU virtual devices"]),
            (("--samples", "1"), ["--samples is 1"]),
            (("--point", "5"), ["amdahl sensor bench", "--points"]),
            (("--grid", ""), ["--grid"])):
        case.refused(2, "usage", "sensor", "bench", "--backend", "cpu", *words, says=says)
    assert "bench" in case.run("sensor").stdout
    case.refused(2, "usage", "sensor", "bensh", says=["bensh"])


def check_a_grid_above_memory_says_what_it_needs(case):
    result = case.run(*BENCH, "--grid", "20000", "--output-dir", "r", code=3)
    harness.check_error(result.stderr, "out-of-memory", ["32.0 TB", "free"])
    assert not case.path("r").exists()


harness.main(globals())
