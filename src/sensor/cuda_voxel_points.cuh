// A cloud's points as kernels read them: four at once, a thread its own, from memory or ahead of their turn.
#pragma once

#include <utility>

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

  __device__ PointsInMemory(void*, const Points& points, bool) : points_(points) {}
  /// Begins to read the tile of `count` points that begins here.
  __device__ __forceinline__ void begin(const float*, int) {}
  /// Until this one of a thread's quads is there.
  __device__ __forceinline__ void wait(int) const {}
  /// Coordinates of a quad of the tile that begins here; of its points `left` are left, which may be none or less.
  __device__ __forceinline__ void load(const float* from, int quad, int left, float (&p)[12]) const {
    if (left > 0) load_quad(from + quad * 12, min(4, left), points_.aligned, p);
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

  __device__ PointsAhead(void* memory, const Points& points, bool go_first)
      : memory_(static_cast<uint4*>(memory)), points_(points), go_first_(go_first) {}
  /// Once all lanes have loaded what they have of the one before.
  __device__ __forceinline__ void begin(const float* from, int count) {
    __syncwarp();
    const uint64_t policy = l2_policy(go_first_);
    const int lane = static_cast<int>(threadIdx.x) % 32, own = static_cast<int>(threadIdx.x & ~31u) * kLines + lane;
    const int left = (points_.aligned ? count / 4 * kLines : 0) - own;  // of what this lane begins with, 16 bytes each
    const auto* source = reinterpret_cast<const uint4*>(from) + own;
    auto to = static_cast<uint32_t>(__cvta_generic_to_shared(memory_ + own));
    asm volatile("" : "+r"(to), "+l"(source));  // computed once
    copy_all(std::make_integer_sequence<int, kQuads * kLines>{}, to, source, left, policy);
  }
  /// Later quads may be on their way.
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
  __device__ __forceinline__ void load(const float* from, int quad, int left, float (&p)[12]) const {
    if (left < 4 || !points_.aligned) {
      if (left > 0) load_quad(from + quad * 12, min(4, left), false, p);
      return;
    }
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const uint4 values = memory_[quad * 3 + part];  // 16 bytes at once: words one by one would meet in few banks
      p[part * 4] = __uint_as_float(values.x), p[part * 4 + 1] = __uint_as_float(values.y);
      p[part * 4 + 2] = __uint_as_float(values.z), p[part * 4 + 3] = __uint_as_float(values.w);
    }
  }

 private:
  /// Of each kThreads quads a warp's own are kLines lines of memory, of kLine times 16 bytes.
  static constexpr int kLines = 3, kLine = 32, kStep = kThreads * kLines;

  /// Begins to copy what a lane has of a tile, of which `left` times 16 bytes are left; a batch for each quad.
  template <int... kCopies>
  __device__ __forceinline__ static void copy_all(std::integer_sequence<int, kCopies...>, uint32_t to,
                                                  const uint4* source, int left, uint64_t policy) {
    (copy<kCopies / kLines * kStep + kCopies % kLines * kLine>(to, source, left, policy,
                                                               kCopies % kLines == kLines - 1),
     ...);
  }
  /// Begins to copy 16 bytes, kAt times 16 further, if more are left; and ends a batch if it is the last.
  template <int kAt>
  __device__ __forceinline__ static void copy(uint32_t to, const uint4* source, int left, uint64_t policy, bool last) {
    if (left > kAt) copy_async<kAt* static_cast<int>(sizeof(uint4))>(to, source, policy);
    if (last) end_async_batch();
  }

  uint4* memory_;
  const Points& points_;
  bool go_first_;
};

}  // namespace amdahl::sensor_cuda
