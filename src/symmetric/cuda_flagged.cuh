// Kernels whose data carry their flags (LL of NCCL): packets of 16 bytes, 8 of them data, and rounds without a barrier.
#pragma once

#include "device/cuda_launch_early.cuh"
#include "symmetric/cuda_symmetric.cuh"

namespace amdahl::symmetric_cuda {

template <class T>
__device__ __forceinline__ T* at(const TeamView& team, int rank, size_t offset) {
  return reinterpret_cast<T*>(team.base[rank] + offset);
}

/// A counter in this rank's device memory, so that replays of a graph go on counting. Every kernel of flagged messages,
/// or of those in lines, adds kRoundUnits, each of its blocks a share: the number of the running round is the same to
/// all blocks, and no block waits for another one.
struct FlaggedState {
  unsigned long long units;
};
inline constexpr unsigned kRoundUnits = 64;

/// A kernel that is launched before the previous one of its stream has ended waits here, and lets the next one be
/// launched, which then holds multiprocessors while this one waits for other ranks. Only one stream of a device may
/// have kernels that fill the device right after a collective: with two, ranks could keep each other's collectives out.
/// Nothing for kernels that are launched otherwise.
__device__ __forceinline__ void begin_after_previous() {
  wait_for_predecessor();
  let_successor_start();
}

__device__ __forceinline__ void store_sixteen(uint64_t* place, const uint64_t* words) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(place), "l"(words[0]), "l"(words[1]) : "memory");
}
__device__ __forceinline__ void load_sixteen(const uint64_t* place, uint64_t* words) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(place) : "memory");
}

/// The round of a kernel whose data carry their flags.
class FlaggedRound {
 public:
  __device__ FlaggedRound(const TeamView& team, size_t state)
      : team_(team),
        state_(at<FlaggedState>(team, team.rank, state)),
        number_(__ldcg(&state_->units) / kRoundUnits + 1) {}
  __device__ uint64_t number() const { return number_; }
  /// Ends this block's part. Called by all threads after a __syncthreads().
  __device__ void end(bool complete) const {
    if (threadIdx.x != 0) return;
    if (!complete) set_broken(team_);
    const unsigned share = kRoundUnits / gridDim.x, rest = kRoundUnits % gridDim.x;
    atomicAdd(&state_->units, static_cast<unsigned long long>(share + (blockIdx.x == 0 ? rest : 0)));
  }

 private:
  const TeamView& team_;
  FlaggedState* const state_;
  const uint64_t number_;
};

}  // namespace amdahl::symmetric_cuda
