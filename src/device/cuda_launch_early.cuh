// Programmatic dependent launch: a kernel starts while its predecessor in the stream ends, which hides the gap between
// them.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include "device/cuda_check.h"

namespace amdahl {

// Such a kernel calls wait_for_predecessor before it reads or writes memory that earlier work uses, and
// let_successor_start to let its successor be scheduled, which then waits for the end of this kernel itself. GPUs
// before Hopper lack these instructions and run the kernels one after another.
__device__ __forceinline__ void wait_for_predecessor() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}
__device__ __forceinline__ void let_successor_start() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}

/// Grid, threads per block, bytes of dynamic shared memory per block.
struct LaunchShape {
  dim3 blocks;
  unsigned threads;
  size_t shared_bytes;
};

/// Stream and device of a launch, and whether the GPU supports early starts.
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
