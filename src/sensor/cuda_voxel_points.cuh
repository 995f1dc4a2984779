// A cloud's points as kernels read them: four at once, a thread its own, from memory or ahead of their turn.
#pragma once

#include "sensor/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda {

struct Points {
  const float* data;
  int64_t count;
  bool aligned;  // to 16 bytes
};

/// Coordinates of the `count` points, up to 4, that begin here; `aligned` to 16 bytes.
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

inline Points points_of(const VoxelizeProblem& problem) {
  return {problem.points, problem.num_points, reinterpret_cast<uintptr_t>(problem.points) % 16 == 0};
}

/// A tile's coordinates as a kernel reads them: from memory.
class PointsInMemory {
 public:
  static constexpr size_t kBytes = 0;
  const float* from = nullptr;  // of the tile

  __device__ PointsInMemory(void*, const Points& points, bool) : points_(points) {}
  /// Turns to the tile of `count` points from `first` on.
  __device__ __forceinline__ void begin(int64_t first, int) { from = points_.data + first * 3; }
  __device__ __forceinline__ void wait() const {}
  __device__ __forceinline__ void load(int quad, int count, float (&p)[12]) const {
    load_quad(from + quad * 12, count, points_.aligned, p);
  }

 private:
  const Points& points_;
};

/// The same through shared memory, where a tile's points lie when its turn comes. Warps copy whole lines of what their
/// own lanes read.
template <int kThreads, int kQuads>
class PointsAhead {
 public:
  static constexpr size_t kBytes = size_t{kQuads} * kThreads * 12 * sizeof(float);
  const float* from = nullptr;  // of the tile

  __device__ PointsAhead(void* memory, const Points& points, bool go_first)
      : memory_(static_cast<uint4*>(memory)), points_(points), go_first_(go_first) {}
  /// Begins to read a tile, once all lanes have loaded what they have of the one before.
  __device__ __forceinline__ void begin(int64_t first, int count) {
    __syncwarp();
    from = points_.data + first * 3;
    num_copied_ = points_.aligned ? count / 4 : 0;
    const uint64_t policy = l2_policy(go_first_);
    const int own = static_cast<int>(threadIdx.x) / 32 * 96 + static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int at = 0; at < kQuads * 3 * kThreads; at += at / 32 % 3 < 2 ? 32 : 3 * kThreads - 64)
      if (own + at < num_copied_ * 3)
        copy_async(memory_ + own + at, reinterpret_cast<const uint4*>(from) + own + at, policy);
    end_async_batch();
  }
  __device__ __forceinline__ void wait() const {
    wait_for_batches<0>();
    __syncwarp();
  }
  __device__ __forceinline__ void load(int quad, int count, float (&p)[12]) const {
    if (quad >= num_copied_) return load_quad(from + quad * 12, count, false, p);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const auto& values = reinterpret_cast<const Pack<float, 4>&>(memory_[quad * 3 + part]);
#pragma unroll
      for (int i = 0; i < 4; ++i) p[part * 4 + i] = values.at[i];
    }
  }

 private:
  uint4* memory_;
  const Points& points_;
  bool go_first_;
  int num_copied_ = 0;  // quads
};

}  // namespace amdahl::sensor_cuda
