// Whole transformer blocks on CUDA, where the device has clusters and the block fits its shared memory.
#include <string>

#include "device/cuda_check.h"
#include "ops/cuda_block_backward.h"
#include "ops/cuda_block_forward.h"
#include "ops/cuda_block_weights.h"
#include "ops/cuda_context.h"

namespace amdahl {
namespace {

// Up to here one launch of all products takes less time than four of cuBLASLt: both read L2 at its rate, but the
// launches, and the splits of k over blocks, cost 5 us each. An estimate, not measured.
constexpr int64_t kMostGroupedTokens = 16384;

class CudaBlockOps final : public TransformerBlockOps {
 public:
  explicit CudaBlockOps(std::shared_ptr<CudaContext> context)
      : context_(std::move(context)),
        shared_bytes_(static_cast<size_t>(cuda_attribute(context_->index(), cudaDevAttrMaxSharedMemoryPerBlockOptin))) {
  }

  bool has_forward(const BlockShape& shape) const override {
    return multiplies(shape.type) && fits(block_forward_shared_bytes(shape));
  }
  bool has_backward(const BlockShape& shape) const override {
    return multiplies(shape.type) && fits(block_backward_shared_bytes(shape));
  }
  void forward(Stream& stream, DType type, const BlockForward& a) override {
    launch_block_forward(context_->begin(stream).launch, type, a);
  }
  void backward(Stream& stream, DType type, const BlockBackward& a) override {
    launch_block_backward(context_->begin(stream).launch, type, a);
  }
  bool groups_weight_gradients(int64_t tokens) const override { return tokens <= kMostGroupedTokens; }
  void weight_gradients(Stream& stream, DType type, const WeightGradients& a) override {
    launch_weight_gradients(context_->begin(stream).launch, type, a);
  }

 private:
  /// f32 is multiplied as tf32 only, and where architecture 9.0 is missing there are no kernels.
  bool multiplies(DType type) const {
    return context_->has_small_kernels() && (type != DType::f32 || context_->options().math == MathMode::tf32);
  }
  bool fits(size_t shared_bytes) const { return shared_bytes > 0 && shared_bytes <= shared_bytes_; }

  std::shared_ptr<CudaContext> context_;
  size_t shared_bytes_;
};

}  // namespace

std::unique_ptr<TransformerBlockOps> make_cuda_block_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaBlockOps>(std::move(context));
}

}  // namespace amdahl
