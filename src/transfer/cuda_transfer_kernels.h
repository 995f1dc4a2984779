// Kernels of CUDA transfers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "transfer/pattern.h"

namespace amdahl {

struct TransferLaunch {
  cudaStream_t stream;
  int device_index;
  int num_sms;
};

void launch_copy(const TransferLaunch& launch, void* destination, const void* source, size_t bytes, int times);
void launch_write_pattern(const TransferLaunch& launch, void* destination, size_t bytes, Pattern pattern, uint64_t seed,
                          bool complement);
/// Adds to `fault`, device memory.
void launch_check_pattern(const TransferLaunch& launch, const void* data, size_t bytes, Pattern pattern, uint64_t seed,
                          PatternFault* fault);
/// Follows `accesses` pointers from `chain`, in block `block` of a grid with one block per SM.
void launch_chase(const TransferLaunch& launch, const void* chain, int accesses, int block, uint64_t* last);
/// Waits until *open is not 0, at most `timeout_ns`.
void launch_hold(const TransferLaunch& launch, const int* open, uint64_t timeout_ns);

}  // namespace amdahl
