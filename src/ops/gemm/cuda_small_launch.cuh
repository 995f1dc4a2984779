// Launches of the small-batch kernels: clusters of blocks, and programmatic launch before the previous kernel ends.
#pragma once

#include "ops/cuda_launch.cuh"
#include "ops/gemm/cuda_small_tile.cuh"

namespace amdahl {

inline constexpr int kMostClusterBlocks = 8;  // maximum portable cluster size

/// Number of blocks that split the k of each tile: doubled until the SMs are full or no warp has more than one chunk.
inline int cluster_size(const KernelLaunch& launch, int64_t tiles, int64_t num_k, int64_t batch) {
  const int64_t chunks = (num_k + 15) / 16, warps_k = batch <= 32 ? Tile<32>::kWarpsK : Tile<64>::kWarpsK;
  int size = 1;
  while (size < kMostClusterBlocks && tiles * size * 2 <= launch.num_sms && chunks > size * warps_k) size *= 2;
  return size;
}

template <class Arguments>
void launch_clusters(const KernelLaunch& launch, void (*kernel)(Arguments), const Arguments& arguments, int64_t blocks,
                     int cluster, size_t shared_bytes, const char* name) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(cluster);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kTileThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cuda_check(cudaLaunchKernelEx(&config, kernel, arguments), launch.device_index, name);
}

}  // namespace amdahl
