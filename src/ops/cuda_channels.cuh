// Device code of passes over the pixels of images, with values per channel: a thread keeps its channels, so that what
// belongs to a channel is read once, and goes down the rows of the matrix [count, channels].
#pragma once

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

/// How a matrix [count, channels] is divided. A block has `lanes` threads side by side, each with kVec neighbouring
/// channels, and kThreads / lanes rows at a time; blockIdx is (tile of channels, part of the rows).
struct ChannelGrid {
  int64_t count, channels, rows_per_block;
  int lanes;
  float2* partials;  // [parts, channels]

  int parts() const { return static_cast<int>((count + rows_per_block - 1) / rows_per_block); }

  __device__ int row_lanes() const { return kThreads / lanes; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
  __device__ int row_lane() const { return static_cast<int>(threadIdx.x) / lanes; }
  __device__ int64_t begin() const { return blockIdx.y * rows_per_block; }
  __device__ int64_t rows_of(int64_t part) const { return min(rows_per_block, count - part * rows_per_block); }
  /// Rows of the block that are this row lane's.
  __device__ int64_t rows_of_lane(int row_lane) const {
    return (rows_of(blockIdx.y) - row_lane + row_lanes() - 1) / row_lanes();
  }
};

/// Calls load(row, i) for i of 0 to kUnroll - 1, then use(row, i), for all rows of this thread: the loads of several
/// rows overlap.
template <int kUnroll, class Load, class Use>
__device__ __forceinline__ void for_each_row(const ChannelGrid& g, const Load& load, const Use& use) {
  const int64_t step = g.row_lanes(), end = g.begin() + g.rows_of(blockIdx.y);
  for (int64_t first = g.begin() + g.row_lane(); first < end; first += step * kUnroll) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      if (first + i * step < end) load(first + i * step, i);
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      if (first + i * step < end) use(first + i * step, i);
  }
}

/// Few blocks for each SM, with several rows for each thread: that fills the memory's queues. A grid that sums has no
/// more parts than its partial sums have room for.
template <int kVec>
ChannelGrid channel_grid(const KernelLaunch& launch, int64_t count, int64_t channels, bool sums) {
  constexpr int kMostLanes = 32, kBlocksPerSm = 2, kRowsPerThread = 4;
  ChannelGrid g{count, channels, count, 1, reinterpret_cast<float2*>(launch.scratch.partials)};
  while (g.lanes < kMostLanes && g.lanes * kVec < channels) g.lanes *= 2;
  const int64_t tiles = num_blocks(channels, g.lanes * kVec), row_lanes = kThreads / g.lanes;
  int64_t parts =
      std::min<int64_t>((sums ? 1 : 2) * kBlocksPerSm * launch.num_sms / tiles, count / (row_lanes * kRowsPerThread));
  if (sums) parts = std::min(parts, KernelScratch::kPartialFloats / (2 * channels));
  parts = std::clamp<int64_t>(parts, 1, 65535);
  g.rows_per_block = (count + parts - 1) / parts;
  return g;
}

template <int kVec>
LaunchShape shape_of(const ChannelGrid& g) {
  return {dim3(num_blocks(g.channels, g.lanes * kVec), num_blocks(g.count, g.rows_per_block)), kThreads, 0};
}

}  // namespace amdahl
