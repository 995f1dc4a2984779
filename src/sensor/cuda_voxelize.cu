// First step of a voxelization: tiles of points dealt to bins or sorted by them. See voxel_plan.h.
#include "sensor/cuda_voxelize.cuh"

#include "sensor/cuda_voxel_locate.cuh"
#include "sensor/cuda_voxel_points.cuh"
#include "sensor/cuda_voxel_steps.cuh"
#include "sensor/cuda_voxel_tiles.cuh"

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

/// Where a point goes: its bin from this bit on, and below kOffsetBits the voxel's offset in it.
constexpr int kBinShift = kOffsetBits + 2;

__device__ __forceinline__ void clear(const BinArgs& bins, uint32_t* begins) {
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < num_begins(bins); i += kThreads) begins[i] = 0;
}

/// Clears what the block counts, and waits for what comes before this step.
__device__ __forceinline__ void begin(const BinArgs& bins, uint32_t* begins, Fates& of_block) {
  if (threadIdx.x == 0) of_block = {};
  clear(bins, begins);
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();  // after the wait: the next step then knows that all before this is done
}

/// A thread's points of a tile: where they are in bins, and how many bytes of entries the tile has before each in its
/// bin.
template <class Row, int kQuads>
struct Placed {
  static constexpr int kPoints = kQuads * 4;
  static constexpr uint32_t kEntryBytes = sizeof(typename Row::Slot);
  static_assert(int64_t{kMaxBins + kEndWords + kNowhereWords} << kBinShift <= int64_t{1} << 32);
  uint32_t place[kPoints], rank[kPoints];
  int from_warp = 0;  // points of the tile from the warp's first on

  __device__ bool has(const BinArgs& bins, int at) const { return place[at] < bins.num_bins() << kBinShift; }
  __device__ uint32_t bin(int at) const { return place[at] >> kBinShift; }
  /// The word of the point's bin.
  __device__ uint32_t& of_bin(uint32_t* words, int at) const {
    static_assert(kBinShift - kOffsetBits == 2);
    return *reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(words) + (place[at] >> kOffsetBits));
  }
  /// Of the point that the thread has `at`: point i of quad q is (q * kThreads + thread) * 4 + i of its tile.
  __device__ typename Row::Slot entry(int at) const {
    const uint32_t in_tile = (at / 4 * kThreads + threadIdx.x) * 4 + at % 4;
    return static_cast<typename Row::Slot>(offset_of(place[at]) | in_tile << kOffsetBits);
  }
  /// Whether the warp may have points there. Only points of counts ask: it takes registers.
  __device__ bool may_have(int quad) const { return quad == 0 || Row::kHasPoints || from_warp > quad * 4 * kThreads; }
  /// Calls visit(at) for all points that the warp may have.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (!may_have(q)) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(q * 4 + i);
    }
  }
};

/// Places the points of a quad of which `count` are there, whose coordinates `p` are `from` memory.
template <Quotient kQuotient>
__device__ __forceinline__ void place_quad(const GridArgs& grid, const BinArgs& bins, const float* from,
                                           const float (&p)[12], int count, uint32_t* places, Fates& fates) {
  using Unsigned = std::make_unsigned_t<VoxelIndex<kQuotient>>;
  const uint32_t nowhere = (bins.num_bins() + kEndWords + threadIdx.x % kNowhereWords) << kBinShift;
  VoxelIndex<kQuotient> voxel[4];
  locate_quad<kQuotient>(grid, from, p, count, fates, voxel);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto in_slab = static_cast<Unsigned>(voxel[i]);
    const BinPlace place = place_in_bins(static_cast<uint32_t>(in_slab), bins.bin_bits);
    places[i] = in_slab < static_cast<Unsigned>(bins.num_voxels) ? (place.bin << kBinShift) + place.offset : nowhere;
  }
}

/// Places a thread's points of the tile of `count` that begins here.
template <Quotient kQuotient, class Row, int kQuads, class Source>
__device__ __forceinline__ void place_points(const GridArgs& grid, const BinArgs& bins, const Source& source,
                                             const float* from, int count, Placed<Row, kQuads>& placed, Fates& fates) {
  placed.from_warp = count - static_cast<int>(threadIdx.x & ~31u) * 4;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    if (!placed.may_have(q)) continue;
    const int quad = q * kThreads + static_cast<int>(threadIdx.x), left = count - quad * 4;
    float p[12];
    source.wait(q);
    source.load(from, quad, left, p);
    place_quad<kQuotient>(grid, bins, from + quad * 12, p, left, placed.place + q * 4, fates);
  }
}

/// Counts a thread's points. All atomics are under way at once.
template <class Row, int kQuads>
__device__ __forceinline__ void count_points(uint32_t* lengths, Placed<Row, kQuads>& placed) {
  placed.for_each([&](int at) { placed.rank[at] = atomicAdd(&placed.of_bin(lengths, at), placed.kEntryBytes); });
}

/// Writes a tile's points sorted by bin, those of ranks below kFirstRank left out; begins are lengths. Clears what the
/// next tile is counted by, if there may be one. Waits for all threads before, but not after it has read what it
/// writes.
template <uint32_t kFirstRank, class Row, int kQuads, class Output>
__device__ __forceinline__ void write_sorted(const BinArgs& bins, int64_t tile, const TileMemory<Row, kQuads>& memory,
                                             Placed<Row, kQuads>& placed, const Output& output) {
  __shared__ uint32_t warps[32];
  constexpr uint32_t kEntryBytes = sizeof(typename Row::Slot);
  const uint32_t num_bins = bins.num_bins();
#pragma unroll
  for (int at = 0; at < kQuads * 4; ++at) asm volatile("" : "+r"(placed.place[at]));  // no register keeps a part of it
  __syncthreads();
  if (kFirstRank == 0) clear(bins, memory.next_begins);
  if constexpr (Row::kHasPoints)  // of which there are more bins
    scan_block<kThreads>(memory.begins, num_begins(bins), warps);
  else
    scan_by_warp(memory.begins, num_begins(bins));
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i <= num_bins; i += kThreads)
    output.write_table(bins, tile, i, memory.begins[i] / kEntryBytes);
  uint32_t to[kQuads * 4];
  placed.for_each([&](int at) { to[at] = placed.of_bin(memory.begins, at) + placed.rank[at] - kFirstRank; });
  placed.for_each([&](int at) {
    if (kFirstRank == 0 || (placed.has(bins, at) && placed.rank[at] >= kFirstRank))
      *reinterpret_cast<typename Row::Slot*>(memory.sorted + to[at]) = placed.entry(at);
  });
  __syncthreads();
  output.write_entries(bins, tile, memory);
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
  const uint32_t last = static_cast<uint32_t>(bins.num_tiles) - 1;
  const auto num_points = [&](uint32_t tile) {
    return tile < last ? bins.tile_points : static_cast<int>(points.count - int64_t{last} * bins.tile_points);
  };
  const auto from = [&](uint32_t tile) { return points.data + int64_t{tile} * bins.tile_points * 3; };
  const auto read = [&](uint32_t tile) {
    if (tile < bins.num_tiles) source.begin(from(tile), num_points(tile));
  };
  read(blockIdx.x);
  for (uint32_t tile = blockIdx.x; tile < bins.num_tiles; tile += gridDim.x) {
    Placed<Row, kQuads> placed;
    Fates fates{};
    place_points<kQuotient>(grid, bins, source, from(tile), num_points(tile), placed, fates);
    add_fates(fates, of_block);
    read(tile + gridDim.x);
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
template <Quotient kQuotient, class Row>
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
  asm volatile("" : "+r"(first), "+r"(count));  // known before the wait
  begin(bins, memory.begins, of_block);
  if (Row::kHasPoints && blockIdx.x == 0) reset(bins);
  const float* from = points.data + size_t{first} * 3;
  float p[12];
  if (count > 0) load_quad(from, count, points.aligned, p);
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
  args.table = reinterpret_cast<uint16_t*>(scratch + plan.table);
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
  launch_first_step(launch, problem, grid, bins, &deal<kQuotient, Row>,
                    TileMemory<Row, 1>::bytes(bins) + RowBuilder<Row>::bytes(bins), "deal");
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
