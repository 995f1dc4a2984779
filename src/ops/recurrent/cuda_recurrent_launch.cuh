// Plans and launches of the persistent recurrent kernels.
#pragma once

#include <algorithm>

#include "ops/cuda_launch.cuh"
#include "ops/gemm/cuda_tuner.h"
#include "ops/recurrent/cuda_recurrent.h"
#include "ops/recurrent/cuda_recurrent_cell.cuh"
#include "ops/recurrent/cuda_recurrent_tile.cuh"

namespace amdahl {

/// One instance of a kernel: for up to kMostHidden units, with kNumTiles tiles of batch rows at once in each of
/// kNumSets sets of warps.
template <RecurrentCell kCellKind, MathMode kMathMode, int kMostHidden, int kNumTiles, int kNumSets>
struct PersistentVariant {
  static constexpr RecurrentCell kCell = kCellKind;
  static constexpr MathMode kMath = kMathMode;
  static constexpr bool kFast = kMath == MathMode::bf16;  // activations
  static constexpr int kHidden = kMostHidden, kTiles = kNumTiles, kSets = kNumSets;
  static constexpr int kBlocks = kHidden / kBlockUnits;
};

/// Sets of warps that take turns on the execution units of a multiprocessor, as far as its registers hold the weights
/// more than once.
inline constexpr int persistent_sets(MathMode math, int tiles) { return math == MathMode::bf16 && tiles > 1 ? 2 : 1; }

/// The place of a thread in the problem.
struct PersistentPlace {
  int rank;              // of the block in its cluster
  int set, part, group;  // of the warp: set, part in it, eight units
  int lane;
  int all_group;  // the eight units among those of all blocks
  int unit;       // that the lane computes
  int cluster;    // of the grid
  /// One thread of each set.
  __device__ __forceinline__ bool leads() const { return part == 0 && group == 0 && lane == 0; }
};

template <class V>
__device__ __forceinline__ PersistentPlace persistent_place(int parts) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = cluster_place().rank, group = warp % kPartWarps, all_group = rank * kPartWarps + group;
  return {rank,
          warp / (kPartWarps * parts),
          warp / kPartWarps % parts,
          group,
          lane,
          all_group,
          all_group * 8 + lane / 4,
          static_cast<int>(blockIdx.x) / V::kBlocks};
}

/// Creates arrivals [0, count), each of which expects `bytes`, and arrives at the cluster barrier. By the whole block.
__device__ __forceinline__ void open_arrivals(uint32_t first, int count, uint32_t bytes) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) create_arrival(first + 8 * static_cast<uint32_t>(i));
    publish_arrivals();
    for (int i = 0; i < count; ++i) expect_bytes(first + 8 * static_cast<uint32_t>(i), bytes);
  }
  __syncwarp();
  arrive_at_cluster();
}

template <class Use, RecurrentCell kCell, MathMode kMath, int kHidden>
auto with_tiles(int tiles, const Use& use) {
  if (tiles == 1) return use(PersistentVariant<kCell, kMath, kHidden, 1, 1>{});
  return use(PersistentVariant<kCell, kMath, kHidden, 2, persistent_sets(kMath, 2)>{});
}

template <class Use, RecurrentCell kCell, MathMode kMath>
auto with_sizes(int hidden, int tiles, const Use& use) {
  return hidden <= 128 ? with_tiles<Use, kCell, kMath, 128>(tiles, use)
                       : with_tiles<Use, kCell, kMath, 256>(tiles, use);
}

template <class Use, RecurrentCell kCell>
auto with_math(MathMode math, int hidden, int tiles, const Use& use) {
  if (math == MathMode::fp32) return with_sizes<Use, kCell, MathMode::fp32>(hidden, tiles, use);
  if (math == MathMode::tf32) return with_sizes<Use, kCell, MathMode::tf32>(hidden, tiles, use);
  return with_sizes<Use, kCell, MathMode::bf16>(hidden, tiles, use);
}

/// Calls use(PersistentVariant<...>{}) for the instance that computes the problem.
template <class Use>
auto with_variant(RecurrentCell cell, MathMode math, int hidden, int tiles, const Use& use) {
  return cell == RecurrentCell::lstm ? with_math<Use, RecurrentCell::lstm>(math, hidden, tiles, use)
                                     : with_math<Use, RecurrentCell::gru>(math, hidden, tiles, use);
}

struct ClusterLaunch {
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config;
};

inline void fill_cluster_launch(ClusterLaunch& out, const KernelLaunch& launch, const PersistentPlan& plan,
                                int threads) {
  out = {};
  out.attributes[0].id = cudaLaunchAttributeClusterDimension;
  out.attributes[0].val.clusterDim.x = static_cast<unsigned>(plan.blocks);
  out.attributes[0].val.clusterDim.y = out.attributes[0].val.clusterDim.z = 1;
  out.attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  out.attributes[1].val.programmaticStreamSerializationAllowed = 1;
  out.config.gridDim = dim3(static_cast<unsigned>(plan.clusters * plan.blocks));
  out.config.blockDim = dim3(static_cast<unsigned>(threads));
  out.config.dynamicSmemBytes = plan.shared_bytes;
  out.config.stream = launch.stream;
  out.config.attrs = out.attributes;
  out.config.numAttrs = 2;
}

inline int max_shared_bytes(const KernelLaunch& launch) {
  return cuda_attribute(launch.device_index, cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

/// Number of clusters that the device can hold, one block per multiprocessor.
inline int cluster_slots(const KernelLaunch& launch, const void* kernel, int blocks, int threads) {
  const int most = max_shared_bytes(launch);
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), launch.device_index,
             "cudaFuncSetAttribute");
  ClusterLaunch query;
  fill_cluster_launch(query, launch, {.clusters = 1, .blocks = blocks, .shared_bytes = static_cast<size_t>(most)},
                      threads);
  query.config.numAttrs = 1;
  int clusters = 0;
  const cudaError_t code = cudaOccupancyMaxActiveClusters(&clusters, kernel, &query.config);
  if (code == cudaSuccess) return std::min(clusters, launch.num_sms / blocks);
  cudaGetLastError();  // no cluster of that size fits: the caller has another way
  return 0;
}

/// What a plan needs to know of one instance of a kernel.
struct PersistentKernel {
  const void* code;
  int threads;
  int (*shared_bytes)(int chunks);
};

inline int quotient_up(int a, int b) { return (a + b - 1) / b; }

/// Distributes the batch evenly to the clusters that the device holds at the same time. They run in several rounds only
/// where shared memory limits the rows of a cluster. `kernel_of(V{})`: the kernel of a variant.
template <class KernelOf>
PersistentPlan make_persistent_plan(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape,
                                    const KernelOf& kernel_of) {
  if (!launch.early || shape.hidden > kMostPersistentUnits) return {};
  const RelaxedCapture relaxed;  // loads the kernel's code
  const int hidden = static_cast<int>(shape.hidden),
            all_tiles = static_cast<int>((shape.batch + kTileRows - 1) / kTileRows);
  const auto plan_with = [&](int tiles) {
    return with_variant(shape.cell, math, hidden, tiles, [&](auto variant) {
      const PersistentKernel kernel = kernel_of(variant);
      PersistentPlan plan{
          .clusters = 0, .blocks = decltype(variant)::kBlocks, .tiles = tiles, .sets = decltype(variant)::kSets};
      const int slots = cluster_slots(launch, kernel.code, plan.blocks, kernel.threads);
      if (slots == 0) return plan;
      int most = 1;  // chunks of a cluster
      while (kernel.shared_bytes(most + 1) <= max_shared_bytes(launch)) ++most;
      const int rounds = quotient_up(all_tiles, slots * most * tiles);
      plan.chunks = quotient_up(quotient_up(all_tiles, rounds * slots), tiles);
      plan.clusters = quotient_up(all_tiles, plan.chunks * tiles);
      plan.shared_bytes = static_cast<size_t>(kernel.shared_bytes(plan.chunks));
      return plan;
    });
  };
  const PersistentPlan single = plan_with(1);
  return single.chunks < 2 ? single : plan_with(2);
}

template <class Kernel, class... Arguments>
void launch_persistent(const KernelLaunch& launch, const PersistentPlan& plan, int threads, Kernel* kernel,
                       const char* name, const Arguments&... arguments) {
  ClusterLaunch shape;
  fill_cluster_launch(shape, launch, plan, threads);
  cuda_check(cudaLaunchKernelEx(&shape.config, kernel, arguments...), launch.device_index, name);
}

}  // namespace amdahl
