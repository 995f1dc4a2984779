// Variant `scatter`, for small clouds without values: each block scatters one tile of points into fixed-capacity
// buckets, one per tile and bin; then a block per bin counts them in shared memory and writes its voxels.
//
// Cost: two dependent kernels; their latencies (about 1.5 us each) and writing 4 bytes per voxel are most of the 6 us
// of 500,000 points in 128^3 voxels on an H200. Faster than sorting, because neither step computes prefix sums or looks
// up segments, and than global atomics (9 us uniform, 22 in rings), because nothing collides in the L2. Entries that do
// not fit into a bucket go to its overflow slots, then to a sorted overflow list of the tile.
#include "sensor/ops/voxels/cuda_voxel_cells.cuh"
#include "sensor/ops/voxels/cuda_voxel_sort.cuh"
#include "sensor/ops/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

// ---- first step ----

/// Builds a tile's buckets in shared memory, 16 bytes apart to avoid bank conflicts of equal ranks. Points in no bin
/// have buckets like all others.
struct BucketBuilder {
  static constexpr int kStride = PointBucket::kBytes + 16;
  static size_t bytes(const BinArgs& bins) { return size_t{num_begins(bins)} * kStride; }
  char* memory;

  __device__ __forceinline__ uint16_t* entries(uint32_t bin) const {
    return reinterpret_cast<uint16_t*>(memory + bin * kStride) + 1;
  }
  /// Writes the used parts of the tile's buckets, in whole sectors of memory.
  __device__ void write(const BinArgs& bins, uint32_t tile, const uint32_t* lengths) const {
    constexpr uint32_t kOfLane = sizeof(uint4) / sizeof(uint16_t);
    const uint32_t lane = threadIdx.x % PointBucket::kLanes;
#pragma unroll 1
    for (uint32_t bin = threadIdx.x / PointBucket::kLanes; bin < bins.num_bins();
         bin += kTileThreads / PointBucket::kLanes) {
      if ((lane & ~1u) * kOfLane > lengths[bin]) continue;
      uint4 part = *reinterpret_cast<const uint4*>(memory + bin * kStride + lane * sizeof(uint4));
      if (lane == 0) part.x = (part.x & 0xffff0000u) | lengths[bin];
      bins.buckets[bins.bucket_of(bin, tile) * PointBucket::kLanes + lane] = part;
    }
  }
};

template <Quotient kQuotient>
__global__ void __launch_bounds__(kTileThreads, 1) scatter(GridArgs grid, BinArgs bins, Points points) {
  extern __shared__ __align__(128) char shared[];
  __shared__ Drops of_block;
  const BucketBuilder buckets{shared};
  const TileMemory<uint16_t, 1> memory(shared + num_begins(bins) * BucketBuilder::kStride, bins);
  const uint32_t tile = blockIdx.x;
  if (threadIdx.x == 0) of_block = {};
  clear(bins, memory.begins);
  const Quad quad(bins, points, tile, static_cast<int>(threadIdx.x) * 4);
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();  // after the wait, so that the next step depends on all earlier kernels
  PlacedPoints<1> placed;
  Drops drops{};
  float p[12];
  load_quad(quad.from, quad.count, points.aligned, p);
  place_quad<kQuotient>(grid, bins, quad, p, placed.place, drops);
  placed.count(memory.begins);
  bool overflows = false, spills = false;
#pragma unroll
  for (int at = 0; at < 4; ++at) {
    if (placed.rank[at] < PointBucket::kSlots)
      buckets.entries(placed.bin(at))[placed.rank[at]] = placed.entry<uint16_t>(at);
    else
      overflows = true;
  }
  if (overflows) {
#pragma unroll
    for (int at = 0; at < 4; ++at) {
      if (!placed.has(bins, at) || placed.rank[at] < PointBucket::kSlots) continue;
      auto* slots = reinterpret_cast<uint16_t*>(bins.overflow_of(bins.bucket_of(placed.bin(at), tile)));
      if (placed.rank[at] < PointBucket::kAllSlots)
        slots[placed.rank[at] - PointBucket::kSlots] = placed.entry<uint16_t>(at);
      else
        spills = true;
    }
  }
  add_drops(drops, of_block);
  spills = __syncthreads_or(spills);
  buckets.write(bins, tile, memory.begins);
  if (bins.stats && threadIdx.x == 0) bins.drops[tile] = {of_block.nan, of_block.outside};
  if (!spills) return;
  __syncthreads();
  constexpr uint32_t kAll = PointBucket::kAllSlots;
  for (uint32_t i = threadIdx.x; i < num_begins(bins); i += kTileThreads)
    memory.begins[i] = max(memory.begins[i], kAll) - kAll;
  sort_tile(bins, tile, memory, placed, kAll, OwnMemory{});
}

// ---- second step ----

/// One thread per vector of a bin's buckets.
constexpr int kThreads = kMaxScatterTiles * PointBucket::kLanes;
static_assert(kThreads % 32 == 0);

/// Calls visit(exists, entry) for the entries of a vector, whose first one has index `first` of `count`.
template <class Visit>
__device__ __forceinline__ void visit_vector(const uint4& vector, int first, int count, const Visit& visit) {
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 8; ++i)
    visit(static_cast<unsigned>(first + i) < static_cast<unsigned>(count), words[i / 2] >> 16 * (i % 2) & 0xffff);
}

/// Calls visit(exists, entry) for every entry of a bin, and for entries that do not exist. Calls wait() before it
/// reads, and ends with a block barrier.
template <class Wait, class Visit>
__device__ __forceinline__ void for_each_scattered(const BinArgs& bins, uint32_t bin, const Wait& wait,
                                                   const Visit& visit) {
  const int lane = threadIdx.x % PointBucket::kLanes, tile = static_cast<int>(threadIdx.x) / PointBucket::kLanes;
  const uint32_t bucket = bins.bucket_of(bin, tile);
  const auto num_tiles = static_cast<int>(bins.num_tiles);
  wait();
  const uint4 part = tile < num_tiles ? bins.buckets[bucket * PointBucket::kLanes + lane] : make_uint4(0, 0, 0, 0);
  const int count = __shfl_sync(~0u, static_cast<int>(part.x & 0xffff), static_cast<int>(threadIdx.x) % 32 - lane);
  visit_vector(part, lane * 8 - 1, min(count, PointBucket::kSlots), visit);
  const int in_slots = min(count - PointBucket::kSlots, PointBucket::kOverflowSlots);
  for (int vector = lane; vector * 8 < in_slots; vector += PointBucket::kLanes)
    visit_vector(bins.overflow_of(bucket)[vector], vector * 8, in_slots, visit);
  if (!__syncthreads_or(count > PointBucket::kAllSlots)) return;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < num_tiles; i += kThreads / 32) {
    const auto length = static_cast<int>(bins.buckets[bins.bucket_of(bin, i) * PointBucket::kLanes].x & 0xffff);
    if (length <= PointBucket::kAllSlots) continue;
    const uint16_t* entries = bins.sorted<uint16_t>(i) + SegmentTable(bins, bin)[i].begin;
#pragma unroll 4
    for (int at = static_cast<int>(threadIdx.x) % 32; at < length - PointBucket::kAllSlots; at += 32)
      visit(true, entries[at]);
  }
  __syncthreads();
}

template <class Cells, Form kForm>
__global__ void __launch_bounds__(kThreads, 2)
    count_scattered(BinArgs bins, const __grid_constant__ ByteArgs bytes, void* output) {
  using Cell = typename Cells::Cell;
  extern __shared__ uint4 memory[];
  // Entries that do not exist are added to words behind the cells, which is faster than branches.
  const uint32_t all_bytes = bins.bin_voxels() * sizeof(Cell), address = shared_address(memory),
                 nowhere = address + all_bytes + threadIdx.x % 32 * sizeof(uint32_t) % Cells::kNowhereBytes;
  let_successor_start();
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += gridDim.x) {
    clear_cells<kThreads>(memory, all_bytes);
    for_each_scattered(
        bins, bin,
        [&] {
          if (bin == blockIdx.x) wait_for_predecessor();
        },
        [&](bool there, uint32_t entry) {
          Cells::add(there ? address + entry * static_cast<uint32_t>(sizeof(Cell)) : nowhere);
        });
    write_cells<kForm, kThreads>(bins, bin, reinterpret_cast<const Cell*>(memory), bytes, output);
    __syncthreads();
  }
}

}  // namespace

void launch_voxel_scatter(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  static_assert(kScatterTilePoints == 4 * kTileThreads);
  const GridArgs grid = grid_args(problem, bins.first_voxel);
  with_quotient(grid.quotient, [&](auto quotient) {
    auto* kernel = &scatter<decltype(quotient)::value>;
    const size_t shared = TileMemory<uint16_t, 1>::bytes(bins) + BucketBuilder::bytes(bins);
    launch_early(launch, static_cast<unsigned>(bins.num_drops), kTileThreads, shared, kernel, "scatter", grid, bins,
                 points_of(problem));
  });
  launch_cells(launch, problem, bins, kThreads, "count_scattered",
               [](auto cells, auto form) { return &count_scattered<decltype(cells), decltype(form)::value>; });
}

}  // namespace amdahl
