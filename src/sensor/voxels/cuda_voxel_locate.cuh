// Which voxel a point lies in, on the device, and how many points lie in none.
#pragma once

#include <type_traits>

#include "sensor/voxels/cuda_voxelize.cuh"
#include "sensor/voxels/voxel_quotient.h"

namespace amdahl::sensor_cuda {

/// How coordinates are divided by the voxel's edge: by a reciprocal in two parts, in grids where that gives the same
/// voxels (voxel_quotient.h), of sizes of at most 22 bits and voxels of 31; by the division itself; or by the
/// original's approximate one.
enum class Quotient { reciprocal, exact, approximate };

/// The grid as kernels see it.
struct GridArgs {
  float minimum[3];
  float edge;
  Reciprocal inverse;  // of the edge
  int size[3];
  int64_t stride[3];
  int64_t first;  // voxel from which on indices are counted
  bool clamp;
  Quotient quotient;
};

/// Drop and NaN counters of a thread's or block's points.
struct Drops {
  unsigned nan, outside;
};

/// Less than any voxel, and more when taken as unsigned.
constexpr int kNowhere = -1;

/// from / edge: see voxel_quotient.h.
__device__ __forceinline__ float quotient_by(const GridArgs& grid, float from) {
  return __fmaf_rn(from, grid.inverse.high, __fmul_rn(from, grid.inverse.low));
}

/// (p - minimum) / edge.
template <Quotient kQuotient>
__device__ __forceinline__ float quotient_of(const GridArgs& grid, int axis, float p) {
  float quotient;
  if (kQuotient == Quotient::approximate) {
    asm("sub.ftz.f32 %0, %1, %2;" : "=f"(quotient) : "f"(p), "f"(grid.minimum[axis]));
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(quotient) : "f"(quotient), "f"(grid.edge));
    return quotient;
  }
  const float from = __fsub_rn(p, grid.minimum[axis]);
  if (kQuotient == Quotient::exact) return __fdiv_rn(from, grid.edge);
  quotient = quotient_by(grid, from);
  // Far outside any grid its parts may overflow, and there one voxel more or less does not matter.
  return fabsf(quotient) < 0x1p25f ? quotient : __fmul_rn(from, grid.inverse.high);
}

/// Voxel of a point that may lie outside or be NaN, counted from the grid's first; kNowhere for none.
template <Quotient kQuotient>
__device__ __forceinline__ int64_t locate_anywhere(const GridArgs& grid, const float* p, Drops& drops) {
  bool nan = false, outside = false;
  int index[3];
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    const float quotient = quotient_of<kQuotient>(grid, axis, p[axis]);
    if (kQuotient != Quotient::approximate) nan = nan || quotient != quotient;
    index[axis] = __float2int_rd(quotient);  // NaN is 0, and what an int cannot hold its nearest
    outside = outside || static_cast<unsigned>(index[axis]) >= static_cast<unsigned>(grid.size[axis]);
  }
  if (nan || outside) {
    (nan ? drops.nan : drops.outside) += 1;
    if (nan || !grid.clamp) return kNowhere;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) index[axis] = min(max(index[axis], 0), grid.size[axis] - 1);
  }
  return index[0] * grid.stride[0] + index[1] * grid.stride[1] + index[2] * grid.stride[2] - grid.first;
}

/// Holds a voxel's index, or kNowhere. Grids divided by a reciprocal have less than 2^31 voxels.
template <Quotient kQuotient>
using VoxelIndex = std::conditional_t<kQuotient == Quotient::reciprocal, int32_t, int64_t>;

/// Voxel of a point of a grid divided by a reciprocal; false where it lies outside or is NaN. A few instructions tell:
/// 2^23 + quotient, rounded down, has the index in its low bits; what is negative, too large or NaN gives bits beyond
/// any size of such a grid.
__device__ __forceinline__ bool locate_inside(const GridArgs& grid, const float* p, int32_t& voxel) {
  bool inside = true;
  auto index_of_point = static_cast<uint32_t>(-grid.first);
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    const float quotient = quotient_by(grid, __fsub_rn(p[axis], grid.minimum[axis]));
    const unsigned index = __float_as_uint(__fadd_rd(quotient, 0x1p23f)) - __float_as_uint(0x1p23f);
    inside = inside && index < static_cast<unsigned>(grid.size[axis]);
    index_of_point += index * static_cast<uint32_t>(grid.stride[axis]);
  }
  voxel = static_cast<int32_t>(index_of_point);
  return inside;
}

/// Voxels of the first `count` of four points; `p` are their coordinates `from` memory.
template <Quotient kQuotient>
__device__ __forceinline__ void locate_quad(const GridArgs& grid, const float* from, const float (&p)[12], int count,
                                            Drops& drops, VoxelIndex<kQuotient> (&voxel)[4]) {
  if constexpr (kQuotient != Quotient::reciprocal) {
#pragma unroll
    for (int i = 0; i < 4; ++i) voxel[i] = i < count ? locate_anywhere<kQuotient>(grid, p + 3 * i, drops) : kNowhere;
  } else {
    unsigned others = 0;  // a bit for each that is not inside
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!locate_inside(grid, p + 3 * i, voxel[i]) || i >= count) others |= 1u << i, voxel[i] = kNowhere;
    if (others == 0) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((others >> i & 1) == 0 || i >= count || grid.clamp) continue;
      const bool nan = p[3 * i] != p[3 * i] || p[3 * i + 1] != p[3 * i + 1] || p[3 * i + 2] != p[3 * i + 2];
      (nan ? drops.nan : drops.outside) += 1;
    }
    if (!grid.clamp) return;
#pragma unroll 1  // one by one, and read again: both leave the usual case more registers
    for (int i = 0; i < min(count, 4); ++i) {
      if ((others >> i & 1) == 0) continue;
      const float other[3] = {from[3 * i], from[3 * i + 1], from[3 * i + 2]};
      const auto found = static_cast<int32_t>(locate_anywhere<Quotient::reciprocal>(grid, other, drops));
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (k == i) voxel[k] = found;
    }
  }
}

/// Adds a warp's counters to those of the block.
__device__ __forceinline__ void add_drops(const Drops& drops, Drops& of_block) {
  if (!__any_sync(~0u, drops.nan + drops.outside > 0)) return;
  const unsigned nan = __reduce_add_sync(~0u, drops.nan), outside = __reduce_add_sync(~0u, drops.outside);
  if (threadIdx.x % 32 == 0 && nan > 0) atomicAdd(&of_block.nan, nan);
  if (threadIdx.x % 32 == 0 && outside > 0) atomicAdd(&of_block.outside, outside);
}

/// Whether quotients by a reciprocal lead to the same voxels: not near the ends of float's range. And whether indices
/// are small enough for locate_inside.
inline bool divides_by_reciprocal(const VoxelGrid& grid) {
  const float edge = grid.voxel_size;
  const int most = *std::max_element(grid.size.begin(), grid.size.end());
  return edge > 0x1p-60f && edge < 0x1p60f && most < 1 << 22 && num_voxels(grid) < int64_t{1} << 31 &&
         divides_equally(edge, most) && !variant_forced("exact");
}

/// Of a grid, or a slab of it.
inline GridArgs grid_args(const VoxelizeProblem& problem, int64_t first_voxel) {
  const VoxelGrid& grid = problem.grid;
  GridArgs args{};
  for (int axis = 0; axis < 3; ++axis) {
    args.minimum[axis] = grid.minimum[static_cast<size_t>(axis)];
    args.size[axis] = static_cast<int>(grid.size[static_cast<size_t>(axis)]);
  }
  args.edge = grid.voxel_size, args.inverse = reciprocal_of(grid.voxel_size);
  const bool xyz = problem.options.layout == VoxelLayout::xyz;
  args.stride[0] = xyz ? grid.size[1] * grid.size[2] : 1;
  args.stride[1] = xyz ? grid.size[2] : grid.size[0];
  args.stride[2] = xyz ? 1 : grid.size[0] * grid.size[1];
  args.first = first_voxel;
  args.clamp = problem.options.bounds == OutOfBounds::clamp;
  args.quotient = problem.options.fast_quotient ? Quotient::approximate
                  : divides_by_reciprocal(grid) ? Quotient::reciprocal
                                                : Quotient::exact;
  return args;
}

/// Calls `work` with the quotient as a type.
template <class Work>
void with_quotient(Quotient quotient, const Work& work) {
  if (quotient == Quotient::reciprocal) return work(std::integral_constant<Quotient, Quotient::reciprocal>{});
  if (quotient == Quotient::exact) return work(std::integral_constant<Quotient, Quotient::exact>{});
  work(std::integral_constant<Quotient, Quotient::approximate>{});
}

}  // namespace amdahl::sensor_cuda
