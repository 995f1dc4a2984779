// Merges of counts through peer memory by adding up byte counts, for grids too small for cuda_count_division.h:
// declarations shared by kernels and host code.
#pragma once

#include "sensor/peers/cuda_team_launch.h"

namespace amdahl {

/// Voxelizing writes a part's bytes into the inboxes of the ranks that add them up; a rank has one inbox per rank, for
/// its own voxels. A merge is a round of the team with one barrier. No rank waits until inboxes or sums are free: a
/// rank completes a merge only after all ranks have read what it had written for that merge, and sums are sent only
/// after all ranks have arrived, that is, have completed the previous merge. Overflow lists are read until a merge
/// ends, so the next merge uses the list of the other parity.
///
/// Offsets in a rank's memory, in bytes, behind its TeamFlags.
struct CountLayout {
  int64_t part_voxels = 0;  // voxels that a rank adds up, a multiple of 64
  int64_t slices = 0;       // per part; a block processes one slice of each part
  int64_t capacity = 0;     // of an overflow list, without its first entry
  size_t own_list = 0;      // overflow list that voxelizing fills
  size_t lists = 0;         // [2] copies of own_list that other ranks read
  size_t summed = 0;        // [ranks, slices] Signal of each rank's sums
  size_t inboxes = 0;       // [ranks, part_voxels] u8
  size_t sums = 0;          // [ranks, part_voxels] u8; a packed slice uses its first half
  size_t bytes = 0;

  static constexpr int64_t kSliceVoxels = 16384;
  /// End of a slice's voxels, relative to the part.
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
