// Launch shapes and checks shared by the .cu files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nv/target>

#include "device/cuda_check.h"
#include "ops/cuda_kernels.h"

namespace amdahl {

inline constexpr int kThreads = 256;

inline bool aligned16(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

inline unsigned num_blocks(int64_t work, int64_t per_block) {
  return static_cast<unsigned>(std::max<int64_t>(1, (work + per_block - 1) / per_block));
}

/// Blocks of a grid-stride loop over `work` items: one item a thread while that fits the chip, else every SM full.
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

// Kernels of launch_early begin while their predecessor in the stream ends, which hides the gap between them. They call
// wait_for_predecessor before they touch anything that earlier work wrote or reads, and let_successor_start so that the
// successor is brought onto the chip: it waits for this kernel's end itself. Chips before Hopper start them one after
// the other, and have no such instructions.
__device__ __forceinline__ void wait_for_predecessor() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}
__device__ __forceinline__ void let_successor_start() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}

/// Blocks, threads a block, bytes of dynamic shared memory a block.
struct LaunchShape {
  dim3 blocks;
  unsigned threads;
  size_t shared_bytes;
};

template <class... Parameters, class... Arguments>
void launch_early_shared(const KernelLaunch& launch, const LaunchShape& shape, void (*kernel)(Parameters...),
                         const char* name, Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = launch.early ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), launch.device_index, name);
}

template <class... Parameters, class... Arguments>
void launch_early(const KernelLaunch& launch, unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
                  const char* name, Arguments... arguments) {
  launch_early_shared(launch, {blocks, threads, 0}, kernel, name, arguments...);
}

/// Asking for a kernel's attributes loads its code.
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
