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
  __device__ __forceinline__ void wait(int) const {}
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
    // Of each kThreads quads a warp's own are 3 lines of memory.
    const int warp = static_cast<int>(threadIdx.x) / 32, own = warp * 96 + static_cast<int>(threadIdx.x) % 32;
    const auto* source = reinterpret_cast<const uint4*>(from) + own;
    uint4* to = memory_ + own;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int left = (num_copied_ - q * kThreads - warp * 32) * 3;
      if (left >= 96) {
#pragma unroll
        for (int line = 0; line < 3; ++line)
          copy_async(to + q * kThreads * 3 + line * 32, source + q * kThreads * 3 + line * 32, policy);
      } else {
#pragma unroll 1
        for (int at = 0; at + static_cast<int>(threadIdx.x) % 32 < left; at += 32)
          copy_async(to + q * kThreads * 3 + at, source + q * kThreads * 3 + at, policy);
      }
      end_async_batch();
    }
  }
  /// Until this one of a thread's quads is there; later ones may be on their way.
  __device__ __forceinline__ void wait(int quad_of_thread) const {
    static_assert(kQuads == 3);
    if (quad_of_thread == 0)
      wait_for_batches<2>();
    else if (quad_of_thread == 1)
      wait_for_batches<1>();
    else
      wait_for_batches<0>();
    __syncwarp();
  }
  __device__ __forceinline__ void load(int quad, int count, float (&p)[12]) const {
    if (quad >= num_copied_) return load_quad(from + quad * 12, count, false, p);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const uint4 values = memory_[quad * 3 + part];  // 16 bytes at once: words one by one would meet in few banks
      p[part * 4] = __uint_as_float(values.x), p[part * 4 + 1] = __uint_as_float(values.y);
      p[part * 4 + 2] = __uint_as_float(values.z), p[part * 4 + 3] = __uint_as_float(values.w);
    }
  }

 private:
  uint4* memory_;
  const Points& points_;
  bool go_first_;
  int num_copied_ = 0;  // quads
};

}  // namespace amdahl::sensor_cuda
