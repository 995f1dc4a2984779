// The one place where CUDA runtime codes become Errors.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace amdahl {

/// Throws for anything but cudaSuccess: Error{out_of_memory} for failed allocations, Error{environment_missing} for a
/// missing driver or device, Error{device_error} else. The message names GPU, call and location; the runtime's last
/// error is cleared, so that a handled failure does not come back at the next call.
void cuda_check(cudaError_t code, int device_index, const char* call,
                std::source_location where = std::source_location::current());

/// What the runtime says of a GPU.
int cuda_attribute(int device_index, cudaDeviceAttr attribute);

}  // namespace amdahl
