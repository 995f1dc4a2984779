// Reading points: four per thread, from global memory, or prefetched into shared memory.
#pragma once

#include "sensor/voxels/cuda_voxelize.cuh"

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

/// Prefetches the next tile's points into shared memory while a tile is sorted. Tiles must not be interleaved. Each
/// warp copies, in whole lines, the points that its own lanes read.
template <int kQuads>
class PointsAhead {
 public:
  static constexpr size_t kBytes = size_t{kQuads} * kTileThreads * 12 * sizeof(float);

  __device__ explicit PointsAhead(void* memory) : memory_(static_cast<Vector*>(memory)) {}
  /// Begins to copy a tile, after all lanes of the warp have loaded their points of the previous one.
  __device__ __forceinline__ void begin(const BinArgs& bins, const Points& points, int64_t tile) const {
    __syncwarp();
    const int64_t first = tile * bins.tile_points, left = min(points.count - first, int64_t{bins.tile_points});
    if (!points.aligned || left <= 0) return;
    const auto* source = reinterpret_cast<const Vector*>(points.data + first * 3);
    const int own = static_cast<int>(threadIdx.x / 32 * 96 + threadIdx.x % 32), end = static_cast<int>(left / 4) * 3;
#pragma unroll
    for (int i = 0; i < kQuads * 3; ++i) {
      const int at = own + i / 3 * kTileThreads * 3 + i % 3 * 32;
      if (at < end) copy_async(memory_ + at, source + at);
    }
    end_async_batch();
  }
  /// Waits for the copies of this warp.
  __device__ __forceinline__ void wait() const {
    wait_for_batches<0>();
    __syncwarp();
  }
  __device__ __forceinline__ void load(const Points& points, const Quad& quad, int number, float (&p)[12]) const {
    if (quad.count < 4 || !points.aligned) return load_quad(quad.from, quad.count, false, p);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const Vector values = memory_[number * 3 + part];  // 16 bytes at once: single words would have bank conflicts
#pragma unroll
      for (int i = 0; i < 4; ++i) p[part * 4 + i] = values.at[i];
    }
  }

 private:
  using Vector = Pack<float, 4>;
  Vector* memory_;
};

}  // namespace amdahl::sensor_cuda
