"""Robotics preprocessing on arrays of numpy, torch and cupy: docs/robotics.md has all rules and differences to
RoboCache."""
from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from ._arrays import Library, library_of, require_known_type
from ._error import Error

_MOST_PREPROCESSORS = 16  # kept by a thread; torch has a pool of 32 streams
_MOST_ELEMENTS = 2**57
_kept = threading.local()


class Voxels(NamedTuple):
    """A grid, and counts of the points that it was made from."""
    grid: Any
    num_points: int
    num_nan: int  # with a NaN coordinate: in no voxel
    num_outside: int  # dropped, or moved to the border


def _native() -> Any:
    try:
        from . import _native
    except ImportError as error:
        raise Error("environment-missing", f"the native module of amdahl_lab cannot be loaded: {error}",
                    "a wheel of amdahl-lab for this Python (make wheel)", 3) from error
    return _native


def _preprocessor_for(library: Library, gpu: int) -> Any:
    """The native object of this thread for the GPU and its current stream."""
    stream, owner = library.stream(gpu) if gpu >= 0 else (0, None)
    kept = _kept.__dict__.setdefault("by_place", {})
    if (gpu, stream) not in kept:
        if len(kept) >= _MOST_PREPROCESSORS:
            kept.pop(next(iter(kept)))
        kept[gpu, stream] = (_native().Preprocessor(gpu, stream), owner)
    return kept[gpu, stream][0]


class _Call:
    """The arrays of one call: all become dense and are exported; outputs lie beside the first. A context of its GPU."""

    def __init__(self, name: str, first: Any):
        self.first = first
        self.library = library_of(name, first)
        self.gpu = self.library.gpu_of(first)
        self._guard = self.library.guard(self.gpu)
        self._alive: list[Any] = []

    def __enter__(self) -> _Call:
        self._guard.__enter__()
        self.preprocessor = _preprocessor_for(self.library, self.gpu)
        return self

    def __exit__(self, *failure: Any) -> None:
        self._guard.__exit__(*failure)

    def take(self, name: str, array: Any, as_float32: bool = False) -> Any:
        library = library_of(name, array)
        if not as_float32:
            require_known_type(name, array)
        dense = library.dense(library.as_float32(array) if as_float32 else array)
        return self._export(name, library, dense)

    def give(self, array: Any) -> Any:
        return self._export("output", self.library, array)

    def _export(self, name: str, library: Library, array: Any) -> Any:
        self._alive.append(array)
        try:
            return library.exported(array)
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            raise Error("usage", f"{name} cannot be exported with DLPack: {error}", "an array in memory", 2) from error


def _fused_shape(streams: Sequence[tuple[Any, Any]], target_times: Any) -> tuple[int, ...]:
    """[B, T, sum of D]; of arguments with other shapes, which the native module refuses, something small."""
    if any(data.ndim != 3 for data, _ in streams) or target_times.ndim != 2:
        return (0, 0, 0)
    return (*target_times.shape, sum(data.shape[2] for data, _ in streams))


class Preprocessor:
    """The operations of include/amdahl/sensor.h on arrays.

    Arrays are of numpy, torch (CPU, CUDA) or cupy, all of a call on one device. Results are new arrays of the first
    argument's library, on its device. On a GPU a call is enqueued on the library's current stream of that GPU, and the
    GIL is released while it runs. Arrays that are not dense are copied first. Error of cause usage names an argument
    with a wrong shape, type, device or value; non-finite and data-corrupt have the position of a bad time. Objects hold
    options only, and any thread may use them.

    extrapolation: "hold", "linear", "linear-right": the value at targets outside of a stream's times. check_times:
    refuse times that fall or are not finite; on a GPU that waits for the stream.
    """

    def __init__(self, extrapolation: str = "hold", check_times: bool = True):
        self.extrapolation = extrapolation
        self.check_times = check_times

    def fuse_multimodal(self, streams: Sequence[tuple[Any, Any]], target_times: Any) -> Any:
        """Interpolates streams at common times and concatenates them.

        streams: (data [B, S_i, D_i] in float32, bfloat16 or float16, times [B, S_i] in float32), any number.
        target_times [B, T], float32. Returns [B, T, sum of D_i] of the streams' type.
        """
        return self._fuse(streams, target_times, False)

    def _fuse(self, streams: Sequence[tuple[Any, Any]], target_times: Any, cast_times: bool) -> Any:
        if len(streams) == 0:
            raise Error("usage", "streams is empty", "at least one stream", 2)
        with _Call("streams[0].data", streams[0][0]) as call:
            taken = [(call.take(f"streams[{i}].data", data), call.take(f"streams[{i}].times", times, cast_times))
                     for i, (data, times) in enumerate(streams)]
            targets = call.take("target_times", target_times, cast_times)
            output = call.library.empty(_fused_shape(streams, target_times), call.first)
            call.preprocessor.fuse_multimodal(taken, targets, call.give(output), self.extrapolation, self.check_times)
        return output

    def resample_trajectories(self, data: Any, times: Any, target_times: Any) -> Any:
        """Interpolates trajectories at other times.

        data [B, S, D] in float32, bfloat16 or float16; times [B, S] and target_times [B, T] in float32. Returns [B, T,
        D].
        """
        return self._resample(data, times, target_times, False)

    def _resample(self, data: Any, times: Any, target_times: Any, cast_times: bool) -> Any:
        with _Call("trajectory.data", data) as call:
            taken = call.take("trajectory.data", data), call.take("trajectory.times", times, cast_times)
            targets = call.take("target_times", target_times, cast_times)
            output = call.library.empty(_fused_shape([(data, times)], target_times), data)
            call.preprocessor.resample_trajectories(taken, targets, call.give(output), self.extrapolation,
                                                    self.check_times)
        return output

    def voxelize_pointcloud(self, points: Any, features: Any = None,
                            grid_min: Sequence[float] = (-10.0, -10.0, -10.0), voxel_size: float = 0.1,
                            grid_size: Sequence[int] = (128, 128, 128), mode: str = "occupancy", *,
                            layout: str = "xyz", bounds: str = "drop", deterministic: bool = False,
                            zero_floor: bool = False, fast_quotient: bool = False) -> Voxels:
        """Voxelizes a point cloud; point p is in voxel floor((p - grid_min) / voxel_size).

        points [N, 3], float32, in the unit of grid_min and voxel_size. features [N, F] in float32, bfloat16 or float16,
        of the modes mean and max. grid_size: X, Y, Z. mode: "count", "occupancy": int32 [X, Y, Z]; "bitmask": uint32
        [ceil(X Y Z / 32)] (torch: int32 with the same bits); "mean", "max": float32 [X, Y, Z, F], 0 in empty voxels.
        layout "zyx": [Z, Y, X]. bounds: points outside are dropped ("drop") or moved to the border ("clamp").
        deterministic: mean in fixed point, the same bits in any order of the points. zero_floor: max is at least 0.
        fast_quotient: RoboCache's approximate division, on a GPU. Waits for the counts that it returns.
        """
        return self._voxelize(points, features, (grid_min, voxel_size, grid_size),
                              (mode, layout, bounds, deterministic, zero_floor, fast_quotient), False)

    def _voxelize(self, points: Any, features: Any, grid: tuple[Any, Any, Any], options: tuple[Any, ...],
                  cast: bool) -> Voxels:
        minimum, size = _triple("grid_min", grid[0], float), _triple("grid_size", grid[2], int)
        with _Call("points", points) as call:
            arguments = _native().VoxelArguments(minimum, float(grid[1]), size, *options)
            taken = call.take("points", points, cast)
            values = None if features is None else call.take("features", features, cast)
            output = _new_grid(call, size, features, options[0], options[1])
            return Voxels(output, *call.preprocessor.voxelize_pointcloud(taken, values, call.give(output), arguments))


def _triple(name: str, values: Any, kind: Any) -> tuple[Any, Any, Any]:
    try:
        found = tuple(kind(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise Error("usage", f"{name} is {values!r}", "three numbers, of x, y and z", 2) from error
    if len(found) != 3:
        raise Error("usage", f"{name} has {len(found)} numbers", "three, of x, y and z", 2)
    return found


def _new_grid(call: _Call, size: tuple[int, int, int], features: Any, mode: str, layout: str) -> Any:
    """The output; of a grid that the native module refuses, something small."""
    voxels = size[0] * size[1] * size[2]
    if min(size) < 1 or voxels > _MOST_ELEMENTS:
        return call.library.empty((0,), call.first, "int32")
    if mode == "bitmask":
        return call.library.empty(((voxels + 31) // 32,), call.first, "uint32")
    shape = tuple(reversed(size)) if layout == "zyx" else size
    if mode in ("mean", "max") and features is not None and features.ndim == 2:
        return call.library.empty((*shape, features.shape[1]), call.first, "float32")
    return call.library.empty(shape, call.first, "int32")


def fuse_multimodal(s1: Any, t1: Any, s2: Any, t2: Any, s3: Any, t3: Any, target: Any, *,
                    robocache: bool = False) -> Any:
    """Three streams at common times, concatenated, under RoboCache's name.

    s1, s2, s3: [B, S_i, D_i] in float32, bfloat16 or float16; t1, t2, t3: [B, S_i] and target: [B, T], float32. Returns
    [B, T, D1 + D2 + D3] of the streams' type. Targets outside of a stream's times get its first or last sample.
    robocache: times of any type are rounded to float32, and targets outside are extrapolated, as its kernel does.
    """
    preprocessor = Preprocessor(extrapolation="linear" if robocache else "hold")
    return preprocessor._fuse([(s1, t1), (s2, t2), (s3, t3)], target, robocache)


def resample_trajectories(source_data: Any, source_times: Any, target_times: Any, *, robocache: bool = False) -> Any:
    """Trajectories at other times, under RoboCache's name.

    source_data [B, S, D] in float32, bfloat16 or float16; source_times [B, S] and target_times [B, T], float32. Returns
    [B, T, D]. robocache: times of any type are rounded to float32; before the first sample it is held, after the last
    one the value is extrapolated, as its kernel does.
    """
    preprocessor = Preprocessor(extrapolation="linear-right" if robocache else "hold")
    return preprocessor._resample(source_data, source_times, target_times, robocache)


def voxelize_pointcloud(points: Any, features: Any = None, grid_min: Optional[Sequence[float]] = None,
                        voxel_size: float = 0.1, grid_size: Optional[Sequence[int]] = None, mode: str = "occupancy", *,
                        robocache: bool = False) -> Any:
    """A point cloud as a grid [X, Y, Z], or [X, Y, Z, F] of mean and max, under RoboCache's name and defaults.

    As Preprocessor.voxelize_pointcloud without the counts; grid_min None: -10 on each axis; grid_size None: 128 on
    each. robocache: points and features of any type are rounded to float32, max is at least 0, and the memory of the
    result has its kernels' order [Z][Y][X] under the shape [X, Y, Z].
    """
    minimum = (-10.0, -10.0, -10.0) if grid_min is None else grid_min
    size = (128, 128, 128) if grid_size is None else grid_size
    options = (mode, "zyx" if robocache else "xyz", "drop", False, robocache, robocache)
    grid = Preprocessor()._voxelize(points, features, (minimum, voxel_size, size), options, robocache).grid
    if robocache and mode != "bitmask":
        return grid.reshape((*reversed(grid.shape[:3]), *grid.shape[3:]))
    return grid
