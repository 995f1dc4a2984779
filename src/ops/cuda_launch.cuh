// Launch shapes and checks shared by the .cu files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cuda_launch_early.cuh"
#include "ops/cuda_kernels.h"

namespace amdahl {

inline constexpr int kThreads = 256;

inline bool aligned16(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

inline unsigned num_blocks(int64_t work, int64_t per_block) {
  return static_cast<unsigned>(std::max<int64_t>(1, (work + per_block - 1) / per_block));
}

/// Blocks of a grid-stride loop over `work` items: one item per thread while that fits the GPU, else the blocks that
/// fill every SM.
inline unsigned streaming_blocks(const KernelLaunch& launch, int64_t work, int blocks_per_sm = 2048 / kThreads) {
  return std::min(num_blocks(work, kThreads), static_cast<unsigned>(launch.num_sms * blocks_per_sm));
}

inline void check_launch(const KernelLaunch& launch, const char* kernel) {
  cuda_check(cudaGetLastError(), launch.device_index, kernel);
}

__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t thread_count() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Launches a kernel that may start before its predecessor ends (device/cuda_launch_early.cuh).
template <class... Parameters, class... Arguments>
void launch_early_shared(const KernelLaunch& launch, const LaunchShape& shape, void (*kernel)(Parameters...),
                         const char* name, Arguments... arguments) {
  launch_on({launch.stream, launch.device_index, launch.early}, shape, kernel, name, arguments...);
}

template <class... Parameters, class... Arguments>
void launch_early(const KernelLaunch& launch, unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
                  const char* name, Arguments... arguments) {
  launch_early_shared(launch, {blocks, threads, 0}, kernel, name, arguments...);
}

/// Loads the kernels' code: querying a kernel's attributes does.
template <class... Kernels>
void preload(int device_index, Kernels*... kernels) {
  cudaFuncAttributes attributes{};
  (cuda_check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernels)), device_index,
              "cudaFuncGetAttributes"),
   ...);
}

void preload_elementwise(int device_index);
void preload_sums(int device_index);
void preload_optimizers(int device_index);
void preload_small_backward(int device_index);
void preload_peer_updates(int device_index);

}  // namespace amdahl
