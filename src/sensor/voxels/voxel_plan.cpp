#include "sensor/voxels/voxel_plan.h"

#include <algorithm>

#include "sensor/place.h"

namespace amdahl {
namespace {

constexpr int64_t kMaxBinVoxels = 8192;       // of values: their lists share the memory with the counts
constexpr int64_t kMaxCountedVoxels = 24576;  // of counts in whole words, 96 KiB
constexpr int64_t kMaxMarkedVoxels = 65536;   // of marks, 64 KiB
/// Points of a tile are a multiple of these: dealt ones are then whole runs, sorted ones whole lines of memory.
constexpr int64_t kDealtStep = kDealtRun, kSortedStep = 64;
constexpr int64_t kLeastDealtPoints = 1024;  // of a tile: many short rows take longer than one long one
/// Of grids that ranks divide: how many of a rank's tiles are sorted at once, at most, and the fewest bins, which are
/// those of a device of 129 to 256 multiprocessors; a rank has half of them or more.
constexpr int kMostSortedAtOnce = 256;
constexpr int64_t kLeastDividedBins = 256;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t most_voxels(VoxelMode mode, size_t most_shared) {
  if (has_values(mode)) return kMaxBinVoxels;
  if (mode != VoxelMode::count) return kMaxMarkedVoxels;
  return most_shared >= kHalvesShared ? kMaxHalfVoxels : kMaxCountedVoxels;
}

/// How points are cut into tiles: so many in each of so many rounds, within bounds.
struct Cut {
  int64_t tiles, rounds, least, step, most;
};
void cut_into_tiles(VoxelPlan& plan, int64_t num_points, const Cut& cut) {
  const int64_t tile = divide_up(divide_up(num_points, cut.tiles * cut.rounds), cut.step) * cut.step;
  plan.tile_points = static_cast<int>(std::clamp<int64_t>(tile, cut.least, cut.most));
  plan.num_tiles = divide_up(num_points, plan.tile_points);
}
/// Of counts: as many tiles for every multiprocessor, so that all rounds are full.
int64_t counted_rounds(int64_t num_points, int64_t tiles) {
  return std::max<int64_t>(divide_up(num_points, tiles * kMaxCountedTilePoints), 1);
}

/// Of points that other ranks count, too: nothing but tiles that are on their way.
VoxelPlan plan_parts(const VoxelizeProblem& problem, int num_sms) {
  VoxelPlan plan;
  plan.parts = plan.halves = true;
  plan.num_voxels = plan.slab_voxels = num_voxels(problem.grid);
  plan.bin_bits = divided_bin_bits(plan.num_voxels, problem.sorted_parts.num_ranks);
  plan.bin_chunks = chunks_of_bin(plan.num_voxels, plan.bin_bits);
  const int64_t tiles = std::min(num_sms, kMostSortedAtOnce);
  cut_into_tiles(plan, problem.num_points,
                 {tiles, counted_rounds(problem.num_points, tiles), kSortedStep, kSortedStep, kMaxCountedTilePoints});
  plan.entry_bytes = sizeof(CountRow::Slot);
  plan.cursor = place(plan.bytes, sizeof(uint32_t));
  plan.fates = place(plan.bytes, static_cast<size_t>(num_sms) * sizeof(VoxelizeCounts));
  return plan;
}

}  // namespace

bool divides_bins(int64_t num_voxels) {
  return num_voxels > kMaxCountedVoxels * kLeastDividedBins && num_voxels <= kMaxHalfVoxels * kMaxBins;
}

int divided_bin_bits(int64_t num_voxels, int num_ranks) {
  const int64_t needed = std::max(divide_up(num_voxels, kMaxHalfVoxels), kLeastDividedBins / 2 * num_ranks);
  int bits = 2;
  while (int64_t{1} << bits < std::min<int64_t>(needed, kMaxBins)) ++bits;
  return bits;
}

uint32_t chunks_of_bin(int64_t num_voxels, int bin_bits) {
  return static_cast<uint32_t>(divide_up(divide_up(num_voxels, kChunkVoxels), int64_t{1} << bin_bits));
}

int64_t most_sorted_tiles(int64_t num_points) { return num_points / kMaxCountedTilePoints + 1 + kMostSortedAtOnce; }

VoxelPlan plan_voxels(const VoxelizeProblem& problem, int num_sms, size_t most_shared) {
  if (problem.sorted_parts.num_ranks > 0) return plan_parts(problem, num_sms);
  const bool values = has_values(problem.options.mode);
  VoxelPlan plan;
  plan.num_voxels = num_voxels(problem.grid);
  const int64_t chunks = divide_up(plan.num_voxels, kChunkVoxels),
                most_chunks = most_voxels(problem.options.mode, most_shared) / kChunkVoxels;
  const int64_t slab_chunks = std::min(chunks, most_chunks * kMaxBins);
  plan.slab_voxels = slab_chunks * kChunkVoxels;
  plan.num_slabs = static_cast<int>(divide_up(chunks, slab_chunks));
  // A power of two, so that no division is needed, enough to give every multiprocessor a block, and whole quads, which
  // are added up together.
  plan.bin_bits = 2;
  const int64_t needed = std::max<int64_t>(divide_up(slab_chunks, most_chunks), num_sms);
  while (plan.num_bins() < needed && plan.num_bins() < kMaxBins) ++plan.bin_bits;
  plan.bin_chunks = chunks_of_bin(plan.slab_voxels, plan.bin_bits);
  plan.halves = problem.options.mode == VoxelMode::count && plan.bin_voxels() > kMaxCountedVoxels;
  const int64_t dealt_tiles = std::min(num_sms, values ? ValueRow::kMaxTiles : CountRow::kMaxTiles);
  plan.few_points = values && problem.num_points < plan.num_voxels / 2 &&
                    problem.num_points < int64_t{plan.num_bins()} * kFewPointsMean;
  plan.dealt = (plan.few_points || !values) && !plan.halves && plan.num_bins() <= kMaxDealtBins &&
               problem.num_points <= dealt_tiles * kDealtTilePoints;
  const int64_t tiles = plan.dealt ? dealt_tiles : num_sms, least = plan.dealt ? kLeastDealtPoints : kSortedStep,
                step = plan.dealt ? kDealtStep : kSortedStep;
  cut_into_tiles(plan, problem.num_points,
                 {tiles, values ? 1 : counted_rounds(problem.num_points, tiles), least, step,
                  values ? kMaxTilePoints : kMaxCountedTilePoints});
  if (plan.dealt) {
    plan.row_pitch = static_cast<int>(plan.num_tiles | 1);  // powers of two would meet in few banks of the L2
    const size_t rows = static_cast<size_t>(plan.row_pitch) * plan.num_bins();
    plan.rows = place(plan.bytes, rows * static_cast<size_t>(values ? ValueRow::kBytes : CountRow::kBytes));
    plan.second_rows =
        place(plan.bytes, rows * static_cast<size_t>(values ? ValueRow::kSecondBytes : CountRow::kSecondBytes));
  }
  if (plan.halves) plan.crowded = place(plan.bytes, sizeof(CrowdedBins));
  if (plan.few_points) plan.densities = place(plan.bytes, plan.num_bins());
  const auto points = static_cast<size_t>(plan.num_tiles) * static_cast<size_t>(plan.tile_points);
  plan.entry_bytes = values ? sizeof(ValueRow::Slot) : sizeof(CountRow::Slot);
  plan.entries = place(plan.bytes, points * static_cast<size_t>(plan.entry_bytes));
  plan.table = place(plan.bytes, static_cast<size_t>(plan.num_tiles) * plan.num_bins() * sizeof(uint32_t));
  if (values) plan.order = place(plan.bytes, points * sizeof(uint32_t));
  plan.cursor = place(plan.bytes, sizeof(uint32_t));
  plan.largest = place(plan.bytes, kScaleBlocks * sizeof(uint32_t));
  plan.fates = place(plan.bytes, static_cast<size_t>(num_sms) * sizeof(VoxelizeCounts));
  return plan;
}

}  // namespace amdahl
