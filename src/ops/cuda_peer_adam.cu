// One update across devices: sum this rank's part of all ranks' gradients in rank order, Adam, parameters to all ranks.
//
// Order between devices rests on flags, written with release and read with acquire at system scope. A rank's gradients
// may be read once it has entered; its memory is its own again once every rank has left. Peers' data are read by plain
// loads past L1, never through the read-only path: they change between updates.
#include "device/cuda_peer_flags.cuh"
#include "ops/cuda_adam.cuh"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_peers.h"

namespace amdahl {
namespace {

constexpr int kPeerThreads = 512;

struct PeerUpdate {
  int64_t begin;          // floats of the layout
  int64_t num_vectors;    // groups of four floats from there
  int64_t front_vectors;  // of these, at the start
  float *m, *v;
  AdamParameters adam;
  bool last;
};

/// Called by all threads of a block; says the same to all. `announce`: this block tells the other ranks.
__device__ bool meet(const PeerLaunch& p, uint64_t (PeerFlags::*flags)[kMaxPeers], uint64_t number, bool announce) {
  const int peer = static_cast<int>(threadIdx.x);
  bool met = true;
  if (peer < p.num_ranks && peer != p.rank) {
    if (announce) store_release(&(p.flags[peer]->*flags)[p.rank], number);
    PeerFlags* own = p.flags[p.rank];
    met = await_flag(&(own->*flags)[peer], number, peer, &own->broken, p.report, p.timeout_ns);
  }
  return __syncthreads_and(met);
}

__device__ __forceinline__ float4* vector_at(float* base, int64_t begin, int64_t i) {
  return reinterpret_cast<float4*>(base + begin) + i;
}
__device__ __forceinline__ void add(float4& sum, const float4& term) {
  sum.x += term.x, sum.y += term.y, sum.z += term.z, sum.w += term.w;
}

/// The vectors first, first + kPeerThreads, ... (kUnroll of them) as far as they are in range. kRanks 0: known at run
/// time. kPlain: all are in range and ordinary parameters; no branch then keeps the loads from being in flight
/// together.
template <int kRanks, int kUnroll, bool kPlain>
__device__ __forceinline__ void step_vectors(const PeerLaunch& p, const PeerUpdate& u, const AdamRule& rule,
                                             int64_t first) {
  constexpr int kHeld = kRanks > 0 ? kRanks : 1;
  const int num_ranks = kRanks > 0 ? kRanks : p.num_ranks;
  float4 g[kUnroll][kHeld], m[kUnroll], v[kUnroll], w[kUnroll];
  const auto each = [&](auto&& work) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (const int64_t i = first + k * kPeerThreads; kPlain || i < u.num_vectors) work(k, i);
  };
  // All loads before the first use: the far ones take microseconds.
#pragma unroll
  for (int r = 0; r < kHeld; ++r) each([&](int k, int64_t i) { g[k][r] = __ldcg(vector_at(p.grads[r], u.begin, i)); });
  each([&](int k, int64_t i) {
    m[k] = *vector_at(u.m, 0, i);
    v[k] = *vector_at(u.v, 0, i);
    w[k] = *vector_at(p.params[p.rank], u.begin, i);
  });
  if constexpr (kRanks > 0) {
#pragma unroll
    for (int r = 1; r < kHeld; ++r) each([&](int k, int64_t) { add(g[k][0], g[k][r]); });
  } else {
    for (int r = 1; r < num_ranks; ++r)
      each([&](int k, int64_t i) { add(g[k][0], __ldcg(vector_at(p.grads[r], u.begin, i))); });
  }
  each([&](int k, int64_t i) {
    const float4 sum = g[k][0];
    if (!kPlain && i < u.front_vectors) {
      for (int r = 0; r < num_ranks; ++r) __stcg(vector_at(p.grads[r], u.begin, i), sum);
    } else {
      __stcg(vector_at(p.grads[p.rank], u.begin, i), sum);
    }
    rule(w[k].x, sum.x, m[k].x, v[k].x);
    rule(w[k].y, sum.y, m[k].y, v[k].y);
    rule(w[k].z, sum.z, m[k].z, v[k].z);
    rule(w[k].w, sum.w, m[k].w, v[k].w);
    *vector_at(u.m, 0, i) = m[k];
    *vector_at(u.v, 0, i) = v[k];
#pragma unroll
    for (int j = 0; j < num_ranks; ++j) {  // ranks write to different ones at a time
      const int to = p.rank + j < num_ranks ? p.rank + j : p.rank + j - num_ranks;
      __stcg(vector_at(p.params[to], u.begin, i), w[k]);
    }
  });
}

template <int kRanks, int kUnroll>
__global__ void __launch_bounds__(kPeerThreads, 1)
    peer_adam_kernel(const __grid_constant__ PeerLaunch p, const __grid_constant__ PeerUpdate u) {
  PeerFlags* own = p.flags[p.rank];
  const uint64_t number = own->ended + 1;  // the last block to finish counts it
  // Another block may give up meanwhile: the block decides as one.
  if (!__syncthreads_and(*static_cast<volatile unsigned*>(&own->broken) == 0)) return;
  if (!meet(p, &PeerFlags::entered, number, blockIdx.x == 0)) {
    if (threadIdx.x == 0) own->broken = 1;
    return;
  }
  if (u.num_vectors > 0) {
    const AdamRule rule(u.adam);
    constexpr int64_t kTile = kPeerThreads * kUnroll;
    for (int64_t first = blockIdx.x * kTile; first < u.num_vectors; first += gridDim.x * kTile) {
      if (first >= u.front_vectors && first + kTile <= u.num_vectors)
        step_vectors<kRanks, kUnroll, true>(p, u, rule, first + threadIdx.x);
      else
        step_vectors<kRanks, kUnroll, false>(p, u, rule, first + threadIdx.x);
    }
  }

  __shared__ bool last_block;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();  // this block's writes, before the count that lets the last block speak for all
    last_block = atomicAdd(&own->finished_blocks, 1u) + 1 == gridDim.x;
    __threadfence_system();
  }
  __syncthreads();
  if (!last_block) return;
  const bool left = !u.last || meet(p, &PeerFlags::left, number, true);
  if (threadIdx.x != 0) return;
  own->finished_blocks = 0;
  own->ended = number;
  if (!left) own->broken = 1;
}

using PeerKernel = void (*)(PeerLaunch, PeerUpdate);

// About eight far loads in flight a thread.
PeerKernel kernel_for(int num_ranks) {
  switch (num_ranks) {
    case 2:
      return peer_adam_kernel<2, 4>;
    case 3:
      return peer_adam_kernel<3, 2>;
    case 4:
      return peer_adam_kernel<4, 2>;
    case 8:
      return peer_adam_kernel<8, 1>;
    default:
      return peer_adam_kernel<0, 4>;
  }
}

}  // namespace

void launch_peer_adam(const KernelLaunch& launch, const PeerLaunch& peers, const PeerAdam& a) {
  const auto vectors = [&](int64_t floats_end) { return std::max<int64_t>(0, floats_end - a.begin) / 4; };
  const PeerUpdate update{a.begin, vectors(a.end), vectors(a.front_end), a.adam.m, a.adam.v, adam_parameters(a.adam),
                          a.last};
  const int chosen = a.alone ? launch.num_sms : kBlocksBesideWork;
  const int wanted = a.num_blocks > 0 ? a.num_blocks : chosen;
  const unsigned blocks = std::min(num_blocks(update.num_vectors, kPeerThreads), static_cast<unsigned>(wanted));
  kernel_for(peers.num_ranks)<<<blocks, kPeerThreads, 0, launch.stream>>>(peers, update);
  check_launch(launch, "peer_adam_kernel");
}

void preload_peer_updates(int device_index) {
  preload(device_index, peer_adam_kernel<2, 4>, peer_adam_kernel<3, 2>, peer_adam_kernel<4, 2>, peer_adam_kernel<8, 1>,
          peer_adam_kernel<0, 4>);
}

}  // namespace amdahl
