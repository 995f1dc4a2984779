// Launches of cuda_compression.cu.
#pragma once

#include "ops/cuda_kernels.h"

namespace amdahl {

void launch_round(const KernelLaunch& launch, const RoundValues& a);
void launch_compress_int8(const KernelLaunch& launch, const CompressValues& a);
void launch_sum_int8(const KernelLaunch& launch, const SumMessages& a);
void launch_compress_topk(const KernelLaunch& launch, const CompressValues& a);
void launch_sum_topk(const KernelLaunch& launch, const SumMessages& a);

}  // namespace amdahl
