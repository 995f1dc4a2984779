// Counts of a cloud over several GPUs, each of which counts some bins of all points: what the kernels and their host
// side share.
//
// Every rank sorts its points by bin and writes them into the memory of the ranks that count these bins (SortedParts).
// Once all have, a rank counts its bins, writes their voxels of its grid, and sends them to the others as bytes; once
// all have done that, it writes the other bins' voxels. What goes over the links is two bytes for each point that
// another rank counts and a byte for each voxel, where adding up parts moves a byte for each voxel twice, and every
// rank looks through all bins.
#pragma once

#include "sensor/peers/cuda_team_launch.h"
#include "sensor/voxels/voxel_plan.h"

namespace amdahl {

/// A merge is a round of the team, whose barriers are: all have sorted their points; all have counted their bins.
///
/// Nobody waits for memory to be free. A rank sorts points again only once it has ended a merge, and so all have
/// counted what it had sorted. It sends bytes only once all have sorted, and so have ended the merge before, in which
/// they read the last ones. Lists are read until a merge ends, and the next one has the other parity's.
inline constexpr int kSorted = 0, kCounted = 1;

/// What a byte holds of a voxel's points, and how many bytes tell of a bin which of its counts are half a byte each.
inline constexpr int kMostOfByte = 255, kPackedBytesOfBin = 32;

/// Where a rank's memory has what, in bytes from its beginning, behind its TeamFlags.
struct DivisionLayout {
  int64_t num_voxels = 0;
  int bin_bits = 0;
  uint32_t bin_chunks = 0;
  int64_t tiles = 0;     // that a rank has room for
  int64_t capacity = 0;  // of a list, without its first
  size_t num_tiles = 0;  // [ranks] unsigned, of the points that each rank has sorted
  size_t overfull = 0;   // OverfullBins
  size_t lists = 0;      // [2], what this rank's voxels have beyond a byte
  size_t tables = 0;     // see SortedParts
  size_t entries = 0;
  size_t packed = 0;  // [bins, kPackedBytesOfBin] u8
  size_t counts = 0;  // [bins, bin_voxels] u8, what other ranks have counted
  size_t bytes = 0;

  constexpr uint32_t num_bins() const { return 1u << bin_bits; }
  constexpr uint32_t bin_voxels() const { return bin_chunks * kChunkVoxels; }
};

struct DivisionLaunch {
  TeamView team;
  DivisionLayout layout;
  uint32_t first_bin[kMaxMergePeers + 1];  // see SortedParts
};

/// Whether a device can count the bins of a grid of so many voxels.
bool cuda_divides_counts(const ChipLimits& limits, int64_t num_voxels);
size_t cuda_division_bytes(const ByteCounts& counts);
void launch_count_division(const SensorLaunch& launch, const DivisionLaunch& ranks, int32_t* grid);
std::unique_ptr<CountPeers> make_cuda_count_division(Device& device, const ChipLimits& limits,
                                                     const SymmetricMemory& memory, const ByteCounts& counts);

}  // namespace amdahl
