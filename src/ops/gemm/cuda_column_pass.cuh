// Device code of a pass over the rows of a matrix that sums its columns, in a fixed order.
#pragma once

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/gemm/cuda_column_finish.h"

namespace amdahl {

/// Destination and partition of the sums. A block is 32 column lanes by 8 row lanes, a column lane has kVec
/// neighbouring columns; blockIdx is (tile of columns, part of the rows, matrix of the batch).
struct ColumnGrid {
  float* out;  // [width] of the first matrix; null: no sums
  int64_t rows, width;
  int64_t out_stride = 0;  // floats between the sums of two matrices
  float scale;
  bool accumulate;
  // Set by launch_column_pass.
  int64_t rows_per_block = 0;
  float* partials = nullptr;  // [batches, parts, width]
};

inline constexpr int kColumnRowLanes = kThreads / kWarp;

/// `Pass` has kVec, load(batch, row, column), which returns what it read, and finish(batch, row, column, what), which
/// returns the Floats<kVec> to be summed.
template <class Pass>
__global__ void __launch_bounds__(kThreads) column_pass_kernel(Pass pass, ColumnGrid grid) {
  constexpr int kVec = Pass::kVec, kColumns = kWarp * kVec, kUnroll = 4;
  __shared__ float sums[kColumnRowLanes][kColumns];
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp, row_lane = threadIdx.x / kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns, column = first + lane * kVec, batch = blockIdx.z;
  const int64_t begin = blockIdx.y * grid.rows_per_block, end = min(begin + grid.rows_per_block, grid.rows);
  Floats<kVec> sum = {};
  if (column < grid.width)
    for (int64_t base = begin + row_lane; base < end; base += kColumnRowLanes * kUnroll) {
      typename Pass::Loaded loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)  // all loads first, so that they overlap
        if (base + u * kColumnRowLanes < end) loaded[u] = pass.load(batch, base + u * kColumnRowLanes, column);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (base + u * kColumnRowLanes >= end) continue;
        const Floats<kVec> value = pass.finish(batch, base + u * kColumnRowLanes, column, loaded[u]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) sum.v[i] += value.v[i];
      }
    }
  if (!grid.out) return;
#pragma unroll
  for (int i = 0; i < kVec; ++i) sums[row_lane][lane * kVec + i] = sum.v[i];
  __syncthreads();
  // From here a thread has one column of the block's kColumns.
  const int64_t own = first + threadIdx.x;
  const bool has_own = threadIdx.x < kColumns && own < grid.width;
  float total = 0;
  if (has_own)
    for (int r = 0; r < kColumnRowLanes; ++r) total += sums[r][threadIdx.x];
  if (!has_own) return;
  if (gridDim.y > 1) {
    grid.partials[(batch * gridDim.y + blockIdx.y) * grid.width + own] = total;
    return;
  }
  float* out = grid.out + batch * grid.out_stride + own;
  *out = total * grid.scale + (grid.accumulate ? *out : 0.0f);
}

/// Enough blocks to fill the GPU, each with at least one unrolled pass over its rows. Several parts are added by a
/// kernel of their own: in the last block to arrive, hundreds of dependent loads would take longer than the pass.
template <class Pass>
void launch_column_pass(const KernelLaunch& launch, const Pass& pass, ColumnGrid grid, int64_t batches,
                        const char* name) {
  constexpr int64_t kColumns = kWarp * Pass::kVec, kRowsPerPass = 4 * kColumnRowLanes, kBlocksPerSm = 4;
  const int64_t tiles = num_blocks(grid.width, kColumns) * batches;
  const int64_t most = grid.out ? KernelScratch::kPartialFloats / (grid.width * batches) : 65535;
  const int64_t filling = kBlocksPerSm * launch.num_sms / tiles, wanted = num_blocks(grid.rows, kRowsPerPass);
  int64_t parts = std::max<int64_t>(1, std::min({wanted, most, filling, int64_t{65535}}));
  grid.rows_per_block = std::max<int64_t>(1, (grid.rows + parts - 1) / parts);
  parts = num_blocks(grid.rows, grid.rows_per_block);
  grid.partials = launch.scratch.partials;
  const dim3 blocks(num_blocks(grid.width, kColumns), static_cast<unsigned>(parts), static_cast<unsigned>(batches));
  launch_early_shared(launch, {blocks, kThreads, 0}, column_pass_kernel<Pass>, name, pass, grid);
  if (grid.out && parts > 1)
    launch_column_finish(
        launch, {grid.partials, grid.out, parts, grid.width, batches, grid.out_stride, grid.scale, grid.accumulate});
}

}  // namespace amdahl
