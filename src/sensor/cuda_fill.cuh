// Filling device memory while a kernel does something else: bulk copies out of shared memory, which need no registers
// and few instructions.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace amdahl::sensor_cuda {

/// `bytes` of words of one value from `to` on, all multiples of 4; none where bytes is 0.
struct Fill {
  char* to;
  int64_t bytes;
  uint32_t word;
};

constexpr int kFillBytes = 2048;  // of a bulk copy

/// Starts the grid's filling: every block fills its pieces. Called by all threads; `pattern` is theirs until the kernel
/// has ended its bulk copies (end_fill).
__device__ inline void start_fill(const Fill& fill, uint4 (&pattern)[kFillBytes / sizeof(uint4)]) {
  if (fill.bytes == 0) return;
  const bool aligned = reinterpret_cast<uintptr_t>(fill.to) % sizeof(uint4) == 0;
  const int64_t bulk = aligned ? fill.bytes / static_cast<int64_t>(sizeof(uint4)) * sizeof(uint4) : 0;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = bulk / 4 + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < fill.bytes / 4;
       at += threads)
    reinterpret_cast<uint32_t*>(fill.to)[at] = fill.word;
  for (unsigned i = threadIdx.x; i < kFillBytes / sizeof(uint4); i += blockDim.x)
    pattern[i] = make_uint4(fill.word, fill.word, fill.word, fill.word);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(pattern));
  for (int64_t at = (static_cast<int64_t>(threadIdx.x) * gridDim.x + blockIdx.x) * kFillBytes; at < bulk;
       at += int64_t{32} * gridDim.x * kFillBytes) {
    const auto bytes = static_cast<unsigned>(min(bulk - at, static_cast<int64_t>(kFillBytes)));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(fill.to + at), "r"(from),
                 "r"(bytes)
                 : "memory");
  }
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Before a block ends: shared memory must stay until it has been read. What was written is there when the kernel ends.
__device__ inline void end_fill() {
  if (threadIdx.x < 32) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace amdahl::sensor_cuda
