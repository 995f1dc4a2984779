// Dense layers on CUDA: cuBLASLt for GEMMs, own kernels for few rows. The faster of fused and separate kernels is
// chosen by timing.
#include "ops/cuda_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "device/cuda_stream.h"
#include "ops/cuda_method_choices.h"
#include "ops/cuda_ops.h"
#include "ops/gemm/cuda_mask_probe.h"
#include "ops/gemm/cuda_small.h"

namespace amdahl {
namespace {

class CudaGemmOps final : public GemmOps {
 public:
  explicit CudaGemmOps(std::shared_ptr<CudaContext> context)
      : context_(std::move(context)), gemm_(context_->gemm()), choices_(context_) {
    if (context_->options().deterministic) return;
    StreamMemory& memory = context_->tuner_memory();
    masks_ = probe_masks(context_->tuner(), gemm_, memory.launch, memory.workspace);
  }

  int64_t mask_bytes(int64_t batch, int64_t width) const override {
    return masks_.backward ? batch * mask_row_bits(width) / 8 : 0;
  }
  void dense_forward(Stream& stream, const DenseForward& a) override;
  void dense_backward_input(Stream& stream, const DenseBackwardInput& a) override;
  void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) override;
  void dense_backward(Stream& stream, const DenseBackwardWeight& weight, const DenseBackwardInput* input) override;
  bool fuses_update(int64_t batch, int64_t in, int64_t out) const override {
    return context_->has_small_kernels() &&
           small_update_applies(context_->options().math, context_->sm_count(), batch, in, out);
  }
  void dense_backward_update(Stream& stream, const DenseBackwardWeight& weight, const AdamStep& adam) override;
  bool fuses_backward(int64_t batch) const override { return small_applies(batch, 1, 1); }

  const std::vector<std::string>& choices() const { return context_->choices(); }

 private:
  /// Gives the same answer for forward and backward of a layer.
  bool small_applies(int64_t batch, int64_t in, int64_t out) const {
    return context_->has_small_kernels() && small_dense_applies(context_->options().math, batch, in, out);
  }
  /// As MethodChoices::choose where `fused_works`, else separate.
  template <class Run>
  Method choose(Stream& stream, const ProductKey& key, bool fused_works, int64_t scratch_floats, const Run& run);
  void gemm(const StreamMemory& memory, const GemmCall& call, bool may_tune) {
    gemm_.run(memory.launch, memory.workspace, call, may_tune);
  }

  std::shared_ptr<CudaContext> context_;
  CudaGemm& gemm_;
  MaskSupport masks_;
  MethodChoices<ProductKey> choices_;
};

template <class Run>
Method CudaGemmOps::choose(Stream& stream, const ProductKey& key, bool fused_works, int64_t scratch_floats,
                           const Run& run) {
  // Checked first, because support depends on the pointers' alignment, which is not in the key.
  if (!fused_works) return Method::separate;
  return choices_.choose(stream, key, static_cast<size_t>(scratch_floats) * sizeof(float), run);
}

// Row-major y[B,O] = x[B,I] w[O,I]^T is column-major y(O,B) = w(I,O)^T x(I,B).
void CudaGemmOps::dense_forward(Stream& stream, const DenseForward& a) {
  if (small_applies(a.batch, a.in, a.out))
    return launch_small_forward(context_->begin(stream).launch, context_->options().math, a);
  if (a.dropout.p > 0) {  // the mask describes the output after dropout, so the dropout kernel writes it
    DenseForward product = a;
    product.mask = nullptr;
    product.dropout = {};
    dense_forward(stream, product);
    launch_dropout(context_->begin(stream).launch, a);
    return;
  }
  StreamMemory& own = context_->begin(stream);
  const Epilogue plain =
      a.relu ? (a.bias ? Epilogue::relu_bias : Epilogue::relu) : (a.bias ? Epilogue::bias : Epilogue::none);
  const bool mask = a.relu && a.mask;
  const Epilogue fused = !mask ? plain : (a.bias ? Epilogue::relu_bias_mask : Epilogue::relu_mask);
  const auto call_for = [&](Epilogue epilogue, float* y, uint8_t* mask_out) {
    GemmCall call{{a.out, a.batch, a.in, true, false, epilogue, false}, a.w, a.x, y};
    call.vector = epilogue == Epilogue::none || epilogue == Epilogue::relu ? nullptr : a.bias;
    call.aux = epilogue == fused ? mask_out : nullptr;
    return call;
  };
  const int64_t y_floats = (a.batch * a.out + 63) / 64 * 64;
  const auto run = [&](Method method, const StreamMemory& memory, float* scratch, bool may_tune) {
    float* y = scratch ? scratch : a.y;
    uint8_t* mask_out = !mask ? nullptr : scratch ? reinterpret_cast<uint8_t*>(scratch + y_floats) : a.mask;
    if (method == Method::fused) return gemm(memory, call_for(fused, y, mask_out), may_tune);
    // Even without a mask epilogue, the GEMM can apply bias and relu where cuBLASLt supports that.
    const bool product_finishes = gemm_.supports(call_for(plain, y, nullptr));
    gemm(memory, call_for(product_finishes ? plain : Epilogue::none, y, nullptr), may_tune);
    if (mask || !product_finishes)
      launch_bias_relu(memory.launch, y, product_finishes ? nullptr : a.bias, a.relu, mask_out, a.batch, a.out);
  };
  const bool fused_works = (!mask || masks_.forward) && gemm_.supports(call_for(fused, a.y, mask ? a.mask : nullptr));
  const ProductKey key{Product::forward, a.batch, a.in, a.out, a.relu, a.bias != nullptr, mask, false};
  const bool may_tune = !is_capturing(stream);
  // Bias and relu alone are never slower when fused: only a mask needs timing.
  const Method method = mask ? choose(stream, key, fused_works, y_floats + a.batch * mask_row_bits(a.out) / 32, run)
                             : (fused_works ? Method::fused : Method::separate);
  run(method, own, nullptr, may_tune);
}

// Row-major dx[B,I] = dy[B,O] w[O,I] is column-major dx(I,B) = w(I,O) dy(O,B).
void CudaGemmOps::dense_backward_input(Stream& stream, const DenseBackwardInput& a) {
  if (small_applies(a.batch, a.in, a.out))
    return launch_small_backward(context_->begin(stream).launch, context_->options().math, nullptr, &a);
  StreamMemory& own = context_->begin(stream);
  const uint8_t* mask = a.activation ? a.mask : nullptr;
  const bool masked = a.activation != nullptr;
  const Epilogue fused = a.dbias ? Epilogue::masked_sum : Epilogue::masked;
  // The epilogue overwrites its sums, so accumulated sums go through scratch memory.
  const bool detour = a.dbias && a.accumulate;
  const auto call_for = [&](Epilogue epilogue, float* dx, float* sums) {
    GemmCall call{{a.in, a.batch, a.out, false, false, epilogue, false}, a.w, a.dy, dx, a.scale};
    if (epilogue != Epilogue::none) call.aux = mask, call.vector = sums;
    return call;
  };
  const auto run = [&](Method method, const StreamMemory& memory, float* scratch, bool may_tune) {
    float* dx = scratch ? scratch : a.dx;
    float* dbias = !a.dbias ? nullptr : scratch ? scratch + (a.batch * a.in + 63) / 64 * 64 : a.dbias;
    if (method == Method::fused) {
      gemm(memory, call_for(fused, dx, detour ? memory.launch.scratch.temp : dbias), may_tune);
      if (detour) launch_add(memory.launch, dbias, memory.launch.scratch.temp, a.in);
      return;
    }
    gemm(memory, call_for(Epilogue::none, dx, nullptr), may_tune);
    if (masked || dbias)
      launch_mask_and_sum(memory.launch, {dx, a.activation, mask, dbias, a.batch, a.in, a.accumulate});
  };
  const bool fused_works = masks_.backward && masked && mask && a.in <= KernelScratch::kTempFloats &&
                           gemm_.supports(call_for(fused, a.dx, detour ? own.launch.scratch.temp : a.dbias));
  const ProductKey key{Product::backward_input, a.batch,         a.in,        a.out, masked,
                       a.dbias != nullptr,      mask != nullptr, a.accumulate};
  const Method method = choose(stream, key, fused_works, (a.batch * a.in + 63) / 64 * 64 + a.in, run);
  run(method, own, nullptr, !is_capturing(stream));
}

// Row-major dw[O,I] = dy[B,O]^T x[B,I] is column-major dw(I,O) = x(I,B) dy(O,B)^T.
void CudaGemmOps::dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) {
  if (a.dbias && a.dy_stride != 0 && a.dy_stride != a.out)
    throw Error(Cause::internal, "sums over a part of dy are not supported: take them with the whole layer");
  if (small_applies(a.batch, a.in, a.out))
    return launch_small_backward(context_->begin(stream).launch, context_->options().math, &a, nullptr);
  StreamMemory& own = context_->begin(stream);
  const bool detour = a.dbias && a.accumulate;
  const auto call_for = [&](Epilogue epilogue, float* dw, float* sums) {
    GemmCall call{{a.in, a.out, a.batch, false, true, epilogue, a.accumulate}, a.x, a.dy, dw};
    if (epilogue != Epilogue::none) call.vector = sums;
    call.problem.stride_b = a.dy_stride;
    if (a.reserved_sms > 0) call.problem.num_sms = std::max(1, context_->sm_count() - a.reserved_sms);
    return call;
  };
  const auto run = [&](Method method, const StreamMemory& memory, float* scratch, bool may_tune) {
    float* dw = scratch ? scratch : a.dw;
    float* dbias = !a.dbias ? nullptr : scratch ? scratch + (a.in * a.out + 63) / 64 * 64 : a.dbias;
    if (method == Method::fused) {
      gemm(memory, call_for(Epilogue::sum_b, dw, detour ? memory.launch.scratch.temp : dbias), may_tune);
      if (detour) launch_add(memory.launch, dbias, memory.launch.scratch.temp, a.out);
      return;
    }
    gemm(memory, call_for(Epilogue::none, dw, nullptr), may_tune);
    if (dbias)  // no mask, so dy is only read
      launch_mask_and_sum(memory.launch,
                          {const_cast<float*>(a.dy), nullptr, nullptr, dbias, a.batch, a.out, a.accumulate});
  };
  const bool fused_works = masks_.weight_sums && a.dbias && a.out <= KernelScratch::kTempFloats &&
                           gemm_.supports(call_for(Epilogue::sum_b, a.dw, detour ? own.launch.scratch.temp : a.dbias));
  const ProductKey key{Product::backward_weight, a.batch, a.in, a.out, false, a.dbias != nullptr, false, a.accumulate};
  const Method method = choose(stream, key, fused_works, (a.in * a.out + 63) / 64 * 64 + a.out, run);
  run(method, own, nullptr, !is_capturing(stream));
}

void CudaGemmOps::dense_backward(Stream& stream, const DenseBackwardWeight& weight, const DenseBackwardInput* input) {
  const bool one_dy = !input || (input->dy == weight.dy && input->batch == weight.batch && input->in == weight.in &&
                                 input->out == weight.out && (weight.dy_stride == 0 || weight.dy_stride == weight.out));
  if (!one_dy || !small_applies(weight.batch, weight.in, weight.out))
    return GemmOps::dense_backward(stream, weight, input);
  launch_small_backward(context_->begin(stream).launch, context_->options().math, &weight, input);
}

void CudaGemmOps::dense_backward_update(Stream& stream, const DenseBackwardWeight& weight, const AdamStep& adam) {
  const auto aligned = [](std::initializer_list<const void*> pointers) {
    return std::all_of(pointers.begin(), pointers.end(),
                       [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; });
  };
  const bool plain = !weight.dbias && !weight.accumulate && weight.dy_stride % 4 == 0;
  if (!plain || !fuses_update(weight.batch, weight.in, weight.out) ||
      !aligned({weight.x, weight.dy, adam.params, adam.m, adam.v})) {
    dense_backward_weight(stream, weight);
    return launch_adam(context_->begin(stream).launch, adam);
  }
  launch_small_update(context_->begin(stream).launch, context_->options().math, weight, adam);
}

}  // namespace

std::unique_ptr<GemmOps> make_cuda_gemm_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaGemmOps>(std::move(context));
}

std::vector<std::string> cuda_ops_choices(const Ops& ops) {
  const auto* cuda = dynamic_cast<const CudaGemmOps*>(&ops.gemm());
  return cuda ? cuda->choices() : std::vector<std::string>{};
}

}  // namespace amdahl
