// Recurrent layers on CUDA whose units are divided among ranks. GEMMs multiply f32, or tf32 as the precision says, as
// those of whole cells do where no persistent kernel applies.
#include <utility>

#include "ops/gemm/cuda_matmul.h"
#include "ops/recurrent/cuda_recurrent.h"
#include "ops/recurrent/cuda_recurrent_parts.h"
#include "ops/recurrent/cuda_recurrent_shards.h"

namespace amdahl {
namespace {

/// What forward keeps.
struct SavedShard {
  SavedShard(FloatParts& parts, const RecurrentShard& a) {
    const int64_t rows = a.shape.batch * a.shape.steps;
    gates = parts.take(rows * num_gates(a.shape.cell) * a.held);
    cells = parts.take(rows * a.held);
    h_before = parts.take(rows * a.shape.hidden);
  }
  float *gates, *cells, *h_before;
};

struct ShardScratch {
  ShardScratch(FloatParts& parts, const RecurrentShard& a)
      : recurrent(parts.take(a.shape.batch * num_gates(a.shape.cell) * a.held)), sums(parts.take(4 * a.held)) {}
  float *recurrent, *sums;  // [batch, G * held] of one step; [4 * held] of dgates
};

RecurrentShardArrays arrays_of(const RecurrentShard& a) {
  FloatParts parts(a.saved);
  const SavedShard saved(parts, a);
  return {.cell = a.shape.cell,
          .batch = static_cast<int>(a.shape.batch),
          .steps = static_cast<int>(a.shape.steps),
          .hidden = static_cast<int>(a.shape.hidden),
          .held = static_cast<int>(a.held),
          .first = static_cast<int>(a.first),
          .last_step_only = a.shape.last_step_only,
          .b_input = a.weights.b_input,
          .b_hidden = a.weights.b_hidden,
          .gates = saved.gates,
          .cells = saved.cells,
          .h_before = saved.h_before};
}

class CudaRecurrentShards final : public RecurrentShardOps {
 public:
  explicit CudaRecurrentShards(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {
    preload_recurrent_shards(context_->index());
  }
  bool takes(DType type) const override { return type == DType::f32 || type == DType::bf16; }
  int64_t saved_bytes(const RecurrentShard& a) const override {
    FloatParts parts(nullptr);
    const SavedShard arrays(parts, a);
    return parts.bytes();
  }
  void begin(Stream& stream, const RecurrentShard& a) override {
    check_recurrent_shape(a.shape);
    // Row-major gates[rows, G] = x[rows, I] w[G, I]^T is column-major gates(G, rows) = w(I, G)^T x(I, rows).
    gemm(stream, {{num_gates(a.shape.cell) * a.held, a.shape.batch * a.shape.steps, a.shape.input, true, false,
                   Epilogue::none, false},
                  a.weights.w_input,
                  a.x,
                  arrays_of(a).gates});
  }
  void step(Stream& stream, const RecurrentShard& a, int64_t t, float* mine) override {
    const RecurrentShardArrays arrays = arrays_of(a);
    float* const recurrent = scratch(stream, a).recurrent;
    if (t > 0) {
      GemmCall call{
          {num_gates(a.shape.cell) * a.held, a.shape.batch, a.shape.hidden, true, false, Epilogue::none, false},
          a.weights.w_hidden,
          arrays.h_before + t * a.shape.hidden,
          recurrent};
      call.problem.stride_b = a.shape.steps * a.shape.hidden;
      gemm(stream, call);
    }
    launch_shard_forward_step(context_->begin(stream).launch, arrays, static_cast<int>(t), t > 0 ? recurrent : nullptr,
                              mine);
  }
  void take_states(Stream& stream, const RecurrentShard& a, int64_t t, const float* all, float* y) override {
    launch_shard_states(context_->begin(stream).launch, arrays_of(a), static_cast<int>(t), all, y);
  }
  void step_gradients(Stream& stream, const RecurrentShard& a, int64_t t, const float* dy, const Work& work) override {
    launch_shard_backward_step(context_->begin(stream).launch, arrays_of(a), static_cast<int>(t), dy, work);
    if (t == 0) return;
    // Row-major d_states[B, H] = dgates[B, G] w[G, H].
    const int64_t width = 4 * a.held;
    GemmCall call{
        {a.shape.hidden, a.shape.batch, num_gates(a.shape.cell) * a.held, false, false, Epilogue::none, false},
        a.weights.w_hidden,
        work.d_gates + t * width,
        work.d_states};
    call.problem.stride_b = a.shape.steps * width;
    gemm(stream, call);
  }
  void finish_gradients(Stream& stream, const RecurrentShard& a, const Work& work,
                        const RecurrentWeights<float>& gradients, float* dx, bool accumulate) override {
    StreamMemory& memory = context_->begin(stream);
    const int64_t rows = a.shape.batch * a.shape.steps;
    float* const sums = scratch(stream, a).sums;
    launch_mask_and_sum(memory.launch, {work.d_gates, nullptr, nullptr, sums, rows, 4 * a.held, false});
    launch_recurrent_biases(memory.launch, a.shape.cell, sums, 1, static_cast<int>(a.held), gradients.b_input,
                            gradients.b_hidden, accumulate);
    launch_recurrent_products(
        *context_, memory,
        {a.shape.cell, rows, a.shape.input, a.held, a.shape.hidden,
         WeightOperands{DType::f32, work.d_gates, arrays_of(a).h_before, a.x, dx ? a.weights.w_input : nullptr},
         gradients, dx, accumulate},
        !is_capturing(stream));
  }

 private:
  ShardScratch scratch(Stream& stream, const RecurrentShard& a) {
    return recurrent_scratch<ShardScratch>(*context_, this, stream, a);
  }
  void gemm(Stream& stream, const GemmCall& call) {
    StreamMemory& memory = context_->begin(stream);
    context_->gemm().run(memory.launch, memory.workspace, call, !is_capturing(stream));
  }

  const std::shared_ptr<CudaContext> context_;
};

}  // namespace

std::unique_ptr<RecurrentShardOps> make_cuda_recurrent_shards(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaRecurrentShards>(std::move(context));
}

}  // namespace amdahl
