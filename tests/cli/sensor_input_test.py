"""`amdahl sensor bench --input`: times on clouds and streams of files, and files that are wrong in every way."""
import json
import struct

import harness

SCAN = harness.SOURCE / "data" / "vlp16.ply"
BENCH = ("sensor", "bench", "--backend", "cpu", "-q", "--samples", "3", "--calls", "2")
TRACK = "time,x,y\n" + "".join(f"{1.7e9 + 0.1 * i:.3f},{i},{i * i}\n" for i in range(20))


def measured(case, *words):
    records = json.loads(case.run(*BENCH, *words, "--json").stdout)["records"]
    assert all(record["status"] == {"kind": "ok"} for record in records), [r["status"] for r in records]
    assert all(record["series"][0]["samples"][0] > 0 for record in records)
    return records


def samples(record, name):
    return next((s["samples"] for s in record["series"] if s["name"] == name), None)


def kitti(rows):
    return b"".join(struct.pack("<4f", *row) for row in rows)


def npz(case, name, **arrays):
    try:
        import numpy as np
    except ImportError as problem:
        raise harness.Skip("numpy is not here") from problem
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    if not next(backend for backend in backends if backend["name"] == "libzip")["ok"]:
        raise harness.Skip("built without libzip")
    np.savez(case.path(name), **{key: np.array(value, "f8" if key.endswith("times") else "f4")
                                 for key, value in arrays.items()})
    return name


def check_the_real_scan(case):
    records = measured(case, "--input", SCAN, "--grid", "64", "--voxel-modes", "count,occupancy,bitmask,mean,max")
    for record in records:
        axes = record["axes"]
        assert (axes["points"], axes["items"], axes["input"]) == (22591, 22591, "vlp16.ply"), axes
        assert (axes["points_nan"], axes["points_outside"]) == (0, 0), axes  # the grid is fitted around all of them
        facts = record["provenance"]["facts"]
        assert facts["input.0"] == "vlp16.ply" and facts["input.0.bytes"] == str(SCAN.stat().st_size), facts
        assert len(facts["input.0.fnv1a"]) == 16
        assert samples(record, "checked")[0] > 1000
    assert [r["axes"]["workload"] for r in records][::4] == ["p22591 64x64x64 vlp16.ply", "p22591 64x64x64 f1 vlp16.ply"]
    record = measured(case, "--input", SCAN, "--points", "5000", "--voxel-size", "0.2", "--voxel-modes", "count")[0]
    assert record["axes"]["points"] == 5000 and record["axes"]["points_outside"] > 100, record["axes"]


def check_devices_share_the_scan(case):
    words = ("--input", SCAN, "--grid", "40", "--voxel-modes", "count,bitmask,mean,max", "--deterministic")
    for record in measured(case, *words, "--mode", "data", "--devices", "1,3"):
        devices = record["axes"]["devices"]
        wanted = [22591] if devices == 1 else [7531, 7530, 7530]
        assert sorted(samples(record, "device_items")) == sorted(wanted), record["axes"]
    policies = measured(case, *words, "--mode", "hetero", "--device-speeds", "1,0.5", "--policy", "even,refreshed")
    assert len(policies) == 8 and all(r["axes"]["input"] == "vlp16.ply" for r in policies)


def check_streams_of_files(case):
    case.write("a.csv", TRACK)
    for op in ("fuse", "resample"):
        record = measured(case, "--op", op, "--input", "a.csv", "--targets", "7")[0]
        assert record["axes"]["workload"] == "b1 20x2->7 a.csv" and record["axes"]["batch"] == 1, record["axes"]
    case.write("b.csv", TRACK.replace("y", "z").replace(",0,0\n", ",0,-1\n"))
    for dtype in ("f32", "bf16"):
        record = measured(case, "--op", "fuse", "--input", "a.csv", "--input", "b.csv", "--batch-sizes", "6", "--mode",
                          "data", "--devices", "2", "--dtype", dtype)[0]
        assert record["axes"]["workload"] == "b6 20x2+20x2->50 a.csv+b.csv", record["axes"]
        assert samples(record, "device_items") == [3, 3] and "input.1" in record["provenance"]["facts"]


def check_streams_of_one_npz_file(case):
    name = npz(case, "s.npz", arm=[[[1], [2], [4]]] * 2, arm_times=[[0, 1, 2], [5, 6, 7]],
               gyro=[[[1, 2], [3, 4]]] * 2, gyro_times=[[0.5, 3], [5, 6.5]])
    record = measured(case, "--op", "fuse", "--input", name, "--targets", "9")[0]
    assert record["axes"]["workload"] == "b2 3x1+2x2->9 s.npz", record["axes"]


def check_several_operations_take_their_own_files(case):
    case.write("a.csv", TRACK)
    records = measured(case, "--mode", "task", "--op", "fuse,voxelize", "--voxel-modes", "count", "--input", SCAN, "--input",
                       "a.csv", "--devices", "2")
    inputs = {r["axes"]["op"]: r["axes"].get("input") for r in records}
    assert inputs["fuse"] == "a.csv" and inputs["voxelize"] == "vlp16.ply", inputs


def check_nan_and_infinite_points_are_counted(case):
    inf, nan = float("inf"), float("nan")
    rows = [(i % 7, i % 5, i % 3, i) for i in range(100)]
    rows[3], rows[50], rows[70] = (nan, 1, 1, 1), (1, 1, nan, 2), (1, -inf, 1, 3)
    rows[20] = (1, 1, 1, nan)
    case.path("odd.bin").write_bytes(kitti(rows))
    for record in measured(case, "--input", "odd.bin", "--grid", "8", "--mode", "data", "--devices", "1,2"):
        assert (record["axes"]["points_nan"], record["axes"]["points_outside"]) == (2, 1), record["axes"]
    printed = case.run(*BENCH, "--input", "odd.bin", "--grid", "8", "--voxel-modes", "count,max").stdout
    assert printed.count("of 100 points of odd.bin 2 NaN and 1 outside of the grid are in no voxel") == 1, printed
    case.path("none.bin").write_bytes(kitti([(nan, 1, 1, 1)]))
    case.refused(2, "usage", *BENCH, "--input", "none.bin", says=["none.bin", "no finite point"])


def check_the_report_and_the_run_folder(case):
    printed = case.run(*BENCH, "--input", SCAN, "--grid", "32", "--voxel-modes", "count", "--output-dir", "r").stdout
    assert "p22591 32x32x32 vlp16.ply" in printed, printed
    assert "vlp16.ply" in json.loads(case.path("r/records.jsonl").read_text().splitlines()[0])["config"].values()
    assert case.run("report", "r").stdout.startswith(case.path("r/report.txt").read_text())


def check_tiny_workloads_say_that_they_are_not_cold(case):
    tiny = measured(case, "--points", "8", "--grid", "2", "--voxel-modes", "count", "--cache", "cold")[0]
    assert tiny["axes"]["cache"] == "rotated" and samples(tiny, "copies") == [32768], tiny["axes"]
    assert samples(tiny, "copied_memory")[0] == 32768 * 512  # 96 and 32 bytes, each in 256
    large = measured(case, "--points", "1000", "--grid", "128", "--voxel-modes", "count", "--cache", "cold")[0]
    assert large["axes"]["cache"] == "cold" and samples(large, "copies")[0] < 100, large["axes"]
    assert samples(large, "copied_memory")[0] > 128 << 20
    hot = measured(case, "--points", "8", "--grid", "2", "--voxel-modes", "count")[0]
    assert hot["axes"]["cache"] == "hot" and samples(hot, "copies") is None


def check_wrong_input(case):
    case.write("a.csv", TRACK)
    case.write("apart.csv", "time,x\n5,1\n6,2\n")
    case.write("two.csv", "t,episode,v\n0,a,1\n1,a,2\n0,b,3\n1,b,4\n")
    case.path("flat.npy").write_bytes(SCAN.read_bytes()[:40])
    case.path("cut.bin").write_bytes(kitti([(1, 2, 3, 4)] * 3)[:-3])
    case.path("cut.ply").write_bytes(SCAN.read_bytes()[:-1])
    case.write("words.csv", "time,x\n0,1\n1,two\n")
    case.write("back.csv", "time,x\n0,1\n2,1\n1,1\n")
    case.write("bare.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
                           "end_header\n1 2 3\n")
    for words, says in (
            (("--input", "missing.ply"), ["missing.ply", "No such file"]),
            (("--input", "scan.pcd"), ["scan.pcd", ".ply"]),
            (("--input", SCAN, "--points", "22592"), ["--points is 22592", "vlp16.ply has 22591"]),
            (("--input", SCAN, "--features", "2"), ["--features is 2", "vlp16.ply has 1"]),
            (("--input", SCAN, "--voxel-size", "-0.1"), ["--voxel-size is -0.1"]),
            (("--input", SCAN, "--voxel-size", "0"), ["--voxel-size is 0"]),
            (("--voxel-size", "nan"), ["--voxel-size: 'nan' is no number"]),
            (("--input", SCAN, "--distribution", "clusters"), ["--distribution clusters", "vlp16.ply"]),
            (("--input", SCAN, "--input", SCAN), ["second cloud"]),
            (("--input", SCAN, "--shape", "30x4"), ["--shape with --input"]),
            (("--input", SCAN, "--scaling", "weak", "--mode", "data"), ["--scaling weak", "vlp16.ply"]),
            (("--input", SCAN, "--op", "fuse"), ["is a cloud", "--op is fuse"]),
            (("--input", "a.csv"), ["holds streams", "--op is voxelize"]),
            (("--input", "a.csv", "--op", "fuse,voxelize", "--mode", "task"), ["no --input is a cloud"]),
            (("--input", SCAN, "--op", "fuse,voxelize", "--mode", "task"), ["no --input holds streams"]),
            (("--input", "bare.ply"), ["bare.ply has no features", "--voxel-modes"]),
            (("--input", "a.csv", "--input", "apart.csv", "--op", "fuse"), ["share no time"]),
            (("--input", "a.csv", "--input", "two.csv", "--op", "fuse"), ["has 1 rows", "has 2"])):
        case.refused(2, "usage", *BENCH, *words, says=says)
    for words, says in (
            (("--input", "cut.bin"), ["cut.bin", "byte 32"]),
            (("--input", "cut.ply"), ["cut.ply", "cut off"]),
            (("--input", "flat.npy"), ["flat.npy", "byte 0"]),
            (("--op", "fuse", "--input", "words.csv"), ["words.csv", "line 3", "'two'"]),
            (("--op", "fuse", "--input", "back.csv"), ["back.csv", "line 4", "below"])):
        case.refused(2, "data-corrupt", *BENCH, *words, says=says)


harness.main(globals())
