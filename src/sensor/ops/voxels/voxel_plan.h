// Plan of a voxelization on a GPU: the kernel variant and the layout of scratch memory.
//
// One global atomic per point is limited by the L2: about 90 billion a second on an H200. All variants but `atomics`
// therefore partition the points by bin first. A bin is a set of 64-voxel chunks that fits into shared memory; chunk c
// belongs to bin c mod num_bins (rotated, see place_in_bins), so that dense regions are spread over all bins. A second
// kernel accumulates one bin per block in shared memory and writes each voxel of the grid once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// One row each in the table of voxel_plan.cpp, which says when a variant applies.
enum class VoxelPath {
  ranks,    // counts merged over GPUs: sort by bin into the memory of the rank that counts the bin
  atomics,  // few points, no values: clear the grid, one global atomic per point
  scatter,  // small clouds, no values: scatter into fixed-capacity buckets, one per tile and bin
  cells,    // no values: sort tiles by bin, a 32-bit counter or a mark of one byte per voxel
  packed,   // counts of large grids: sort tiles by bin, packed 16-bit counters
  gather,   // values, few points per bin: sort tiles by bin, gather the bin's features into shared memory
  lists,    // values: sort tiles by bin, list the bin's points by voxel
};

inline constexpr int kChunkVoxels = 64;
inline constexpr int kMaxTilePoints = 16384;
inline constexpr int kMaxBins = 4096;
/// Voxels of a bin with packed counters, and the shared memory of a block for them.
inline constexpr int64_t kMaxPackedVoxels = 65536;
inline constexpr size_t kPackedShared = (128 + 18) << 10;
/// A sorted entry has the voxel's offset in its bin in the low bits and, with values, the point's index in its tile
/// above.
inline constexpr int kOffsetBits = 16, kTileBits = 14;
static_assert(kMaxTilePoints <= 1 << kTileBits && kOffsetBits + kTileBits <= 32);

/// A bucket of 16-bit entries: their number first, then the entries, 16 bytes per lane. Entries that do not fit go to
/// the overflow slots, and what these cannot hold is sorted by bin as the overflow list of the tile.
struct PointBucket {
  static constexpr int kBytes = 64, kSlots = kBytes / 2 - 1, kLanes = kBytes / 16;
  static constexpr int kOverflowBytes = 256, kOverflowSlots = kOverflowBytes / 2;
  static constexpr int kAllSlots = kSlots + kOverflowSlots;
};
/// One tile per SM of an H200 (132), rounded up to whole warps of the second kernel.
inline constexpr int kMaxScatterTiles = 136, kScatterTilePoints = 4096, kMaxScatterBins = 512;

/// Interleaved tiles, of small clouds, consist of runs of this many consecutive points from all over the cloud.
/// Neighbours in a scan lie in few bins, so contiguous tiles would have a few buckets with most of their points.
inline constexpr uint32_t kRunPoints = 16;
constexpr uint32_t interleaved_point(uint32_t tile, uint32_t num_tiles, uint32_t at) {
  return (at / kRunPoints * num_tiles + tile) * kRunPoints + at % kRunPoints;
}

/// Bin and offset of a voxel of a slab. Chunk c is in slot c >> bin_bits of the bin of its low bits, rotated by a hash
/// of the slot. Without rotation a plane of a cubic grid would be in few bins, because its chunks have the same low
/// bits.
struct BinPlace {
  uint32_t bin, offset;
  bool operator==(const BinPlace&) const = default;
};
constexpr uint32_t rotation_of(uint32_t slot) { return slot * 0x9e3779b1u >> 8; }  // 2^32 / golden ratio
constexpr BinPlace place_in_bins(uint32_t voxel, int bin_bits) {
  const uint32_t chunk = voxel / kChunkVoxels, slot = chunk >> bin_bits;
  return {(chunk + rotation_of(slot)) & ((1u << bin_bits) - 1), slot * kChunkVoxels + voxel % kChunkVoxels};
}
constexpr uint32_t voxel_at(BinPlace place, int bin_bits) {
  const uint32_t slot = place.offset / kChunkVoxels;
  const uint32_t low = (place.bin - rotation_of(slot)) & ((1u << bin_bits) - 1);
  return ((slot << bin_bits) + low) * kChunkVoxels + place.offset % kChunkVoxels;
}

/// List of overfull bins, which are divided among blocks.
struct OverfullBins {
  uint32_t num_bins, num_claimed;
  uint32_t bins[kMaxBins];  // bin + 1, or 0 before it is written
};

/// Maximum number of blocks that search for the largest feature; each writes one word of scratch memory.
inline constexpr int kScaleBlocks = 512;

struct VoxelPlan {
  VoxelPath path = VoxelPath::lists;
  int64_t num_voxels = 0;
  int64_t slab_voxels = 0;  // larger grids are processed slab by slab
  int num_slabs = 1;
  int bin_bits = 0;         // 2^bin_bits bins: place_in_bins
  uint32_t bin_chunks = 1;  // chunks per bin, at most
  int tile_points = 8;      // a multiple of kRunPoints
  int64_t num_tiles = 0;
  bool interleaved = false;  // tiles consist of runs from all over the cloud
  int bucket_pitch = 0;      // buckets per bin: the number of tiles, or one more
  // Offsets into scratch memory.
  size_t buckets = 0, overflow = 0, overfull = 0, entries = 0, table = 0, order = 0, cursor = 0, largest = 0, drops = 0,
         bytes = 0;

  uint32_t num_bins() const { return 1u << bin_bits; }
  uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
};

/// Slots for points of a bin in the shared memory of `gather`, beside two bytes per voxel. 8 of 11 slots have room for
/// features.
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
/// Bytes of the results of a voxel.
size_t row_bytes(const VoxelizeProblem& problem);

/// Whether ranks that merge counts of so many voxels divide the bins. Independent of the device, so that all ranks
/// agree.
bool divides_bins(int64_t num_voxels);
/// log2 of the number of bins, chosen so that each rank has enough bins for its SMs.
int divided_bin_bits(int64_t num_voxels, int num_ranks);
/// Maximum number of chunks of a bin if 2^bin_bits bins have so many voxels.
uint32_t chunks_of_bin(int64_t num_voxels, int bin_bits);
/// Maximum number of tiles of so many points on any device.
int64_t most_sorted_tiles(int64_t num_points);
/// First bin of a rank; the number of bins if `rank` is `num_ranks`.
constexpr uint32_t first_bin_of(int rank, int num_ranks, uint32_t num_bins) {
  return static_cast<uint32_t>(static_cast<uint64_t>(num_bins) * static_cast<uint32_t>(rank) /
                               static_cast<uint32_t>(num_ranks));
}

/// For a device with `num_sms` SMs and `most_shared` bytes of shared memory per block.
VoxelPlan plan_voxels(const VoxelizeProblem& problem, int num_sms, size_t most_shared);

}  // namespace amdahl
