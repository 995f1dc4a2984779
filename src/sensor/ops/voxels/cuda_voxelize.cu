// Voxelization on a GPU: the kernels of each variant. voxel_plan.cpp chooses the variant.
#include "sensor/ops/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

__global__ void sum_all_drops(BinArgs bins) {
  wait_for_predecessor();
  let_successor_start();
  sum_drops(bins);
}
void launch_sum_drops(const SensorLaunch& launch, const VoxelizeProblem&, const BinArgs& bins) {
  if (bins.stats) launch_early(launch, 1, 32, 0, &sum_all_drops, "sum_all_drops", bins);
}

/// Kernels of a variant, in order.
struct VariantLaunch {
  VoxelPath path;
  using Step = void (*)(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins);
  Step steps[3];
};
constexpr VariantLaunch kLaunches[] = {
    {VoxelPath::ranks, {launch_partition, launch_sum_drops}},
    {VoxelPath::atomics, {launch_voxel_atomics}},
    {VoxelPath::scatter, {launch_voxel_scatter, launch_sum_drops}},
    {VoxelPath::cells, {launch_partition, launch_voxel_cells, launch_sum_drops}},
    {VoxelPath::packed, {launch_partition, launch_voxel_packed, launch_sum_drops}},
    {VoxelPath::gather, {launch_partition, launch_voxel_gather, launch_overfull_lists}},
    {VoxelPath::lists, {launch_partition, launch_voxel_lists, launch_sum_drops}},
};

BinArgs bin_args(const SensorLaunch& launch, const VoxelPlan& plan, const VoxelizeProblem& problem, int slab) {
  auto* scratch = static_cast<char*>(problem.scratch);
  BinArgs args{};
  args.first_voxel = slab * plan.slab_voxels;
  args.num_voxels = std::min(plan.slab_voxels, plan.num_voxels - args.first_voxel);
  args.bin_bits = plan.bin_bits, args.bin_chunks = plan.bin_chunks;
  args.tile_points = plan.tile_points, args.num_tiles = plan.num_tiles, args.num_ranks = 1;
  args.interleaved = plan.interleaved;
  args.buckets = reinterpret_cast<uint4*>(scratch + plan.buckets);
  args.overflow = reinterpret_cast<uint4*>(scratch + plan.overflow);
  args.bucket_pitch = plan.bucket_pitch;
  args.overfull = plan.path == VoxelPath::ranks ? problem.sorted_parts.overfull
                                                : reinterpret_cast<OverfullBins*>(scratch + plan.overfull);
  args.entries = scratch + plan.entries;
  args.table = reinterpret_cast<uint32_t*>(scratch + plan.table);
  args.order = reinterpret_cast<uint32_t*>(scratch + plan.order);
  args.cursor = reinterpret_cast<uint32_t*>(scratch + plan.cursor);
  args.drops = reinterpret_cast<VoxelizeCounts*>(scratch + plan.drops);
  args.num_drops = static_cast<int>(std::clamp<int64_t>(plan.num_tiles, 1, launch.num_sms));
  args.stats = slab == 0 ? problem.stats : nullptr;
  return args;
}

}  // namespace

size_t cuda_voxelize_scratch_bytes(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  return plan_voxels(problem, launch.num_sms, launch.limits.most_shared).bytes;
}

void launch_voxelize(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  const VoxelPlan plan = plan_voxels(problem, launch.num_sms, launch.limits.most_shared);
  const VariantLaunch& variant = *std::find_if(std::begin(kLaunches), std::end(kLaunches),
                                               [&](const VariantLaunch& row) { return row.path == plan.path; });
  for (int slab = 0; slab < plan.num_slabs; ++slab) {
    const BinArgs bins = bin_args(launch, plan, problem, slab);
    for (const auto step : variant.steps)
      if (step) step(launch, problem, bins);
  }
}

}  // namespace amdahl
