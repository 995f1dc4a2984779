// First step of a voxelization: tiles of points sorted by bin. See voxel_plan.h.
#include "sensor/cuda_voxelize.cuh"

#include "sensor/cuda_voxel_locate.cuh"
#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 1024;
constexpr uint32_t kNone = ~0u;

/// Sorts tiles of up to kQuads x 4 x kThreads points.
template <int kQuads, Quotient kQuotient>
__global__ void __launch_bounds__(kThreads, 1) partition(GridArgs grid, BinArgs bins, Points points) {
  extern __shared__ uint32_t shared[];
  __shared__ uint32_t warps[32];
  uint32_t* begins = shared;  // of the bins' segments; first their lengths
  const uint32_t num_bins = bins.num_bins();
  uint32_t* sorted = shared + num_bins + 4;
  Fates fates{};
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();  // after the wait: the next step then knows that all before this is done
  if (blockIdx.x == 0 && threadIdx.x == 0) *bins.cursor = 0;
  for (int64_t tile = blockIdx.x; tile < bins.num_tiles; tile += gridDim.x) {
    for (uint32_t i = threadIdx.x; i < num_bins + 4; i += kThreads) begins[i] = 0;
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
        const int64_t in_slab = locate<kQuotient>(grid, p + 3 * i, fates) - bins.first_voxel;
        if (in_slab < 0 || in_slab >= bins.num_voxels) continue;
        const BinPlace place = place_in_bins(static_cast<uint32_t>(in_slab), bins.bin_bits);
        bin_of[at] = place.bin, place_of[at] = place.offset;
        place_of[at] |= atomicAdd(&begins[bin_of[at]], 1u) << kOffsetBits;
      }
    }
    __syncthreads();
    const uint32_t total = scan_block<kThreads, kMaxBins / 4 / kThreads + 1>(begins, num_bins + 4, warps);
    for (uint32_t i = threadIdx.x; i <= num_bins; i += kThreads)
      bins.table[tile * (num_bins + 1) + i] = static_cast<uint16_t>(begins[i]);
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
  if (!bins.stats) return;
  const Fates all = fates_of_block(fates);
  if (threadIdx.x == 0) bins.fates[blockIdx.x] = {all.nan, all.outside};
}

unsigned partition_blocks(const SensorLaunch& launch, const BinArgs& bins) {
  return static_cast<unsigned>(std::clamp<int64_t>(bins.num_tiles, 1, launch.num_sms));
}

BinArgs bin_args(const SensorLaunch& launch, const VoxelPlan& plan, const VoxelizeProblem& problem, int slab) {
  auto* scratch = static_cast<char*>(problem.scratch);
  BinArgs args{};
  args.first_voxel = slab * plan.slab_voxels;
  args.num_voxels = std::min(plan.slab_voxels, plan.num_voxels - args.first_voxel);
  args.bin_bits = plan.bin_bits, args.bin_chunks = plan.bin_chunks;
  args.tile_points = plan.tile_points, args.num_tiles = plan.num_tiles;
  args.entries = reinterpret_cast<uint32_t*>(scratch + plan.entries);
  args.table = reinterpret_cast<uint16_t*>(scratch + plan.table);
  args.order = reinterpret_cast<uint32_t*>(scratch + plan.order);
  args.cursor = reinterpret_cast<uint32_t*>(scratch + plan.cursor);
  args.fates = reinterpret_cast<VoxelizeCounts*>(scratch + plan.fates);
  args.num_fates = static_cast<int>(partition_blocks(launch, args));
  args.stats = slab == 0 ? problem.stats : nullptr;
  return args;
}

template <Quotient kQuotient>
void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                      const BinArgs& bins) {
  const Points points = points_of(problem);
  const size_t shared = ((size_t{1} << bins.bin_bits) + 4 + static_cast<size_t>(bins.tile_points)) * sizeof(uint32_t);
  const auto run = [&](auto* kernel) {
    allow_shared(launch, kernel, shared);
    launch_early(launch, partition_blocks(launch, bins), kThreads, shared, kernel, "partition", grid, bins, points);
  };
  if (bins.tile_points <= 4 * kThreads) return run(&partition<1, kQuotient>);
  if (bins.tile_points <= 8 * kThreads) return run(&partition<2, kQuotient>);
  run(&partition<4, kQuotient>);
}

void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const GridArgs grid = grid_args(problem);
  with_quotient(grid.quotient,
                [&](auto quotient) { launch_partition<decltype(quotient)::value>(launch, problem, grid, bins); });
}

}  // namespace

size_t cuda_voxelize_scratch_bytes(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  return plan_voxels(problem, launch.num_sms).bytes;
}

void launch_voxelize(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  if (marks_directly(problem)) return launch_voxel_marks(launch, problem);
  const VoxelPlan plan = plan_voxels(problem, launch.num_sms);
  for (int slab = 0; slab < plan.num_slabs; ++slab) {
    const BinArgs bins = bin_args(launch, plan, problem, slab);
    launch_partition(launch, problem, bins);
    if (problem.options.mode == VoxelMode::mean || problem.options.mode == VoxelMode::max)
      launch_voxel_values(launch, problem, bins);
    else
      launch_voxel_counts(launch, problem, bins);
  }
}

}  // namespace amdahl
