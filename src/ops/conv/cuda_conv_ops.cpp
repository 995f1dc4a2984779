// Convolutions, batch normalisation and pooling on CUDA: convolutions by cuDNN, the others by own kernels.
#include "ops/conv/cuda_conv.h"
#include "ops/conv/cuda_cudnn_conv.h"
#include "ops/cuda_context.h"

namespace amdahl {
namespace {

class CudaConvOps final : public ConvOps {
 public:
  explicit CudaConvOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}

  void conv_forward(Stream& stream, const ConvForward& a) override { convolutions().forward(stream, a); }
  void conv_backward_data(Stream& stream, const ConvBackwardData& a) override {
    convolutions().backward_data(stream, a);
  }
  void conv_backward_filter(Stream& stream, const ConvBackwardFilter& a) override {
    convolutions().backward_filter(stream, a);
  }
  void batch_norm_forward(Stream& stream, const BatchNormForward& a) override {
    launch_batch_norm(context_->begin(stream).launch, a);
  }
  void batch_norm_backward(Stream& stream, const BatchNormBackward& a) override {
    launch_batch_norm_gradient(context_->begin(stream).launch, a);
  }
  void average_pool(Stream& stream, const void* x, float* y, int64_t rows, int64_t pixels, int64_t channels,
                    DType type) override {
    launch_average_pool(context_->begin(stream).launch, x, y, rows, pixels, channels, type);
  }
  void average_pool_gradient(Stream& stream, const float* dy, void* dx, int64_t rows, int64_t pixels, int64_t channels,
                             DType type) override {
    launch_average_pool_gradient(context_->begin(stream).launch, dy, dx, rows, pixels, channels, type);
  }

  void max_pool(Stream& stream, const MaxPoolForward& a) override {
    launch_max_pool(context_->begin(stream).launch, a);
  }
  void max_pool_gradient(Stream& stream, const MaxPoolBackward& a) override {
    launch_max_pool_gradient(context_->begin(stream).launch, a);
  }

 private:
  /// Opened at the first convolution: other models need no cuDNN.
  CudnnConvolutions& convolutions() {
    if (convolutions_) return *convolutions_;
    context_->device().bind_thread();
    Availability why;
    convolutions_ = CudnnConvolutions::open(*context_, why);
    if (!convolutions_)
      throw Error(Cause::environment_missing, "convolutions on a GPU need cuDNN: " + why.reason, why.remedy);
    return *convolutions_;
  }

  std::shared_ptr<CudaContext> context_;
  std::unique_ptr<CudnnConvolutions> convolutions_;
};

}  // namespace

std::unique_ptr<ConvOps> make_cuda_conv_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaConvOps>(std::move(context));
}

}  // namespace amdahl
