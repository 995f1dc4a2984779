// Pooling layers of convolutional models: of the largest pixels, and of means.
#include "model/image_layer.h"

namespace amdahl {
namespace {

/// The largest of the pixels of each window, by channel. Of equal ones the first counts, as in PyTorch.
class MaxPoolLayer final : public ImageLayer {
 public:
  using ImageLayer::ImageLayer;

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    state.saved.push_back(buffer(max_rows * output_width(), DType::u8));
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    ops().conv().max_pool(
        stream, {windows(rows.rows), input, state.out(), state.saved[0]->as<uint8_t>(), input_type(), output_type()});
  }
  void gradients(Stream& stream, const LayerRows& rows, const float*, const LayerState& state, float* d_input,
                 bool) override {
    if (d_input)
      ops().conv().max_pool_gradient(stream, {windows(rows.rows), state.d_out(), state.d_added,
                                              state.saved[0]->as<uint8_t>(), d_input, input_type(), output_type()});
  }

 private:
  PoolWindows windows(int64_t rows) const {
    const Shape& input = context().input;
    return {rows, input[0], input[1], input[2], spec().kernel, spec().stride};
  }
};

/// Mean over the pixels of each channel.
class AveragePoolLayer final : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    ops().conv().average_pool(stream, input, state.out(), rows.rows, pixels(), context().input[2], image_type());
  }
  void gradients(Stream& stream, const LayerRows& rows, const float*, const LayerState& state, float* d_input,
                 bool) override {
    if (d_input)
      ops().conv().average_pool_gradient(stream, state.d_out(), d_input, rows.rows, pixels(), context().input[2],
                                         image_type());
  }

 private:
  DType image_type() const { return context().images_below ? type() : DType::f32; }
  int64_t pixels() const { return context().input[0] * context().input[1]; }
};

}  // namespace

std::unique_ptr<Layer> make_max_pool_layer(const LayerContext& context) {
  return std::make_unique<MaxPoolLayer>(context);
}
std::unique_ptr<Layer> make_average_pool_layer(const LayerContext& context) {
  return std::make_unique<AveragePoolLayer>(context);
}

}  // namespace amdahl
