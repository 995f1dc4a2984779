// Which kernels voxelize a cloud on a GPU, and where they keep what in scratch memory.
//
// One global atomic per point is limited by the L2: about 90 billion a second on an H200. All variants but `atomics`
// therefore partition the points by bin first. A bin is a set of 64-voxel chunks that fits into shared memory; chunk c
// belongs to bin c mod num_bins (rotated, see place_in_bins), so that dense regions are spread over all bins. A second
// kernel accumulates one bin per block in shared memory and writes each voxel of the grid once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sensor/sensor_ops.h"

namespace amdahl {

/// One row each in the table of voxel_plan.cpp, which says when a variant applies.
enum class VoxelPath {
  ranks,    // counts merged over GPUs: sort by bin into the memory of the rank that counts the bin
  atomics,  // few points, no values: clear the grid, one global atomic per point
  scatter,  // small clouds, no values: scatter into fixed-capacity buckets, one per tile and bin
  packed,   // counts: sort tiles by bin, packed 16-bit counters
  marks,    // occupancy, mask: sort tiles by bin, a byte per voxel
  gather,   // values, few points per bin: sort tiles by bin, gather the bin's features into shared memory
  lists,    // values: sort tiles by bin, list the bin's points by voxel
};

inline constexpr int kChunkVoxels = 64;
inline constexpr int kMaxTilePoints = 16384, kMaxCountedTilePoints = 12288;  // of values; of all others
inline constexpr int kMaxBins = 4096;
/// Of packed counters, and the shared memory that a block needs for so many.
inline constexpr int64_t kMaxPackedVoxels = 65536;
inline constexpr size_t kPackedShared = (128 + 18) << 10;
/// An entry is the voxel's offset in its bin; above it, of values, the point's place in its tile.
inline constexpr int kOffsetBits = 16, kTileBits = 14;
static_assert(kMaxTilePoints <= 1 << kTileBits && kOffsetBits + kTileBits <= 32);

/// A bucket of 16-bit entries: their number first, then the entries, 16 bytes per lane. Entries that do not fit go to
/// the overflow slots, and what these cannot hold is sorted by bin as the overflow list of the tile.
struct PointBucket {
  static constexpr int kBytes = 64, kSlots = kBytes / 2 - 1, kLanes = kBytes / 16;
  static constexpr int kOverflowBytes = 256, kOverflowSlots = kOverflowBytes / 2;
  static constexpr int kAllSlots = kSlots + kOverflowSlots;
};
/// One tile for every multiprocessor of an H200, which has 132, in whole warps of the second kernel.
inline constexpr int kMaxScatterTiles = 136, kScatterTilePoints = 4096, kMaxScatterBins = 512;

/// Consecutive points that stay together in interleaved tiles. Neighbours in a scan lie in few bins; a tile of small
/// clouds takes runs of points from all over the cloud, so that no bucket or segment gets far more than others.
inline constexpr uint32_t kRunPoints = 16;
constexpr uint32_t interleaved_point(uint32_t tile, uint32_t num_tiles, uint32_t at) {
  return (at / kRunPoints * num_tiles + tile) * kRunPoints + at % kRunPoints;
}

/// Where a voxel of a slab lies: chunk c in slot c >> bin_bits of the bin that its low bits name, rotated by a hash of
/// the slot: without that a plane of a cube would lie in few bins, because its chunks have the same low bits.
struct BinPlace {
  uint32_t bin, offset;
  bool operator==(const BinPlace&) const = default;
};
constexpr uint32_t rotation_of(uint32_t slot) { return slot * 0x9e3779b1u >> 8; }  // 2^32 over the golden ratio
constexpr BinPlace place_in_bins(uint32_t voxel, int bin_bits) {
  const uint32_t chunk = voxel / kChunkVoxels, slot = chunk >> bin_bits;
  return {(chunk + rotation_of(slot)) & ((1u << bin_bits) - 1), slot * kChunkVoxels + voxel % kChunkVoxels};
}
constexpr uint32_t voxel_at(BinPlace place, int bin_bits) {
  const uint32_t slot = place.offset / kChunkVoxels;
  const uint32_t low = (place.bin - rotation_of(slot)) & ((1u << bin_bits) - 1);
  return ((slot << bin_bits) + low) * kChunkVoxels + place.offset % kChunkVoxels;
}

/// Overfull bins, which are divided among blocks, in the order in which they are found.
struct OverfullBins {
  uint32_t num_bins, num_claimed;
  uint32_t bins[kMaxBins];  // bin + 1, or 0 until it is known
};

/// Most blocks that look for the largest feature; each leaves a word in scratch memory.
inline constexpr int kScaleBlocks = 512;

struct VoxelPlan {
  VoxelPath path = VoxelPath::lists;
  int64_t num_voxels = 0;
  int64_t slab_voxels = 0;  // a grid with more is done slab by slab
  int num_slabs = 1;
  int bin_bits = 0;         // 2^bin_bits bins: place_in_bins
  uint32_t bin_chunks = 1;  // most of a bin
  int tile_points = 8;      // a multiple of kRunPoints
  int64_t num_tiles = 0;
  bool interleaved = false;  // tiles are runs from all over the cloud
  int bucket_pitch = 0;      // buckets of a bin, as many as tiles or one more
  // Offsets into scratch memory.
  size_t buckets = 0, overflow = 0, overfull = 0, entries = 0, table = 0, order = 0, cursor = 0, largest = 0, drops = 0,
         bytes = 0;

  uint32_t num_bins() const { return 1u << bin_bits; }
  uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
};

/// Slots for a bin's points in the shared memory of `gather`, beside two bytes for each voxel: 8 of 11 with features.
struct GatherSlots {
  uint32_t all, fetched;
};
inline constexpr size_t kGatherSlotBytes = 14, kGatherOther = 640, kGatherLookUp = 4096;
constexpr GatherSlots gather_slots(size_t most_shared, size_t bin_voxels, size_t row_bytes) {
  const size_t room = most_shared / 2, fixed = kGatherOther + bin_voxels * sizeof(uint16_t) + row_bytes;
  const size_t fetched = room > fixed ? (room - fixed) * 8 / (row_bytes * 8 + kGatherSlotBytes * 11) : 0;
  if (fetched * row_bytes < kGatherLookUp) return {};
  return {static_cast<uint32_t>(fetched * 11 / 8), static_cast<uint32_t>(fetched)};
}
/// Bytes of a voxel's results in shared memory and in the output.
size_t row_bytes(const VoxelizeProblem& problem);

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

/// TEMPORARY, for measurements: whether AMDAHL_VOXEL_VARIANT, names separated by commas, has this one.
bool variant_forced(const char* name);

}  // namespace amdahl
