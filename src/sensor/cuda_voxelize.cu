// First step of a voxelization: tiles of points sorted by bin. See voxel_plan.h.
#include "sensor/cuda_voxelize.cuh"

#include <nv/target>

#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 1024;
constexpr uint32_t kNone = ~0u;

/// What became of a thread's points.
struct Fates {
  unsigned nan = 0, outside = 0;
};

/// Index along one axis; `nan` and `outside` are set where they apply.
__device__ __forceinline__ int index_on_axis(const GridArgs& grid, int axis, float p, bool& nan, bool& outside) {
  float quotient;
  if (grid.fast_quotient) {
    asm("sub.ftz.f32 %0, %1, %2;" : "=f"(quotient) : "f"(p), "f"(grid.minimum[axis]));
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(quotient) : "f"(quotient), "f"(grid.edge));
  } else {
    quotient = __fdiv_rn(__fsub_rn(p, grid.minimum[axis]), grid.edge);
    nan = nan || quotient != quotient;
  }
  const int index = __float2int_rd(quotient);  // NaN is 0, and what an int cannot hold its nearest
  const int inside = min(max(index, 0), grid.size[axis] - 1);
  outside = outside || inside != index;
  return inside;
}

/// Voxel of a point, -1 for none.
__device__ __forceinline__ int64_t locate(const GridArgs& grid, float x, float y, float z, Fates& fates) {
  bool nan = false, outside = false;
  const int a = index_on_axis(grid, 0, x, nan, outside);
  const int b = index_on_axis(grid, 1, y, nan, outside);
  const int c = index_on_axis(grid, 2, z, nan, outside);
  if (nan || outside) {
    (nan ? fates.nan : fates.outside) += 1;
    if (nan || !grid.clamp) return -1;
  }
  return a * grid.stride[0] + b * grid.stride[1] + c * grid.stride[2];
}

struct Points {
  const float* data;
  int64_t count;
  bool aligned;  // to 16 bytes
};

/// Coordinates of points [first, first + 4), of which `count` exist.
__device__ __forceinline__ void load_quad(const Points& points, int64_t first, int count, float (&p)[12]) {
  const float* from = points.data + first * 3;
  if (points.aligned && count == 4) {
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

/// Sorts tiles of up to kQuads x 4 x kThreads points.
template <int kQuads>
__global__ void __launch_bounds__(kThreads, 1)
    partition(GridArgs grid, BinArgs bins, Points points, unsigned long long* stats) {
  extern __shared__ uint32_t shared[];
  __shared__ uint32_t warps[32];
  uint32_t* begins = shared;  // of the bins' segments; first their lengths
  uint32_t* sorted = shared + (bins.num_bins + 1 + 3) / 4 * 4;
  Fates fates;
  if (blockIdx.x == 0 && threadIdx.x == 0) *bins.cursor = 0;
  for (int64_t tile = blockIdx.x; tile < bins.num_tiles; tile += gridDim.x) {
    for (uint32_t i = threadIdx.x; i <= bins.num_bins; i += kThreads) begins[i] = 0;
    __syncthreads();
    const int64_t first = tile * bins.tile_points;
    const int count = static_cast<int>(min(static_cast<int64_t>(bins.tile_points), points.count - first));
    uint32_t bin_of[kQuads * 4], place_of[kQuads * 4];  // place: offset in the bin, rank among the tile's points there
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int quad = (q * kThreads + static_cast<int>(threadIdx.x)) * 4;
      float p[12];
      if (quad < count) load_quad(points, first + quad, min(4, count - quad), p);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = q * 4 + i;
        bin_of[at] = kNone;
        if (quad + i >= count) continue;
        const int64_t voxel = locate(grid, p[3 * i], p[3 * i + 1], p[3 * i + 2], fates) - bins.first_voxel;
        if (voxel < 0 || voxel >= bins.num_voxels) continue;
        const auto chunk = static_cast<uint32_t>(voxel / kChunkVoxels);
        const auto slot = static_cast<uint32_t>(chunk * bins.magic >> 42);
        bin_of[at] = chunk - slot * bins.num_bins;
        place_of[at] = slot * kChunkVoxels + static_cast<uint32_t>(voxel % kChunkVoxels);
        place_of[at] |= atomicAdd(&begins[bin_of[at]], 1u) << kOffsetBits;
      }
    }
    __syncthreads();
    const uint32_t total = scan_block<kThreads>(begins, bins.num_bins + 1, warps);
    for (uint32_t i = threadIdx.x; i <= bins.num_bins; i += kThreads)
      bins.table[tile * (bins.num_bins + 1) + i] = static_cast<uint16_t>(begins[i]);
#pragma unroll
    for (int at = 0; at < kQuads * 4; ++at) {
      if (bin_of[at] == kNone) continue;
      const uint32_t point = ((at / 4) * kThreads + threadIdx.x) * 4 + at % 4;
      const uint32_t offset = place_of[at] & ((1u << kOffsetBits) - 1), rank = place_of[at] >> kOffsetBits;
      sorted[begins[bin_of[at]] + rank] = offset | point << kOffsetBits;
    }
    __syncthreads();
    uint32_t* out = bins.entries + tile * bins.tile_points;
    for (uint32_t i = threadIdx.x * 4; i < total; i += kThreads * 4)
      *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(sorted + i);
    __syncthreads();
  }
  if (!stats || bins.first_voxel != 0) return;
  fates.nan = __reduce_add_sync(~0u, fates.nan), fates.outside = __reduce_add_sync(~0u, fates.outside);
  if (threadIdx.x % 32 != 0) return;
  if (fates.nan > 0) atomicAdd(stats, static_cast<unsigned long long>(fates.nan));
  if (fates.outside > 0) atomicAdd(stats + 1, static_cast<unsigned long long>(fates.outside));
}

GridArgs grid_args(const VoxelizeProblem& problem) {
  const VoxelGrid& grid = problem.grid;
  GridArgs args{};
  for (int axis = 0; axis < 3; ++axis) {
    args.minimum[axis] = grid.minimum[static_cast<size_t>(axis)];
    args.size[axis] = static_cast<int>(grid.size[static_cast<size_t>(axis)]);
  }
  args.edge = grid.voxel_size;
  const bool xyz = problem.options.layout == VoxelLayout::xyz;
  args.stride[0] = xyz ? grid.size[1] * grid.size[2] : 1;
  args.stride[1] = xyz ? grid.size[2] : grid.size[0];
  args.stride[2] = xyz ? 1 : grid.size[0] * grid.size[1];
  args.clamp = problem.options.bounds == OutOfBounds::clamp;
  args.fast_quotient = problem.options.fast_quotient;
  return args;
}

BinArgs bin_args(const VoxelPlan& plan, const VoxelizeProblem& problem, int slab) {
  auto* scratch = static_cast<char*>(problem.scratch);
  BinArgs args{};
  args.first_voxel = slab * plan.slab_voxels;
  args.num_voxels = std::min(plan.slab_voxels, plan.num_voxels - args.first_voxel);
  args.num_bins = plan.num_bins, args.bin_chunks = plan.bin_chunks, args.magic = plan.magic;
  args.tile_points = plan.tile_points, args.num_tiles = plan.num_tiles;
  args.entries = reinterpret_cast<uint32_t*>(scratch + plan.entries);
  args.table = reinterpret_cast<uint16_t*>(scratch + plan.table);
  args.order = reinterpret_cast<uint32_t*>(scratch + plan.order);
  args.cursor = reinterpret_cast<uint32_t*>(scratch + plan.cursor);
  return args;
}

void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const Points points{problem.points, problem.num_points, reinterpret_cast<uintptr_t>(problem.points) % 16 == 0};
  const size_t shared = ((bins.num_bins + 4) / 4 * 4 + static_cast<size_t>(bins.tile_points)) * sizeof(uint32_t);
  const auto blocks = static_cast<unsigned>(std::clamp<int64_t>(bins.num_tiles, 1, launch.num_sms));
  const auto run = [&](auto* kernel) {
    allow_shared(launch, kernel, shared);
    kernel<<<blocks, kThreads, shared, launch.stream>>>(grid_args(problem), bins, points,
                                                        reinterpret_cast<unsigned long long*>(problem.stats));
    check_launch(launch, "partition");
  };
  if (bins.tile_points <= 4 * kThreads)
    run(&partition<1>);
  else if (bins.tile_points <= 8 * kThreads)
    run(&partition<2>);
  else
    run(&partition<4>);
}

}  // namespace

size_t cuda_voxelize_scratch_bytes(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  return plan_voxels(problem, launch.all_sms).bytes;
}

void launch_voxelize(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  static_assert(sizeof(VoxelizeCounts) == 2 * sizeof(unsigned long long));
  const VoxelPlan plan = plan_voxels(problem, launch.all_sms);
  if (problem.stats)
    cuda_check(cudaMemsetAsync(problem.stats, 0, sizeof(VoxelizeCounts), launch.stream), launch.device_index,
               "cudaMemsetAsync");
  for (int slab = 0; slab < plan.num_slabs; ++slab) {
    const BinArgs bins = bin_args(plan, problem, slab);
    launch_partition(launch, problem, bins);
    if (problem.options.mode == VoxelMode::mean || problem.options.mode == VoxelMode::max)
      launch_voxel_values(launch, problem, bins);
    else
      launch_voxel_counts(launch, problem, bins);
  }
}

}  // namespace amdahl
