// The CUDA families of normalisation and sequences: own kernels, one or a few launches per call.
#include <utility>

#include "device/cuda_check.h"
#include "ops/cuda_context.h"
#include "ops/gemm/cuda_matmul.h"
#include "ops/sequence/cuda_norm.h"
#include "ops/sequence/cuda_sequence.h"

namespace amdahl {
namespace {

class CudaNormOps final : public NormOps {
 public:
  explicit CudaNormOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void layer_norm_forward(Stream& stream, const LayerNormForward& a) override {
    launch_layer_norm(context_->begin(stream).launch, a);
  }
  void layer_norm_backward(Stream& stream, const LayerNormBackward& a) override {
    const StreamMemory& memory = context_->begin(stream);
    launch_layer_norm_gradient(memory.launch, memory.workspace, a);
  }
  void residual_add(Stream& stream, const ResidualAdd& a) override {
    launch_residual_add(context_->begin(stream).launch, a);
  }

 private:
  std::shared_ptr<CudaContext> context_;
};

class CudaSequenceOps final : public SequenceOps {
 public:
  explicit CudaSequenceOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void document_starts(Stream& stream, const DocumentStarts& a) override {
    launch_document_starts(context_->begin(stream).launch, a);
  }
  void embedding_forward(Stream& stream, const EmbeddingForward& a) override {
    launch_embedding(context_->begin(stream).launch, a);
  }
  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override {
    const StreamMemory& memory = context_->begin(stream);
    launch_embedding_gradient(memory.launch, memory.workspace, a);
    if (a.d_positions && a.starts) {
      if (!a.accumulate) fill_zero(memory, a.d_positions, a.steps * a.width);
      launch_document_positions_gradient(memory.launch, memory.workspace, a);
    } else if (a.d_positions) {
      sum_positions(memory, a.d_out, a.d_positions, a.rows, a.steps * a.width, a.accumulate);
    }
    if (a.d_common) sum_positions(memory, a.d_out, a.d_common, a.rows * a.steps, a.width, a.accumulate);
  }
  void add_positions(Stream& stream, const AddPositions& a) override {
    launch_add_positions(context_->begin(stream).launch, a);
  }
  void positions_gradient(Stream& stream, const PositionsGradient& a) override {
    sum_positions(context_->begin(stream), a.d_y, a.d_positions, a.rows, a.steps * a.width, a.accumulate);
  }
  void pool_steps(Stream& stream, const PoolSteps& a) override { launch_pool_steps(context_->begin(stream).launch, a); }
  void pool_steps_gradient(Stream& stream, const PoolStepsGradient& a) override {
    launch_pool_steps_gradient(context_->begin(stream).launch, a);
  }
  void token_loss(Stream& stream, const TokenLoss& a) override { launch_token_loss(context_->begin(stream).launch, a); }
  void token_loss_parts(Stream& stream, const TokenLossShard& a) override {
    launch_token_loss_parts(context_->begin(stream).launch, a);
  }
  void token_loss_of_parts(Stream& stream, const TokenLossShard& a) override {
    launch_token_loss_of_parts(context_->begin(stream).launch, a);
  }
  void absolute_error(Stream& stream, const AbsoluteError& a) override {
    launch_absolute_error(context_->begin(stream).launch, a);
  }

 private:
  static void fill_zero(const StreamMemory& memory, float* values, int64_t count) {
    cuda_check(cudaMemsetAsync(values, 0, static_cast<size_t>(count) * sizeof(float), memory.launch.stream),
               memory.launch.device_index, "cudaMemsetAsync");
  }
  static void sum_positions(const StreamMemory& memory, const float* x, float* out, int64_t rows, int64_t width,
                            bool accumulate) {
    launch_column_sums(
        memory.launch,
        {.x = x, .type = DType::f32, .out = out, .rows = rows, .width = width, .accumulate = accumulate});
  }
  std::shared_ptr<CudaContext> context_;
};

}  // namespace

std::unique_ptr<NormOps> make_cuda_norm_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaNormOps>(std::move(context));
}

std::unique_ptr<SequenceOps> make_cuda_sequence_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaSequenceOps>(std::move(context));
}

}  // namespace amdahl
