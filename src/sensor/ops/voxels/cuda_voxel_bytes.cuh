// Counts written as bytes, for a merge.
#pragma once

#include "sensor/ops/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda {

/// How voxels are written.
enum class Form { numbers, bytes, mask };

/// See VoxelizeProblem::most_in_byte.
struct ByteArgs {
  int most;
  OverflowCount* overflow;
  ByteParts parts;

  static ByteArgs of(const VoxelizeProblem& problem) {
    return {problem.most_in_byte, problem.overflow, problem.byte_parts};
  }
  /// Destination of a voxel's byte. The bytes of a chunk are contiguous and aligned like the chunk.
  __device__ __forceinline__ uint8_t* byte_of(void* output, int64_t voxel) const {
    if (parts.voxels == 0) return static_cast<uint8_t*>(output) + voxel;
    const uint32_t part = static_cast<uint32_t>(voxel) / static_cast<uint32_t>(parts.voxels);  // both fit into 32 bits
    return parts.part[part] + (voxel - part * parts.voxels);
  }
  /// The count limited to `most`; appends the rest to the overflow list.
  __device__ __forceinline__ uint32_t limit(uint32_t count, int64_t voxel) const {
    const auto most_here = static_cast<uint32_t>(most);
    if (count <= most_here) return count;
    overflow[1 + atomicAdd(&overflow->voxel, 1u)] = {static_cast<uint32_t>(voxel),
                                                     static_cast<int32_t>(count - most_here)};
    return most_here;
  }
};

/// Adds an overflow list to the grid, as block `block` of `blocks`.
__device__ __forceinline__ void add_list(const OverflowCount* list, unsigned block, unsigned blocks, int32_t* grid) {
  const int64_t length = list->voxel;
#pragma unroll 4
  for (int64_t i = 1 + block * blockDim.x + threadIdx.x; i <= length; i += blocks * blockDim.x) {
    const OverflowCount entry = list[i];
    atomicAdd(grid + entry.voxel, entry.count);
  }
}

/// Packs the low 4 bits of four bytes, whose high bits are 0, into 16 bits; and back.
__device__ __forceinline__ uint32_t pack_word(uint32_t word) {
  const uint32_t pairs = (word | word >> 4) & 0x00ff00ff;
  return (pairs | pairs >> 8) & 0xffff;
}
__device__ __forceinline__ uint32_t unpack_word(uint32_t packed) {
  const uint32_t pairs = (packed | packed << 8) & 0x00ff00ff;
  return (pairs | pairs << 4) & 0x0f0f0f0f;
}

}  // namespace amdahl::sensor_cuda
