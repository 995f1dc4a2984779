"""Preprocessing of an installed amdahl_lab against references in numpy and float64: random data, every mode, odd
arrays.

usage: preprocess_check.py [LIBRARY ...]     with an interpreter that has the wheel and numpy; torch and cupy when they
are there LIBRARY: fail when it was not tested.

Prints what it ran; ends with an assertion when something is wrong. wheel_test.py runs it.
"""
import importlib
import sys
import threading

import numpy as np

import amdahl_lab as lab
from amdahl_lab import _preprocess

SEEDS = range(5)


def streams_of(rng, batch=3, widths=(4, 1, 7), lengths=(9, 1, 30)):
    found = []
    for width, length in zip(widths, lengths):
        times = np.sort(rng.uniform(0, 1, (batch, length)), axis=1).astype(np.float32)
        found.append((rng.standard_normal((batch, length, width)).astype(np.float32), times))
    return found, rng.uniform(-0.2, 1.2, (batch, 13)).astype(np.float32)


def resampled(data, times, targets, rule="hold"):
    """The rules of docs/robotics.md in float64, sample by sample."""
    batch, length, width = data.shape
    out = np.empty((batch, targets.shape[1], width))
    data, times = data.astype(np.float64), times.astype(np.float64)
    for b in range(batch):
        for k, t in enumerate(targets[b].astype(np.float64)):
            i = int(np.searchsorted(times[b], t, "right")) - 1
            inside = 0 <= i < length - 1
            if length == 1 or (not inside and rule == "hold") or (i < 0 and rule == "linear_right"):
                out[b, k] = data[b, min(max(i, 0), length - 1)]
                continue
            i = min(max(i, 0), length - 2)
            span = times[b, i + 1] - times[b, i] + (0 if rule == "hold" else np.float64(np.float32(1e-8)))
            out[b, k] = data[b, i] + (t - times[b, i]) / span * (data[b, i + 1] - data[b, i])
    return out


def fused(streams, targets, rule="hold"):
    return np.concatenate([resampled(data, times, targets, rule) for data, times in streams], axis=2)


def close(found, expected, tolerance, what):
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    worst = np.max(np.abs(found - expected) / (1 + np.abs(expected)), initial=0)
    assert worst <= tolerance, f"{what}: differs by {worst}, more than {tolerance}"


def voxels_of(points, minimum, edge, size):
    """Index [N, 3] of each point, computed in float32 as the library does, and which are inside."""
    with np.errstate(invalid="ignore"):
        cell = np.floor((points - np.float32(minimum)) / np.float32(edge))
        inside = np.all((cell >= 0) & (cell < np.array(size)), axis=1)
    return cell, inside


def voxelized(points, features, minimum, edge, size, mode):
    cell, inside = voxels_of(points, minimum, edge, size)
    index = tuple(cell[inside].astype(int).T)
    count = np.zeros(size, np.int64)
    np.add.at(count, index, 1)
    if mode == "count":
        return count
    if mode == "occupancy":
        return (count > 0).astype(np.int64)
    if mode == "bitmask":
        bits = (count.reshape(-1) > 0).astype(np.uint8)
        bits = np.pad(bits, (0, -len(bits) % 32))
        return np.packbits(bits, bitorder="little").view("<u4")
    values = features[inside].astype(np.float64)
    grid = np.full((*size, features.shape[1]), 0.0 if mode == "mean" else -np.inf)
    (np.add if mode == "mean" else np.maximum).at(grid, index, values)
    return np.where(count[..., None] > 0, grid / np.maximum(count, 1)[..., None] if mode == "mean" else grid, 0.0)


def cloud_of(rng, number=3000):
    points = rng.uniform(-1.2, 1.2, (number, 3)).astype(np.float32)
    return points, rng.standard_normal((number, 5)).astype(np.float32)


GRID = {"grid_min": (-1, -1, -1), "voxel_size": 0.25, "grid_size": (8, 7, 5)}
REFERENCE_GRID = ((-1, -1, -1), 0.25, (8, 7, 5))


class Numpy:
    name = "numpy"

    def array(self, values):
        return values

    def back(self, array):
        assert isinstance(array, np.ndarray), type(array)
        return array


class Torch(Numpy):
    def __init__(self, device):
        self.torch = importlib.import_module("torch")
        self.device, self.name = device, f"torch on {device}"

    def array(self, values):
        return self.torch.from_numpy(np.array(values)).to(self.device)

    def back(self, array):
        assert isinstance(array, self.torch.Tensor) and array.device.type == self.device, array
        return array.cpu().numpy()


class Cupy(Numpy):
    name = "cupy"

    def __init__(self):
        self.cupy = importlib.import_module("cupy")

    def array(self, values):
        return self.cupy.asarray(values)

    def back(self, array):
        assert isinstance(array, self.cupy.ndarray), type(array)
        return array.get()


def check_fuse(library):
    for seed in SEEDS:
        streams, targets = streams_of(np.random.default_rng(seed))
        given = [(library.array(data), library.array(times)) for data, times in streams]
        at = library.array(targets)
        flat = [array for pair in given for array in pair]
        close(library.back(lab.fuse_multimodal(*flat, at)), fused(streams, targets), 1e-5, "fuse")
        close(library.back(lab.Preprocessor().fuse_multimodal(given[:2], at)), fused(streams[:2], targets), 1e-5, "two")
        long = [(data, times) for data, times in zip(flat[::2], flat[1::2])]
        close(library.back(lab.fuse_multimodal(*flat, at, robocache=True)), fused(streams, targets, "linear"), 1e-3,
              "linear")
        data, times = streams[2]
        close(library.back(lab.resample_trajectories(*long[2], at)), resampled(data, times, targets), 1e-5, "resample")
        close(library.back(lab.resample_trajectories(*long[2], at, robocache=True)),
              resampled(data, times, targets, "linear_right"), 1e-3, "linear_right")


def check_voxelize(library):
    for seed in SEEDS:
        points, features = cloud_of(np.random.default_rng(seed))
        for mode in ("count", "occupancy", "bitmask", "mean", "max"):
            expected = voxelized(points, features, *REFERENCE_GRID, mode)
            given = library.array(points), library.array(features)
            grid = library.back(lab.voxelize_pointcloud(*given, mode=mode, **GRID))
            if mode == "bitmask":
                grid = grid.view(np.uint32)
            close(grid, expected, 1e-5 if mode == "mean" else 0, mode)
    points[:4, 1] = np.nan, np.nan, np.nan, 100
    voxels = lab.Preprocessor().voxelize_pointcloud(library.array(points), mode="count", **GRID)
    inside = voxels_of(points, *REFERENCE_GRID)[1].sum()
    assert (voxels.num_points, voxels.num_nan) == (len(points), 3), voxels[1:]
    assert voxels.num_outside == len(points) - 3 - inside and library.back(voxels.grid).sum() == inside, voxels[1:]
    clamped = lab.Preprocessor().voxelize_pointcloud(library.array(points), mode="count", bounds="clamp", **GRID)
    assert library.back(clamped.grid).sum() == len(points) - 3


def check_robocache_grid(library):
    """Its kernels write [Z][Y][X] under the shape [X, Y, Z], and their maximum is at least 0."""
    points, features = cloud_of(np.random.default_rng(7))
    given = library.array(points), library.array(features)
    for mode, tail in (("count", ()), ("occupancy", ()), ("max", (5,))):
        expected = voxelized(points, features, *REFERENCE_GRID, mode).swapaxes(0, 2)
        expected = np.ascontiguousarray(np.maximum(expected, 0)).reshape((8, 7, 5, *tail))
        grid = library.back(lab.voxelize_pointcloud(*given, mode=mode, robocache=True, **GRID))
        # Borders: an approximate division.
        assert grid.shape == expected.shape and (grid != expected).mean() < 0.01, mode
    assert library.back(lab.voxelize_pointcloud(given[0])).shape == (128, 128, 128)


def check_odd_arrays(library):
    streams, targets = streams_of(np.random.default_rng(3))
    data, times = streams[2]
    expected = resampled(data, times, targets)
    wide = library.array(np.repeat(data, 2, axis=2))[:, :, ::2]
    turned = library.array(np.ascontiguousarray(data.transpose(2, 0, 1)))
    turned = turned.permute(1, 2, 0) if hasattr(turned, "permute") else turned.transpose(1, 2, 0)
    for strided in (wide, turned):
        found = lab.resample_trajectories(strided, library.array(times), library.array(targets))
        close(library.back(found), expected, 1e-5, "strided")
    none = library.array(np.empty((0, 3), np.float32))
    assert library.back(lab.voxelize_pointcloud(none, mode="count", **GRID)).sum() == 0
    no_targets = library.array(np.empty((3, 0), np.float32))
    empty = lab.resample_trajectories(library.array(data), library.array(times), no_targets)
    assert library.back(empty).shape == (3, 0, 7)


def check_half_types(library):
    streams, targets = streams_of(np.random.default_rng(4))
    data, times = streams[2]
    half = data.astype(np.float16)
    found = lab.resample_trajectories(library.array(half), library.array(times), library.array(targets))
    close(library.back(found), resampled(half, times, targets), 1e-3, "float16")
    if isinstance(library, Torch):
        rounded = library.array(data).bfloat16()
        found = lab.resample_trajectories(rounded, library.array(times), library.array(targets))
        assert found.dtype == library.torch.bfloat16
        close(found.float().cpu().numpy(), resampled(rounded.float().cpu().numpy(), times, targets), 1e-2, "bfloat16")
        learned = library.array(data).requires_grad_()
        assert not lab.resample_trajectories(learned, library.array(times), library.array(targets)).requires_grad


def refused(says, call, *positional, cause="usage", **options):
    try:
        call(*positional, **options)
    except lab.Error as error:
        assert error.cause == cause and says in str(error), f"{says}: {error}"
        assert error.remedy and "\n" not in str(error), f"no line with a remedy: {error!r}"
        return
    raise AssertionError(f"not refused: {says}")


def check_refusals(library):
    (data, times), targets = streams_of(np.random.default_rng(5))[0][2], streams_of(np.random.default_rng(5))[1]
    data, times, at, array = library.array(data), library.array(times), library.array(targets), library.array
    resample, voxelize = lab.resample_trajectories, lab.voxelize_pointcloud
    refused("trajectory.data has 2 dimensions", resample, data[0], times, at)
    refused("trajectory.times has shape", resample, data, times[:, 1:], at)
    refused("target_times has 1 dimensions", resample, data, times, at[0])
    refused("trajectory.data is f64", resample, array(np.zeros((3, 30, 7))), times, at)
    refused("trajectory.times is f64", resample, data, array(np.zeros((3, 30))), at)
    lab.resample_trajectories(data, array(np.zeros((3, 30))), at, robocache=True)
    falling = np.ones((3, 30), np.float32).cumsum(1)[:, ::-1].copy()
    refused("below the time before it", resample, data, array(falling), at, cause="data-corrupt")
    bad = np.zeros((3, 30), np.float32)
    bad[1, 4] = np.nan
    refused("batch 1, position 4", resample, data, array(bad), at, cause="non-finite")
    refused("is bool", resample, array(np.zeros((3, 30, 7), bool)), times, at)
    refused("trajectory.data is list", resample, [1, 2], times, at)
    refused("target_times is tuple", resample, data, times, (1, 2))
    refused("streams is empty", lab.Preprocessor().fuse_multimodal, [], at)
    refused("unknown extrapolation 'hld'", lab.Preprocessor("hld").resample_trajectories, data, times, at)
    cloud = array(np.zeros((4, 3), np.float32))
    refused("points has shape", voxelize, array(np.zeros((4, 2), np.float32)))
    refused("points is i32", voxelize, array(np.zeros((4, 3), np.int32)))
    refused("unknown mode 'men'", voxelize, cloud, mode="men")
    refused("features is missing", voxelize, cloud, mode="mean", grid_size=(2, 2, 2))
    refused("features has shape", voxelize, cloud, array(np.zeros((5, 2), np.float32)), mode="max", grid_size=(2, 2, 2))
    refused("grid size is 0", voxelize, cloud, grid_size=(0, 2, 2))
    refused("grid size is", voxelize, cloud, grid_size=(2**40, 2**40, 2**40))
    refused("grid_size has 2 numbers", voxelize, cloud, grid_size=(2, 2))
    refused("grid_min is 'x'", voxelize, cloud, grid_min="x")
    refused("voxel_size is 0", voxelize, cloud, voxel_size=0, grid_size=(2, 2, 2))


def check_read_only_arrays():
    streams, targets = streams_of(np.random.default_rng(6))
    data, times = streams[2]
    for array in (data, times, targets):
        array.flags.writeable = False
    close(lab.resample_trajectories(data, times, targets), resampled(data, times, targets), 1e-5, "read-only")
    points, _ = cloud_of(np.random.default_rng(6))
    points.flags.writeable = False
    expected = voxelized(points, None, *REFERENCE_GRID, "count")
    close(lab.voxelize_pointcloud(points, mode="count", **GRID), expected, 0, "read-only")


def check_threads():
    """Eight threads at once, each with its own cloud and native object, of which none is thread-safe."""
    wrong, objects = [], []

    def work(seed):
        points, features = cloud_of(np.random.default_rng(seed), 20000)
        points[:100 * seed] = np.nan
        expected = voxelized(points, features, *REFERENCE_GRID, "max")
        for _ in range(40):
            voxels = lab.Preprocessor().voxelize_pointcloud(points, features, mode="max", **GRID)
            if voxels.num_nan != 100 * seed or not np.array_equal(voxels.grid, expected):
                wrong.append(seed)
        objects.append(list(_preprocess._kept.by_place.values()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong, f"{len(wrong)} of 320 results are wrong"
    assert len({id(kept[0][0]) for kept in objects}) == 8, "threads share a native object"


def check_torch_stream(library):
    """Work on a stream that is not the default one is in order with what stands before and behind it."""
    torch = library.torch
    points, _ = cloud_of(np.random.default_rng(9), 500000)
    there = library.array(points)
    expected = voxelized(points, None, *REFERENCE_GRID, "count")
    (data, times), targets = streams_of(np.random.default_rng(9))[0][2], streams_of(np.random.default_rng(9))[1]
    given = library.array(data), library.array(times), library.array(targets)
    smooth = lab.Preprocessor(check_times=False)
    for _ in range(20):
        with torch.cuda.stream(torch.cuda.Stream()):
            late = torch.zeros_like(there)
            torch.cuda._sleep(20_000_000)
            late.copy_(there)
            grid = lab.voxelize_pointcloud(late, mode="count", **GRID)
            later = torch.zeros_like(given[0])
            torch.cuda._sleep(20_000_000)
            later.copy_(given[0])
            found = smooth.resample_trajectories(later, *given[1:]) + 0
            torch.cuda.current_stream().synchronize()
        close(grid.cpu().numpy(), expected, 0, "stream")
        close(found.cpu().numpy(), resampled(data, times, targets), 1e-5, "stream")


def libraries():
    found = [Numpy()]
    for name, place, make in (("torch", "cpu", lambda: Torch("cpu")), ("torch", "cuda", lambda: Torch("cuda")),
                              ("cupy", "cuda", Cupy)):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if place == "cpu" or module.cuda.is_available():
            found.append(make())
    return found


def main():
    wanted = sys.argv[1:]
    found = libraries()
    for library in found:
        for check in (check_fuse, check_voxelize, check_robocache_grid, check_odd_arrays, check_half_types,
                      check_refusals):
            check(library)
            print(f"ok: {check.__name__[6:].replace('_', ' ')} ({library.name})")
        if library.name == "torch on cuda":
            check_torch_stream(library)
            print("ok: streams of torch")
    check_read_only_arrays()
    check_threads()
    print("ok: read-only arrays, threads (numpy)")
    missing = [name for name in wanted if not any(name in library.name for library in found)]
    assert not missing, f"not tested: {missing}"
    print("preprocess: " + ", ".join(library.name for library in found))


main()
