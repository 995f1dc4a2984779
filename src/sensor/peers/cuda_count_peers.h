// Merging counts in peers' memory by adding up those of each part, of grids too small to divide
// (cuda_count_division.h): what the kernels and their host side share.
#pragma once

#include "sensor/peers/cuda_team_launch.h"

namespace amdahl {

/// Voxelizing writes a part's bytes into the inboxes of the ranks that add them up: each has one from every rank, of
/// its own voxels. A merge is a round of the team with one barrier. Nobody waits for an inbox to be free: a rank ends a
/// merge only once all have added up what they had of it, and voxelizes again only then. Sums are sent once all ranks
/// have arrived at the merge, and so have ended the one before, in which they read them. Lists are read until a merge
/// ends, and the next one has the other parity's.
///
/// Where a rank's memory has what, in bytes from its beginning, behind its TeamFlags.
struct CountLayout {
  int64_t part_voxels = 0;  // that a rank adds up, a multiple of 64
  int64_t slices = 0;       // of a part: a block has one of each part
  int64_t capacity = 0;     // of a list, without its first
  size_t own_list = 0;      // that voxelizing fills
  size_t lists = 0;         // [2], what others read of it
  size_t summed = 0;        // [ranks, slices] Signal, what is known of the sums that each rank sends
  size_t inboxes = 0;       // [ranks, part_voxels] u8
  size_t sums = 0;          // [ranks, part_voxels] u8, of all voxels; a packed slice has them in its first half
  size_t bytes = 0;

  static constexpr int64_t kSliceVoxels = 16384;
  /// Of a slice's voxels, from the part's first on.
  constexpr int64_t end_of(int64_t slice) const {
    const int64_t end = (slice + 1) * kSliceVoxels;
    return end < part_voxels ? end : part_voxels;
  }
  size_t list_bytes() const { return (static_cast<size_t>(capacity) + 1) * sizeof(OverflowCount); }
};
CountLayout count_layout(const ByteCounts& counts);

struct CountLaunch {
  TeamView team;
  CountLayout layout;
  int64_t num_voxels;
};

size_t cuda_count_peer_bytes(const ByteCounts& counts);
void launch_merge_peer_counts(const SensorLaunch& launch, const CountLaunch& peers, int32_t* grid);
std::unique_ptr<CountPeers> make_cuda_count_peers(Device& device, const ChipLimits& limits,
                                                  const SymmetricMemory& memory, const ByteCounts& counts);

}  // namespace amdahl
