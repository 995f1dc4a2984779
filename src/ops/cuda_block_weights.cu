#include "ops/cuda_block_weights.h"

#include <algorithm>

#include "ops/cuda_block_weights.cuh"
#include "ops/cuda_small_launch.cuh"
#include "ops/cuda_tuner.h"
#include "ops/cuda_typed.cuh"

namespace amdahl {
namespace {

template <class Element>
__global__ void __launch_bounds__(WeightTile<Element>::kThreads, WeightTile<Element>::kBlocksPerSm)
    block_weights_kernel(const __grid_constant__ WeightGradients a) {
  extern __shared__ uint4 block_weights_memory[];
  let_successor_start();
  wait_for_predecessor();
  block_weights_body<Element>(a, reinterpret_cast<std::byte*>(block_weights_memory));
}

/// Blocks that divide the tokens of a tile: as many as keep each multiprocessor to one block.
int blocks_per_tile(int tiles, int num_sms) {
  return tiles == 0 ? 1 : std::clamp(num_sms / tiles, 1, kMostWeightBlocks);
}

}  // namespace

void launch_weight_gradients(const KernelLaunch& launch, DType type, const WeightGradients& a) {
  const int tiles = weight_tiles(a), cluster = blocks_per_tile(tiles, launch.num_sms);
  const int sums = a.parts > 0 ? static_cast<int>(num_blocks(int64_t{kColumnResults} * a.result_width, 32)) : 0;
  const int blocks = tiles * cluster + (sums + cluster - 1) / cluster * cluster;
  if (blocks == 0) return;
  with_element_type(type, [&](auto element) {
    using Element = typename decltype(element)::type;
    constexpr int kBytes = WeightTile<Element>::kSharedBytes;
    auto* const kernel = block_weights_kernel<Element>;
    {
      const RelaxedCapture relaxed;  // loads the kernel's code
      cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), launch.device_index,
                 "cudaFuncSetAttribute");
    }
    launch_clusters(launch, kernel, a, blocks, cluster, kBytes, "block_weights_kernel", WeightTile<Element>::kThreads);
  });
}

}  // namespace amdahl
