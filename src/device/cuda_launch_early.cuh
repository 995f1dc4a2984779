// Launches of kernels that begin while their predecessor in the stream ends, which hides the gap between them.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include "device/cuda_check.h"

namespace amdahl {

// Such kernels call wait_for_predecessor before they touch anything that earlier work wrote or reads, and
// let_successor_start so that the successor is brought onto the chip: it waits for this kernel's end itself. Chips
// before Hopper start them one after the other, and have no such instructions.
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

/// Where, and whether the chip can start kernels early.
struct LaunchPlace {
  cudaStream_t stream;
  int device_index;
  bool early;
};

template <class... Parameters, class... Arguments>
void launch_on(const LaunchPlace& place, const LaunchShape& shape, void (*kernel)(Parameters...), const char* name,
               Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = place.stream;
  config.attrs = &attribute;
  config.numAttrs = place.early ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), place.device_index, name);
}

}  // namespace amdahl
