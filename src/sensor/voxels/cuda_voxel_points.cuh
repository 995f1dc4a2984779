// A cloud's points as kernels read them: four at once, a thread its own, from memory or ahead of their turn.
#pragma once

#include <utility>

#include "sensor/voxels/cuda_voxelize.cuh"

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

/// Quads of a dealt tile, each read by its own lane.
struct OwnQuads {
  __device__ OwnQuads(uint32_t, uint32_t) {}
  /// Of the `count` points, up to 4, that begin here.
  __device__ __forceinline__ void load(const Points& points, const float* from, int count, float (&p)[12]) const {
    if (count > 0) load_quad(from, count, points.aligned, p);
  }
};

/// The same of four neighbouring lanes that have a whole run, read together. A quad of one's own is three vectors of 16
/// bytes in one or two lines of memory, and each of the loads of a warp's touches all of its lines. Here four lanes
/// load from one line at a time, and then hand each other what is theirs.
///
/// Of the 12 vectors of a run every third one, a head, begins with a point (x0 y0 z0 x1), the one after it is a middle
/// (y1 z1 x2 y2) and the next a tail (z2 x3 y3 z3). Each lane loads one of each kind; its four points are whole when
/// the lane of the middle between has got the head's last and the tail's first number. The first 8 vectors are in one
/// line, or the last 8: runs begin at multiples of 192 bytes, those of even number with the former. Which vectors lanes
/// load, as digits from the last one on, and what is made of them, for odd runs with heads and tails exchanged:
///
///   load              even          odd           kinds in lanes 0, 1, 2, 3 (even)
///   0                 0, 3, 6, 7    11, 8, 5, 4   head, head, head, middle
///   1                 1, 4, 5, 2    10, 7, 6, 9   middle, middle, tail, tail
///   2                 8, 11, 10, 9  3, 0, 1, 2    tail, tail, middle, head
///
/// What a lane gets are four points of the run, and not those of its own quad.
class RunQuads {
 public:
  /// Of the tile's run that has this point. Where the number of tiles is odd, half of the runs are even in odd tiles
  /// and take longer.
  __device__ RunQuads(uint32_t tile, uint32_t point) : odd_(tile % 2 != 0) {
    const uint32_t from = point / kDealtRun * (kDealtRun / 4 * 3), digit = 4 * lane();
    constexpr uint32_t kEven[] = {0x7630, 0x2541, 0x9ab8}, kOdd[] = {0x458b, 0x967a, 0x2103};
#pragma unroll
    for (int load = 0; load < 3; ++load) {
      vector_[load] = from + ((odd_ ? kOdd[load] : kEven[load]) >> digit & 15);
      asm volatile("" : "+r"(vector_[load]));  // known from here on
    }
  }
  /// Of points aligned to 16 bytes, by whole warps; a lane has `count` from here on, or as many others of its run.
  __device__ __forceinline__ void load(const Points& points, const float* from, int count, float (&p)[12]) const {
    const bool whole = __shfl_sync(~0u, count, kLanes - 1, kLanes) == 4;
    const auto* vectors = reinterpret_cast<const float4*>(points.data);
    float4 loaded[3];
    if (whole) {
#pragma unroll
      for (int load = 0; load < 3; ++load) loaded[load] = __ldcs(vectors + vector_[load]);
    }
    const float4 first = pick(lane() == 3, loaded[2], loaded[0]), last = pick(lane() >= 2, loaded[1], loaded[2]),
                 middle = pick(lane() == 3, loaded[0], pick(lane() == 2, loaded[2], loaded[1]));
    if (odd_)
      join(last, middle, first, lane() ^ 3, lane() ^ lane() >> 1, p);
    else
      join(first, middle, last, lane() ^ lane() >> 1, lane() ^ 3, p);
    if (!whole && count > 0) load_quad(from, count, true, p);
  }

 private:
  static constexpr int kLanes = kDealtRun / 4;
  static_assert(kLanes == 4);
  __device__ static uint32_t lane() { return threadIdx.x % kLanes; }
  __device__ static float4 pick(bool so, const float4& a, const float4& b) {
    return {so ? a.x : b.x, so ? a.y : b.y, so ? a.z : b.z, so ? a.w : b.w};
  }
  /// `before` and `after`: the lanes that have the head before this one's middle, and the tail after it.
  __device__ __forceinline__ static void join(const float4& head, const float4& middle, const float4& tail,
                                              uint32_t before, uint32_t after, float (&p)[12]) {
    p[0] = head.x, p[1] = head.y, p[2] = head.z;
    p[3] = __shfl_sync(~0u, head.w, static_cast<int>(before), kLanes), p[4] = middle.x, p[5] = middle.y;
    p[6] = middle.z, p[7] = middle.w, p[8] = __shfl_sync(~0u, tail.x, static_cast<int>(after), kLanes);
    p[9] = tail.y, p[10] = tail.z, p[11] = tail.w;
  }

  bool odd_;
  uint32_t vector_[3];
};

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
