// Weight gradients of the dense layers of a small transformer block, all in one launch.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"

namespace amdahl {

struct KernelLaunch;

inline constexpr int kMostWeightProducts = 4, kColumnResults = 4;
inline constexpr int kWeightTileOut = 96, kWeightTileIn = 192, kMostWeightBlocks = 8;  // blocks: of a cluster

/// dw[out,in] = dy[tokens,out]^T x[tokens,in]; dbias[out]: the sums of dy's columns. `out` and `in` are multiples of 8
/// and all arrays 16-byte aligned.
struct WeightProduct {
  const void *dy, *x;  // of the compute type
  float* dw;
  float* dbias;  // null: none
  int out, in;
};

/// The products of one launch, and column sums to finish: results[r][c] = sum over p of partials[p, r, c].
struct WeightGradients {
  WeightProduct products[kMostWeightProducts];
  int num_products, tokens;
  const float* partials;           // [parts, kColumnResults, result_width]
  float* results[kColumnResults];  // of result_width elements each
  int parts, result_width;         // 0: no column sums
  bool accumulate;                 // add to what dw, dbias and results hold
};

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
  const int blocks = num_sms / weight_tiles(a);
  return blocks < 1 ? 1 : blocks > kMostWeightBlocks ? kMostWeightBlocks : blocks;
}

/// Enqueues the products, in `type`; f32 products are of tf32 values. Reruns on the same GPU are bit-equal.
void launch_weight_gradients(const KernelLaunch& launch, DType type, const WeightGradients& a);

}  // namespace amdahl
