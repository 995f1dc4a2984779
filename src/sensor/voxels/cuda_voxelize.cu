// First step of a voxelization: tiles of points dealt to bins or sorted by them. See voxel_plan.h.
#include "sensor/voxels/cuda_voxelize.cuh"

#include "sensor/voxels/cuda_voxel_placed.cuh"
#include "sensor/voxels/cuda_voxel_points.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = kTileThreads;

/// Nothing is known of the bins yet. By one block.
__device__ void reset(const BinArgs& bins) {
  if (threadIdx.x == 0) *bins.cursor = 0;
  if (bins.few_points)
    for (uint32_t bin = threadIdx.x; bin < bins.num_bins(); bin += kThreads) bins.densities[bin] = BinDensity::unknown;
  if (!bins.crowded) return;
  if (threadIdx.x == 0) bins.crowded->num_bins = bins.crowded->num_claimed = 0;
  for (uint32_t i = threadIdx.x; i < bins.num_bins(); i += kThreads) bins.crowded->bins[i] = 0;
}

/// Clears what the block counts, and waits for what comes before this step.
__device__ __forceinline__ void begin(const BinArgs& bins, uint32_t* begins, Fates& of_block) {
  if (threadIdx.x == 0) of_block = {};
  clear(bins, begins);
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();  // after the wait: the next step then knows that all before this is done
}

/// Sorts tiles of up to kQuads x 4 x kThreads points.
template <class Row, int kQuads, Quotient kQuotient, class Source, class Output>
__global__ void __launch_bounds__(kThreads, 1)
    partition(GridArgs grid, BinArgs bins, Points points, const __grid_constant__ Output output) {
  extern __shared__ __align__(128) char shared[];
  __shared__ Fates of_block;
  TileMemory<Row, kQuads> memory(shared, Source::kBytes, bins);
  begin(bins, memory.begins, of_block);
  if (blockIdx.x == 0) reset(bins);
  output.begin(bins);
  Source source(shared, points, bins.points_go_first);
  const int64_t first = int64_t{blockIdx.x} * bins.tile_points;
  const int step = static_cast<int>(gridDim.x) * bins.tile_points;  // to the block's next tile
  const float* from = points.data + first * 3;
  int64_t left = points.count - first;  // of the cloud, from there on
  const auto num_points = [&] { return static_cast<int>(min(left, int64_t{bins.tile_points})); };
  int count = num_points();
  if (left > 0) source.begin(from, count);
  for (uint32_t tile = blockIdx.x; left > 0; tile += gridDim.x) {
    Placed<Row, kQuads> placed;
    Fates fates{};
    place_points<kQuotient>(grid, bins, source, from, count, placed, fates);
    add_fates(fates, of_block);
    from += int64_t{step} * 3, left -= step;
    count = num_points();
    if (left > 0) source.begin(from, count);
    count_points(memory.begins, placed);
    write_sorted<0>(bins, tile, memory, placed, output);
    memory.go_on();
  }
  __syncthreads();
  if (bins.stats && threadIdx.x == 0) bins.fates[blockIdx.x] = {of_block.nan, of_block.outside};
}

/// Where a tile's rows are built, in shared memory: 16 bytes apart, so that equal ranks fall into unlike banks. Points
/// that are in no bin have rows like the others.
template <class Row>
struct RowBuilder {
  using Slot = typename Row::Slot;
  static constexpr int kStride = Row::kBytes + 16;
  __host__ __device__ static size_t bytes(const BinArgs& bins) { return size_t{num_begins(bins)} * kStride; }
  char* memory;

  __device__ __forceinline__ void put(uint32_t bin, uint32_t rank, Slot entry) const {
    *reinterpret_cast<Slot*>(memory + bin * kStride + Row::byte_of(rank)) = entry;
  }
  /// Copies what is needed of the tile's rows, in whole sectors of memory; `lengths` of the bins, in bytes.
  __device__ void write(const BinArgs& bins, uint32_t tile, const uint32_t* lengths) const {
    const int lane = threadIdx.x % Row::kLanes;
#pragma unroll 1
    for (uint32_t bin = threadIdx.x / Row::kLanes; bin < bins.num_bins(); bin += kThreads / Row::kLanes) {
      const uint32_t count = lengths[bin] / sizeof(Slot);
      if (Row::slot_of(lane & ~1, 0) >= static_cast<int>(count) + Row::kHeader) continue;
      uint4 part = *reinterpret_cast<const uint4*>(memory + bin * kStride + lane * 16);
      if (lane == 0) reinterpret_cast<Slot&>(part.x) = static_cast<Slot>(count);
      static_cast<uint4*>(bins.rows)[bins.row_of(bin, tile) * Row::kLanes + lane] = part;
    }
  }
};

/// Deals tiles of up to 4 x kThreads points, one to a block. Two blocks on a multiprocessor would leave another one
/// idle.
template <Quotient kQuotient, class Row, class Quads>
__global__ void __launch_bounds__(kThreads, 1) deal(GridArgs grid, BinArgs bins, Points points) {
  extern __shared__ __align__(128) char shared[];
  __shared__ Fates of_block;
  constexpr uint32_t kInRow = Row::kSlots * sizeof(typename Row::Slot), kInRows = kInRow + Row::kSecondBytes;
  const RowBuilder<Row> rows{shared};
  const TileMemory<Row, 1> memory(shared, RowBuilder<Row>::bytes(bins), bins);
  const uint32_t tile = blockIdx.x, num_points = static_cast<uint32_t>(points.count);
  Placed<Row, 1> placed;
  Fates fates{};
  uint32_t first = dealt_point(tile, static_cast<uint32_t>(bins.num_tiles), threadIdx.x * 4);
  const bool in_tile = static_cast<int>(threadIdx.x) * 4 < bins.tile_points && first < num_points;
  int count = in_tile ? static_cast<int>(min(num_points - first, 4u)) : 0;
  const Quads quads(tile, first);
  asm volatile("" : "+r"(first), "+r"(count));  // known before the wait
  begin(bins, memory.begins, of_block);
  if (Row::kHasPoints && blockIdx.x == 0) reset(bins);
  const float* from = points.data + size_t{first} * 3;
  float p[12];
  quads.load(points, from, count, p);
  place_quad<kQuotient>(grid, bins, from, p, count, placed.place, fates);
  count_points(memory.begins, placed);
  bool beyond = false, crowded = false;
#pragma unroll
  for (int at = 0; at < 4; ++at) {
    if (placed.rank[at] < kInRow) rows.put(placed.bin(at), placed.rank[at], placed.entry(at));
    beyond = beyond || placed.rank[at] >= kInRow;
  }
  if (beyond) {
#pragma unroll
    for (int at = 0; at < 4; ++at) {
      if (!placed.has(bins, at) || placed.rank[at] < kInRow) continue;
      if (placed.rank[at] < kInRows)
        bins.second_row<Row>(placed.bin(at), tile)[placed.rank[at] / placed.kEntryBytes - Row::kSlots] =
            placed.entry(at);
      else
        crowded = true;
    }
  }
  add_fates(fates, of_block);
  crowded = __syncthreads_or(crowded);
  rows.write(bins, tile, memory.begins);
  if (bins.stats && threadIdx.x == 0) bins.fates[tile] = {of_block.nan, of_block.outside};
  if (!crowded) return;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < bins.num_bins(); i += kThreads)
    memory.begins[i] = max(memory.begins[i], kInRows) - kInRows;
  write_sorted<kInRows>(bins, tile, memory, placed, OwnMemory{});
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
  args.tile_points = plan.tile_points, args.num_tiles = plan.num_tiles, args.num_ranks = 1;
  const int64_t cache = cuda_attribute(launch.device_index, cudaDevAttrL2CacheSize);
  const int64_t entry_bytes = problem.num_points * plan.entry_bytes,
                point_bytes = problem.num_points * int64_t{3 * sizeof(float)};
  args.points_go_first = entry_bytes <= cache && entry_bytes + point_bytes > cache;
  args.few_points = plan.few_points;
  args.rows = plan.dealt ? scratch + plan.rows : nullptr, args.second_rows = scratch + plan.second_rows;
  args.row_pitch = plan.row_pitch;
  args.densities = reinterpret_cast<BinDensity*>(scratch + plan.densities);
  args.crowded = plan.parts    ? problem.sorted_parts.crowded
                 : plan.halves ? reinterpret_cast<CrowdedBins*>(scratch + plan.crowded)
                               : nullptr;
  args.entries = scratch + plan.entries;
  args.table = reinterpret_cast<uint32_t*>(scratch + plan.table);
  args.order = reinterpret_cast<uint32_t*>(scratch + plan.order);
  args.cursor = reinterpret_cast<uint32_t*>(scratch + plan.cursor);
  args.fates = reinterpret_cast<VoxelizeCounts*>(scratch + plan.fates);
  args.num_fates = static_cast<int>(partition_blocks(launch, args));
  args.stats = slab == 0 ? problem.stats : nullptr;
  return args;
}

template <class Kernel, class... Output>
void launch_first_step(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                       const BinArgs& bins, Kernel* kernel, size_t shared, const char* name, const Output&... output) {
  allow_shared(launch, kernel, shared);
  launch_early(launch, partition_blocks(launch, bins), kThreads, shared, kernel, name, grid, bins, points_of(problem),
               output...);
}

template <class Row, Quotient kQuotient, int kQuads, class Source, class Output = OwnMemory>
void launch_sorted(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                   const BinArgs& bins, const Output& output = {}) {
  launch_first_step(launch, problem, grid, bins, &partition<Row, kQuads, kQuotient, Source, Output>,
                    TileMemory<Row, kQuads>::bytes(bins) + Source::kBytes, "partition", output);
}

template <class Row, Quotient kQuotient>
void launch_dealt(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                  const BinArgs& bins) {
  static_assert(kDealtTilePoints == 4 * kThreads);
  const auto deal_by = [&](auto* kernel) {
    launch_first_step(launch, problem, grid, bins, kernel,
                      TileMemory<Row, 1>::bytes(bins) + RowBuilder<Row>::bytes(bins), "deal");
  };
  // Lanes may exchange points whose entries do not say which they are, but not points that are clamped, which are read
  // again. Of fewer points it takes longer: nobody waits for lines.
  constexpr int kLeastPoints = 2560;  // of a tile
  if constexpr (!Row::kHasPoints)
    if (bins.tile_points >= kLeastPoints && points_of(problem).aligned && !grid.clamp)
      return deal_by(&deal<kQuotient, Row, RunQuads>);
  deal_by(&deal<kQuotient, Row, OwnQuads>);
}

/// Tiles of counts, read ahead where there is more than one round of them.
template <Quotient kQuotient, class Output = OwnMemory>
void launch_counted(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                    const BinArgs& bins, const Output& output = {}) {
  constexpr int kQuads = kMaxCountedTilePoints / (4 * kThreads);
  using Ahead = PointsAhead<kThreads, kQuads>;
  constexpr size_t kOther = 1024;  // shared memory that is not dynamic, and what the chip keeps for itself
  const bool fits = TileMemory<CountRow, kQuads>::bytes(bins) + Ahead::kBytes + kOther <= launch.limits.most_shared;
  if (bins.num_tiles > launch.num_sms && fits)
    return launch_sorted<CountRow, kQuotient, kQuads, Ahead>(launch, problem, grid, bins, output);
  launch_sorted<CountRow, kQuotient, kQuads, PointsInMemory>(launch, problem, grid, bins, output);
}

template <class Row, Quotient kQuotient>
void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                      const BinArgs& bins) {
  if (bins.rows) return launch_dealt<Row, kQuotient>(launch, problem, grid, bins);
  constexpr int kQuadPoints = 4 * kThreads, kCountedQuads = kMaxCountedTilePoints / kQuadPoints;
  static_assert(kMaxTilePoints == 4 * kQuadPoints && kCountedQuads * kQuadPoints == kMaxCountedTilePoints);
  if (bins.tile_points <= kQuadPoints)
    return launch_sorted<Row, kQuotient, 1, PointsInMemory>(launch, problem, grid, bins);
  if constexpr (Row::kHasPoints) {
    if (bins.tile_points <= 2 * kQuadPoints)
      return launch_sorted<Row, kQuotient, 2, PointsInMemory>(launch, problem, grid, bins);
    return launch_sorted<Row, kQuotient, 4, PointsInMemory>(launch, problem, grid, bins);
  } else {
    launch_counted<kQuotient>(launch, problem, grid, bins);
  }
}

void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const GridArgs grid = grid_args(problem, bins.first_voxel);
  with_quotient(grid.quotient, [&](auto quotient) {
    constexpr Quotient kQuotient = decltype(quotient)::value;
    if (problem.sorted_parts.num_ranks > 0)
      return launch_counted<kQuotient>(launch, problem, grid, bins, RanksMemory{problem.sorted_parts});
    if (has_values(problem.options.mode)) return launch_partition<ValueRow, kQuotient>(launch, problem, grid, bins);
    launch_partition<CountRow, kQuotient>(launch, problem, grid, bins);
  });
}

/// Where no second step tells what became of the points.
__global__ void tell_fates_alone(BinArgs bins) {
  let_successor_start();
  tell_fates(bins);
}
void launch_tell_fates(const SensorLaunch& launch, const BinArgs& bins) {
  if (bins.stats) launch_early(launch, 1, 32, 0, &tell_fates_alone, "tell_fates", bins);
}

}  // namespace

size_t cuda_voxelize_scratch_bytes(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  return plan_voxels(problem, launch.num_sms, launch.limits.most_shared).bytes;
}

void launch_voxelize(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  if (goes_directly(problem)) return launch_voxel_direct(launch, problem);
  const VoxelPlan plan = plan_voxels(problem, launch.num_sms, launch.limits.most_shared);
  for (int slab = 0; slab < plan.num_slabs; ++slab) {
    const BinArgs bins = bin_args(launch, plan, problem, slab);
    launch_partition(launch, problem, bins);
    if (plan.parts)
      launch_tell_fates(launch, bins);
    else if (has_values(problem.options.mode))
      launch_voxel_values(launch, problem, bins);
    else if (plan.halves)
      launch_voxel_halves(launch, problem, bins);
    else
      launch_voxel_counts(launch, problem, bins);
  }
}

}  // namespace amdahl
