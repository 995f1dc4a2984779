"""`amdahl sensor voxelize` and `resample`: files of numpy in, files for numpy out, and wrong input."""
import copy
import json

import harness
import table_text

SCAN = harness.SOURCE / "data" / "vlp16.ply"
CPU = ("--backend", "cpu")


def numpy():
    try:
        import numpy as np
    except ImportError as problem:
        raise harness.Skip("numpy is not here") from problem
    return np


def require_npz(case):
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    libzip = next(backend for backend in backends if backend["name"] == "libzip")
    if not libzip["ok"]:
        raise harness.Skip("built without libzip")


def found(case, *words):
    return json.loads(case.run("sensor", *words, *CPU, "--json").stdout)


def read_scan(np):
    """The shipped cloud, read without amdahl: [N, 4]."""
    data = SCAN.read_bytes()
    begin = data.index(b"end_header\n") + len(b"end_header\n")
    rows = np.frombuffer(data[begin:], dtype=[("p", "<f4", 3), ("i", "u1")])
    return np.column_stack([rows["p"], rows["i"].astype("f4")]).astype("f4")


def grid_of(np, points, values, minimum, size, voxel, mode):
    """The grid by the rule of the API, in numpy."""
    at = np.floor((points - np.array(minimum, "f4")) / np.float32(voxel))
    inside = ((at >= 0) & (at < np.array(size))).all(1)
    places = tuple(at[inside].astype(int).T)
    count = np.zeros(size, int)
    np.add.at(count, places, 1)
    if mode == "mean":
        total = np.zeros(size)
        np.add.at(total, places, values[inside].astype(float))
        return np.divide(total, count, out=total, where=count > 0)[..., None], count, inside
    return count, count, inside


def check_the_real_scan(case):
    np = numpy()
    scan = read_scan(np)
    result = found(case, "voxelize", SCAN, "--voxel-size", "0.2", "--grid", "200x200x40", "--min", "-20,-20,-2", "--mode",
                   "mean", "-o", "g.npy")
    mean, count, inside = grid_of(np, scan[:, :3], scan[:, 3], (-20, -20, -2), (200, 200, 40), 0.2, "mean")
    assert result["points"] == 22591 and result["nan"] == 0 and result["outside"] == (~inside).sum() == 5910, result
    assert result["occupied"] == (count > 0).sum() == 6900 and result["max_per_voxel"] == count.max() == 25, result
    grid = np.load(case.path("g.npy"))
    assert grid.dtype == np.float32 and grid.shape == (200, 200, 40, 1) == tuple(result["shape"])
    np.testing.assert_allclose(grid, mean, rtol=1e-5)


def check_every_format_is_the_same_cloud(case):
    np = numpy()
    scan = read_scan(np)
    scan.tofile(case.path("a.bin"))
    np.save(case.path("c.npy"), scan)
    np.save(case.path("fortran.npy"), np.asfortranarray(scan))
    np.save(case.path("big.npy"), scan.astype(">f8"))
    case.write("text.ply", "ply\nformat ascii 1.0\nelement vertex %d\nproperty float x\nproperty float y\n"
               "property float z\nproperty float intensity\nend_header\n" % len(scan) +
               "".join("%r %r %r %r\n" % tuple(row) for row in scan.tolist()))
    grids = []
    for name in (SCAN, "a.bin", "c.npy", "fortran.npy", "big.npy", "text.ply"):
        result = found(case, "voxelize", name, "--voxel-size", "0.5", "--mode", "max", "-o", "g.npy")
        assert result["points"] == 22591 and result["outside"] == 0 and result["occupied"] == 4391, result
        assert result["grid"]["fitted_minimum"] and result["grid"]["fitted_size"] and not result["warnings"], result
        grids.append(np.load(case.path("g.npy")))
    assert all((grid == grids[0]).all() for grid in grids) and grids[0].max() == 100


def check_modes_layouts_and_nan(case):
    np = numpy()
    rng = np.random.default_rng(5)
    points = rng.uniform(-1, 1, (500, 3)).astype("f4")
    points[7, 1] = np.nan
    np.save(case.path("p.npy"), points)
    words = ("voxelize", "p.npy", "--voxel-size", "0.25", "--grid", "4x6x8", "--min=-0.5,-0.75,-1")
    count = grid_of(np, points, None, (-0.5, -0.75, -1), (4, 6, 8), 0.25, "count")[0]
    result = found(case, *words, "--mode", "count", "-o", "g.npy")
    assert result["nan"] == 1 and result["outside"] == 499 - count.sum() > 0, result
    assert (np.load(case.path("g.npy")) == count).all()
    found(case, *words, "--mode", "count", "--layout", "zyx", "-o", "g.npy")
    assert (np.load(case.path("g.npy")) == count.transpose(2, 1, 0)).all()
    found(case, *words, "-o", "g.npy")
    assert (np.load(case.path("g.npy")) == (count > 0)).all()
    assert found(case, *words, "--mode", "bitmask", "-o", "g.npy")["shape"] == [6]
    mask = np.load(case.path("g.npy"))
    assert mask.dtype == np.uint32
    bits = np.unpackbits(mask.view("u1"), bitorder="little")
    assert (bits.reshape(count.shape) == (count > 0)).all()
    clamped = found(case, *words, "--mode", "count", "--bounds", "clamp", "-o", "g.npy")
    assert clamped["outside"] == result["outside"] and np.load(case.path("g.npy")).sum() == 499
    case.refused(2, "usage", "sensor", *words, "--mode", "mean", *CPU, says=["p.npy", "features"])


def check_where_the_grid_lies(case):
    np = numpy()
    np.save(case.path("p.npy"), np.array([[0.1, 5, -3], [0.9, 7, -1]], "f4"))
    text = case.run("sensor", "voxelize", "p.npy", "--voxel-size", "1", *CPU).stdout
    assert "1 x 3 x 3 voxels of 1 from (0, 5, -3), fitted around the points" in text, text
    text = case.run("sensor", "voxelize", "p.npy", "--voxel-size", "1", "--grid", "2", *CPU).stdout
    assert "2 x 2 x 2 voxels of 1 from (-0.5, 5, -3), centred on the points" in text, text
    text = case.run("sensor", "voxelize", "p.npy", "--voxel-size", "1", "--min", "0,0,-3.5", *CPU).stdout
    assert "1 x 8 x 3 voxels of 1 from (0, 0, -3.5), up to the last point" in text, text
    require_npz(case)
    case.run("sensor", "voxelize", "p.npy", "--voxel-size", "0.5", "-o", "g.npz", *CPU)
    grid = np.load(case.path("g.npz"))
    assert grid["grid"].sum() == 2 and grid["minimum"].tolist() == [0, 5, -3] and grid["voxel_size"] == 0.5
    np.save(case.path("far.npy"), np.array([[635619.85, 0.3, 0.1]]))
    result = case.run("sensor", "voxelize", "far.npy", "--voxel-size", "0.1", *CPU)
    assert "warning: coordinates changed by up to 0.0" in result.stderr, result.stderr


def check_wrong_voxelize(case):
    for words, says in (
            (("--voxel-size", "-1"), ["--voxel-size is -1"]),
            (("--voxel-size", "0"), ["--voxel-size is 0"]),
            (("--voxel-size", "nan"), ["--voxel-size"]),
            (("--voxel-size", "1e-9"), ["along x"]),
            (("--voxel-size", "1", "--grid", "2x3"), ["--grid: '2x3' is no value like 200x200x40"]),
            (("--voxel-size", "1", "--grid", "-4"), ["--grid"]),
            (("--voxel-size", "1", "--grid", "17000000"), ["16777216"]),
            (("--voxel-size", "1", "--min", "1,2"), ["--min: '1,2' is no corner"]),
            (("--voxel-size", "1", "--mode", "median"), ["--mode", "mean"]),
            (("--voxel-size", "1", "--bounds", "wrap"), ["--bounds"]),
            (("--voxel-size", "1", "--backend", "tpu"), ["--backend"]),
            (("--voxel-size", "1", "-o", "g.txt"), ["g.txt", ".npy"]),
            (("--voxel-size", "1", "-o", "nowhere/g.npy"), ["nowhere/g.npy"]),
            (("--voxel-size", "1", "-o", "nowhere/g.npz", "--mode", "max"), ["nowhere/g.npz"]),
            (("--voxel-sise", "1"), [" --voxel-size"]),
            ((), ["needs --voxel-size"])):
        if "--backend" not in words and words and words[0] == "--voxel-size":
            words += CPU
        if "nowhere/g.npz" in words:
            require_npz(case)
        case.refused(2, "usage", "sensor", "voxelize", SCAN, *words, says=says)
    result = case.run("sensor", "voxelize", SCAN, "--voxel-size", "0.1", "--grid", "100000", *CPU, code=3)
    harness.check_error(result.stderr, "out-of-memory", ["TB asked", "grid"])
    assert not list(case.folder.glob("*.npy"))


def check_wrong_clouds(case):
    np = numpy()
    case.path("cut.ply").write_bytes(SCAN.read_bytes()[:-5])
    np.save(case.path("flat.npy"), np.zeros(12, "f4"))
    np.save(case.path("nan.npy"), np.full((3, 3), np.nan))
    np.save(case.path("words.npy"), np.array(["a"]))
    case.path("cut.bin").write_bytes(b"\0" * 33)
    for name, says in (("cut.ply", ["cut off", "22591 rows"]), ("flat.npy", ["[12]"]), ("words.npy", ["'<U1'"]),
                       ("cut.bin", ["33 bytes", "byte 32"])):
        case.refused(2, "data-corrupt", "sensor", "voxelize", name, "--voxel-size", "1", says=[name, *says])
    case.refused(2, "usage", "sensor", "voxelize", "nan.npy", "--voxel-size", "1", says=["no finite point"])
    result = found(case, "voxelize", "nan.npy", "--voxel-size", "1", "--grid", "2", "--min", "0,0,0")
    assert result["nan"] == 3 and result["occupied"] == 0, result
    case.refused(2, "usage", "sensor", "voxelize", "none.bin", "--voxel-size", "1", says=["none.bin"])
    case.refused(2, "usage", "sensor", "voxelize", "scan.las", "--voxel-size", "1", says=["scan.las", ".ply"])


def check_resample_is_interpolation(case):
    np = numpy()
    rng = np.random.default_rng(3)
    times = 1.7e9 + np.cumsum(rng.uniform(0.005, 0.02, 200))
    values = rng.normal(size=(200, 2))
    case.write("t.csv", "timestamp,x,note,y\n" +
               "".join(f"{t!r},{a!r},ok,{b!r}\n" for t, (a, b) in zip(times.tolist(), values.tolist())))
    result = found(case, "resample", "t.csv", "--rate", "50", "-o", "o.npy")
    assert result["streams"] == [{"name": "", "shape": [1, 200, 2], "columns": ["x", "y"], "skipped": ["note"]}], result
    targets = times[0] + np.arange(int((times[-1] - times[0]) * 50) + 1) / 50
    output = np.load(case.path("o.npy"))
    assert output.shape == (1, len(targets), 2) and result["outside"] == 0, (output.shape, result)
    for column in range(2):
        np.testing.assert_allclose(output[0, :, column], np.interp(targets, times, values[:, column]), atol=2e-4)
    result = found(case, "resample", "t.csv", "--targets", "7", "-o", "o.npy")
    np.testing.assert_allclose(np.load(case.path("o.npy"))[0, :, 0],
                               np.interp(np.linspace(times[0], times[-1], 7), times, values[:, 0]), atol=2e-4)
    assert result["first"] == times[0] and abs(result["last"] - times[-1]) < 1e-6, result


def check_extrapolation(case):
    np = numpy()
    case.write("t.csv", "t,v\n0,0\n1,2\n2,4\n")
    for rule, expected in (("hold", [0, 0, 2, 4, 4]), ("linear", [-2, 0, 2, 4, 6]), ("linear-right", [0, 0, 2, 4, 6])):
        result = found(case, "resample", "t.csv", "--rate", "1", "--begin", "-1", "--end", "3", "--extrapolation", rule,
                       "-o", "o.npy")
        np.testing.assert_allclose(np.load(case.path("o.npy")).ravel(), expected, atol=1e-6)
        assert result["outside"] == 2, result


def check_batches(case):
    np = numpy()
    case.write("t.csv", "t,episode,v\n10,0,1\n11,0,2\n12,0,3\n0,1,5\n2,1,7\n3,1,8\n")
    result = found(case, "resample", "t.csv", "--rate", "1", "-o", "o.npy")
    np.testing.assert_allclose(np.load(case.path("o.npy"))[:, :, 0], [[1, 2, 3, 3], [5, 6, 7, 8]])
    assert result["outside"] == 1 and result["shape"] == [2, 4, 1], result
    case.write("t.csv", "t,episode,v\n10,0,1\n11,0,2\n0,1,5\n")
    case.refused(2, "data-corrupt", "sensor", "resample", "t.csv", "--rate", "1", says=["t.csv", "'0' has 2", "'1' has 1"])


def check_fuse(case):
    np = numpy()
    require_npz(case)
    rng = np.random.default_rng(4)
    arm_times = np.sort(rng.uniform(0, 4, (2, 50)))
    imu_times = np.sort(rng.uniform(0.5, 5, 80)).astype(">f8")
    arm, imu = rng.normal(size=(2, 50, 3)).astype("f4"), np.asfortranarray(rng.normal(size=(2, 80, 2)))
    np.savez_compressed(case.path("s.npz"), arm=arm, imu=imu, arm_times=arm_times, imu_times=imu_times)
    result = found(case, "resample", "s.npz", "--fuse", "--rate", "20", "-o", "o.npz")
    assert [stream["name"] for stream in result["streams"]] == ["arm", "imu"], result
    output = np.load(case.path("o.npz"))
    assert output["values"].shape == tuple(result["shape"]) and output["values"].shape[::2] == (2, 5), result
    assert output["times"].dtype == np.float64
    outside = 0
    for b in range(2):
        targets = output["times"][b]
        assert targets[0] == max(arm_times[b, 0], imu_times[0])
        np.testing.assert_allclose(np.diff(targets), 0.05, atol=1e-9)
        outside += (targets > arm_times[b, -1]).sum() + (targets > imu_times[-1]).sum()
        for column in range(5):
            times, values = (arm_times[b], arm[b, :, column]) if column < 3 else (imu_times, imu[b, :, column - 3])
            expected = np.interp(targets, times.astype(float), values)
            np.testing.assert_allclose(output["values"][b, :, column], expected, atol=5e-3)
    assert result["outside"] == outside, (result, outside)
    one = found(case, "resample", "s.npz", "--stream", "imu", "--targets", "5", "-o", "o.npz")
    assert one["shape"] == [2, 5, 2] and list(np.load(case.path("o.npz"))) == ["times", "values"], one
    table_text.check_fits(case, "sensor", "resample", "s.npz", "--fuse", "--rate", "20", *CPU)
    again = found(case, "resample", "o.npz", "--targets", "5")
    assert again["shape"] == [2, 5, 2], again


def check_wrong_timelines(case):
    np = numpy()
    require_npz(case)
    times = np.arange(4.0)
    np.savez(case.path("batch.npz"), a=np.zeros((2, 4, 1)), a_times=times, b=np.zeros((3, 4, 1)), b_times=times)
    np.savez(case.path("apart.npz"), a=np.zeros((4, 1)), a_times=times, b=np.zeros((4, 1)), b_times=times + 10)
    np.savez(case.path("rank.npz"), times=times, values=np.zeros((1, 4, 1, 1)))
    np.savez(case.path("length.npz"), times=times, values=np.zeros((5, 1)))
    np.savez(case.path("good.npz"), times=times, values=np.zeros((4, 1)))
    case.write("fall.csv", "t,v\n1,1\n0,1\n")
    for code, cause, words, says in (
            (2, "usage", ("resample", "batch.npz", "--fuse", "--rate", "1"), ["'a'", "batch of 2", "'b'", "3"]),
            (2, "usage", ("resample", "apart.npz", "--fuse", "--rate", "1"), ["begin at 10", "end at 3"]),
            (2, "usage", ("resample", "apart.npz", "--rate", "1"), ["2 streams", "a, b"]),
            (2, "usage", ("resample", "apart.npz", "--rate", "1", "--stream", "c"), ["no stream 'c'"]),
            (2, "data-corrupt", ("resample", "rank.npz", "--rate", "1"), ["[1, 4, 1, 1]"]),
            (2, "data-corrupt", ("resample", "length.npz", "--rate", "1"), ["[4]", "[5, 1]"]),
            (2, "data-corrupt", ("resample", "fall.csv", "--rate", "1"), ["fall.csv, line 3", "below"]),
            (2, "usage", ("resample", "good.npz"), ["--rate or --targets"]),
            (2, "usage", ("resample", "good.npz", "--rate", "1", "--targets", "3"), ["--rate or --targets"]),
            (2, "usage", ("resample", "good.npz", "--rate", "-1"), ["--rate is -1"]),
            (2, "usage", ("resample", "good.npz", "--rate", "1e20"), ["--rate 1e+20"]),
            (2, "usage", ("resample", "good.npz", "--targets", "0"), ["--targets is 0"]),
            (3, "out-of-memory", ("resample", "good.npz", "--targets", "100000000000"), ["100000000000 targets"]),
            (2, "usage", ("resample", "good.npz", "--rate", "1", "--begin", "5", "--end", "4"), ["begin at 5"]),
            (2, "usage", ("resample", "good.npz", "--rate", "1", "--extrapolation", "cubic"), ["--extrapolation"]),
            (2, "usage", ("resample", "good.npz", "--rate", "1", "-o", "o.csv"), ["o.csv"])):
        case.refused(code, cause, "sensor", *words, *CPU, says=says)


def schema_validator():
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("the Python package jsonschema is not installed (Debian: python3-jsonschema)") from None
    schema = json.loads((harness.SOURCE / "docs" / "schema" / "sensor-files.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def expect_only(validator, document, changes):
    """The document fits the schema, and with any of the changes it does not."""
    validator.validate(document)
    for change, what in changes:
        changed = copy.deepcopy(document)
        change(changed)
        assert not validator.is_valid(changed), f"accepted: {what}"
    for field in document:
        assert not validator.is_valid({k: v for k, v in document.items() if k != field}), f"accepted: no {field}"
    assert not validator.is_valid({**document, "surprise": 1}), "accepted: a new key"


def check_schema_of_grids(case):
    validator = schema_validator()
    for mode in ("count", "occupancy", "bitmask", "mean", "max"):
        result = found(case, "voxelize", SCAN, "--voxel-size", "0.5", "--mode", mode)
        dimensions = {"bitmask": 1, "mean": 4, "max": 4}.get(mode, 3)
        assert len(result["shape"]) == dimensions, result
        expect_only(validator, result, (
            (lambda d: d.update(version=2), "another version"), (lambda d: d.update(mode="median"), "an unknown mode"),
            (lambda d: d.update(format="LAS"), "an unknown format"), (lambda d: d.update(nan=-1), "fewer points than none"),
            (lambda d: d.update(points=1.5), "half a point"), (lambda d: d["shape"].append(1), "one dimension more"),
            (lambda d: d["shape"].pop(), "one dimension less"), (lambda d: d["grid"].update(voxel_size=0), "voxels of no size"),
            (lambda d: d["grid"].update(size=[1, 1]), "a flat grid"), (lambda d: d["grid"]["size"].insert(0, 1), "four axes"),
            (lambda d: d["grid"].pop("fitted_size"), "a grid that does not say whether it was fitted"),
            (lambda d: d.update(device=""), "no device")))
    assert not validator.is_valid({**result, "features": []}), "accepted: max of no features"
    case.write("bare.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
               "property float z\nend_header\n0 nan 1\n")
    validator.validate(found(case, "voxelize", "bare.ply", "--voxel-size", "1", "--grid", "2", "--min", "0,0,0"))


def check_schema_of_timelines(case):
    validator = schema_validator()
    case.write("t.csv", "t,episode,v,note\n10,0,1,a\n11,0,2,b\n0,1,5,c\n2,1,7,d\n")
    result = found(case, "resample", "t.csv", "--rate", "1")
    assert result["streams"][0]["skipped"] == ["note"] and result["outside"] == 1, result
    expect_only(validator, result, (
        (lambda d: d.update(version=0), "another version"), (lambda d: d.update(streams=[]), "no stream"),
        (lambda d: d["streams"][0].update(shape=[2, 1]), "a stream without width"),
        (lambda d: d["streams"][0].pop("skipped"), "a stream that hides what was left out"),
        (lambda d: d.update(shape=[2, 0, 1]), "no target"), (lambda d: d.update(first=None), "no first time"),
        (lambda d: d.update(outside=-1), "fewer targets than none"), (lambda d: d.update(warnings="none"), "words, not a list")))
    np = numpy()
    require_npz(case)
    times = np.arange(4.0)
    np.savez(case.path("s.npz"), arm=np.zeros((4, 2)), arm_times=times, imu=np.zeros((4, 3)), imu_times=times)
    fused = found(case, "resample", "s.npz", "--fuse", "--targets", "5")
    assert fused["shape"] == [1, 5, 5], fused
    validator.validate(fused)


def check_the_parent(case):
    assert "voxelize" in case.run("sensor").stdout
    case.refused(2, "usage", "sensor", "voxelise", says=["voxelise", " voxelize"])


if __name__ == "__main__":
    harness.main(globals())
