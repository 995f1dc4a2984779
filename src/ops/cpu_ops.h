// Building blocks of the CPU Ops families.
#pragma once

#include <memory>

#include "ops/conv/cpu_conv_kernels.h"
#include "ops/cpu_kernels.h"
#include "ops/ops.h"
#include "ops/sequence/cpu_sequence_kernels.h"

namespace amdahl {

/// The kernels for the best instruction set that this CPU supports.
const CpuKernels& best_cpu_kernels();
const CpuSequenceKernels& best_cpu_sequence_kernels();
const CpuConvKernels& best_cpu_conv_kernels();
/// Throws Error{internal} for another type than f32; `what`: the operations, in plural, for the message.
void require_f32(DType type, const char* what);
/// Throws Error{environment_missing} in a build without oneDNN.
std::unique_ptr<GemmOps> make_cpu_gemm_ops();
std::unique_ptr<MatMulOps> make_cpu_matmul_ops();
std::unique_ptr<AttentionOps> make_cpu_attention_ops();
std::unique_ptr<RecurrentOps> make_cpu_recurrent_ops();
std::unique_ptr<ConvOps> make_cpu_conv_ops();
std::unique_ptr<NormOps> make_cpu_norm_ops();
std::unique_ptr<SequenceOps> make_cpu_sequence_ops();
std::unique_ptr<CompressionOps> make_cpu_compression_ops();

}  // namespace amdahl
