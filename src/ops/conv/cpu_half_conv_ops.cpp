// Convolutions and batch normalisation of fp16 on the CPU.
#include "ops/cpu_half_memory.h"
#include "ops/cpu_half_ops.h"

namespace amdahl {
namespace {

class HalfConvOps final : public ConvOps {
 public:
  HalfConvOps(Device& device, std::unique_ptr<ConvOps> exact) : memory_(device), exact_(std::move(exact)) {}

  void conv_forward(Stream& stream, const ConvForward& a) override {
    if (a.shape.type != DType::f16) return exact_->conv_forward(stream, a);
    const Sizes sizes(a.shape);
    ConvForward conv{in_f32(a.shape), memory_.widened(stream, 0, a.x, sizes.input),
                     memory_.widened(stream, 1, a.w, sizes.weight), nullptr};
    float* const y = memory_.room(stream, 2, sizes.output);
    conv.y = y;
    exact_->conv_forward(stream, conv);
    HalfMemory::narrow(stream, y, a.y, sizes.output);
  }
  void conv_backward_data(Stream& stream, const ConvBackwardData& a) override {
    if (a.shape.type != DType::f16) return exact_->conv_backward_data(stream, a);
    const Sizes sizes(a.shape);
    ConvBackwardData conv{in_f32(a.shape), memory_.widened(stream, 0, a.dy, sizes.output),
                          memory_.widened(stream, 1, a.w, sizes.weight), nullptr, a.accumulate};
    float* const dx =
        a.accumulate ? memory_.widened(stream, 2, a.dx, sizes.input) : memory_.room(stream, 2, sizes.input);
    conv.dx = dx;
    exact_->conv_backward_data(stream, conv);
    HalfMemory::narrow(stream, dx, a.dx, sizes.input);
  }
  void conv_backward_filter(Stream& stream, const ConvBackwardFilter& a) override {
    if (a.shape.type != DType::f16) return exact_->conv_backward_filter(stream, a);
    const Sizes sizes(a.shape);
    exact_->conv_backward_filter(stream, {in_f32(a.shape), memory_.widened(stream, 0, a.x, sizes.input),
                                          memory_.widened(stream, 1, a.dy, sizes.output), a.dw, a.accumulate});
  }
  void batch_norm_forward(Stream& stream, const BatchNormForward& a) override {
    const int64_t values = a.count * a.channels;
    const bool narrows = a.y_type == DType::f16;
    BatchNormForward norm = a;
    norm.type = norm.y_type = DType::f32;
    if (a.type == DType::f16) norm.x = memory_.widened(stream, 0, a.x, values);
    if (narrows) norm.residual = memory_.widened(stream, 1, a.residual, values);
    float* const y = narrows ? memory_.room(stream, 2, values) : nullptr;
    if (narrows) norm.y = y;
    exact_->batch_norm_forward(stream, norm);
    if (narrows) HalfMemory::narrow(stream, y, a.y, values);
  }
  void batch_norm_backward(Stream& stream, const BatchNormBackward& a) override {
    const int64_t values = a.count * a.channels;
    const bool typed = a.type == DType::f16, y_typed = a.y_type == DType::f16;
    BatchNormBackward norm = a;
    norm.type = norm.y_type = DType::f32;
    if (typed) norm.x = memory_.widened(stream, 0, a.x, values);
    if (y_typed) norm.y = a.relu ? memory_.widened(stream, 1, a.y, values) : nullptr;  // null for null
    if (y_typed) norm.dy = memory_.widened(stream, 2, a.dy, values);
    float* const dx = typed ? memory_.room(stream, 3, values) : nullptr;
    if (typed) norm.dx = dx;
    float* const passed = y_typed && a.passed ? memory_.room(stream, 4, values) : nullptr;
    if (passed) norm.passed = passed;
    if (y_typed) norm.dy_added = memory_.widened(stream, 5, a.dy_added, values);
    exact_->batch_norm_backward(stream, norm);
    if (typed) HalfMemory::narrow(stream, dx, a.dx, values);
    if (passed) HalfMemory::narrow(stream, passed, a.passed, values);
  }
  void average_pool(Stream& stream, const void* x, float* y, int64_t rows, int64_t pixels, int64_t channels,
                    DType type) override {
    const void* values = type == DType::f16 ? memory_.widened(stream, 0, x, rows * pixels * channels) : x;
    exact_->average_pool(stream, values, y, rows, pixels, channels, DType::f32);
  }
  void average_pool_gradient(Stream& stream, const float* dy, void* dx, int64_t rows, int64_t pixels, int64_t channels,
                             DType type) override {
    if (type != DType::f16) return exact_->average_pool_gradient(stream, dy, dx, rows, pixels, channels, type);
    float* const wide = memory_.room(stream, 0, rows * pixels * channels);
    exact_->average_pool_gradient(stream, dy, wide, rows, pixels, channels, DType::f32);
    HalfMemory::narrow(stream, wide, dx, rows * pixels * channels);
  }

  void max_pool(Stream& stream, const MaxPoolForward& a) override {
    MaxPoolForward pool = a;
    pool.type = pool.y_type = DType::f32;
    if (a.type == DType::f16) pool.x = memory_.widened(stream, 0, a.x, a.windows.inputs());
    float* const y = a.y_type == DType::f16 ? memory_.room(stream, 1, a.windows.outputs()) : nullptr;
    if (y) pool.y = y;
    exact_->max_pool(stream, pool);
    if (y) HalfMemory::narrow(stream, y, a.y, a.windows.outputs());
  }
  void max_pool_gradient(Stream& stream, const MaxPoolBackward& a) override {
    MaxPoolBackward pool = a;
    pool.type = pool.y_type = DType::f32;
    if (a.y_type == DType::f16) {
      pool.dy = memory_.widened(stream, 0, a.dy, a.windows.outputs());
      pool.dy_added = memory_.widened(stream, 1, a.dy_added, a.windows.outputs());
    }
    float* const dx = a.type == DType::f16 ? memory_.room(stream, 2, a.windows.inputs()) : nullptr;
    if (dx) pool.dx = dx;
    exact_->max_pool_gradient(stream, pool);
    if (dx) HalfMemory::narrow(stream, dx, a.dx, a.windows.inputs());
  }

 private:
  struct Sizes {
    explicit Sizes(const ConvShape& s)
        : input(s.rows * s.height * s.width * s.in_channels),
          output(s.rows * s.out_height() * s.out_width() * s.out_channels),
          weight(s.out_channels * s.kernel * s.kernel * s.in_channels) {}
    int64_t input, output, weight;
  };
  static ConvShape in_f32(ConvShape shape) {
    shape.type = DType::f32;
    return shape;
  }

  HalfMemory memory_;
  std::unique_ptr<ConvOps> exact_;
};

}  // namespace

std::unique_ptr<ConvOps> make_half_conv_ops(Device& device, std::unique_ptr<ConvOps> exact) {
  return std::make_unique<HalfConvOps>(device, std::move(exact));
}

}  // namespace amdahl
