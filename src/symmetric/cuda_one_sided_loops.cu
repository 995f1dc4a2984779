// Loops of one-sided operations as kernels.
#include <algorithm>

#include "device/cuda_check.h"
#include "symmetric/cuda_symmetric.cuh"
#include "symmetric/cuda_team.h"
#include "symmetric/one_sided_loops.h"

namespace amdahl {
namespace {

using namespace symmetric_cuda;

/// Bytes [begin, end) of a block.
struct LoopPart {
  size_t begin, end;
};
__device__ LoopPart part_of_block(size_t bytes) {
  constexpr size_t kGrain = 16;
  const size_t part = ((bytes + gridDim.x - 1) / gridDim.x + kGrain - 1) / kGrain * kGrain;
  const size_t begin = min(bytes, part * blockIdx.x);
  return {begin, min(bytes, begin + part)};
}

/// Copies bytes by the threads `thread` of `threads`: 16 at a time, then the rest. Both addresses are multiples of 16.
template <bool remote_source>
__device__ __forceinline__ void move(char* to, const char* from, size_t bytes, size_t thread, size_t threads) {
  constexpr int kUnroll = 8;  // loads under way: a remote one takes a microsecond
  const auto* source = reinterpret_cast<const uint4*>(from);
  auto* target = reinterpret_cast<uint4*>(to);
  const size_t whole = bytes / sizeof(uint4);
  for (size_t first = thread; first < whole; first += kUnroll * threads) {
    uint4 got[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (const size_t i = first + k * threads; i < whole) got[k] = remote_source ? __ldcg(source + i) : source[i];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (const size_t i = first + k * threads; i < whole) target[i] = got[k];
  }
  for (size_t i = whole * sizeof(uint4) + thread; i < bytes; i += threads)
    to[i] = static_cast<const volatile char*>(from)[i];
}
template <bool remote_source>
__device__ __forceinline__ void move(char* to, const char* from, size_t bytes) {
  move<remote_source>(to, from, bytes, threadIdx.x, blockDim.x);
}
/// 8 puts: of a warp or more each where the block has as many, else one after the other.
__device__ __forceinline__ void put_parts(char* to, const char* from, size_t bytes) {
  constexpr unsigned kParts = 8;
  const size_t piece = ((bytes + kParts - 1) / kParts + 15) / 16 * 16;
  const unsigned groups = blockDim.x >= kParts * warpSize ? kParts : 1, threads = blockDim.x / groups;
  if (threadIdx.x >= groups * threads) return;
  for (size_t part = threadIdx.x / threads; part < kParts; part += groups)
    if (const size_t done = part * piece; done < bytes)
      move<false>(to + done, from + done, min(piece, bytes - done), threadIdx.x % threads, threads);
}

__device__ Signal* loop_signal(const TeamView& team, const LoopCall& call, int of) {
  return reinterpret_cast<Signal*>(team.base[team.rank] + call.signals) + 2 * blockIdx.x + of;
}

/// Every block has a part of the data and signals of its own.
__device__ void ping_pong(const TeamView& team, const LoopCall& call, size_t bytes) {
  const int other = 1 - team.rank;
  const LoopPart part = part_of_block(bytes);
  char* const own = team.base[team.rank];
  Signal *mine = loop_signal(team, call, team.rank), *theirs = loop_signal(team, call, other);
  bool complete = true;
  for (int64_t i = 1; i <= call.times && complete; ++i) {
    const uint64_t value = call.first_signal + static_cast<uint64_t>(i);
    const auto wait = [&] { return __syncthreads_and(threadIdx.x != 0 || wait_until(team, mine, value, other)) != 0; };
    if (team.rank == 1) complete = wait();
    if (!complete) break;
    move<false>(peer(team, own + call.inbox, other) + part.begin, own + call.outbox + part.begin,
                part.end - part.begin);
    __syncthreads();
    if (threadIdx.x == 0) store_release(peer(team, theirs, other), value);
    if (team.rank == 0) complete = wait();
  }
  if (!complete && threadIdx.x == 0) set_broken(team);
}

__global__ void __launch_bounds__(kMostLoopThreads)
    run_ping_pong(const __grid_constant__ TeamView team, const __grid_constant__ LoopCall call, size_t bytes) {
  if (team.rank < 2 && __syncthreads_and(!is_broken(team))) ping_pong(team, call, bytes);
}

/// As ping_pong, in packets.
__global__ void __launch_bounds__(kMostLoopThreads)
    run_packets(const __grid_constant__ TeamView team, const __grid_constant__ LoopCall call) {
  if (team.rank > 1 || !__syncthreads_and(!is_broken(team))) return;
  const int other = 1 - team.rank;
  const LoopPart part = part_of_block(call.bytes);
  const size_t bytes = part.end - part.begin;
  char* const own = team.base[team.rank];
  auto* packets = reinterpret_cast<uint64_t*>(own + call.packets) + 2 * (part.begin / sizeof(uint64_t));
  bool complete = true;
  for (int64_t i = 1; i <= call.times && complete; ++i) {
    const auto flag = static_cast<uint32_t>((call.first_signal + static_cast<uint64_t>(i)) % 0xffffffffu) + 1;
    const auto take = [&] { return take_packets(team, packets, own + call.inbox + part.begin, bytes, flag, other); };
    if (team.rank == 1) complete = take();
    if (!complete) break;
    put_packets(team, packets, own + call.outbox + part.begin, bytes, flag, other);
    if (team.rank == 0) complete = take();
  }
  if (!complete && threadIdx.x == 0) set_broken(team);
}

__global__ void __launch_bounds__(kMostLoopThreads)
    run_transfers(const __grid_constant__ TeamView team, const __grid_constant__ LoopCall call) {
  if (team.rank != 0) return;
  char* const own = team.base[0];
  const LoopPart part = part_of_block(call.bytes);
  char* const out = own + call.outbox + part.begin;
  char* const in = own + call.inbox + part.begin;
  const size_t bytes = part.end - part.begin;
  for (int64_t i = 0; i < call.times; ++i) {
    if (call.kind == LoopKind::get) {
      move<true>(in, peer(team, out, 1), bytes);
      __syncthreads();  // the data have come
      continue;
    }
    if (call.kind == LoopKind::put_quiet)
      put_parts(peer(team, in, 1), out, bytes);
    else
      move<false>(peer(team, in, 1), out, bytes);
    __syncthreads();
    if (threadIdx.x == 0) call.kind == LoopKind::put_fence ? fence() : quiet();
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kMostLoopThreads)
    run_additions(const __grid_constant__ TeamView team, const __grid_constant__ LoopCall call) {
  auto* counter = reinterpret_cast<uint64_t*>(team.base[team.rank] + call.counter);
  const bool contended = call.kind == LoopKind::contended_add;
  if (!contended && team.rank != 0) return;
  uint64_t last = 0;
  // Each addition waits for the one before: its value depends on it, and is always 1.
  for (int64_t i = 0; i < call.times; ++i) last = fetch_add(team, counter, 1 + (last >> 63), contended ? 0 : 1);
}

__global__ void __launch_bounds__(kMostLoopThreads)
    run_barriers(const __grid_constant__ TeamView team, const __grid_constant__ LoopCall call) {
  for (int64_t i = 0; i < call.times; ++i)
    if (!barrier(team)) return;
}

class CudaOneSidedLoops final : public OneSidedLoops {
 public:
  CudaOneSidedLoops(Device& device, const SymmetricMemory& memory)
      : team_(CudaTeam::join(device, memory, "a signal or barrier")) {
    cudaFuncAttributes attributes{};  // loads the kernels before any rank waits in one
    for (const void* kernel :
         {reinterpret_cast<const void*>(run_ping_pong), reinterpret_cast<const void*>(run_transfers),
          reinterpret_cast<const void*>(run_additions), reinterpret_cast<const void*>(run_barriers),
          reinterpret_cast<const void*>(run_packets)})
      cuda_check(cudaFuncGetAttributes(&attributes, kernel), index(), "cudaFuncGetAttributes");
  }

  void enqueue(Stream& stream, const LoopCall& call) override {
    cudaStream_t on = team_->use(stream);
    const int threads = std::max(call.threads, 32), blocks = std::min(call.blocks, kMostLoopBlocks);
    switch (call.kind) {
      case LoopKind::put_signal:
        run_ping_pong<<<blocks, threads, 0, on>>>(team_->view(), call, call.bytes);
        break;
      case LoopKind::put_packets:
        run_packets<<<blocks, threads, 0, on>>>(team_->view(), call);
        break;
      case LoopKind::signal:
        run_ping_pong<<<1, 32, 0, on>>>(team_->view(), call, 0);
        break;
      case LoopKind::fetch_add:
      case LoopKind::contended_add:
        run_additions<<<1, 1, 0, on>>>(team_->view(), call);
        break;
      case LoopKind::barrier:
        run_barriers<<<1, 32, 0, on>>>(team_->view(), call);
        break;
      default:
        run_transfers<<<blocks, threads, 0, on>>>(team_->view(), call);
    }
    cuda_check(cudaGetLastError(), index(), "a loop of one-sided operations");
  }
  void abort() noexcept override { team_->end_waits(); }

 private:
  int index() const { return team_->device().spec().index; }
  std::shared_ptr<CudaTeam> team_;
};

}  // namespace

std::unique_ptr<OneSidedLoops> make_cuda_one_sided_loops(Device& device, const SymmetricMemory& memory) {
  return std::make_unique<CudaOneSidedLoops>(device, memory);
}

}  // namespace amdahl
