// Second step of a voxelization without values: counts of a bin in shared memory, written as counts, occupancy or mask.
#include <type_traits>

#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;

/// What a block keeps of a voxel: how many points, or whether there are any; in bytes of small clouds, where writing
/// them out takes longer than that some lanes meet in a word.
template <VoxelMode kMode, bool kDealt>
using Cell = std::conditional_t<kMode == VoxelMode::count || !kDealt, uint32_t, uint8_t>;

/// Four voxels of the grid, from `cells` on.
__device__ __forceinline__ int4 four_voxels(const uint32_t* cells) { return *reinterpret_cast<const int4*>(cells); }
__device__ __forceinline__ int4 four_voxels(const uint8_t* cells) {
  const uint32_t word = *reinterpret_cast<const uint32_t*>(cells);
  return make_int4(word & 1, word >> 8 & 1, word >> 16 & 1, word >> 24);
}

/// Counts as bytes: see VoxelizeProblem::most_in_byte.
struct ByteArgs {
  int most;
  CountBeyond* beyond;
};

/// Writes a bin's counts as bytes, four voxels at once; the output has whole words.
__device__ void write_bytes(const BinArgs& bins, uint32_t bin, const uint32_t* cells, const ByteArgs& args,
                            void* output) {
  auto* words = static_cast<uint32_t*>(output);
  for (uint32_t offset = threadIdx.x * 4; offset < bins.bin_voxels(); offset += kThreads * 4) {
    const uint32_t voxel = voxel_of(bins, bin, offset);
    if (voxel >= bins.num_voxels) continue;
    const int4 four = four_voxels(cells + offset);
    const int counts[4] = {four.x, four.y, four.z, four.w};
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      word |= static_cast<uint32_t>(min(counts[i], args.most)) << (8 * i);
      if (counts[i] > args.most)  // only voxels of the grid have any
        args.beyond[1 + atomicAdd(&args.beyond->voxel, 1u)] = {static_cast<uint32_t>(bins.first_voxel) + voxel + i,
                                                               counts[i] - args.most};
    }
    __stcs(words + (bins.first_voxel + voxel) / 4, word);
  }
}

template <VoxelMode kMode, class Cell>
__device__ void write_bin(const BinArgs& bins, uint32_t bin, const Cell* cells, void* output) {
  const uint32_t voxels = bins.bin_voxels();
  if (kMode == VoxelMode::bitmask) {
    auto* mask = static_cast<uint32_t*>(output) + bins.first_voxel / 32;
    for (uint32_t offset = threadIdx.x; offset < voxels; offset += kThreads) {  // kThreads and voxels in whole warps
      const uint32_t voxel = voxel_of(bins, bin, offset);
      const uint32_t word = __ballot_sync(~0u, cells[offset] != 0);
      if (threadIdx.x % 32 == 0 && voxel < bins.num_voxels) mask[voxel / 32] = word;
    }
    return;
  }
  auto* grid = static_cast<int32_t*>(output) + bins.first_voxel;
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  for (uint32_t offset = threadIdx.x * 4; offset < voxels; offset += kThreads * 4) {
    const uint32_t voxel = voxel_of(bins, bin, offset);
    const int4 four = four_voxels(cells + offset);
    if (aligned && voxel + 4 <= bins.num_voxels) {
      __stcs(reinterpret_cast<int4*>(grid + voxel), four);  // sorted points stay in the L2 instead
      continue;
    }
    const int single[4] = {four.x, four.y, four.z, four.w};
    for (int i = 0; i < 4; ++i)
      if (voxel + i < bins.num_voxels) grid[voxel + i] = single[i];
  }
}

template <VoxelMode kMode, bool kDealt, bool kBytes>
__global__ void __launch_bounds__(kThreads, 2) count_bins(BinArgs bins, ByteArgs bytes, void* output) {
  extern __shared__ uint4 memory[];
  using Voxel = Cell<kMode, kDealt>;
  auto* cells = reinterpret_cast<Voxel*>(memory);
  const uint32_t vectors = bins.bin_voxels() * sizeof(Voxel) / sizeof(uint4);
  bool first = true;
  cudaTriggerProgrammaticLaunchCompletion();
  if (tells_fates()) return tell_fates(bins);
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += blocks_for_bins()) {
    for (uint32_t i = threadIdx.x; i < vectors; i += kThreads) memory[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (first) {
      cudaGridDependencySynchronize();
      first = false;
    }
    for_each_entry<kDealt, CountRow, kThreads>(bins, bin, [&](uint32_t entry, int) {
      if constexpr (kMode == VoxelMode::count)
        atomicAdd(&cells[offset_of(entry)], 1u);
      else
        cells[offset_of(entry)] = 1;
    });
    if constexpr (kBytes)
      write_bytes(bins, bin, cells, bytes, output);
    else
      write_bin<kMode>(bins, bin, cells, output);
    __syncthreads();
  }
}

template <VoxelMode kMode, bool kDealt, bool kBytes>
void launch_count_bins(const SensorLaunch& launch, const BinArgs& bins, const ByteArgs& bytes, void* output) {
  auto* kernel = &count_bins<kMode, kDealt, kBytes>;
  const size_t shared = size_t{bins.bin_voxels()} * sizeof(Cell<kMode, kDealt>);
  allow_shared(launch, kernel, shared);
  launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "count_bins", bins, bytes, output);
}
template <VoxelMode kMode, bool kBytes = false>
void launch_mode(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const ByteArgs bytes{problem.most_in_byte, problem.beyond};
  if (bins.rows) return launch_count_bins<kMode, true, kBytes>(launch, bins, bytes, problem.output);
  launch_count_bins<kMode, false, kBytes>(launch, bins, bytes, problem.output);
}

}  // namespace

void launch_voxel_counts(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  if (problem.most_in_byte > 0) return launch_mode<VoxelMode::count, true>(launch, problem, bins);
  if (problem.options.mode == VoxelMode::count) return launch_mode<VoxelMode::count>(launch, problem, bins);
  if (problem.options.mode == VoxelMode::occupancy) return launch_mode<VoxelMode::occupancy>(launch, problem, bins);
  launch_mode<VoxelMode::bitmask>(launch, problem, bins);
}

}  // namespace amdahl
