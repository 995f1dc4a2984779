// Device helpers: one tile of a GEMM whose rows are a whole small batch. Its k is split over the warps of a block and
// over the blocks of a cluster; partial sums are added in a fixed order through shared memory.
#pragma once

#include "ops/cuda_cluster.cuh"
#include "ops/cuda_mma.cuh"

namespace amdahl {

inline constexpr int kTileThreads = 256;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kTileColumns = 32;
inline constexpr int kPartialStride = 36;  // row stride of a warp's sums, in floats

/// Tile of kRows by 32. A warp sums 16 or 32 of the rows over its share of k.
template <int kRowsOfTile>
struct Tile {
  static constexpr int kRows = kRowsOfTile;
  static constexpr int kRowTiles = kRows == 16 ? 1 : 2;  // of 16 rows, per warp
  static constexpr int kWarpRows = 16 * kRowTiles;
  static constexpr int kWarpsM = kRows / kWarpRows, kWarpsK = kTileWarps / kWarpsM;
  static constexpr int kUnits = kRows * kTileColumns / 4;  // a unit: four neighbouring columns of a row
  static constexpr int kSlots = (kUnits + kTileThreads - 1) / kTileThreads;  // most units per thread
  static constexpr int kWarpFloats = kWarpRows * kPartialStride;

  struct Shared {
    alignas(16) float partials[kTileWarps * kWarpFloats];
    float4 received[kUnits];  // the cluster's partial sums of this block's units, by sending block
    uint64_t arrival;         // mbarrier of `received`
  };
};

/// This warp's share of k: cluster rank r of c has chunks [r/c, (r+1)/c), distributed round-robin over its warps.
struct KShare {
  int first;  // k
  int count;  // full chunks
  bool tail;  // also the chunk that reaches past the last k
};

template <class T>
__device__ __forceinline__ KShare share_of_k(int num_k, const ClusterPlace& cluster) {
  const int chunks = (num_k + 15) / 16, full = num_k / 16, warp_k = static_cast<int>(threadIdx.x) / 32 / T::kWarpsM;
  const int begin = cluster.rank * chunks / cluster.size + warp_k, end = (cluster.rank + 1) * chunks / cluster.size;
  const int mine = max(0, (end - begin + T::kWarpsK - 1) / T::kWarpsK);
  const bool tail = mine > 0 && begin + (mine - 1) * T::kWarpsK >= full;
  return {16 * begin, mine - (tail ? 1 : 0), tail};
}

/// Writes a warp's sums to `partials` by row and column. `kRowsDealt`, `kColumnsDealt`: rows or columns were
/// distributed to the lanes by AcrossK<., true>; else they are 8 apart.
template <class T, bool kColumnsDealt, bool kRowsDealt = false>
__device__ __forceinline__ void store_sums(float* partials, const Sums<T::kRowTiles>& sums) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float* own = partials + threadIdx.x / 32 * T::kWarpFloats;
#pragma unroll
  for (int i = 0; i < T::kRowTiles; ++i)
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      float* row = own + column_of<kRowsDealt>(g, 2 * i + high) * kPartialStride;
      const auto& c = sums.c[i];
      if constexpr (kColumnsDealt) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          *reinterpret_cast<float4*>(row + column_of<true>(2 * t + e, 0)) =
              make_float4(c[0][2 * high + e], c[1][2 * high + e], c[2][2 * high + e], c[3][2 * high + e]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          *reinterpret_cast<float2*>(row + 8 * j + 2 * t) = make_float2(c[j][2 * high], c[j][2 * high + 1]);
      }
    }
}

struct UnitPlace {
  int row, column;  // within the tile
};

/// Units are numbered along rows, or along columns so that a block's slice consists of whole columns.
template <class T, bool kByColumn>
__device__ __forceinline__ UnitPlace unit_place(int unit) {
  if constexpr (kByColumn) return {unit % T::kRows, unit / T::kRows * 4};
  return {unit / (kTileColumns / 4), unit % (kTileColumns / 4) * 4};
}

__device__ __forceinline__ void add_to(float4& sum, const float4& part) {
  sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
}

/// The block's sum of one unit over its warps' shares of k.
template <class T>
__device__ __forceinline__ float4 sum_warps(const float* partials, UnitPlace at) {
  const float* first =
      partials + at.row / T::kWarpRows * T::kWarpFloats + at.row % T::kWarpRows * kPartialStride + at.column;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int k = 0; k < T::kWarpsK; ++k)
    add_to(sum, *reinterpret_cast<const float4*>(first + k * T::kWarpsM * T::kWarpFloats));
  return sum;
}

/// Number of units that a block finishes: the slice of its cluster rank.
template <class T>
__device__ __forceinline__ int units_of_block(const ClusterPlace& cluster) {
  return T::kUnits / cluster.size;
}

/// Place of the thread's unit number `slot`. Returns false, with some valid place, when the thread has no such unit.
template <class T, bool kByColumn>
__device__ __forceinline__ bool own_unit(const ClusterPlace& cluster, int slot, UnitPlace& at) {
  const int share = units_of_block<T>(cluster), index = slot * kTileThreads + static_cast<int>(threadIdx.x);
  at = unit_place<T, kByColumn>(cluster.rank * share + min(index, share - 1));
  return index < share;
}

/// Prepares to receive the peers' sums. Call before the tile is computed.
template <class T>
__device__ __forceinline__ void open_tile(typename T::Shared& shared, const ClusterPlace& cluster) {
  if (cluster.size > 1) open_arrival(&shared.arrival, sizeof shared.received);
}

/// Adds the partial sums that store_sums wrote in all blocks of the cluster: value[slot] for each unit that this thread
/// owns.
template <class T, bool kByColumn>
__device__ __forceinline__ void reduce_tile(typename T::Shared& shared, const ClusterPlace& cluster,
                                            float4 (&value)[T::kSlots]) {
  const int share = units_of_block<T>(cluster);
  __syncthreads();
  if (cluster.size == 1) {
#pragma unroll
    for (int slot = 0; slot < T::kSlots; ++slot) {
      UnitPlace at;
      own_unit<T, kByColumn>(cluster, slot, at);
      value[slot] = sum_warps<T>(shared.partials, at);
    }
    return;
  }
  wait_for_peers();
#pragma unroll 1
  for (int unit = static_cast<int>(threadIdx.x); unit < T::kUnits; unit += kTileThreads) {
    const int owner = unit / share;
    const float4 sum = sum_warps<T>(shared.partials, unit_place<T, kByColumn>(unit));
    send_to_peer(&shared.received[cluster.rank * share + unit % share], &shared.arrival, owner, sum);
  }
  wait_for_arrival(&shared.arrival);
  value[0] = make_float4(0, 0, 0, 0);  // with two or more blocks, no thread has a second unit
  const int index = static_cast<int>(threadIdx.x);
  if (index >= share) return;
#pragma unroll 2
  for (int block = 0; block < cluster.size; ++block) add_to(value[0], shared.received[block * share + index]);
}

}  // namespace amdahl
