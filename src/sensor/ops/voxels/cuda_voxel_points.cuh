// Reading points from global memory: four per thread.
#pragma once

#include "sensor/ops/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda {

inline constexpr int kTileThreads = 1024;

struct Points {
  const float* data;
  int64_t count;
  bool aligned;  // to 16 bytes
};

inline Points points_of(const VoxelizeProblem& problem) {
  return {problem.points, problem.num_points, reinterpret_cast<uintptr_t>(problem.points) % 16 == 0};
}

/// Loads the coordinates of `count` (up to 4) points; `aligned`: `from` is aligned to 16 bytes.
__device__ __forceinline__ void load_quad(const float* from, int count, bool aligned, float (&p)[12]) {
  if (aligned && count == 4) {
    const auto* packed = reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const float4 part = __ldcs(packed + i);
      p[4 * i] = part.x, p[4 * i + 1] = part.y, p[4 * i + 2] = part.z, p[4 * i + 3] = part.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 12; ++i) p[i] = i < count * 3 ? from[i] : 0.0f;
}

/// Four consecutive points of a tile.
struct Quad {
  const float* from;
  int count;  // number of points, 0 to 4
  __device__ __forceinline__ Quad(const BinArgs& bins, const Points& points, int64_t tile, int at) {
    const int64_t first = bins.point_at(tile, at);
    from = points.data + first * 3;
    const int64_t left = at < bins.tile_points ? points.count - first : 0;
    count = static_cast<int>(max(min(left, int64_t{4}), int64_t{0}));
  }
};

}  // namespace amdahl::sensor_cuda
