// Recurrent layers on CUDA: cuBLASLt for the products over all steps. In between either a persistent kernel for the
// whole sequence, or per step one GEMM and one kernel.
//
// The persistent kernel is taken wherever it applies. It reads the recurrent weights once instead of once per step, and
// a step costs it an exchange within a cluster of blocks instead of two launches; both hold for every batch size, so
// these two are not timed against each other. In bf16 it leaves bf16 to the products over all steps, which are bound by
// memory in large batches. cuDNN's algorithms (standard, persist static, persist dynamic) took 1.5 to 8 times as long
// in every shape that was timed on an H100: batches 64 and 1,024 of 256 units, 256 of 512 units, fp32 and tf32.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda_stream.h"
#include "ops/cuda_context.h"
#include "ops/cuda_matmul.h"
#include "ops/cuda_recurrent.h"
#include "ops/cuda_recurrent_parts.h"

namespace amdahl {
namespace {

/// What forward keeps. Sized for f32; h_before may hold bf16.
struct SavedArrays {
  SavedArrays() = default;
  SavedArrays(FloatParts& parts, const RecurrentShape& s) {
    const int64_t rows = s.batch * s.steps;
    gates = parts.take(rows * num_gates(s.cell) * s.hidden);
    h_before = parts.take(rows * s.hidden);
    cells = parts.take(rows * s.hidden);
  }
  float *gates = nullptr, *h_before = nullptr, *cells = nullptr;
};

/// How a layer is computed.
struct RecurrentPlans {
  PersistentPlan forward, backward;
  MathMode math = MathMode::fp32;  // of the products within the sequence
  bool persistent() const { return forward.clusters > 0; }
  /// Type of h_before, dgates and what is multiplied by them.
  DType type() const { return persistent() && math == MathMode::bf16 ? DType::bf16 : DType::f32; }
};

class CudaRecurrentOps final : public RecurrentOps {
 public:
  explicit CudaRecurrentOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {
    preload_recurrent(context_->index());
  }
  int64_t saved_bytes(const RecurrentShape& shape) const override {
    FloatParts parts(nullptr);
    const SavedArrays arrays(parts, shape);
    return parts.bytes();
  }
  RecurrentShardOps& shards() override {
    if (!shards_) shards_ = make_cuda_recurrent_shards(context_);
    return *shards_;
  }
  void recurrent_forward(Stream& stream, const RecurrentForward& a) override;
  void recurrent_backward(Stream& stream, const RecurrentBackward& a) override;

 private:
  using PlanKey = std::array<int64_t, 5>;

  const RecurrentPlans& plans_of(const KernelLaunch& launch, const RecurrentShape& s);
  template <class Arrays, class Call>
  Arrays scratch(Stream& stream, const Call& call) {
    return recurrent_scratch<Arrays>(*context_, this, stream, call);
  }
  void forward_steps(const StreamMemory& memory, const RecurrentForwardArrays& arrays, float* recurrent, bool may_tune);
  void backward_steps(const StreamMemory& memory, const RecurrentBackwardArrays& arrays, float* dh, float* dc,
                      bool may_tune);
  void gemm(const StreamMemory& memory, const GemmCall& call, bool may_tune) {
    context_->gemm().run(memory.launch, memory.workspace, call, may_tune);
  }

  std::shared_ptr<CudaContext> context_;
  std::map<PlanKey, RecurrentPlans> plans_;
  std::unique_ptr<RecurrentShardOps> shards_;
};

const RecurrentPlans& CudaRecurrentOps::plans_of(const KernelLaunch& launch, const RecurrentShape& s) {
  const MathMode math = s.type == DType::f32 ? context_->options().math : MathMode::bf16;
  const PlanKey key{static_cast<int64_t>(s.cell), s.batch, s.input, s.hidden, static_cast<int64_t>(math)};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  RecurrentPlans plans{plan_persistent_forward(launch, math, s), plan_persistent_backward(launch, math, s), math};
  if (plans.forward.clusters == 0 || plans.backward.clusters == 0) plans.forward = plans.backward = {};
  return plans_.emplace(key, plans).first->second;
}

struct ForwardScratch {
  ForwardScratch(FloatParts& parts, const RecurrentForward& a) {
    const RecurrentShape& s = a.shape;
    recurrent = parts.take(s.batch * num_gates(s.cell) * s.hidden);
    if (!a.saved) saved = SavedArrays(parts, s);
  }
  float* recurrent;   // [batch, G * hidden] of one step
  SavedArrays saved;  // where no backward follows
};

void CudaRecurrentOps::recurrent_forward(Stream& stream, const RecurrentForward& a) {
  check_recurrent_shape(a.shape);
  const RecurrentShape& s = a.shape;
  StreamMemory& memory = context_->begin(stream);
  const bool may_tune = !is_capturing(stream);
  const auto work = scratch<ForwardScratch>(stream, a);
  FloatParts kept(a.saved);
  const SavedArrays saved = a.saved ? SavedArrays(kept, s) : work.saved;
  const RecurrentForwardArrays arrays{.cell = s.cell,
                                      .batch = static_cast<int>(s.batch),
                                      .steps = static_cast<int>(s.steps),
                                      .input = static_cast<int>(s.input),
                                      .hidden = static_cast<int>(s.hidden),
                                      .last_step_only = s.last_step_only,
                                      .x = a.x,
                                      .w_input = a.weights.w_input,
                                      .w_hidden = a.weights.w_hidden,
                                      .b_input = a.weights.b_input,
                                      .b_hidden = a.weights.b_hidden,
                                      .gates = saved.gates,
                                      .h_before = saved.h_before,
                                      .cells = saved.cells,
                                      .y = a.y,
                                      .keep = a.saved != nullptr};
  const RecurrentPlans& plans = plans_of(memory.launch, s);
  const int64_t gates = num_gates(s.cell) * s.hidden, rows = s.batch * s.steps;
  // Row-major gates[rows, G] = x[rows, I] w[G, I]^T is column-major gates(G, rows) = w(I, G)^T x(I, rows).
  if (!plans.forward.takes_input)
    gemm(memory, {{gates, rows, s.input, true, false, Epilogue::none, false}, a.weights.w_input, a.x, saved.gates},
         may_tune);
  if (plans.persistent()) return launch_persistent_forward(memory.launch, plans.math, plans.forward, arrays);
  forward_steps(memory, arrays, work.recurrent, may_tune);
}

void CudaRecurrentOps::forward_steps(const StreamMemory& memory, const RecurrentForwardArrays& a, float* recurrent,
                                     bool may_tune) {
  const int64_t gates = num_gates(a.cell) * a.hidden;
  for (int t = 0; t < a.steps; ++t) {
    if (t > 0) {
      GemmCall call{{gates, a.batch, a.hidden, true, false, Epilogue::none, false},
                    a.w_hidden,
                    static_cast<const float*>(a.h_before) + static_cast<int64_t>(t) * a.hidden,
                    recurrent};
      call.problem.stride_b = static_cast<int64_t>(a.steps) * a.hidden;
      gemm(memory, call, may_tune);
    }
    launch_recurrent_forward_step(memory.launch, a, t, t > 0 ? recurrent : nullptr);
  }
}

struct BackwardCall {
  RecurrentShape shape;
  int bias_parts;
  DType type;
  bool with_dx;
};

struct BackwardScratch {
  BackwardScratch(FloatParts& parts, const BackwardCall& call) {
    const RecurrentShape& s = call.shape;
    const int64_t rows = s.batch * s.steps;
    const auto take = [&](int64_t elements) {
      return parts.take(call.type == DType::f32 ? elements : (elements + 1) / 2);
    };
    dgates = take(rows * 4 * s.hidden);
    sums = parts.take(call.bias_parts * 4 * s.hidden);
    dh = parts.take(s.batch * s.hidden);
    dc = parts.take(s.batch * s.hidden);
    if (call.type == DType::f32) return;
    x = take(rows * s.input);
    if (call.with_dx) w_input = take(num_gates(s.cell) * s.hidden * s.input);
  }
  void* dgates;
  float *sums, *dh, *dc;
  void *x = nullptr, *w_input = nullptr;  // converted
};

void CudaRecurrentOps::recurrent_backward(Stream& stream, const RecurrentBackward& a) {
  check_recurrent_shape(a.shape);
  const RecurrentShape& s = a.shape;
  StreamMemory& memory = context_->begin(stream);
  const bool may_tune = !is_capturing(stream);
  const RecurrentPlans& plans = plans_of(memory.launch, s);
  const DType type = plans.type();
  const int parts = plans.persistent() ? persistent_bias_parts(plans.math, plans.backward) : 1;
  const auto work = scratch<BackwardScratch>(stream, BackwardCall{s, parts, type, a.dx != nullptr});
  FloatParts kept(const_cast<void*>(a.saved));  // only read below
  const SavedArrays saved(kept, s);
  const RecurrentBackwardArrays arrays{.cell = s.cell,
                                       .batch = static_cast<int>(s.batch),
                                       .steps = static_cast<int>(s.steps),
                                       .hidden = static_cast<int>(s.hidden),
                                       .last_step_only = s.last_step_only,
                                       .w_hidden = a.weights.w_hidden,
                                       .gates = saved.gates,
                                       .h_before = saved.h_before,
                                       .cells = saved.cells,
                                       .dy = a.dy,
                                       .dgates = work.dgates};
  const int64_t rows = s.batch * s.steps;
  if (plans.persistent()) {
    launch_persistent_backward(memory.launch, plans.math, plans.backward, arrays, work.sums);
  } else {
    backward_steps(memory, arrays, work.dh, work.dc, may_tune);
    launch_mask_and_sum(memory.launch,
                        {static_cast<float*>(work.dgates), nullptr, nullptr, work.sums, rows, 4 * s.hidden, false});
  }
  launch_recurrent_biases(memory.launch, s.cell, work.sums, parts, arrays.hidden, a.gradients.b_input,
                          a.gradients.b_hidden, a.accumulate);
  WeightOperands from{type, work.dgates, saved.h_before, a.x, a.dx ? a.weights.w_input : nullptr};
  if (type != DType::f32) {
    launch_convert(memory.launch, a.x, work.x, type, rows * s.input);
    from.x = work.x;
    if (a.dx)
      launch_convert(memory.launch, a.weights.w_input, work.w_input, type, num_gates(s.cell) * s.hidden * s.input);
    from.w_input = work.w_input;
  }
  launch_recurrent_products(
      *context_, memory, {s.cell, rows, s.input, s.hidden, s.hidden, from, a.gradients, a.dx, a.accumulate}, may_tune);
}

void CudaRecurrentOps::backward_steps(const StreamMemory& memory, const RecurrentBackwardArrays& a, float* dh,
                                      float* dc, bool may_tune) {
  const int64_t gates = num_gates(a.cell) * a.hidden, width = int64_t{4} * a.hidden;
  for (int t = a.steps - 1; t >= 0; --t) {
    launch_recurrent_backward_step(memory.launch, a, t, dh, dc);
    if (t == 0) break;
    // Row-major dh[B, H] (+)= dgates[B, G] w[G, H]; GRU adds to what the step left there.
    GemmCall call{{a.hidden, a.batch, gates, false, false, Epilogue::none, a.cell == RecurrentCell::gru},
                  a.w_hidden,
                  static_cast<const float*>(a.dgates) + t * width,
                  dh};
    call.problem.stride_b = a.steps * width;
    gemm(memory, call, may_tune);
  }
}

}  // namespace

std::unique_ptr<RecurrentOps> make_cuda_recurrent_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaRecurrentOps>(std::move(context));
}

}  // namespace amdahl
