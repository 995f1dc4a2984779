// Merges through the memory of peer GPUs. Each has a file with its kernels and its protocol.
#pragma once

#include "sensor/ops/cuda_kernels.h"
#include "symmetric/cuda_team.h"

namespace amdahl {

size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size);
std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory,
                                                int64_t num_voxels);

size_t cuda_count_peer_bytes(const ByteCounts& counts);
std::unique_ptr<CountPeers> make_cuda_count_peers(Device& device, const ChipLimits& limits,
                                                  const SymmetricMemory& memory, const ByteCounts& counts);

/// Whether a device can count the bins of a grid of so many voxels.
bool cuda_divides_counts(const ChipLimits& limits, int64_t num_voxels);
size_t cuda_division_bytes(const ByteCounts& counts);
std::unique_ptr<CountPeers> make_cuda_count_division(Device& device, const ChipLimits& limits,
                                                     const SymmetricMemory& memory, const ByteCounts& counts);

inline SensorLaunch launch_of(CudaTeam& team, Stream& stream, const ChipLimits& limits) {
  const DeviceSpec& spec = team.device().spec();
  return {team.use(stream), spec.index, spec.sm_count, limits};
}

}  // namespace amdahl
