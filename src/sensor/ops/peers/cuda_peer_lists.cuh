// Overflow lists of merges of counts through peer memory. Each rank has two, one per parity of merges.
#pragma once

#include "sensor/ops/voxels/cuda_voxel_bytes.cuh"
#include "symmetric/cuda_symmetric.cuh"

namespace amdahl::sensor_cuda {

/// A rank's list in a merge.
template <class Launch>
__device__ __forceinline__ OverflowCount* overflow_list(const Launch& p, int rank, uint64_t merge) {
  return reinterpret_cast<OverflowCount*>(p.team.base[rank] + p.layout.lists) +
         static_cast<int64_t>(merge % 2) * (p.layout.capacity + 1);
}

inline constexpr int kListThreads = 512, kBlocksOfList = 8;

/// Adds the lists of the merge that has just ended, that of this rank only if kOwn; kBlocksOfList blocks per list.
template <bool kOwn, class Launch>
__global__ void __launch_bounds__(kListThreads) add_peer_lists(const __grid_constant__ Launch p, int32_t* grid) {
  wait_for_predecessor();
  let_successor_start();
  const int rank = static_cast<int>(blockIdx.x) / kBlocksOfList;
  if (symmetric_cuda::is_broken(p.team) || (!kOwn && rank == p.team.rank)) return;
  add_list(overflow_list(p, rank, symmetric_cuda::this_round(p.team) - 1), blockIdx.x % kBlocksOfList, kBlocksOfList,
           grid);
}
template <bool kOwn, class Launch>
void launch_add_peer_lists(const SensorLaunch& launch, const Launch& p, int32_t* grid) {
  launch_early(launch, static_cast<unsigned>(p.team.size * kBlocksOfList), kListThreads, 0,
               &add_peer_lists<kOwn, Launch>, "add_peer_lists", p, grid);
}

}  // namespace amdahl::sensor_cuda
