// What the recurrent layers of whole cells and of shards share on CUDA: memory of calls, and the gradients that are
// products over all steps.
#pragma once

#include <memory>
#include <vector>

#include "device/cuda_stream.h"
#include "ops/cuda_context.h"
#include "ops/recurrent/recurrent_ops.h"

namespace amdahl {

/// Parts of one block of memory, each on a 256-byte boundary. Without memory it only counts.
class FloatParts {
 public:
  explicit FloatParts(void* memory) : memory_(static_cast<float*>(memory)) {}
  float* take(int64_t floats) {
    float* part = memory_ ? memory_ + used_ : nullptr;
    used_ += (floats + 63) / 64 * 64;
    return part;
  }
  int64_t bytes() const { return used_ * static_cast<int64_t>(sizeof(float)); }

 private:
  float* memory_;
  int64_t used_ = 0;
};

/// Memory that one call needs, kept with the stream. Earlier, smaller blocks stay: captured graphs may use them.
struct RecurrentScratch {
  std::vector<std::unique_ptr<Buffer>> blocks;
};

/// A part of `Arrays`, made by Arrays(FloatParts&, call), in the memory that `owner` has with the stream.
template <class Arrays, class Call>
Arrays recurrent_scratch(CudaContext& context, const void* owner, Stream& stream, const Call& call) {
  FloatParts counter(nullptr);
  const Arrays sizes(counter, call);
  std::shared_ptr<void>& own = as_cuda_stream(stream).attachment(owner);
  if (!own) own = std::make_shared<RecurrentScratch>();
  auto& blocks = static_cast<RecurrentScratch*>(own.get())->blocks;
  const auto bytes = static_cast<size_t>(counter.bytes());
  if (blocks.empty() || blocks.back()->bytes() < bytes) {
    const RelaxedCapture relaxed;  // the first use may be inside a capture
    blocks.push_back(context.device().allocate(bytes));
  }
  FloatParts parts(blocks.back()->data());
  return Arrays(parts, call);
}

/// Error{internal} for shapes that kernels do not index.
void check_recurrent_shape(const RecurrentShape& s);

/// What the gradients of weights and inputs are computed from, of one type.
struct WeightOperands {
  DType type;
  const void *dgates, *h_before, *x;
  const void* w_input;  // null where dx is not computed
};

/// Gradients of `units` units from rows of [4 * units] dgates, [states] h_before and [input] x.
struct RecurrentProducts {
  RecurrentCell cell;
  int64_t rows, input, units, states;
  WeightOperands from;
  RecurrentWeights<float> gradients;  // of the weights
  float* dx;                          // set to these units' part; null: not computed
  bool accumulate;                    // to the gradients of the weights
};
void launch_recurrent_products(CudaContext& context, const StreamMemory& memory, const RecurrentProducts& a,
                               bool may_tune);

/// Recurrent layers on CUDA whose units are divided among ranks: per step one GEMM and one kernel, in f32.
std::unique_ptr<RecurrentShardOps> make_cuda_recurrent_shards(std::shared_ptr<CudaContext> context);

}  // namespace amdahl
