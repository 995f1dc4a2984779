// Device code of passes over the pixels of images, with values per channel: a thread keeps its channels, so that what
// belongs to a channel is read once, and goes down the rows of the matrix [count, channels].
#pragma once

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {

/// How a matrix [count, channels] is divided. A block has `lanes` threads side by side, each with kVec neighbouring
/// channels, and kThreads / lanes rows at a time; blockIdx is (tile of channels, part of the rows). All blocks go
/// through the matrix together, so that the last rows are in the cache at the end: the next pass begins with them
/// (`backward`).
struct ChannelGrid {
  int64_t count, channels;
  int lanes, parts;
  bool backward;
  float2* partials;           // [parts, channels]
  int64_t rows_each, longer;  // rows of a row lane; of the first ones, so many have one more

  __device__ int row_lanes() const { return kThreads / lanes; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
  __device__ int row_lane() const { return static_cast<int>(threadIdx.x) / lanes; }
  /// Distance of the rows of a row lane.
  __device__ int64_t step() const { return static_cast<int64_t>(parts) * row_lanes(); }
  __device__ int64_t first_row(int row_lane) const { return static_cast<int64_t>(blockIdx.y) * row_lanes() + row_lane; }
  __device__ int64_t rows_of(int64_t part) const {
    const int64_t lanes_longer = longer - part * row_lanes();
    return rows_each * row_lanes() + min(max(lanes_longer, int64_t{0}), static_cast<int64_t>(row_lanes()));
  }
  /// Rows of the block that are this row lane's.
  __device__ int64_t rows_of_lane(int row_lane) const { return rows_each + (first_row(row_lane) < longer ? 1 : 0); }
};

/// Calls load(row, i) for i of 0 to kUnroll - 1, then use(row, i), for all rows of this thread: the loads of several
/// rows overlap.
template <int kUnroll, class Load, class Use>
__device__ __forceinline__ void for_each_row(const ChannelGrid& g, const Load& load, const Use& use) {
  const int64_t step = g.step(), end = g.count;
  const auto at = [&](int64_t row) { return g.backward ? end - 1 - row : row; };
  for (int64_t first = g.first_row(g.row_lane()); first < end; first += step * kUnroll) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      if (first + i * step < end) load(at(first + i * step), i);
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      if (first + i * step < end) use(at(first + i * step), i);
  }
}

/// Few blocks for each SM, with several rows for each thread: that fills the memory's queues. A grid that sums has no
/// more parts than its partial sums have room for; one that does not follows a pass over the same rows.
template <int kVec>
ChannelGrid channel_grid(const KernelLaunch& launch, int64_t count, int64_t channels, bool sums) {
  constexpr int kMostLanes = 32, kBlocksPerSm = 2, kRowsPerThread = 4;
  ChannelGrid g{count, channels, 1, 1, !sums, reinterpret_cast<float2*>(launch.scratch.partials), 0, 0};
  while (g.lanes < kMostLanes && g.lanes * kVec < channels) g.lanes *= 2;
  const int64_t tiles = num_blocks(channels, g.lanes * kVec), row_lanes = kThreads / g.lanes;
  int64_t parts =
      std::min<int64_t>((sums ? 1 : 2) * kBlocksPerSm * launch.num_sms / tiles, count / (row_lanes * kRowsPerThread));
  if (sums) parts = std::min(parts, KernelScratch::kPartialFloats / (2 * channels));
  g.parts = static_cast<int>(std::clamp<int64_t>(parts, 1, 65535));
  g.rows_each = count / (g.parts * row_lanes), g.longer = count % (g.parts * row_lanes);
  return g;
}

template <int kVec>
LaunchShape shape_of(const ChannelGrid& g) {
  return {dim3(num_blocks(g.channels, g.lanes * kVec), static_cast<unsigned>(g.parts)), kThreads, 0};
}

}  // namespace amdahl
