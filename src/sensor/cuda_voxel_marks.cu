// Bit masks of few points: clear the mask, then an atomic OR for each point.
#include "sensor/cuda_voxel_locate.cuh"
#include "sensor/cuda_voxel_points.cuh"
#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr int64_t kMostPoints = 1 << 18;  // beyond, and in crowded places, sorting wins

__global__ void __launch_bounds__(kThreads) clear_mask(uint32_t* mask, int64_t num_words, VoxelizeCounts* stats) {
  wait_for_predecessor();
  let_successor_start();  // after the wait: the points are then there for the next step
  for (int64_t i = thread_index(); i < num_words; i += thread_count()) mask[i] = 0;
  if (stats && thread_index() == 0) *stats = {};
}

/// Four points a thread. Neighbours in the cloud are often neighbours in the grid: what a thread's points have in a
/// word is set at once, and not at all where the lane before sets the same.
template <Quotient kQuotient>
__global__ void __launch_bounds__(kThreads) mark(GridArgs grid, Points points, uint32_t* mask, VoxelizeCounts* stats) {
  const int64_t first = thread_index() * 4;
  const int count = static_cast<int>(min(max(points.count - first, int64_t{0}), int64_t{4}));
  Fates fates{};
  uint32_t word[4], bits[4];
  VoxelIndex<kQuotient> voxel[4];
  float p[12];
  if (count > 0) load_quad(points.data + first * 3, count, points.aligned, p);
  locate_quad<kQuotient>(grid, points.data + first * 3, p, count, fates, voxel);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word[i] = static_cast<uint32_t>(voxel[i] / 32), bits[i] = voxel[i] < 0 ? 0 : 1u << voxel[i] % 32;
#pragma unroll
    for (int k = 0; k < i; ++k)
      if (word[k] == word[i] && bits[k] != 0) bits[k] |= bits[i], bits[i] = 0;
  }
  wait_for_predecessor();
  let_successor_start();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t word_before = __shfl_up_sync(~0u, word[i], 1), bits_before = __shfl_up_sync(~0u, bits[i], 1);
    const bool told = threadIdx.x % 32 != 0 && word_before == word[i] && (bits[i] & ~bits_before) == 0;
    if (bits[i] != 0 && !told) atomicOr(mask + word[i], bits[i]);
  }
  if (!stats) return;
  const Fates all = fates_of_block(fates);
  if (threadIdx.x != 0) return;
  using Word = unsigned long long;
  if (all.nan > 0) atomicAdd(reinterpret_cast<Word*>(&stats->num_nan), Word{all.nan});
  if (all.outside > 0) atomicAdd(reinterpret_cast<Word*>(&stats->num_outside), Word{all.outside});
}

}  // namespace

bool marks_directly(const VoxelizeProblem& problem) {
  return problem.options.mode == VoxelMode::bitmask && problem.num_points <= kMostPoints;
}

void launch_voxel_marks(const SensorLaunch& launch, const VoxelizeProblem& problem) {
  auto* mask = static_cast<uint32_t*>(problem.output);
  const int64_t words = num_mask_words(problem.grid);
  launch_early(launch, num_blocks(launch, words, kThreads * 4, 2), kThreads, 0, &clear_mask, "clear_mask", mask, words,
               problem.stats);
  if (problem.num_points == 0) return;
  const GridArgs grid = grid_args(problem, 0);
  const auto blocks = static_cast<unsigned>((problem.num_points + kThreads * 4 - 1) / (kThreads * 4));
  with_quotient(grid.quotient, [&](auto quotient) {
    launch_early(launch, blocks, kThreads, 0, &mark<decltype(quotient)::value>, "mark", grid, points_of(problem), mask,
                 problem.stats);
  });
}

}  // namespace amdahl
