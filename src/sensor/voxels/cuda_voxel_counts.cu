// Second step of a voxelization without values: counts of a bin in shared memory, written as counts, occupancy or mask.
#include "sensor/voxels/cuda_voxel_cells.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

/// Of a block: of dealt tiles, a lane for each vector of its bin's rows.
template <bool kDealt>
constexpr int kThreadsFor = kDealt ? CountRow::kMaxTiles* CountRow::kLanes : 512;
static_assert(kThreadsFor<true> % 32 == 0);

template <int kThreads>
__device__ __forceinline__ void clear_cells(uint4* memory, uint32_t bytes) {
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < bytes / sizeof(uint4); i += kThreads) memory[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
}

template <class Cells, Form kForm, class Reading, bool kDealt>
__global__ void __launch_bounds__(kThreadsFor<kDealt>, 2)
    count_bins(BinArgs bins, const __grid_constant__ ByteArgs bytes, void* output) {
  constexpr int kThreads = kThreadsFor<kDealt>;
  extern __shared__ uint4 memory[];
  auto* cells = reinterpret_cast<typename Cells::Cell*>(memory);
  // Entries that are not there are added to words behind the cells: that takes less than branches.
  const uint32_t cell_bytes = bins.bin_voxels() * sizeof(typename Cells::Cell), address = shared_address(memory),
                 nowhere = address + cell_bytes + threadIdx.x % 32 * sizeof(uint32_t) % Cells::kNowhereBytes;
  let_successor_start();
  if (tells_fates()) return tell_fates(bins);
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += blocks_for_bins()) {
    clear_cells<kThreads>(memory, cell_bytes);
    const auto wait = [&] {
      if (bin == blockIdx.x) wait_for_predecessor();
    };
    for_each_entry<kDealt, CountRow, Reading, kThreads>(bins, bin, wait, [&](bool there, uint32_t entry, int) {
      const uint32_t offset = offset_of(entry);
      if constexpr (kDealt)
        Cells::add(there ? address + offset * static_cast<uint32_t>(sizeof(typename Cells::Cell)) : nowhere);
      else
        Cells::add(cells + offset);
    });
    write<kForm, kThreads>(bins, bin, cells, bytes, output);
    __syncthreads();
  }
}

template <class Cells, Form kForm, class Reading, bool kDealt>
void launch_count_bins(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  auto* kernel = &count_bins<Cells, kForm, Reading, kDealt>;
  const size_t shared = size_t{bins.bin_voxels()} * sizeof(typename Cells::Cell) + Cells::kNowhereBytes;
  allow_shared(launch, kernel, shared);
  launch_early(launch, second_step_blocks(launch, bins), kThreadsFor<kDealt>, shared, kernel, "count_bins", bins,
               ByteArgs::of(problem), problem.output);
}

template <class Cells, Form kForm>
void launch_form(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  using Short = Reads<8, 2, 3>;
  using Long = Reads<8, 6, 3>;
  if (bins.rows) return launch_count_bins<Cells, kForm, Short, true>(launch, problem, bins);
  const bool are_short = bins.tile_points <= static_cast<int64_t>(bins.num_bins()) * Short::kLanes * Short::kLoads;
  if (are_short) return launch_count_bins<Cells, kForm, Short, false>(launch, problem, bins);
  launch_count_bins<Cells, kForm, Long, false>(launch, problem, bins);
}

}  // namespace

void launch_voxel_counts(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  if (problem.most_in_byte > 0) return launch_form<Counts, Form::bytes>(launch, problem, bins);
  if (problem.options.mode == VoxelMode::count) return launch_form<Counts, Form::numbers>(launch, problem, bins);
  if (problem.options.mode == VoxelMode::occupancy) return launch_form<Marks, Form::numbers>(launch, problem, bins);
  launch_form<Marks, Form::mask>(launch, problem, bins);
}

}  // namespace amdahl
