// Merges of counts by dividing the bins over GPUs: declarations shared by kernels and host code.
//
// Each rank sorts its points by bin into the memory of the ranks that count these bins (SortedParts). After a barrier
// it counts its bins, writes their voxels of its grid and sends the counts to all other ranks as bytes. After a second
// barrier it writes the voxels of the other bins. The links carry two bytes per point that another rank counts and one
// byte per voxel. Adding up parts (cuda_count_peers.h) moves two bytes per voxel, and every rank processes all bins.
#pragma once

#include "sensor/peers/cuda_team_launch.h"
#include "sensor/voxels/voxel_plan.h"

namespace amdahl {

/// The barriers of a merge, which is a round of the team: points are sorted; bins are counted.
///
/// No rank waits until memory is free. A rank sorts points only after it has completed the previous merge, so all ranks
/// have counted its previous points. It sends bytes only after all ranks have sorted, so they have completed the
/// previous merge and read its bytes. Overflow lists are read until a merge ends, so the next merge uses the list of
/// the other parity.
inline constexpr int kSorted = 0, kCounted = 1;

/// Largest count in a byte, and bytes per bin that tell which of its units are packed (4 bits per voxel).
inline constexpr int kMostOfByte = 255, kPackedBytesOfBin = 32;

/// Offsets in a rank's memory, in bytes, behind its TeamFlags.
struct DivisionLayout {
  int64_t num_voxels = 0;
  int bin_bits = 0;
  uint32_t bin_chunks = 0;
  int64_t tiles = 0;     // capacity of a rank
  int64_t capacity = 0;  // of an overflow list, without its first entry
  size_t num_tiles = 0;  // [ranks] unsigned, tiles of each rank's points
  size_t overfull = 0;   // OverfullBins
  size_t lists = 0;      // [2], overflow lists of this rank's voxels
  size_t tables = 0;     // see SortedParts
  size_t entries = 0;
  size_t packed = 0;  // [bins, kPackedBytesOfBin] u8
  size_t counts = 0;  // [bins, bin_voxels] u8, counts of other ranks
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
