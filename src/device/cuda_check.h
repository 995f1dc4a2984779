// Conversion of CUDA runtime codes to Errors.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace amdahl {

/// Throws unless `code` is cudaSuccess: Error{out_of_memory} for failed allocations, Error{environment_missing} for a
/// missing driver or device, else Error{device_error}. The message names GPU, call and location. The runtime's last
/// error is cleared, so that the next call does not report it again.
void cuda_check(cudaError_t code, int device_index, const char* call,
                std::source_location where = std::source_location::current());

/// An attribute of a GPU, by the runtime.
int cuda_attribute(int device_index, cudaDeviceAttr attribute);

}  // namespace amdahl
