#include <algorithm>

#include "device/cuda_check.h"
#include "transfer/cuda_transfer_kernels.h"

namespace amdahl {
namespace {

constexpr int kThreads = 512;
constexpr int kInFlight = 8;  // 16-byte loads that a thread issues before it stores the first

__device__ __forceinline__ size_t thread_index() { return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ size_t thread_count() { return static_cast<size_t>(gridDim.x) * blockDim.x; }

// Remote memory has a latency of about a microsecond, which loads in flight must hide: every thread issues kInFlight of
// them before it waits for the first. A load of a warp covers 512 contiguous bytes.
__global__ void __launch_bounds__(kThreads)
    copy_vectors(uint4* destination, const uint4* source, size_t count, int times) {
  const size_t first = thread_index(), threads = thread_count();
  for (int round = 0; round < times; ++round) {
    size_t at = first;
    for (; at + (kInFlight - 1) * threads < count; at += kInFlight * threads) {
      uint4 block[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) block[i] = source[at + i * threads];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) destination[at + i * threads] = block[i];
    }
    for (; at < count; at += threads) destination[at] = source[at];
  }
}

__global__ void copy_bytes(char* destination, const char* source, size_t bytes, int times) {
  for (int round = 0; round < times; ++round)
    for (size_t at = thread_index(); at < bytes; at += thread_count()) destination[at] = source[at];
}

__global__ void write_pattern(uint8_t* destination, size_t bytes, Pattern pattern, uint64_t seed, bool complement) {
  const uint64_t flip = complement ? ~uint64_t{0} : 0;
  const bool aligned = reinterpret_cast<uintptr_t>(destination) % 8 == 0;
  for (size_t word = thread_index(); word * 8 < bytes; word += thread_count()) {
    const uint64_t value = pattern_word(pattern, seed, word) ^ flip;
    if (aligned && word * 8 + 8 <= bytes) {
      reinterpret_cast<uint64_t*>(destination)[word] = value;
      continue;
    }
    for (size_t i = 0; i < 8 && word * 8 + i < bytes; ++i)
      destination[word * 8 + i] = static_cast<uint8_t>(value >> (i * 8));
  }
}

__device__ void add_fault(PatternFault* all, const PatternFault& own) {
  using Counter = unsigned long long;
  atomicAdd(reinterpret_cast<Counter*>(&all->bad_bytes), static_cast<Counter>(own.bad_bytes));
  atomicMin(reinterpret_cast<Counter*>(&all->first_offset), static_cast<Counter>(own.first_offset));
  atomicAdd(reinterpret_cast<Counter*>(&all->zero_bytes), static_cast<Counter>(own.zero_bytes));
  atomicAdd(reinterpret_cast<Counter*>(&all->stale_bytes), static_cast<Counter>(own.stale_bytes));
}

__global__ void check_pattern(const uint8_t* data, size_t bytes, Pattern pattern, uint64_t seed, PatternFault* fault) {
  PatternFault own;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 8 == 0;
  for (size_t word = thread_index(); word * 8 < bytes; word += thread_count()) {
    const uint64_t wanted = pattern_word(pattern, seed, word);
    const bool whole = aligned && word * 8 + 8 <= bytes;
    if (whole && reinterpret_cast<const uint64_t*>(data)[word] == wanted) continue;
    for (size_t i = 0; i < 8 && word * 8 + i < bytes; ++i)
      judge_byte(own, word * 8 + i, static_cast<uint8_t>(wanted >> (i * 8)), data[word * 8 + i]);
  }
  if (own.bad_bytes > 0) add_fault(fault, own);
}

__global__ void chase(const uint64_t* chain, int accesses, unsigned block, uint64_t* last) {
  if (blockIdx.x != block) return;
  const uint64_t* at = chain;
  for (int i = 0; i < accesses; ++i) at = reinterpret_cast<const uint64_t*>(*at);
  *last = reinterpret_cast<uint64_t>(at);  // keeps the compiler from removing the walk
}

__global__ void hold(const int* open, uint64_t timeout_ns) {
  uint64_t start = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*static_cast<const volatile int*>(open) == 0 && now - start < timeout_ns);
}

unsigned blocks_for(const TransferLaunch& launch, size_t work, int blocks_per_sm) {
  const size_t wanted = (work + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<size_t>(wanted, 1, static_cast<size_t>(launch.num_sms) * blocks_per_sm));
}

void check_launch(const TransferLaunch& launch, const char* kernel) {
  cuda_check(cudaGetLastError(), launch.device_index, kernel);
}

}  // namespace

void launch_copy(const TransferLaunch& launch, void* destination, const void* source, size_t bytes, int times) {
  const uintptr_t both = reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source) | bytes;
  if (both % sizeof(uint4) == 0) {
    const size_t count = bytes / sizeof(uint4);
    copy_vectors<<<blocks_for(launch, count, 1), kThreads, 0, launch.stream>>>(
        static_cast<uint4*>(destination), static_cast<const uint4*>(source), count, times);
  } else {
    copy_bytes<<<blocks_for(launch, bytes, 2), kThreads, 0, launch.stream>>>(
        static_cast<char*>(destination), static_cast<const char*>(source), bytes, times);
  }
  check_launch(launch, "copy kernel");
}

void launch_write_pattern(const TransferLaunch& launch, void* destination, size_t bytes, Pattern pattern, uint64_t seed,
                          bool complement) {
  write_pattern<<<blocks_for(launch, (bytes + 7) / 8, 4), kThreads, 0, launch.stream>>>(
      static_cast<uint8_t*>(destination), bytes, pattern, seed, complement);
  check_launch(launch, "write_pattern");
}

void launch_check_pattern(const TransferLaunch& launch, const void* data, size_t bytes, Pattern pattern, uint64_t seed,
                          PatternFault* fault) {
  check_pattern<<<blocks_for(launch, (bytes + 7) / 8, 4), kThreads, 0, launch.stream>>>(
      static_cast<const uint8_t*>(data), bytes, pattern, seed, fault);
  check_launch(launch, "check_pattern");
}

void launch_chase(const TransferLaunch& launch, const void* chain, int accesses, int block, uint64_t* last) {
  chase<<<static_cast<unsigned>(launch.num_sms), 1, 0, launch.stream>>>(static_cast<const uint64_t*>(chain), accesses,
                                                                        static_cast<unsigned>(block), last);
  check_launch(launch, "chase");
}

void launch_hold(const TransferLaunch& launch, const int* open, uint64_t timeout_ns) {
  hold<<<1, 1, 0, launch.stream>>>(open, timeout_ns);
  check_launch(launch, "hold");
}

}  // namespace amdahl
