#include "sensor/ops/voxels/voxel_plan.h"

#include <algorithm>
#include <cmath>

#include "sensor/ops/place.h"

namespace amdahl {
namespace {

constexpr int64_t kMaxValueVoxels = 8192;    // per bin: the lists also need shared memory
constexpr int64_t kMaxWordVoxels = 24576;    // per bin, of 32-bit counts: 96 KiB
constexpr int64_t kMaxMarkedVoxels = 65536;  // per bin, of one byte each: 64 KiB
/// Tile sizes are multiples of this, so that tiles begin at cache lines.
constexpr int64_t kTileStep = 64;
constexpr int64_t kLeastScatterPoints = 1024;  // per tile: many short buckets take longer than a long one
/// Grids that ranks divide: maximum number of tiles that a rank sorts at once, and minimum number of bins, that of a
/// device with 129 to 256 SMs. A rank has at least half of these bins.
constexpr int kMostSortedAtOnce = 256;
constexpr int64_t kLeastDividedBins = 256;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Chip {
  int num_sms;
  size_t most_shared;
};

/// A power of two, which avoids divisions, at least the number of SMs, and at least 4, because prefix sums process four
/// bins at once.
int bin_bits_for(int64_t num_voxels, int64_t most_voxels, const Chip& chip) {
  const int64_t needed = std::max<int64_t>(divide_up(num_voxels, most_voxels), chip.num_sms);
  int bits = 2;
  while (int64_t{1} << bits < std::min<int64_t>(needed, kMaxBins)) ++bits;
  return bits;
}

bool is_whole_cloud(const VoxelizeProblem& problem) { return problem.sorted_parts.num_ranks == 0; }
bool counts_points(const VoxelizeProblem& problem) { return problem.options.mode == VoxelMode::count; }

// ---- most voxels of a bin ----

int64_t cell_voxels(const VoxelizeProblem& problem) {
  return counts_points(problem) ? kMaxWordVoxels : kMaxMarkedVoxels;
}
int64_t packed_voxels(const VoxelizeProblem&) { return kMaxPackedVoxels; }
int64_t value_voxels(const VoxelizeProblem&) { return kMaxValueVoxels; }

// ---- when a variant applies ----

/// Sorting takes at least 6 us in 128^3 voxels; clearing the grid and one atomic per point take 4.9 us for 100,000
/// points. A mask takes less time to clear, and the time of sorting grows with the grid.
bool atomics_apply(const VoxelizeProblem& problem, const Chip&) {
  constexpr int64_t kMostPoints = 1 << 17, kMostVoxels = 1 << 22, kMostPointsOfMask = 3 << 16;
  if (has_values(problem.options.mode) || problem.most_in_byte > 0) return false;
  if (problem.options.mode == VoxelMode::bitmask)
    return problem.num_points <= std::max(kMostPointsOfMask, num_mask_words(problem.grid) / 2);
  return problem.num_points <= kMostPoints && num_voxels(problem.grid) <= kMostVoxels;
}
bool scatter_applies(const VoxelizeProblem& problem, const Chip& chip) {
  const int64_t voxels = num_voxels(problem.grid), tiles = std::min(chip.num_sms, kMaxScatterTiles);
  return !has_values(problem.options.mode) && voxels <= cell_voxels(problem) * kMaxScatterBins &&
         problem.num_points <= tiles * kScatterTilePoints;
}
/// Counts only if packed counters would not allow larger bins, because each SM needs a bin.
bool cells_apply(const VoxelizeProblem& problem, const Chip& chip) {
  if (!counts_points(problem) || chip.most_shared < kPackedShared) return !has_values(problem.options.mode);
  const int64_t voxels = num_voxels(problem.grid);
  return chunks_of_bin(voxels, bin_bits_for(voxels, kMaxPackedVoxels, chip)) <= kMaxWordVoxels / kChunkVoxels;
}
bool packed_applies(const VoxelizeProblem& problem, const Chip&) { return counts_points(problem); }
/// In a uniform cloud about one bin in 30,000 is overfull (4 standard deviations).
bool gather_applies(const VoxelizeProblem& problem, const Chip& chip) {
  constexpr int64_t kMostFeatures = 32;  // one column per lane of a warp
  if (problem.num_features < 1 || problem.num_features > kMostFeatures) return false;
  const int64_t voxels = num_voxels(problem.grid);
  if (voxels > kMaxValueVoxels * kMaxBins || problem.num_points >= voxels / 2) return false;
  const int bits = bin_bits_for(voxels, kMaxValueVoxels, chip);
  const size_t bin_voxels = size_t{chunks_of_bin(voxels, bits)} * kChunkVoxels;
  const double mean = static_cast<double>(problem.num_points) / static_cast<double>(int64_t{1} << bits);
  return mean + 4 * std::sqrt(mean) <= gather_slots(chip.most_shared, bin_voxels, row_bytes(problem)).all;
}
bool lists_apply(const VoxelizeProblem&, const Chip&) { return true; }

/// The first row that applies is used.
struct VoxelVariant {
  VoxelPath path;
  bool (*applies)(const VoxelizeProblem& problem, const Chip& chip);
  int64_t (*most_voxels)(const VoxelizeProblem& problem);
  int64_t entry_bytes;       // per sorted point
  int64_t most_tile_points;  // per block at a time
};
constexpr VoxelVariant kVariants[] = {
    {VoxelPath::atomics, atomics_apply, cell_voxels, 0, 0},
    {VoxelPath::scatter, scatter_applies, cell_voxels, sizeof(uint16_t), kScatterTilePoints},
    {VoxelPath::cells, cells_apply, cell_voxels, sizeof(uint16_t), kMaxTilePoints},
    {VoxelPath::packed, packed_applies, packed_voxels, sizeof(uint16_t), kMaxTilePoints},
    {VoxelPath::gather, gather_applies, value_voxels, sizeof(uint32_t), kMaxTilePoints},
    {VoxelPath::lists, lists_apply, value_voxels, sizeof(uint32_t), kMaxTilePoints},
};

/// Divides points into tiles of at most `most` points. If `full`, all tiles are equal and the number of rounds of
/// `tiles` tiles is minimal; otherwise tiles are as large as possible.
void cut_into_tiles(VoxelPlan& plan, int64_t num_points, int64_t tiles, int64_t least, int64_t most, bool full) {
  const int64_t rounds = full ? std::max<int64_t>(divide_up(num_points, tiles * most), 1) : 1;
  const int64_t tile = divide_up(divide_up(num_points, tiles * rounds), kTileStep) * kTileStep;
  plan.tile_points = static_cast<int>(std::clamp<int64_t>(tile, least, most));
  plan.num_tiles = divide_up(num_points, plan.tile_points);
}

/// Points are sorted into peer memory; scratch memory holds only the counters.
VoxelPlan plan_ranks(const VoxelizeProblem& problem, int num_sms) {
  VoxelPlan plan;
  plan.path = VoxelPath::ranks;
  plan.num_voxels = plan.slab_voxels = num_voxels(problem.grid);
  plan.bin_bits = divided_bin_bits(plan.num_voxels, problem.sorted_parts.num_ranks);
  plan.bin_chunks = chunks_of_bin(plan.num_voxels, plan.bin_bits);
  cut_into_tiles(plan, problem.num_points, std::min(num_sms, kMostSortedAtOnce), kTileStep, kMaxTilePoints, true);
  plan.cursor = place(plan.bytes, sizeof(uint32_t));
  plan.drops = place(plan.bytes, static_cast<size_t>(num_sms) * sizeof(VoxelizeCounts));
  return plan;
}

}  // namespace

size_t row_bytes(const VoxelizeProblem& problem) {
  const bool sums = is_fixed_point(problem) && problem.partial;
  return static_cast<size_t>(problem.num_features) * (sums ? sizeof(int64_t) : sizeof(float));
}

bool divides_bins(int64_t num_voxels) {
  return num_voxels > kMaxWordVoxels * kLeastDividedBins && num_voxels <= kMaxPackedVoxels * kMaxBins;
}

int divided_bin_bits(int64_t num_voxels, int num_ranks) {
  const int64_t needed = std::max(divide_up(num_voxels, kMaxPackedVoxels), kLeastDividedBins / 2 * num_ranks);
  int bits = 2;
  while (int64_t{1} << bits < std::min<int64_t>(needed, kMaxBins)) ++bits;
  return bits;
}

uint32_t chunks_of_bin(int64_t num_voxels, int bin_bits) {
  return static_cast<uint32_t>(divide_up(divide_up(num_voxels, kChunkVoxels), int64_t{1} << bin_bits));
}

int64_t most_sorted_tiles(int64_t num_points) { return num_points / kMaxTilePoints + 1 + kMostSortedAtOnce; }

VoxelPlan plan_voxels(const VoxelizeProblem& problem, int num_sms, size_t most_shared) {
  if (!is_whole_cloud(problem)) return plan_ranks(problem, num_sms);
  const Chip chip{num_sms, most_shared};
  const VoxelVariant& variant = *std::find_if(std::begin(kVariants), std::end(kVariants),
                                              [&](const VoxelVariant& row) { return row.applies(problem, chip); });
  VoxelPlan plan;
  plan.path = variant.path;
  plan.num_voxels = num_voxels(problem.grid);
  if (plan.path == VoxelPath::atomics) return plan;
  const bool values = has_values(problem.options.mode), scatters = plan.path == VoxelPath::scatter;
  const int64_t chunks = divide_up(plan.num_voxels, kChunkVoxels), most_voxels = variant.most_voxels(problem);
  const int64_t slab_chunks = std::min(chunks, most_voxels / kChunkVoxels * kMaxBins);
  plan.slab_voxels = slab_chunks * kChunkVoxels;
  plan.num_slabs = static_cast<int>(divide_up(chunks, slab_chunks));
  plan.bin_bits = bin_bits_for(plan.slab_voxels, most_voxels, chip);
  plan.bin_chunks = chunks_of_bin(plan.slab_voxels, plan.bin_bits);
  cut_into_tiles(plan, problem.num_points, scatters ? std::min(num_sms, kMaxScatterTiles) : num_sms,
                 scatters ? kLeastScatterPoints : kTileStep, variant.most_tile_points, !values);
  plan.interleaved = plan.num_tiles <= num_sms && problem.num_points < int64_t{1} << 31;
  if (scatters) {
    plan.bucket_pitch = static_cast<int>(plan.num_tiles | 1);  // odd, because powers of two map to few L2 banks
    const size_t buckets = static_cast<size_t>(plan.bucket_pitch) * plan.num_bins();
    plan.buckets = place(plan.bytes, buckets * PointBucket::kBytes);
    plan.overflow = place(plan.bytes, buckets * PointBucket::kOverflowBytes);
  }
  plan.overfull = place(plan.bytes, sizeof(OverfullBins));
  const auto points = static_cast<size_t>(plan.num_tiles) * static_cast<size_t>(plan.tile_points);
  plan.entries = place(plan.bytes, points * static_cast<size_t>(variant.entry_bytes));
  plan.table = place(plan.bytes, static_cast<size_t>(plan.num_tiles) * plan.num_bins() * sizeof(uint32_t));
  if (values) plan.order = place(plan.bytes, points * sizeof(uint32_t));
  plan.cursor = place(plan.bytes, sizeof(uint32_t));
  plan.largest = place(plan.bytes, kScaleBlocks * sizeof(uint32_t));
  plan.drops = place(plan.bytes, static_cast<size_t>(num_sms) * sizeof(VoxelizeCounts));
  return plan;
}

}  // namespace amdahl
