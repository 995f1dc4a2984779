// First step of all variants that sort: each block sorts tiles of points by bin in shared memory (a counting sort) and
// writes them with a table of the bins' segments.
//
// Cost per point: 12 bytes read, an entry of 2 or 4 bytes written, about 90 instructions and two shared-memory
// accesses; 20 M points into 256 bins take 77 us on an H200, of which reading at the memory's rate would be 57. Faster
// than global atomics from about 200,000 points on, because it needs only shared-memory atomics.
#include "sensor/ops/voxels/cuda_voxel_sort.cuh"
#include "sensor/ops/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

template <class Entry, int kQuads, Quotient kQuotient, class Output>
__global__ void __launch_bounds__(kTileThreads, 1)
    partition(GridArgs grid, BinArgs bins, Points points, const __grid_constant__ Output output) {
  extern __shared__ __align__(128) char shared[];
  __shared__ Drops of_block;
  TileMemory<Entry, kQuads> memory(shared, bins);
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
  for (int64_t tile = blockIdx.x; tile < bins.num_tiles; tile += gridDim.x) {
    PlacedPoints<kQuads> placed;
    Drops drops{};
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const Quad quad(bins, points, tile, (q * kTileThreads + static_cast<int>(threadIdx.x)) * 4);
      float p[12];
      load_quad(quad.from, quad.count, points.aligned, p);
      place_quad<kQuotient>(grid, bins, quad, p, placed.place + q * 4, drops);
    }
    add_drops(drops, of_block);
    placed.count(memory.begins);
    sort_tile(bins, tile, memory, placed, 0, output);
    uint32_t* const last = memory.begins;
    memory.begins = memory.next_begins, memory.next_begins = last;
  }
  __syncthreads();
  if (bins.stats && threadIdx.x == 0) bins.drops[blockIdx.x] = {of_block.nan, of_block.outside};
}

template <class Entry, int kQuads, Quotient kQuotient, class Output>
void launch_with(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins, const GridArgs& grid,
                 const Output& output) {
  auto* kernel = &partition<Entry, kQuads, kQuotient, Output>;
  const size_t shared = TileMemory<Entry, kQuads>::bytes(bins);
  launch_early(launch, static_cast<unsigned>(bins.num_drops), kTileThreads, shared, kernel, "partition", grid, bins,
               points_of(problem), output);
}

template <class Entry, class Output>
void launch_output(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins,
                   const Output& output) {
  const GridArgs grid = grid_args(problem, bins.first_voxel);
  with_quotient(grid.quotient, [&](auto quotient) {
    constexpr Quotient kQuotient = decltype(quotient)::value;
    constexpr int kQuads = kMaxTilePoints / (4 * kTileThreads);
    if (bins.tile_points <= 4 * kTileThreads)  // small clouds
      return launch_with<Entry, 1, kQuotient>(launch, problem, bins, grid, output);
    launch_with<Entry, kQuads, kQuotient>(launch, problem, bins, grid, output);
  });
}

}  // namespace

void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  if (problem.sorted_parts.num_ranks > 0)
    return launch_output<uint16_t>(launch, problem, bins, RanksMemory{problem.sorted_parts});
  if (has_values(problem.options.mode)) return launch_output<uint32_t>(launch, problem, bins, OwnMemory{});
  launch_output<uint16_t>(launch, problem, bins, OwnMemory{});
}

}  // namespace amdahl
