// Counts of a cloud's parts in one byte a voxel: a quarter of what an all-reduce of whole numbers moves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "symmetric/team_view.h"

namespace amdahl {

/// What a voxel has beyond the count in its byte. The first of a list holds how many follow in `voxel`.
struct OverflowCount {
  uint32_t voxel = 0;
  int32_t count = 0;
};

/// Most ranks that merge through each other's memory.
inline constexpr int kMaxMergePeers = kMaxTeamRanks;

/// Where the bytes of a part's counts go that several ranks add up, each some neighbouring voxels: those of voxels
/// [i * voxels, (i + 1) * voxels) to part[i], which may be another device's memory.
struct ByteParts {
  int64_t voxels = 0;  // of each, a multiple of 64
  uint8_t* part[kMaxMergePeers] = {};
};

struct OverfullBins;

/// Where a part's points go, sorted by bin (voxel_plan.h), when ranks divide the bins: those of a bin to the rank that
/// counts it, which may be another device's memory.
struct SortedParts {
  int rank = 0, num_ranks = 0;                  // none: the part is counted
  uint32_t first_bin[kMaxMergePeers + 1] = {};  // of each rank; of the one after the last, how many there are
  int64_t tiles = 0;                            // that a rank has room for
  uint16_t* entries[kMaxMergePeers] = {};       // of each rank, [ranks, tiles, kMaxCountedTilePoints]
  uint32_t* tables[kMaxMergePeers] = {};        // [ranks, tiles, bins], where in a tile its bins' segments are
  unsigned* num_tiles[kMaxMergePeers] = {};     // [ranks]
  OverfullBins* overfull = nullptr;             // of this rank's bins
};

/// A buffer that all ranks fill alike and an all-reduce (SUM, u8) adds up: a byte for each voxel, of which each rank
/// writes `most` or less, so that no sum is more than 255; behind them a list for each rank of what its voxels have
/// beyond `most`. A rank's list is zeros on the others, so that the sum is the list.
struct ByteCounts {
  int64_t num_voxels = 0;
  int world_size = 1;
  int64_t capacity = 0;             // of a list, without its first
  int64_t most_points_of_rank = 0;  // that it was made for
  bool divided = false;             // GPUs: each rank counts some bins of all parts instead of all of its own part

  static ByteCounts of(int64_t num_voxels, int world_size, int64_t most_points_of_rank) {
    ByteCounts layout{num_voxels, world_size, 0, most_points_of_rank};
    if (layout.most() > 0) layout.capacity = most_points_of_rank / (layout.most() + 1);
    return layout;
  }
  constexpr int most() const { return 255 / world_size; }
  bool feasible() const { return most() > 0 && num_voxels <= int64_t{1} << 32; }
  constexpr size_t voxel_bytes() const { return (static_cast<size_t>(num_voxels) + 15) / 16 * 16; }
  constexpr size_t list_bytes() const { return (static_cast<size_t>(capacity) + 1) * sizeof(OverflowCount); }
  /// Where a rank's list begins.
  constexpr size_t list_at(int rank) const { return voxel_bytes() + static_cast<size_t>(rank) * list_bytes(); }
  constexpr size_t bytes() const { return list_at(world_size); }
  OverflowCount* list(void* buffer, int rank) const {
    return reinterpret_cast<OverflowCount*>(static_cast<char*>(buffer) + list_at(rank));
  }
};

}  // namespace amdahl
