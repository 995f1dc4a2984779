// Convolutions, batch normalisation and pooling on the CPU: convolutions by oneDNN, the others by cpu_conv_kernels.
#include "ops/conv/cpu_convolutions.h"
#include "ops/cpu_ops.h"
#include "ops/cpu_scratch.h"

namespace amdahl {
namespace {

class CpuConvOps final : public ConvOps {
 public:
  void conv_forward(Stream& stream, const ConvForward& a) override {
    require_f32(a.shape.type, "convolutions");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { convolutions_.forward(worker, a); });
  }
  void conv_backward_data(Stream& stream, const ConvBackwardData& a) override {
    require_f32(a.shape.type, "convolutions");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { convolutions_.backward_data(worker, a); });
  }
  void conv_backward_filter(Stream& stream, const ConvBackwardFilter& a) override {
    require_f32(a.shape.type, "convolutions");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { convolutions_.backward_filter(worker, a); });
  }

  void batch_norm_forward(Stream& stream, const BatchNormForward& a) override {
    require_f32(a.type, "batch normalisation");
    require_f32(a.y_type, "batch normalisation");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { kernels_.batch_norm_forward(a, work_of(worker, a.channels)); });
  }
  void batch_norm_backward(Stream& stream, const BatchNormBackward& a) override {
    require_f32(a.type, "batch normalisation");
    require_f32(a.y_type, "batch normalisation");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { kernels_.batch_norm_backward(a, work_of(worker, a.channels)); });
  }

  void average_pool(Stream& stream, const void* x, float* y, int64_t rows, int64_t pixels, int64_t channels,
                    DType type) override {
    require_f32(type, "pooling");
    as_cpu(stream).enqueue(
        [=, this] { kernels_.average_pool(static_cast<const float*>(x), y, rows, pixels, channels); });
  }
  void average_pool_gradient(Stream& stream, const float* dy, void* dx, int64_t rows, int64_t pixels, int64_t channels,
                             DType type) override {
    require_f32(type, "pooling");
    as_cpu(stream).enqueue(
        [=, this] { kernels_.average_pool_gradient(dy, static_cast<float*>(dx), rows, pixels, channels); });
  }

  void max_pool(Stream& stream, const MaxPoolForward& a) override {
    require_f32(a.type, "pooling");
    require_f32(a.y_type, "pooling");
    as_cpu(stream).enqueue([this, a] { kernels_.max_pool(a); });
  }
  void max_pool_gradient(Stream& stream, const MaxPoolBackward& a) override {
    require_f32(a.type, "pooling");
    require_f32(a.y_type, "pooling");
    as_cpu(stream).enqueue([this, a] { kernels_.max_pool_gradient(a); });
  }

 private:
  static BatchNormWork work_of(CpuStream& worker, int64_t channels) {
    const auto count = static_cast<size_t>(channels);
    auto* sums = static_cast<double*>(worker.scratch(0, static_cast<size_t>(normalisation_scratch(channels).block0)));
    return {sums, reinterpret_cast<float*>(sums + 2 * count)};
  }

  const CpuConvKernels& kernels_ = best_cpu_conv_kernels();
  CpuConvolutions convolutions_{kernels_};
};

}  // namespace

std::unique_ptr<ConvOps> make_cpu_conv_ops() { return std::make_unique<CpuConvOps>(); }

}  // namespace amdahl
