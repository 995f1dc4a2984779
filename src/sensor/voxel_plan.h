// How a cloud is voxelized on a GPU: points are first sorted by part of the grid, then each part is added up in shared
// memory and written once. Scattered atomics, one packet a value between multiprocessor and L2, are what limits the
// plain way: about 90 billion a second on an H200.
//
// The grid is cut into chunks of 64 voxels that are dealt round to bins, so that crowded places are spread; a bin fits
// into shared memory. A tile of points is sorted by bin in shared memory (`partition`), which leaves a segment of
// entries for each bin and a table of where the segments begin. A block then walks the segments of its bin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sensor/sensor_ops.h"

namespace amdahl {

inline constexpr int kChunkVoxels = 64;
inline constexpr int kMaxTilePoints = 16384;
inline constexpr int kMaxBins = 4096;
/// An entry is the voxel's offset in its bin, and above it the point's place in its tile.
inline constexpr int kOffsetBits = 16, kTileBits = 14;
static_assert(kMaxTilePoints <= 1 << kTileBits && kOffsetBits + kTileBits <= 32);

struct VoxelPlan {
  int64_t num_voxels = 0;
  int64_t slab_voxels = 0;  // a grid with more is done slab by slab
  int num_slabs = 1;
  int bin_bits = 0;         // 2^bin_bits bins; chunk c is in bin c % bins
  uint32_t bin_chunks = 1;  // most of a bin
  int tile_points = 4;      // a multiple of 4
  int64_t num_tiles = 0;
  // Offsets into scratch memory.
  size_t entries = 0, table = 0, order = 0, cursor = 0, fates = 0, bytes = 0;

  uint32_t num_bins() const { return 1u << bin_bits; }
  uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
};

/// For a device of `num_sms` multiprocessors.
VoxelPlan plan_voxels(const VoxelizeProblem& problem, int num_sms);

}  // namespace amdahl
