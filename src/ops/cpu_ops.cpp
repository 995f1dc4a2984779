// The CPU families other than GEMMs, and the CPU Ops.
#include "ops/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/cpu_device.h"
#include "ops/cpu_half_ops.h"
#include "ops/cpu_losses.h"

namespace amdahl {
namespace {

enum class VectorSet { baseline, avx2, avx512 };

VectorSet best_vector_set() {
#if defined(__x86_64__)
  static const VectorSet best = [] {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return VectorSet::baseline;
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return has_avx512 ? VectorSet::avx512 : VectorSet::avx2;
  }();
  return best;
#else
  return VectorSet::baseline;
#endif
}

class CpuLossOps final : public LossOps {
 public:
  void mse_loss(Stream& stream, const MseLoss& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.mse_loss(a); });
  }
  void cross_entropy_loss(Stream& stream, const CrossEntropyLoss& a) override {
    as_cpu(stream).enqueue([a] { cpu_cross_entropy_loss(a); });
  }

 private:
  const CpuKernels& kernels_ = best_cpu_kernels();
};

class CpuOptimizerOps final : public OptimizerOps {
 public:
  void adam_step(Stream& stream, const AdamStep& a) override {
    as_cpu(stream).enqueue([this, a] {
      if (!skips(a.factors)) kernels_.adam_step(a, *a.step);
    });
  }
  void sgd_step(Stream& stream, const SgdStep& a) override {
    as_cpu(stream).enqueue([this, a] {
      if (!skips(a.factors)) kernels_.sgd_step(a);
    });
  }
  void sum_bits(Stream& stream, const float* values, int64_t n, uint32_t* sum) override {
    as_cpu(stream).enqueue([=] {
      for (int64_t i = 0; i < n; ++i) *sum += std::bit_cast<uint32_t>(values[i]);
    });
  }
  void set_rate(Stream& stream, const SetRate& a) override {
    as_cpu(stream).enqueue([a] { *a.rate = rate_of_step(a.plan, a.base, *a.step); });
  }
  void sum_of_squares(Stream& stream, const SumOfSquares& a) override {
    as_cpu(stream).enqueue([this, a] {
      const float sum = static_cast<float>(kernels_.sum_of_squares(a.values, a.n));
      *a.sum = a.accumulate ? *a.sum + sum : sum;
    });
  }
  void clip_scale(Stream& stream, const ClipScale& a) override {
    as_cpu(stream).enqueue([a] {
      *a.scale = a.loss_scale ? advance_loss_scale(*a.loss_scale, *a.sum, a.limit, kClipEpsilon)
                              : std::min(1.0f, a.limit / (std::sqrt(*a.sum) + kClipEpsilon));
    });
  }

 private:
  static bool skips(const StepFactors& factors) { return factors.skip && *factors.skip != 0.0f; }

  const CpuKernels& kernels_ = best_cpu_kernels();
};

class CpuElementwiseOps final : public ElementwiseOps {
 public:
  void bias_activation(Stream& stream, const BiasActivation& a) override {
    const DenseForward finish{nullptr, nullptr, a.bias, a.y, a.batch, 0, a.width, a.relu, a.mask, a.dropout};
    as_cpu(stream).enqueue(
        [this, finish] { kernels_.finish_forward(finish, finish.dropout.p > 0 ? *finish.dropout.step : 0); });
  }
  void mask_and_sum(Stream& stream, const MaskAndSum& a) override {
    const DenseBackwardInput finish{nullptr, nullptr, a.activation, a.dx,        a.dbias, a.batch,
                                    a.width, 0,       1.0f,         a.accumulate};
    as_cpu(stream).enqueue([this, finish] { kernels_.mask_and_column_sums(finish); });
  }
  void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                   int64_t width) override {
    as_cpu(stream).enqueue([=] { cpu_gather_rows(table, indices, out, rows, width); });
  }
  void sum_arrays(Stream& stream, const SumArrays& a) override {
    as_cpu(stream).enqueue([a] { cpu_sum_arrays(a); });
  }
  void increment(Stream& stream, uint64_t* counter, const float* unless) override {
    as_cpu(stream).enqueue([=] {
      if (!unless || *unless == 0.0f) ++*counter;
    });
  }

 private:
  const CpuKernels& kernels_ = best_cpu_kernels();
};

}  // namespace

const CpuKernels& best_cpu_kernels() {
  return best_vector_set() == VectorSet::baseline ? kCpuKernelsBaseline : kCpuKernelsAvx2;
}

const CpuSequenceKernels& best_cpu_sequence_kernels() {
  switch (best_vector_set()) {
    case VectorSet::avx512:
      return kCpuSequenceKernelsAvx512;
    case VectorSet::avx2:
      return kCpuSequenceKernelsAvx2;
    case VectorSet::baseline:
      break;
  }
  return kCpuSequenceKernelsBaseline;
}

const CpuConvKernels& best_cpu_conv_kernels() {
  return best_vector_set() == VectorSet::baseline ? kCpuConvKernelsBaseline : kCpuConvKernelsAvx2;
}

void require_f32(DType type, const char* what) {
  if (type != DType::f32)
    throw Error(Cause::internal,
                fmt::format("CPU virtual devices compute {} in f32, not in {}", what, to_string(type)));
}

std::unique_ptr<Ops> make_cpu_ops(Device& device, const OpsOptions& options) {
  if (options.math != MathMode::fp32 && options.math != MathMode::fp16)
    throw Error(Cause::usage,
                fmt::format("math mode {} needs a CUDA device; CPU virtual devices compute in fp32 and fp16",
                            to_string(options.math)),
                "`math=fp32`, or `backend=cuda`");
  Ops::Families families{.gemm = make_cpu_gemm_ops(),
                         .elementwise = std::make_unique<CpuElementwiseOps>(),
                         .loss = std::make_unique<CpuLossOps>(),
                         .optimizer = std::make_unique<CpuOptimizerOps>(),
                         .matmul = make_cpu_matmul_ops(),
                         .norm = make_cpu_norm_ops(),
                         .attention = make_cpu_attention_ops(),
                         .sequence = make_cpu_sequence_ops(),
                         .recurrent = make_cpu_recurrent_ops(),
                         .conv = make_cpu_conv_ops(),
                         .compression = make_cpu_compression_ops()};
  if (options.math == MathMode::fp16) use_half_precision(device, families);
  return std::make_unique<Ops>(std::move(families));
}

}  // namespace amdahl
