// Weight gradients of the dense layers of a small transformer block, all in one launch.
#pragma once

#include <algorithm>

#include "ops/transformer_block_ops.h"

namespace amdahl {

struct KernelLaunch;

inline constexpr int kWeightTileOut = 96, kWeightTileIn = 192, kMostWeightBlocks = 8;  // blocks: of a cluster

/// Tiles of a product, and of all.
constexpr int weight_tiles(const WeightProduct& p) {
  return (p.out + kWeightTileOut - 1) / kWeightTileOut * ((p.in + kWeightTileIn - 1) / kWeightTileIn);
}
constexpr int weight_tiles(const WeightGradients& a) {
  int tiles = 0;
  for (int i = 0; i < a.num_products; ++i) tiles += weight_tiles(a.products[i]);
  return tiles;
}

/// Blocks that divide the tokens of a tile: as many as keep each multiprocessor to one block.
constexpr int weight_blocks_per_tile(const WeightGradients& a, int num_sms) {
  const int tiles = weight_tiles(a);
  return tiles == 0 ? 1 : std::clamp(num_sms / tiles, 1, kMostWeightBlocks);
}

/// Enqueues the products, in `type`; f32 products are of tf32 values. Reruns on the same GPU are bit-equal.
void launch_weight_gradients(const KernelLaunch& launch, DType type, const WeightGradients& a);

}  // namespace amdahl
