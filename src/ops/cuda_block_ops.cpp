// Whole transformer blocks on CUDA, where the device has clusters and the block fits its shared memory.
#include <string>

#include "device/cuda_check.h"
#include "ops/cuda_block_forward.h"
#include "ops/cuda_context.h"

namespace amdahl {
namespace {

class CudaBlockOps final : public TransformerBlockOps {
 public:
  explicit CudaBlockOps(std::shared_ptr<CudaContext> context)
      : context_(std::move(context)),
        shared_bytes_(static_cast<size_t>(cuda_attribute(context_->index(), cudaDevAttrMaxSharedMemoryPerBlockOptin))) {
  }

  bool has_forward(const BlockShape& shape) const override {
    const size_t bytes = block_forward_shared_bytes(shape);
    return multiplies(shape.type) && bytes > 0 && bytes <= shared_bytes_;
  }
  bool has_backward(const BlockShape&) const override { return false; }
  void forward(Stream& stream, DType type, const BlockForward& a) override {
    launch_block_forward(context_->begin(stream).launch, type, a);
  }
  void backward(Stream&, DType, const BlockBackward&) override { missing(); }
  bool groups_weight_gradients(int64_t) const override { return false; }
  void weight_gradients(Stream&, DType, const WeightGradients&) override { missing(); }

 private:
  [[noreturn]] static void missing() { throw Error(Cause::internal, "no kernel of a transformer block's gradients"); }
  /// f32 is multiplied as tf32 only, and where architecture 9.0 is missing there are no kernels.
  bool multiplies(DType type) const {
    return context_->has_small_kernels() && (type != DType::f32 || context_->options().math == MathMode::tf32);
  }

  std::shared_ptr<CudaContext> context_;
  size_t shared_bytes_;
};

}  // namespace

std::unique_ptr<TransformerBlockOps> make_cuda_block_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaBlockOps>(std::move(context));
}

}  // namespace amdahl
