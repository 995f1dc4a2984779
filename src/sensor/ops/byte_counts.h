// Counts of a cloud's parts in one byte per voxel: a quarter of the bytes that an all-reduce of 32-bit counts moves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "symmetric/team_view.h"

namespace amdahl {

/// The part of a voxel's count that its byte cannot hold. An overflow list begins with an entry whose `voxel` is the
/// number of entries that follow.
struct OverflowCount {
  uint32_t voxel = 0;
  int32_t count = 0;
};

/// Maximum number of ranks of a merge through peer memory.
inline constexpr int kMaxMergePeers = kMaxTeamRanks;

/// Destinations of a part's byte counts: the bytes of voxels [i * voxels, (i + 1) * voxels) go to part[i], the memory
/// of the rank that adds up these voxels.
struct ByteParts {
  int64_t voxels = 0;  // per rank, a multiple of 64
  uint8_t* part[kMaxMergePeers] = {};
};

struct OverfullBins;

/// Destinations of a part's points, sorted by bin (voxel_plan.h), when ranks divide the bins: the points of a bin go to
/// the memory of the rank that counts it.
struct SortedParts {
  int rank = 0, num_ranks = 0;                  // num_ranks 0: not used
  uint32_t first_bin[kMaxMergePeers + 1] = {};  // per rank, then the number of bins
  int64_t tiles = 0;                            // capacity of a rank
  uint16_t* entries[kMaxMergePeers] = {};       // per rank, [ranks, tiles, kMaxTilePoints]
  uint32_t* tables[kMaxMergePeers] = {};        // [ranks, tiles, bins], segments of the bins in each tile
  unsigned* num_tiles[kMaxMergePeers] = {};     // [ranks]
  OverfullBins* overfull = nullptr;             // of the bins of this rank
};

/// Layout of a buffer that an all-reduce (SUM, u8) adds up over ranks. It has one byte per voxel, of which each rank
/// writes at most `most`, so that no sum exceeds 255, and then one overflow list per rank, which is zero on all other
/// ranks, so that the sum is the list.
struct ByteCounts {
  int64_t num_voxels = 0;
  int world_size = 1;
  int64_t capacity = 0;             // of an overflow list, without its first entry
  int64_t most_points_of_rank = 0;  // most points of a rank
  bool divided = false;             // GPUs: each rank counts some bins of all parts

  static ByteCounts of(int64_t num_voxels, int world_size, int64_t most_points_of_rank) {
    ByteCounts layout{num_voxels, world_size, 0, most_points_of_rank};
    if (layout.most() > 0) layout.capacity = most_points_of_rank / (layout.most() + 1);
    return layout;
  }
  constexpr int most() const { return 255 / world_size; }
  bool feasible() const { return most() > 0 && num_voxels <= int64_t{1} << 32; }
  constexpr size_t voxel_bytes() const { return (static_cast<size_t>(num_voxels) + 15) / 16 * 16; }
  constexpr size_t list_bytes() const { return (static_cast<size_t>(capacity) + 1) * sizeof(OverflowCount); }
  /// Offset of a rank's overflow list.
  constexpr size_t list_at(int rank) const { return voxel_bytes() + static_cast<size_t>(rank) * list_bytes(); }
  constexpr size_t bytes() const { return list_at(world_size); }
  OverflowCount* list(void* buffer, int rank) const {
    return reinterpret_cast<OverflowCount*>(static_cast<char*>(buffer) + list_at(rank));
  }
};

}  // namespace amdahl
