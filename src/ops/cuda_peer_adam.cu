// One update across devices: every block sends its share of this rank's gradients into the inboxes of their owners,
// waits for the same block of the other ranks, sums in rank order, steps Adam and sends the parameters to all ranks.
//
// Order between devices rests on flags, written with release and read with acquire at system scope. A rank that sent
// its gradients has entered the update, so its parameters may be written; its memory is its own again once every rank
// has left. What others write is read by plain loads past L1, never through the read-only path: it changes between
// updates.
#include "ops/cuda_adam.cuh"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_peers.h"

namespace amdahl {
namespace {

constexpr int kPeerThreads = 512;
constexpr int kHeldVectors = 4;  // that a thread has in flight
constexpr int64_t kTile =
    kPeerThreads * kHeldVectors;         // vectors; tile t of every part is block t % blocks' on every rank
constexpr unsigned kPollsPerLook = 256;  // between looks at the clock and at host memory, which is far away

struct PeerUpdate {
  int64_t bounds[kMaxPeers + 1];        // of all ranks' parts, floats of the layout
  int64_t inbox_begin;                  // floats
  int64_t num_vectors;                  // groups of four floats of this rank's part
  int64_t front_vectors, skip_vectors;  // of these, at the start
  float *m, *v;                         // of vector skip_vectors
  AdamParameters adam;
  bool last;
};

__device__ __forceinline__ uint64_t load_acquire(const uint64_t* flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void store_release(uint64_t* flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t now_ns() {
  uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

/// Waits until `flag`, which rank `from` writes, has reached `number`. False once the wait is given up.
__device__ bool await(const uint64_t* flag, uint64_t number, int from, const PeerLaunch& p) {
  if (load_acquire(flag) >= number) return true;
  const uint64_t start = now_ns();
  const volatile PeerFlags* own = p.flags[p.rank];
  volatile PeerReport* report = p.report;
  for (unsigned poll = 1;; ++poll) {
    if (load_acquire(flag) >= number) return true;
    if (poll % kPollsPerLook != 0) continue;
    if (own->broken || report->give_up) return false;
    if (now_ns() - start < p.timeout_ns) continue;
    report->missing_rank = static_cast<unsigned>(from) + 1;
    __threadfence_system();
    return false;
  }
}

/// Called by all threads of a block, whose earlier writes come first: tells every other rank by its flag `flag` that
/// this block has got so far in update `number`, and waits for them. Says the same to all threads.
template <class Flag>
__device__ bool meet(const PeerLaunch& p, uint64_t number, const Flag& flag) {
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  bool met = true;
  if (peer < p.num_ranks && peer != p.rank) {
    __threadfence_system();
    store_release(flag(*p.flags[peer]) + p.rank, number);
    met = await(flag(*p.flags[p.rank]) + peer, number, peer, p);
  }
  return __syncthreads_and(met);
}

__device__ __forceinline__ float4* vector_at(float* base, int64_t begin, int64_t i) {
  return reinterpret_cast<float4*>(base + begin) + i;
}
__device__ __forceinline__ void add(float4& sum, const float4& term) {
  sum.x += term.x, sum.y += term.y, sum.z += term.z, sum.w += term.w;
}

/// Where `owner` finds the gradients that `from` sends it in this update.
__device__ __forceinline__ float* inbox_of(const PeerLaunch& p, const PeerUpdate& u, int owner, int from) {
  return p.inbox[owner] + (from < owner ? from : from - 1) * p.inbox_stride + u.inbox_begin;
}

/// This block's tiles of the other ranks' parts into their inboxes.
__device__ void send_gradients(const PeerLaunch& p, const PeerUpdate& u) {
  for (int j = 1; j < p.num_ranks; ++j) {  // ranks write to different ones at a time
    const int to = p.rank + j < p.num_ranks ? p.rank + j : p.rank + j - p.num_ranks;
    const float4* source = vector_at(p.grads[p.rank], u.bounds[to], 0);
    float4* target = vector_at(inbox_of(p, u, to, p.rank), 0, 0);
    const int64_t num_vectors = (u.bounds[to + 1] - u.bounds[to]) / 4;
    for (int64_t first = blockIdx.x * kTile; first < num_vectors; first += gridDim.x * kTile) {
      const int64_t i = first + threadIdx.x;
      if (first + kTile <= num_vectors) {
        float4 held[kHeldVectors];
#pragma unroll
        for (int k = 0; k < kHeldVectors; ++k) held[k] = __ldcg(source + i + k * kPeerThreads);
#pragma unroll
        for (int k = 0; k < kHeldVectors; ++k) __stcg(target + i + k * kPeerThreads, held[k]);
      } else {
        for (int64_t rest = i; rest < num_vectors; rest += kPeerThreads) __stcg(target + rest, __ldcg(source + rest));
      }
    }
  }
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
  const int64_t begin = u.bounds[p.rank];
  const auto gradient = [&](int r, int64_t i) {
    return __ldcg(vector_at(r == p.rank ? p.grads[r] + begin : inbox_of(p, u, p.rank, r), 0, i));
  };
#pragma unroll
  for (int r = 0; r < kHeld; ++r) each([&](int k, int64_t i) { g[k][r] = gradient(r, i); });
  each([&](int k, int64_t i) {
    if (!kPlain && i < u.skip_vectors) return;
    m[k] = *vector_at(u.m, 0, i - u.skip_vectors);
    v[k] = *vector_at(u.v, 0, i - u.skip_vectors);
    w[k] = *vector_at(p.params[p.rank], begin, i);
  });
  if constexpr (kRanks > 0) {
#pragma unroll
    for (int r = 1; r < kHeld; ++r) each([&](int k, int64_t) { add(g[k][0], g[k][r]); });
  } else {
    for (int r = 1; r < num_ranks; ++r) each([&](int k, int64_t i) { add(g[k][0], gradient(r, i)); });
  }
  each([&](int k, int64_t i) {
    const float4 sum = g[k][0];
    if (!kPlain && i < u.front_vectors) {
      for (int r = 0; r < num_ranks; ++r) __stcg(vector_at(p.grads[r], begin, i), sum);
    } else {
      __stcg(vector_at(p.grads[p.rank], begin, i), sum);
    }
    if (!kPlain && i < u.skip_vectors) return;
    rule(w[k].x, sum.x, m[k].x, v[k].x);
    rule(w[k].y, sum.y, m[k].y, v[k].y);
    rule(w[k].z, sum.z, m[k].z, v[k].z);
    rule(w[k].w, sum.w, m[k].w, v[k].w);
    *vector_at(u.m, 0, i - u.skip_vectors) = m[k];
    *vector_at(u.v, 0, i - u.skip_vectors) = v[k];
#pragma unroll
    for (int j = 0; j < num_ranks; ++j) {  // ranks write to different ones at a time
      const int to = p.rank + j < num_ranks ? p.rank + j : p.rank + j - num_ranks;
      __stcg(vector_at(p.params[to], begin, i), w[k]);
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
  send_gradients(p, u);
  if (!meet(p, number, [](PeerFlags& flags) { return flags.arrived[blockIdx.x]; })) {
    if (threadIdx.x == 0) own->broken = 1;
    return;
  }
  if (u.num_vectors > 0) {
    const AdamRule rule(u.adam);
    const int64_t plain_begin = u.front_vectors > u.skip_vectors ? u.front_vectors : u.skip_vectors;
    for (int64_t tile = blockIdx.x * kTile; tile < u.num_vectors; tile += gridDim.x * kTile) {
      const bool plain = tile >= plain_begin && tile + kTile <= u.num_vectors;
      for (int k = 0; k < kHeldVectors; k += kUnroll) {
        const int64_t first = tile + k * kPeerThreads + threadIdx.x;
        if (plain)
          step_vectors<kRanks, kUnroll, true>(p, u, rule, first);
        else
          step_vectors<kRanks, kUnroll, false>(p, u, rule, first);
      }
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
  const bool left = !u.last || meet(p, number, [](PeerFlags& flags) { return flags.left; });
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
  PeerUpdate update{};
  std::copy(a.bounds.begin(), a.bounds.end(), update.bounds);
  const auto part = [&](int rank) {
    return a.bounds[static_cast<size_t>(rank) + 1] - a.bounds[static_cast<size_t>(rank)];
  };
  const int64_t begin = a.bounds[static_cast<size_t>(peers.rank)];
  const auto vectors = [&](int64_t end) { return std::max<int64_t>(0, end - begin) / 4; };
  update.inbox_begin = a.inbox_begin;
  update.num_vectors = part(peers.rank) / 4;
  update.front_vectors = vectors(a.front_end);
  update.skip_vectors = vectors(a.skip_end);
  update.m = a.adam.m;
  update.v = a.adam.v;
  update.adam = adam_parameters(a.adam);
  update.last = a.last;
  constexpr int kBlocksBesideWork = 16;  // measured: more gain less than the products lose by them
  const int chosen = a.alone ? peers.num_processors : kBlocksBesideWork;
  const int wanted = std::min(a.num_blocks > 0 ? a.num_blocks : chosen, PeerFlags::kMaxBlocks);
  const unsigned blocks = std::min(num_blocks(part(0) / 4, kPeerThreads), static_cast<unsigned>(wanted));
  kernel_for(peers.num_ranks)<<<blocks, kPeerThreads, 0, launch.stream>>>(peers, update);
  check_launch(launch, "peer_adam_kernel");
}

void preload_peer_updates(int device_index) {
  preload(device_index, peer_adam_kernel<2, 4>, peer_adam_kernel<3, 2>, peer_adam_kernel<4, 2>, peer_adam_kernel<8, 1>,
          peer_adam_kernel<0, 4>);
}

}  // namespace amdahl
