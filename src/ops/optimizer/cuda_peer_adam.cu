// One update across devices: sums this rank's part of all ranks' gradients in rank order, applies Adam, and writes the
// parameters to all ranks.
//
// An update is one round of the team. A rank's gradients may be read once it has arrived at the first barrier; other
// ranks no longer access its memory after the second. Peers' data are read by plain loads that bypass L1, never through
// the read-only path, because they change between updates.
#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/optimizer/cuda_adam.cuh"
#include "ops/optimizer/peer_update.h"
#include "symmetric/cuda_symmetric.cuh"
#include "symmetric/cuda_team.h"

namespace amdahl {
namespace {

using namespace symmetric_cuda;

constexpr int kEntered = 0, kLeft = 1;  // barriers of an update
constexpr int kPeerThreads = 512;

struct PeerLaunch {
  TeamView team;
  float* params[kMaxTeamRanks];
  float* grads[kMaxTeamRanks];
};

struct PeerUpdate {
  int64_t begin;          // floats of the layout
  int64_t num_vectors;    // groups of four floats from `begin`
  int64_t front_vectors;  // of these, the ones in the front, which come first
  float *m, *v;
  AdamParameters adam;
  bool last;
};

__device__ __forceinline__ float4* vector_at(float* base, int64_t begin, int64_t i) {
  return reinterpret_cast<float4*>(base + begin) + i;
}
__device__ __forceinline__ void add(float4& sum, const float4& term) {
  sum.x += term.x, sum.y += term.y, sum.z += term.z, sum.w += term.w;
}

/// Updates vectors first, first + kPeerThreads, ... (kUnroll of them), as far as they are in range. kRanks 0: the
/// number of ranks is known only at run time. kPlain: all are in range and none is in the front, so that no branch
/// separates the loads and all of them are in flight together.
template <int kRanks, int kUnroll, bool kPlain>
__device__ __forceinline__ void step_vectors(const PeerLaunch& p, const PeerUpdate& u, const AdamRule& rule,
                                             int64_t first, uint32_t (&changes)[3]) {
  constexpr int kHeld = kRanks > 0 ? kRanks : 1;
  const int num_ranks = kRanks > 0 ? kRanks : p.team.size;
  float4 g[kUnroll][kHeld], m[kUnroll], v[kUnroll], w[kUnroll];
  const auto each = [&](auto&& work) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (const int64_t i = first + k * kPeerThreads; kPlain || i < u.num_vectors) work(k, i);
  };
  // All loads before the first use: remote ones take microseconds.
#pragma unroll
  for (int r = 0; r < kHeld; ++r) each([&](int k, int64_t i) { g[k][r] = __ldcg(vector_at(p.grads[r], u.begin, i)); });
  each([&](int k, int64_t i) {
    m[k] = *vector_at(u.m, 0, i);
    v[k] = *vector_at(u.v, 0, i);
    w[k] = *vector_at(p.params[p.team.rank], u.begin, i);
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
      __stcg(vector_at(p.grads[p.team.rank], u.begin, i), sum);
    }
    step_and_count(rule, w[k], sum, m[k], v[k], rule.keep(u.adam, 4 * i), changes);
    *vector_at(u.m, 0, i) = m[k];
    *vector_at(u.v, 0, i) = v[k];
#pragma unroll
    for (int j = 0; j < num_ranks; ++j) {  // staggered, so that ranks write to different peers at a time
      const int to = p.team.rank + j < num_ranks ? p.team.rank + j : p.team.rank + j - num_ranks;
      __stcg(vector_at(p.params[to], u.begin, i), w[k]);
    }
  });
}

template <int kRanks, int kUnroll>
__global__ void __launch_bounds__(kPeerThreads, 1)
    peer_adam_kernel(const __grid_constant__ PeerLaunch p, const __grid_constant__ PeerUpdate u) {
  const uint64_t update = this_round(p.team);  // advanced by the last block to finish
  if (!arrive_and_wait(p.team, kEntered, update, blockIdx.x == 0)) {
    if (threadIdx.x == 0) set_broken(p.team);
    return;
  }
  if (u.num_vectors > 0) {
    const AdamRule rule(u.adam);
    uint32_t changes[3] = {};
    constexpr int64_t kTile = kPeerThreads * kUnroll;
    for (int64_t first = blockIdx.x * kTile; first < u.num_vectors; first += gridDim.x * kTile) {
      if (first >= u.front_vectors && first + kTile <= u.num_vectors)
        step_vectors<kRanks, kUnroll, true>(p, u, rule, first + threadIdx.x, changes);
      else
        step_vectors<kRanks, kUnroll, false>(p, u, rule, first + threadIdx.x, changes);
    }
    add_to_sums(u.adam.changes, changes);
  }

  __shared__ bool last_block;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();  // orders this block's writes before the count, so that the last block can arrive for all
    last_block = finish_block(p.team);
    __threadfence_system();
  }
  __syncthreads();
  if (!last_block) return;
  const bool left = !u.last || arrive_and_wait(p.team, kLeft, update, true);
  if (threadIdx.x != 0) return;
  advance(p.team, update);
  if (!left) set_broken(p.team);
}

using PeerKernel = void (*)(PeerLaunch, PeerUpdate);

// About eight remote loads in flight per thread.
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

class CudaPeerUpdater final : public PeerUpdater {
 public:
  CudaPeerUpdater(Device& device, const PeerMemory& memory)
      : memory_(memory), team_(CudaTeam::join(device, memory.flags, "an update of parameters")) {
    launch_.team = team_->view();
    for (size_t r = 0; r < memory.flags.base.size(); ++r) {
      launch_.params[r] = reinterpret_cast<float*>(memory.params.base[r]);
      launch_.grads[r] = reinterpret_cast<float*>(memory.grads.base[r]);
    }
  }

  void adam(Stream& stream, const PeerAdam& a) override {
    const auto vectors = [&](int64_t floats_end) { return std::max<int64_t>(0, floats_end - a.begin) / 4; };
    const PeerUpdate update{a.begin, vectors(a.end), vectors(a.front_end), a.adam.m, a.adam.v, adam_parameters(a.adam),
                            a.last};
    const DeviceSpec& spec = team_->device().spec();
    const int chosen = a.alone ? spec.sm_count : kBlocksBesideWork;
    const int wanted = a.num_blocks > 0 ? a.num_blocks : chosen;
    const unsigned blocks = std::min(num_blocks(update.num_vectors, kPeerThreads), static_cast<unsigned>(wanted));
    kernel_for(launch_.team.size)<<<blocks, kPeerThreads, 0, team_->use(stream)>>>(launch_, update);
    cuda_check(cudaGetLastError(), spec.index, "peer_adam_kernel");
  }

 private:
  const PeerMemory memory_;  // declared before the team, so that it outlives it
  const std::shared_ptr<CudaTeam> team_;
  PeerLaunch launch_{};
};

}  // namespace

std::unique_ptr<PeerUpdater> make_cuda_peer_updater(Device& device, const PeerMemory& memory) {
  return std::make_unique<CudaPeerUpdater>(device, memory);
}

void preload_peer_updates(int device_index) {
  preload(device_index, peer_adam_kernel<2, 4>, peer_adam_kernel<3, 2>, peer_adam_kernel<4, 2>, peer_adam_kernel<8, 1>,
          peer_adam_kernel<0, 4>);
}

}  // namespace amdahl
