// First step of all variants that sort: each block sorts tiles of points by bin in shared memory (a counting sort) and
// writes them with a table of the bins' segments.
//
// Cost per point: 12 bytes read, an entry of 2 or 4 bytes written, about 90 instructions and two shared-memory
// accesses; 20 M points into 256 bins take 77 us on an H200, of which reading at the memory's rate would be 57. Faster
// than global atomics from about 200,000 points on, because it needs only shared-memory atomics. If there are several
// rounds of tiles, coordinates are prefetched into shared memory, because 1,024 threads have no registers left for it.
#include "sensor/voxels/cuda_voxel_sort.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

template <class Entry, int kQuads, Quotient kQuotient, bool kAhead, class Output>
__global__ void __launch_bounds__(kTileThreads, 1)
    partition(GridArgs grid, BinArgs bins, Points points, const __grid_constant__ Output output) {
  extern __shared__ __align__(128) char shared[];
  __shared__ Drops of_block;
  const PointsAhead<kQuads> ahead(shared);
  TileMemory<Entry, kQuads> memory(shared + (kAhead ? ahead.kBytes : 0), bins);
  if (threadIdx.x == 0) of_block = {};
  clear(bins, memory.begins);
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();  // after the wait, so that the next step depends on all earlier kernels
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) *bins.cursor = bins.overfull->num_bins = bins.overfull->num_claimed = 0;
    for (uint32_t i = threadIdx.x; i < bins.num_bins(); i += kTileThreads) bins.overfull->bins[i] = 0;
  }
  output.begin(bins);
  if (kAhead) ahead.begin(bins, points, blockIdx.x);
  for (int64_t tile = blockIdx.x; tile < bins.num_tiles; tile += gridDim.x) {
    PlacedPoints<kQuads> placed;
    Drops drops{};
    if (kAhead) ahead.wait();
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int number = q * kTileThreads + static_cast<int>(threadIdx.x);
      const Quad quad(bins, points, tile, number * 4);
      float p[12];
      if (kAhead)
        ahead.load(points, quad, number, p);
      else
        load_quad(quad.from, quad.count, points.aligned, p);
      place_quad<kQuotient>(grid, bins, quad, p, placed.place + q * 4, drops);
    }
    if (kAhead) ahead.begin(bins, points, tile + gridDim.x);
    add_drops(drops, of_block);
    placed.count(memory.begins);
    sort_tile(bins, tile, memory, placed, 0, output);
    uint32_t* const last = memory.begins;
    memory.begins = memory.next_begins, memory.next_begins = last;
  }
  __syncthreads();
  if (bins.stats && threadIdx.x == 0) bins.drops[blockIdx.x] = {of_block.nan, of_block.outside};
}

template <class Entry, int kQuads, Quotient kQuotient, bool kAhead, class Output>
void launch_with(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid, const BinArgs& bins,
                 const Output& output, size_t shared) {
  auto* kernel = &partition<Entry, kQuads, kQuotient, kAhead, Output>;
  allow_shared(launch, kernel, shared);
  launch_early(launch, static_cast<unsigned>(bins.num_drops), kTileThreads, shared, kernel, "partition", grid, bins,
               points_of(problem), output);
}

/// Tiles without values are prefetched if there is more than one round and enough shared memory.
template <Quotient kQuotient, class Output>
void launch_counted(const SensorLaunch& launch, const VoxelizeProblem& problem, const GridArgs& grid,
                    const BinArgs& bins, const Output& output) {
  constexpr int kQuads = kMaxCountedTilePoints / (4 * kTileThreads);
  constexpr size_t kOther = 1024;  // static and reserved shared memory
  const size_t own = TileMemory<uint16_t, kQuads>::bytes(bins), with_ahead = own + PointsAhead<kQuads>::kBytes;
  if (bins.num_tiles > launch.num_sms && with_ahead + kOther <= launch.limits.most_shared &&
      !variant_forced("no-ahead"))
    return launch_with<uint16_t, kQuads, kQuotient, true>(launch, problem, grid, bins, output, with_ahead);
  launch_with<uint16_t, kQuads, kQuotient, false>(launch, problem, grid, bins, output, own);
}

}  // namespace

void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const GridArgs grid = grid_args(problem, bins.first_voxel);
  with_quotient(grid.quotient, [&](auto quotient) {
    constexpr Quotient kQuotient = decltype(quotient)::value;
    const auto launch_values = [&](auto quads) {
      constexpr int kQuads = decltype(quads)::value;
      launch_with<uint32_t, kQuads, kQuotient, false>(launch, problem, grid, bins, OwnMemory{},
                                                      TileMemory<uint32_t, kQuads>::bytes(bins));
    };
    if (problem.sorted_parts.num_ranks > 0)
      launch_counted<kQuotient>(launch, problem, grid, bins, RanksMemory{problem.sorted_parts});
    else if (!has_values(problem.options.mode))
      launch_counted<kQuotient>(launch, problem, grid, bins, OwnMemory{});
    else if (bins.tile_points <= 4 * kTileThreads)  // small clouds
      launch_values(std::integral_constant<int, 1>{});
    else
      launch_values(std::integral_constant<int, kMaxTilePoints / (4 * kTileThreads)>{});
  });
}

}  // namespace amdahl
