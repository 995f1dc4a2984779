// Variant `atomics`, for few points without values: clears the grid, then executes one global atomic per point.
//
// Cost: 4 bytes (a bit of a mask) written per voxel and one atomic per point inside; the L2 of an H200 executes about
// 90 billion per second, fewer if points collide. 100,000 points in 128^3 voxels take 4.9 us, of which 2.7 are
// clearing; `scatter` takes 6.4. Loses if points share voxels (rings: 8.0 us, `scatter` 6.8).
#include "sensor/ops/voxels/cuda_voxel_locate.cuh"
#include "sensor/ops/voxels/cuda_voxel_points.cuh"
#include "sensor/ops/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
__global__ void __launch_bounds__(kThreads) clear_grid(uint32_t* grid, int64_t num_words, VoxelizeCounts* stats) {
  wait_for_predecessor();
  let_successor_start();  // after the wait, so that the next step may read the points at once
  const int64_t fours = reinterpret_cast<uintptr_t>(grid) % sizeof(uint4) == 0 ? num_words / 4 : 0;
  for (int64_t i = thread_index(); i < fours; i += thread_count()) reinterpret_cast<uint4*>(grid)[i] = {};
  for (int64_t i = fours * 4 + thread_index(); i < num_words; i += thread_count()) grid[i] = 0;
  if (stats && thread_index() == 0) *stats = {};
}

// Rules: the word of a voxel, the value that a point contributes, and how values are combined.

struct CountPoints {
  static constexpr int kVoxelsOfWord = 1;
  static constexpr bool kRepeats = true;  // repeating the same value changes the result
  __device__ static uint32_t value(uint32_t) { return 1; }
  __device__ static uint32_t join(uint32_t a, uint32_t b) { return a + b; }
  __device__ static void add(uint32_t* word, uint32_t value) { atomicAdd(word, value); }
};
struct SetBits {
  static constexpr int kVoxelsOfWord = 32;
  static constexpr bool kRepeats = false;
  __device__ static uint32_t value(uint32_t voxel) { return 1u << voxel % 32; }
  __device__ static uint32_t join(uint32_t a, uint32_t b) { return a | b; }
  __device__ static void add(uint32_t* word, uint32_t value) { atomicOr(word, value); }
};
/// An atomic without a return value is faster than a store of part of a sector.
struct SetOnes : SetBits {
  static constexpr int kVoxelsOfWord = 1;
  __device__ static uint32_t value(uint32_t) { return 1; }
};

/// Four points per thread. Neighbours in a cloud are often in the same voxel or word: a thread combines its points of a
/// word, and skips bits that the previous lane sets.
template <Quotient kQuotient, class Rule>
__global__ void __launch_bounds__(kThreads) mark(GridArgs grid, Points points, uint32_t* words, VoxelizeCounts* stats) {
  const int64_t first = thread_index() * 4;
  const int count = static_cast<int>(min(max(points.count - first, int64_t{0}), int64_t{4}));
  Drops drops{};
  uint32_t word[4], value[4];
  VoxelIndex<kQuotient> voxel[4];
  float p[12];
  if (count > 0) load_quad(points.data + first * 3, count, points.aligned, p);
  locate_quad<kQuotient>(grid, points.data + first * 3, p, count, drops, voxel);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word[i] = static_cast<uint32_t>(voxel[i] / Rule::kVoxelsOfWord);
    value[i] = voxel[i] < 0 ? 0 : Rule::value(static_cast<uint32_t>(voxel[i]));
#pragma unroll
    for (int k = 0; k < i; ++k)
      if (word[k] == word[i] && value[k] != 0) value[k] = Rule::join(value[k], value[i]), value[i] = 0;
  }
  wait_for_predecessor();
  let_successor_start();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bool told = false;
    if constexpr (!Rule::kRepeats) {
      const uint32_t word_before = __shfl_up_sync(~0u, word[i], 1), value_before = __shfl_up_sync(~0u, value[i], 1);
      told = threadIdx.x % 32 != 0 && word_before == word[i] && (value[i] & ~value_before) == 0;
    }
    if (value[i] != 0 && !told) Rule::add(words + word[i], value[i]);
  }
  if (!stats) return;
  __shared__ Drops of_block;
  if (threadIdx.x == 0) of_block = {};
  __syncthreads();
  add_drops(drops, of_block);
  __syncthreads();
  if (threadIdx.x != 0) return;
  using Word = unsigned long long;
  if (of_block.nan > 0) atomicAdd(reinterpret_cast<Word*>(&stats->num_nan), Word{of_block.nan});
  if (of_block.outside > 0) atomicAdd(reinterpret_cast<Word*>(&stats->num_outside), Word{of_block.outside});
}

template <class Rule>
void launch_mark(const SensorLaunch& launch, const VoxelizeProblem& problem, int64_t num_words) {
  auto* words = static_cast<uint32_t*>(problem.output);
  launch_early(launch, num_blocks(launch, num_words, kThreads * 4, 4), kThreads, 0, &clear_grid, "clear_grid", words,
               num_words, problem.stats);
  if (problem.num_points == 0) return;
  const GridArgs grid = grid_args(problem, 0);
  const auto blocks = static_cast<unsigned>((problem.num_points + kThreads * 4 - 1) / (kThreads * 4));
  with_quotient(grid.quotient, [&](auto quotient) {
    launch_early(launch, blocks, kThreads, 0, &mark<decltype(quotient)::value, Rule>, "mark", grid, points_of(problem),
                 words, problem.stats);
  });
}

}  // namespace

void launch_voxel_atomics(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs&) {
  const int64_t voxels = num_voxels(problem.grid);
  if (problem.options.mode == VoxelMode::bitmask)
    return launch_mark<SetBits>(launch, problem, num_mask_words(problem.grid));
  if (problem.options.mode == VoxelMode::count) return launch_mark<CountPoints>(launch, problem, voxels);
  launch_mark<SetOnes>(launch, problem, voxels);
}

}  // namespace amdahl
