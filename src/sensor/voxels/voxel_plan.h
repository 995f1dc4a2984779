// How a cloud is voxelized on a GPU: points are first sorted by part of the grid, then each part is added up in shared
// memory and written once. Scattered atomics, one packet a value between multiprocessor and L2, are what limits the
// plain way: about 90 billion a second on an H200.
//
// The grid is cut into chunks of 64 voxels that are dealt round to bins, so that crowded places are spread; a bin fits
// into shared memory. A tile of points is sorted by bin in shared memory (`partition`), which leaves a segment of
// entries for each bin and a table of where the segments begin. A block then walks the segments of its bin.
//
// The tiles of a small cloud are dealt instead (`deal`): what a tile has for a bin stands in a row of fixed length,
// first the number of entries and then these, so that neither step looks up or adds up where something begins. The few
// entries that do not fit go one by one to a second row, without their number; only what crowded bins have beyond that
// is left as a sorted segment.
//
// Counts of grids with many bins are kept in halves of words instead, so that bins hold more voxels and segments are
// longer (`count_halves`). Few points without values are not sorted at all (cuda_voxel_direct.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "sensor/sensor_ops.h"

namespace amdahl {

inline constexpr int kChunkVoxels = 64;
/// Of values, whose second step takes longer the more tiles there are; and of counts, whose tiles are read ahead into
/// shared memory.
inline constexpr int kMaxTilePoints = 16384, kMaxCountedTilePoints = 12288;
inline constexpr int kMaxBins = 4096;
/// Of counts in halves of words, and the shared memory that a block of theirs needs.
inline constexpr int64_t kMaxHalfVoxels = 65536;
inline constexpr size_t kHalvesShared = (128 + 18) << 10;
/// An entry is the voxel's offset in its bin, and above it the point's place in its tile.
inline constexpr int kOffsetBits = 16, kTileBits = 14;
static_assert(kMaxTilePoints <= 1 << kTileBits && kOffsetBits + kTileBits <= 32);

/// A row of dealt entries, 16 bytes a lane, and the second row for what it cannot hold, of which most stay untouched.
/// Counts need the offsets alone. Their number comes first, in a slot of its own. Where it pays, for values, slots take
/// turns in lanes: most of a lane's slots are then filled in all lanes of a warp or in none.
template <class Entry, int kRowBytes, int kMostTiles>
struct Row {
  using Slot = Entry;
  static constexpr bool kHasPoints = sizeof(Entry) * 8 > kOffsetBits;
  static constexpr int kBytes = kRowBytes, kHeader = 1, kSlots = kBytes / static_cast<int>(sizeof(Slot)) - kHeader,
                       kLanes = kBytes / 16, kSlotsOfLane = 16 / static_cast<int>(sizeof(Slot));
  static constexpr bool kTakeTurns = kHasPoints;
  static constexpr int kMaxTiles = kMostTiles;  // that a cloud is dealt to
  static constexpr int kSecondBytes = 4 * kBytes, kSecondSlots = kSecondBytes / static_cast<int>(sizeof(Slot)),
                       kBothSlots = kSlots + kSecondSlots;
  /// Which slot a lane has at `i`.
  static constexpr int slot_of(int lane, int i) { return kTakeTurns ? i * kLanes + lane : lane * kSlotsOfLane + i; }
  /// Where in a row the entry is that has so many bytes of others before it.
  static constexpr uint32_t byte_of(uint32_t before) {
    constexpr auto kSlot = static_cast<uint32_t>(sizeof(Slot));
    if (!kTakeTurns) return before + kHeader * kSlot;
    const uint32_t slot = before / kSlot + kHeader;
    return slot % kLanes * 16 + slot / kLanes * kSlot;
  }
};
/// Counts are dealt to one tile for every multiprocessor of an H200, which has 132; cuda_voxel_counts.cu has a lane for
/// each vector of a bin's rows, in whole warps.
using CountRow = Row<uint16_t, 64, 136>;
using ValueRow = Row<uint32_t, 128, 128>;
/// Most points of a bin whose second step is that of few points, and how many they may be on average.
inline constexpr uint32_t kFewPoints = 2816, kFewPointsMean = 2048;
inline constexpr int kDealtTilePoints = 4096, kMaxDealtBins = 512;
/// A dealt tile has runs of this many neighbours from all over the cloud, for a scanner gives neighbours that lie in
/// few bins: those of a tile would not fit into rows. A warp's loads of shorter runs touch more lines of memory.
inline constexpr uint32_t kDealtRun = 16;
/// Point `at` of a dealt tile; may lie beyond the cloud's end.
constexpr uint32_t dealt_point(uint32_t tile, uint32_t num_tiles, uint32_t at) {
  return (at / kDealtRun * num_tiles + tile) * kDealtRun + at % kDealtRun;
}

/// Where a voxel of a slab lies: chunk c in slot c >> bin_bits of the bin that its low bits name, turned by the slot.
/// Without the turn a plane of a cube would be in few bins, because its chunks have the same low bits.
struct BinPlace {
  uint32_t bin, offset;
  bool operator==(const BinPlace&) const = default;
};
constexpr uint32_t turn_of(uint32_t slot) { return slot * 0x9e3779b1u >> 8; }  // 2^32 over the golden ratio
constexpr BinPlace place_in_bins(uint32_t voxel, int bin_bits) {
  const uint32_t chunk = voxel / kChunkVoxels, slot = chunk >> bin_bits;
  return {(chunk + turn_of(slot)) & ((1u << bin_bits) - 1), slot * kChunkVoxels + voxel % kChunkVoxels};
}
constexpr uint32_t voxel_at(BinPlace place, int bin_bits) {
  const uint32_t slot = place.offset / kChunkVoxels;
  const uint32_t low = (place.bin - turn_of(slot)) & ((1u << bin_bits) - 1);
  return ((slot << bin_bits) + low) * kChunkVoxels + place.offset % kChunkVoxels;
}

/// Bins that are divided among blocks, as they are found, and how many of their shares have been claimed.
struct CrowdedBins {
  uint32_t num_bins, num_claimed;
  uint32_t bins[kMaxBins];  // bin + 1, or 0 until it is known
};

/// Most blocks that look for the largest feature; each leaves a word in scratch memory.
inline constexpr int kScaleBlocks = 512;

struct VoxelPlan {
  int64_t num_voxels = 0;
  int64_t slab_voxels = 0;  // a grid with more is done slab by slab
  int num_slabs = 1;
  int bin_bits = 0;         // 2^bin_bits bins: place_in_bins
  uint32_t bin_chunks = 1;  // most of a bin
  int tile_points = 8;      // a multiple of 8
  int64_t entry_bytes = 0;  // of a point
  int64_t num_tiles = 0;
  bool few_points = false;  // of values, in most bins
  bool dealt = false;
  bool halves = false;  // of counts, which are counted in halves of words
  bool parts = false;   // points go to the ranks that count them
  int row_pitch = 0;    // rows of a bin, as many as tiles or one more
  // Offsets into scratch memory.
  size_t rows = 0, second_rows = 0, densities = 0, crowded = 0, entries = 0, table = 0, order = 0, cursor = 0,
         largest = 0, fates = 0, bytes = 0;

  uint32_t num_bins() const { return 1u << bin_bits; }
  uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
};

/// Whether ranks that merge counts of so many voxels in each other's memory divide the bins. All ranks divide them
/// alike, whatever their devices are.
bool divides_bins(int64_t num_voxels);
/// 2^this bins, so that each rank has enough of them for its multiprocessors.
int divided_bin_bits(int64_t num_voxels, int num_ranks);
/// Chunks of a bin, at most, where 2^bin_bits bins have so many voxels.
uint32_t chunks_of_bin(int64_t num_voxels, int bin_bits);
/// Tiles that so many points make on any device, at most.
int64_t most_sorted_tiles(int64_t num_points);
/// The first bin of a rank; of the one after the last, how many bins there are.
constexpr uint32_t first_bin_of(int rank, int num_ranks, uint32_t num_bins) {
  return static_cast<uint32_t>(static_cast<uint64_t>(num_bins) * static_cast<uint32_t>(rank) /
                               static_cast<uint32_t>(num_ranks));
}

/// For a device of `num_sms` multiprocessors whose blocks may have `most_shared` bytes of shared memory.
VoxelPlan plan_voxels(const VoxelizeProblem& problem, int num_sms, size_t most_shared);

}  // namespace amdahl
