// Device code that computes the voxel of a point and counts points outside.
#pragma once

#include <type_traits>

#include "sensor/ops/voxels/cuda_voxelize.cuh"
#include "sensor/ops/voxels/voxel_quotient.h"

namespace amdahl::sensor_cuda {

/// How coordinates are divided by the voxel's edge. reciprocal: multiplication by a reciprocal in two floats, if that
/// gives the same voxels (voxel_quotient.h), extents are below 2^22 and voxels below 2^31. exact: IEEE division.
/// approximate: RoboCache's division.
enum class Quotient { reciprocal, exact, approximate };

/// Parameters of the grid for kernels.
struct GridArgs {
  float minimum[3];
  float edge;
  Reciprocal inverse;  // of the edge
  int size[3];
  int64_t stride[3];
  int64_t first;  // first voxel of the slab, subtracted from indices
  bool clamp;
  Quotient quotient;
};

/// Drop and NaN counters of a thread or block.
struct Drops {
  unsigned nan, outside;
};

/// Below any voxel, and above any voxel as unsigned number.
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
  // Far outside of any grid the parts may overflow; an approximation is sufficient there.
  return fabsf(quotient) < 0x1p25f ? quotient : __fmul_rn(from, grid.inverse.high);
}

/// Voxel of any point, relative to grid.first; kNowhere if outside or NaN.
template <Quotient kQuotient>
__device__ __forceinline__ int64_t locate_anywhere(const GridArgs& grid, const float* p, Drops& drops) {
  bool nan = false, outside = false;
  int index[3];
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) {
    const float quotient = quotient_of<kQuotient>(grid, axis, p[axis]);
    if (kQuotient != Quotient::approximate) nan = nan || quotient != quotient;
    index[axis] = __float2int_rd(quotient);  // NaN becomes 0, other values saturate
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

/// Type of a voxel's index or kNowhere. Grids with `reciprocal` have fewer than 2^31 voxels.
template <Quotient kQuotient>
using VoxelIndex = std::conditional_t<kQuotient == Quotient::reciprocal, int32_t, int64_t>;

/// Voxel of a point with `reciprocal`; false if the point is outside or NaN. 2^23 + quotient, rounded down, has the
/// index in its low bits; negative numbers, too large ones and NaN give bits that exceed any extent of such a grid.
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

/// Voxels of the first `count` of four points; `p` are their coordinates, loaded from `from`.
template <Quotient kQuotient>
__device__ __forceinline__ void locate_quad(const GridArgs& grid, const float* from, const float (&p)[12], int count,
                                            Drops& drops, VoxelIndex<kQuotient> (&voxel)[4]) {
  if constexpr (kQuotient != Quotient::reciprocal) {
#pragma unroll
    for (int i = 0; i < 4; ++i) voxel[i] = i < count ? locate_anywhere<kQuotient>(grid, p + 3 * i, drops) : kNowhere;
  } else {
    unsigned others = 0;  // bit i: point i is not inside
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
#pragma unroll 1  // not unrolled, and coordinates loaded again: leaves more registers for the common case
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

/// Whether `reciprocal` gives the same voxels as the division, which excludes edges near the ends of float's range, and
/// whether indices are small enough for locate_inside.
inline bool divides_by_reciprocal(const VoxelGrid& grid) {
  const float edge = grid.voxel_size;
  const int most = *std::max_element(grid.size.begin(), grid.size.end());
  return edge > 0x1p-60f && edge < 0x1p60f && most < 1 << 22 && num_voxels(grid) < int64_t{1} << 31 &&
         divides_equally(edge, most);
}

/// Arguments of a grid, or of a slab of it.
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
