// First step of a voxelization: tiles of points sorted by bin. See voxel_plan.h.
#include "sensor/cuda_voxelize.cuh"

#include "sensor/cuda_voxel_locate.cuh"
#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 1024;
constexpr uint32_t kNone = ~0u;

/// Where a kernel builds a tile's rows, in shared memory: 16 bytes apart, so that equal ranks fall into unlike banks.
template <class Row>
struct RowBuilder {
  static constexpr bool kDeals = true;
  static constexpr int kSlots = Row::kSlots, kStride = Row::kBytes + 16;
  static size_t bytes(uint32_t num_bins) { return size_t{num_bins} * kStride; }
  char* memory;

  __device__ __forceinline__ void put(uint32_t bin, uint32_t rank, uint32_t entry) const {
    auto* row = reinterpret_cast<typename Row::Slot*>(memory + bin * kStride);
    row[Row::kHeader + rank] = static_cast<typename Row::Slot>(entry);
  }
  /// Copies what is filled of the tile's rows; `counts` of the bins.
  __device__ void write(const BinArgs& bins, int64_t tile, const uint32_t* counts) const {
    constexpr int kLanesOfRow = Row::kBytes / 16, kSlotsOfLane = 16 / static_cast<int>(sizeof(typename Row::Slot));
    const int lane = threadIdx.x % kLanesOfRow;
    for (uint32_t bin = threadIdx.x / kLanesOfRow; bin < bins.num_bins(); bin += kThreads / kLanesOfRow) {
      const uint32_t count = counts[bin];
      if (lane * kSlotsOfLane >= static_cast<int>(count) + Row::kHeader) continue;
      uint4 part = *reinterpret_cast<const uint4*>(memory + bin * kStride + lane * 16);
      if (lane == 0) part.x = count;
      static_cast<uint4*>(bins.rows)[(static_cast<int64_t>(bin) * bins.row_pitch + tile) * kLanesOfRow + lane] = part;
    }
  }
};

/// Where all points of a tile are sorted.
struct NoRows {
  static constexpr bool kDeals = false;
  static constexpr int kSlots = 0;
  static size_t bytes(uint32_t) { return 0; }
  char* memory;
  __device__ void write(const BinArgs&, int64_t, const uint32_t*) const {}
};

/// Deals or sorts tiles of up to kQuads x 4 x kThreads points.
template <int kQuads, Quotient kQuotient, class Rows>
__global__ void __launch_bounds__(kThreads, 1) partition(GridArgs grid, BinArgs bins, Points points) {
  extern __shared__ uint4 shared[];
  __shared__ uint32_t warps[32];
  auto* begins = reinterpret_cast<uint32_t*>(shared);  // of the bins' segments; first their lengths
  const uint32_t num_bins = bins.num_bins();
  uint32_t* sorted = begins + num_bins + 4;
  const Rows rows{reinterpret_cast<char*>(sorted + bins.tile_points)};
  __shared__ Fates fates_of_block;
  Fates fates{};
  if (threadIdx.x == 0) fates_of_block = {};
  for (uint32_t i = threadIdx.x; i < num_bins + 4; i += kThreads) begins[i] = 0;
  __syncthreads();
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();  // after the wait: the next step then knows that all before this is done
  if (blockIdx.x == 0 && threadIdx.x == 0) *bins.cursor = 0;
  for (int64_t tile = blockIdx.x; tile < bins.num_tiles; tile += gridDim.x) {
    const int64_t first = tile * bins.tile_points;
    const int count = static_cast<int>(min(static_cast<int64_t>(bins.tile_points), points.count - first));
    uint32_t voxel[kQuads * 4], rank[kQuads * 4];  // of the slab; among the tile's points of the bin
    bool sorts = !Rows::kDeals;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int quad = (q * kThreads + static_cast<int>(threadIdx.x)) * 4;
      float p[12];
      if (quad < count) load_quad(points, first + quad, min(4, count - quad), p);
        // Stage by stage, so that the four atomics are under way at once.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t in_slab =
            quad + i < count ? locate<kQuotient>(grid, p + 3 * i, fates) - bins.first_voxel : int64_t{-1};
        voxel[q * 4 + i] = in_slab >= 0 && in_slab < bins.num_voxels ? static_cast<uint32_t>(in_slab) : kNone;
      }
#pragma unroll
      for (int at = q * 4; at < q * 4 + 4; ++at)
        if (voxel[at] != kNone) rank[at] = atomicAdd(&begins[place_in_bins(voxel[at], bins.bin_bits).bin], 1u);
      if constexpr (Rows::kDeals) {
#pragma unroll
        for (int at = q * 4; at < q * 4 + 4; ++at) {
          if (voxel[at] == kNone) continue;
          const BinPlace place = place_in_bins(voxel[at], bins.bin_bits);
          if (rank[at] < Rows::kSlots)
            rows.put(place.bin, rank[at], place.offset | static_cast<uint32_t>(quad + at % 4) << kOffsetBits);
          else
            sorts = true;
        }
      }
    }
    add_fates(fates, fates_of_block);
    sorts = __syncthreads_or(sorts);
    rows.write(bins, tile, begins);
    if (sorts) {
      if (Rows::kDeals) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < num_bins; i += kThreads)
          begins[i] = max(begins[i], uint32_t{Rows::kSlots}) - Rows::kSlots;
        __syncthreads();
      }
      const uint32_t total = scan_block<kThreads, kMaxBins / 4 / kThreads + 1>(begins, num_bins + 4, warps);
      for (uint32_t i = threadIdx.x; i <= num_bins; i += kThreads)
        bins.table[tile * (num_bins + 1) + i] = static_cast<uint16_t>(begins[i]);
#pragma unroll
      for (int at = 0; at < kQuads * 4; ++at) {
        if (voxel[at] == kNone) continue;
        if constexpr (Rows::kDeals)
          if (rank[at] < Rows::kSlots) continue;
        const BinPlace place = place_in_bins(voxel[at], bins.bin_bits);
        const uint32_t point = ((at / 4) * kThreads + threadIdx.x) * 4 + at % 4;
        sorted[begins[place.bin] + rank[at] - Rows::kSlots] = place.offset | point << kOffsetBits;
      }
      __syncthreads();
      uint32_t* out = bins.entries + tile * bins.tile_points;
      for (uint32_t i = threadIdx.x * 4; i < total; i += kThreads * 4)
        *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(sorted + i);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < num_bins + 4; i += kThreads) begins[i] = 0;
    __syncthreads();
  }
  if (bins.stats && threadIdx.x == 0) bins.fates[blockIdx.x] = {fates_of_block.nan, fates_of_block.outside};
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
  args.few_points = plan.few_points;
  args.rows = plan.dealt ? scratch + plan.rows : nullptr, args.row_pitch = plan.row_pitch;
  args.crowded = reinterpret_cast<uint8_t*>(scratch + plan.crowded);
  args.entries = reinterpret_cast<uint32_t*>(scratch + plan.entries);
  args.table = reinterpret_cast<uint16_t*>(scratch + plan.table);
  args.order = reinterpret_cast<uint32_t*>(scratch + plan.order);
  args.cursor = reinterpret_cast<uint32_t*>(scratch + plan.cursor);
  args.fates = reinterpret_cast<VoxelizeCounts*>(scratch + plan.fates);
  args.num_fates = static_cast<int>(partition_blocks(launch, args));
  args.stats = slab == 0 ? problem.stats : nullptr;
  return args;
}

template <int kQuads, Quotient kQuotient, class Rows>
void launch_tiles(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                  const BinArgs& bins) {
  auto* kernel = &partition<kQuads, kQuotient, Rows>;
  const size_t shared =
      (bins.num_bins() + 4 + static_cast<size_t>(bins.tile_points)) * sizeof(uint32_t) + Rows::bytes(bins.num_bins());
  allow_shared(launch, kernel, shared);
  launch_early(launch, partition_blocks(launch, bins), kThreads, shared, kernel, "partition", grid, bins,
               points_of(problem));
}

template <Quotient kQuotient>
void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                      const BinArgs& bins) {
  static_assert(kDealtTilePoints == 4 * kThreads);
  if (bins.rows && has_values(problem))
    return launch_tiles<1, kQuotient, RowBuilder<ValueRow>>(launch, problem, grid, bins);
  if (bins.rows) return launch_tiles<1, kQuotient, RowBuilder<CountRow>>(launch, problem, grid, bins);
  if (bins.tile_points <= 4 * kThreads) return launch_tiles<1, kQuotient, NoRows>(launch, problem, grid, bins);
  if (bins.tile_points <= 8 * kThreads) return launch_tiles<2, kQuotient, NoRows>(launch, problem, grid, bins);
  launch_tiles<4, kQuotient, NoRows>(launch, problem, grid, bins);
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
    if (has_values(problem))
      launch_voxel_values(launch, problem, bins);
    else
      launch_voxel_counts(launch, problem, bins);
  }
}

}  // namespace amdahl
