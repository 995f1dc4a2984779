// Recurrent layers on the CPU whose units are divided among ranks.
#pragma once

#include <memory>

#include "ops/recurrent/cpu_recurrent_kernels.h"
#include "ops/recurrent/recurrent_ops.h"

namespace amdahl {

std::unique_ptr<RecurrentShardOps> make_cpu_recurrent_shards(const CpuRecurrentKernels& kernels);

}  // namespace amdahl
