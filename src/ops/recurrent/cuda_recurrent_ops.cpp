// Recurrent layers on CUDA: cuBLASLt for the products over all steps. In between either a persistent kernel for the
// whole sequence, or per step one GEMM and one kernel.
//
// The persistent kernel is taken wherever it applies. It reads the recurrent weights once instead of once per step, and
// a step costs it an exchange within a cluster of blocks instead of two launches; both hold for every batch size, so
// these two are not timed against each other. In bf16 it leaves bf16 to the products over all steps. Those of the
// gradients of weights are one, of dgates and h beside x: its rows are in the order in which the kernel has them, and a
// kernel distributes them to the weights. cuDNN's algorithms (standard, persist static, persist dynamic) took 1.5 to 8
// times as long in every shape that was timed on an H100: batches 64 and 1,024 of 256 units, 256 of 512 units, fp32 and
// tf32.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda_stream.h"
#include "ops/cuda_context.h"
#include "ops/gemm/cuda_matmul.h"
#include "ops/recurrent/cuda_recurrent.h"
#include "ops/recurrent/cuda_recurrent_parts.h"

namespace amdahl {
namespace {

/// What forward keeps where it runs step by step.
struct SavedSteps {
  SavedSteps() = default;
  SavedSteps(FloatParts& parts, const RecurrentShape& s) {
    const int64_t rows = s.batch * s.steps;
    gates = parts.take(rows * num_gates(s.cell) * s.hidden);
    h_before = parts.take(rows * s.hidden);
    cells = parts.take(rows * s.hidden);
  }
  float *gates = nullptr, *h_before = nullptr, *cells = nullptr;
};

/// Room for `elements` of f32, or of 16 bits if `is_half`.
float* take_elements(FloatParts& parts, int64_t elements, bool is_half) {
  return parts.take(is_half ? (elements + 1) / 2 : elements);
}

/// What forward keeps where persistent kernels run.
struct SavedRecords {
  SavedRecords() = default;
  SavedRecords(FloatParts& parts, const RecurrentShape& s, bool is_half) {
    const PersistentSizes sizes(s);
    const int64_t records = s.steps * sizes.tiles * sizes.groups * 32;
    gates = take_elements(parts, records * 8, is_half);
    if (s.cell == RecurrentCell::lstm) cells = parts.take(records * 2);
    operands = take_elements(parts, s.batch * s.steps * sizes.width, is_half);
  }
  void *gates = nullptr, *operands = nullptr;
  float* cells = nullptr;
};

template <class Saved, class... Arguments>
int64_t bytes_of(const Arguments&... arguments) {
  FloatParts parts(nullptr);
  const Saved saved(parts, arguments...);
  return parts.bytes();
}

/// How a layer is computed.
struct RecurrentPlans {
  PersistentPlan forward, backward;
  MathMode math = MathMode::fp32;  // of the products within the sequence
  bool persistent() const { return forward.clusters > 0; }
  bool is_half() const { return math == MathMode::bf16; }  // where persistent
};

class CudaRecurrentOps final : public RecurrentOps {
 public:
  explicit CudaRecurrentOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {
    preload_recurrent(context_->index());
    preload_recurrent_order(context_->index());
  }
  int64_t saved_bytes(const RecurrentShape& shape) const override {
    const int64_t steps = bytes_of<SavedSteps>(shape);
    if (shape.hidden > kMostPersistentUnits) return steps;
    return std::max(steps, bytes_of<SavedRecords>(shape, math_of(shape) == MathMode::bf16));
  }
  RecurrentShardOps& shards() override {
    if (!shards_) shards_ = make_cuda_recurrent_shards(context_);
    return *shards_;
  }
  void recurrent_forward(Stream& stream, const RecurrentForward& a) override;
  void recurrent_backward(Stream& stream, const RecurrentBackward& a) override;

 private:
  using PlanKey = std::array<int64_t, 5>;

  MathMode math_of(const RecurrentShape& s) const {
    return s.type == DType::f32 ? context_->options().math : MathMode::bf16;
  }
  const RecurrentPlans& plans_of(const KernelLaunch& launch, const RecurrentShape& s);
  template <class Arrays, class Call>
  Arrays scratch(Stream& stream, const Call& call) {
    return recurrent_scratch<Arrays>(*context_, this, stream, call);
  }
  void persistent_forward(const StreamMemory& memory, const RecurrentPlans& plans, const RecurrentForward& a,
                          const SavedRecords& saved, float* products, bool may_tune);
  void persistent_backward(Stream& stream, const RecurrentPlans& plans, const RecurrentBackward& a);
  void forward_steps(const StreamMemory& memory, const RecurrentForward& a, const SavedSteps& saved, float* recurrent,
                     bool may_tune);
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
  const MathMode math = math_of(s);
  const PlanKey key{static_cast<int64_t>(s.cell), s.batch, s.input, s.hidden, static_cast<int64_t>(math)};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  RecurrentPlans plans{plan_persistent_forward(launch, math, s), plan_persistent_backward(launch, math, s), math};
  if (plans.forward.clusters == 0 || plans.backward.clusters == 0) plans.forward = plans.backward = {};
  return plans_.emplace(key, plans).first->second;
}

struct ForwardCall {
  RecurrentShape shape;
  bool persistent, is_half, keeps;
};

struct ForwardScratch {
  ForwardScratch(FloatParts& parts, const ForwardCall& call) {
    const RecurrentShape& s = call.shape;
    const int64_t gates = num_gates(s.cell) * s.hidden;
    if (call.persistent) {
      if (s.input > kMostInputs) products = parts.take(s.batch * s.steps * gates);
      if (!call.keeps) records = SavedRecords(parts, s, call.is_half);
    } else {
      recurrent = parts.take(s.batch * gates);
      if (!call.keeps) steps = SavedSteps(parts, s);
    }
  }
  float* products = nullptr;   // x w_input^T [batch, steps, G * hidden]
  float* recurrent = nullptr;  // [batch, G * hidden] of one step
  SavedRecords records;        // where no backward follows, as the next one
  SavedSteps steps;
};

/// Row-major gates[rows, G] = x[rows, I] w[G, I]^T is column-major gates(G, rows) = w(I, G)^T x(I, rows).
GemmCall input_product(const RecurrentForward& a, float* gates) {
  const RecurrentShape& s = a.shape;
  return {{num_gates(s.cell) * s.hidden, s.batch * s.steps, s.input, true, false, Epilogue::none, false},
          a.weights.w_input,
          a.x,
          gates};
}

void CudaRecurrentOps::recurrent_forward(Stream& stream, const RecurrentForward& a) {
  check_recurrent_shape(a.shape);
  StreamMemory& memory = context_->begin(stream);
  const bool may_tune = !is_capturing(stream), keeps = a.saved != nullptr;
  const RecurrentPlans& plans = plans_of(memory.launch, a.shape);
  const auto work = scratch<ForwardScratch>(stream, ForwardCall{a.shape, plans.persistent(), plans.is_half(), keeps});
  FloatParts kept(a.saved);
  if (plans.persistent())
    return persistent_forward(memory, plans, a, keeps ? SavedRecords(kept, a.shape, plans.is_half()) : work.records,
                              work.products, may_tune);
  forward_steps(memory, a, keeps ? SavedSteps(kept, a.shape) : work.steps, work.recurrent, may_tune);
}

void CudaRecurrentOps::persistent_forward(const StreamMemory& memory, const RecurrentPlans& plans,
                                          const RecurrentForward& a, const SavedRecords& saved, float* products,
                                          bool may_tune) {
  const RecurrentShape& s = a.shape;
  const PersistentSizes sizes(s);
  if (products)
    gemm(memory, input_product(a, products), may_tune);
  else
    launch_take_inputs(memory.launch, a.x, s.batch * s.steps, static_cast<int>(s.input), sizes, saved.operands,
                       plans.is_half() ? DType::bf16 : DType::f32);
  launch_persistent_forward(memory.launch, plans.math, plans.forward,
                            {.cell = s.cell,
                             .batch = static_cast<int>(s.batch),
                             .steps = static_cast<int>(s.steps),
                             .hidden = static_cast<int>(s.hidden),
                             .last_step_only = s.last_step_only,
                             .keep = a.saved != nullptr,
                             .sizes = sizes,
                             .w_input = a.weights.w_input,
                             .input = static_cast<int>(s.input),
                             .w_hidden = a.weights.w_hidden,
                             .b_input = a.weights.b_input,
                             .b_hidden = a.weights.b_hidden,
                             .products = products,
                             .operands = saved.operands,
                             .gates = saved.gates,
                             .cells = saved.cells,
                             .y = a.y});
}

void CudaRecurrentOps::forward_steps(const StreamMemory& memory, const RecurrentForward& a, const SavedSteps& saved,
                                     float* recurrent, bool may_tune) {
  const RecurrentShape& s = a.shape;
  const int64_t gates = num_gates(s.cell) * s.hidden;
  const RecurrentForwardArrays arrays{.cell = s.cell,
                                      .batch = static_cast<int>(s.batch),
                                      .steps = static_cast<int>(s.steps),
                                      .hidden = static_cast<int>(s.hidden),
                                      .last_step_only = s.last_step_only,
                                      .w_hidden = a.weights.w_hidden,
                                      .b_input = a.weights.b_input,
                                      .b_hidden = a.weights.b_hidden,
                                      .gates = saved.gates,
                                      .h_before = saved.h_before,
                                      .cells = saved.cells,
                                      .y = a.y};
  gemm(memory, input_product(a, saved.gates), may_tune);
  for (int t = 0; t < arrays.steps; ++t) {
    if (t > 0) {
      GemmCall call{{gates, s.batch, s.hidden, true, false, Epilogue::none, false},
                    a.weights.w_hidden,
                    saved.h_before + t * s.hidden,
                    recurrent};
      call.problem.stride_b = s.steps * s.hidden;
      gemm(memory, call, may_tune);
    }
    launch_recurrent_forward_step(memory.launch, arrays, t, t > 0 ? recurrent : nullptr);
  }
}

struct PersistentCall {
  RecurrentShape shape;
  int bias_parts;
  bool is_half, with_dx;
};

struct PersistentScratch {
  PersistentScratch(FloatParts& parts, const PersistentCall& call) {
    const RecurrentShape& s = call.shape;
    const PersistentSizes sizes(s);
    const int64_t rows = s.batch * s.steps, gates = int64_t{4} * sizes.units;
    dgates = take_elements(parts, rows * gates, call.is_half);
    sums = parts.take(call.bias_parts * 4 * s.hidden);
    from_hidden = parts.take(gates * sizes.width);
    if (s.input > kMostInputs) {
      from_input = parts.take(gates * s.input);
      if (call.is_half) x = take_elements(parts, rows * s.input, true);
    }
    if (call.with_dx) w_input = take_elements(parts, gates * s.input, call.is_half);
  }
  void* dgates;
  float *sums, *from_hidden;
  float* from_input = nullptr;
  void *x = nullptr, *w_input = nullptr;  // converted; in the order of dgates
};

void CudaRecurrentOps::persistent_backward(Stream& stream, const RecurrentPlans& plans, const RecurrentBackward& a) {
  const RecurrentShape& s = a.shape;
  StreamMemory& memory = context_->begin(stream);
  const bool may_tune = !is_capturing(stream), is_half = plans.is_half();
  const DType type = is_half ? DType::bf16 : DType::f32;
  const int parts = persistent_bias_parts(plans.math, plans.backward), hidden = static_cast<int>(s.hidden),
            input = static_cast<int>(s.input);
  const auto work = scratch<PersistentScratch>(stream, PersistentCall{s, parts, is_half, a.dx != nullptr});
  FloatParts kept(const_cast<void*>(a.saved));  // only read below
  const SavedRecords saved(kept, s, is_half);
  const PersistentSizes sizes(s);
  launch_persistent_backward(memory.launch, plans.math, plans.backward,
                             {.cell = s.cell,
                              .batch = static_cast<int>(s.batch),
                              .steps = static_cast<int>(s.steps),
                              .hidden = hidden,
                              .last_step_only = s.last_step_only,
                              .sizes = sizes,
                              .w_hidden = a.weights.w_hidden,
                              .operands = saved.operands,
                              .gates = saved.gates,
                              .cells = saved.cells,
                              .dy = a.dy,
                              .dgates = work.dgates},
                             work.sums);
  launch_recurrent_biases(memory.launch, s.cell, work.sums, parts, hidden, a.gradients.b_input, a.gradients.b_hidden,
                          a.accumulate);
  const int64_t rows = s.batch * s.steps, gates = int64_t{4} * sizes.units;
  const auto product = [&](GemmCall call) {
    call.problem.type = type;
    gemm(memory, call, may_tune);
  };
  // Row-major dw[G, C] = d[rows, G]^T x[rows, C] is column-major dw(C, G) = x(C, rows) d(G, rows)^T.
  const auto weight = [&](const void* x, int64_t columns, float* dw) {
    product({{columns, gates, rows, false, true, Epilogue::none, false}, x, work.dgates, dw});
  };
  weight(saved.operands, sizes.width, work.from_hidden);
  if (work.from_input) {
    if (is_half) launch_convert(memory.launch, a.x, work.x, type, rows * s.input);
    weight(is_half ? work.x : a.x, s.input, work.from_input);
  }
  launch_take_gradients(memory.launch,
                        {.cell = s.cell,
                         .hidden = hidden,
                         .input = input,
                         .units = sizes.units,
                         .from_hidden = work.from_hidden,
                         .from_input = work.from_input ? work.from_input : work.from_hidden + 8 * sizes.groups,
                         .stride_hidden = sizes.width,
                         .stride_input = work.from_input ? input : sizes.width,
                         .w_hidden = a.gradients.w_hidden,
                         .w_input = a.gradients.w_input,
                         .accumulate = a.accumulate});
  if (!a.dx) return;
  launch_order_weights(memory.launch, s.cell, a.weights.w_input, hidden, sizes.units, input, work.w_input, type);
  product({{s.input, rows, gates, false, false, Epilogue::none, false}, work.w_input, work.dgates, a.dx});
}

struct StepsScratch {
  StepsScratch(FloatParts& parts, const RecurrentShape& s) {
    dgates = parts.take(s.batch * s.steps * 4 * s.hidden);
    sums = parts.take(4 * s.hidden);
    dh = parts.take(s.batch * s.hidden);
    dc = parts.take(s.batch * s.hidden);
  }
  float *dgates, *sums, *dh, *dc;
};

void CudaRecurrentOps::recurrent_backward(Stream& stream, const RecurrentBackward& a) {
  check_recurrent_shape(a.shape);
  const RecurrentShape& s = a.shape;
  StreamMemory& memory = context_->begin(stream);
  const bool may_tune = !is_capturing(stream);
  const RecurrentPlans& plans = plans_of(memory.launch, s);
  if (plans.persistent()) return persistent_backward(stream, plans, a);
  const auto work = scratch<StepsScratch>(stream, s);
  FloatParts kept(const_cast<void*>(a.saved));  // only read below
  const SavedSteps saved(kept, s);
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
  backward_steps(memory, arrays, work.dh, work.dc, may_tune);
  launch_mask_and_sum(memory.launch, {work.dgates, nullptr, nullptr, work.sums, rows, 4 * s.hidden, false});
  launch_recurrent_biases(memory.launch, s.cell, work.sums, 1, arrays.hidden, a.gradients.b_input, a.gradients.b_hidden,
                          a.accumulate);
  launch_recurrent_products(
      *context_, memory,
      {s.cell, rows, s.input, s.hidden, s.hidden,
       WeightOperands{DType::f32, work.dgates, saved.h_before, a.x, a.dx ? a.weights.w_input : nullptr}, a.gradients,
       a.dx, a.accumulate},
      may_tune);
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
                  a.dgates + t * width,
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
