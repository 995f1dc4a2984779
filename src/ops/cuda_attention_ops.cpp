// Attention on CUDA.
#include <utility>

#include "ops/cuda_attention.h"
#include "ops/cuda_context.h"

namespace amdahl {
namespace {

class CudaAttentionOps final : public AttentionOps {
 public:
  explicit CudaAttentionOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void attention_forward(Stream& stream, const AttentionForward& a) override {
    launch_attention(context_->begin(stream).launch, context_->options().math, a);
  }
  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    const StreamMemory& memory = context_->begin(stream);
    launch_attention_gradient(memory.launch, memory.workspace, context_->options().math, a);
  }

 private:
  std::shared_ptr<CudaContext> context_;
};

}  // namespace

std::unique_ptr<AttentionOps> make_cuda_attention_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaAttentionOps>(std::move(context));
}

}  // namespace amdahl
