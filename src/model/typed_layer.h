// TypedLayer: a layer that computes in the compute type and makes all of its gradients in one pass. Every kind but
// dense is one.
#pragma once

#include <memory>
#include <vector>

#include "model/layer.h"
#include "model/tensor_group.h"
#include "model/token_part.h"
#include "ops/ops.h"
#include "plan/layer_kinds.h"

namespace amdahl {

/// Memory that the layers of a model use one after another: nothing in it outlives the call that wrote it.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}
  /// Before allocate: some call needs `bytes` at once.
  void reserve(int64_t bytes) { bytes_ = std::max(bytes_, bytes); }
  void allocate() {
    if (bytes_ > 0) buffer_ = device_.allocate(static_cast<size_t>(bytes_));
  }
  std::byte* data() const { return buffer_ ? buffer_->as<std::byte>() : nullptr; }

 private:
  Device& device_;
  int64_t bytes_ = 0;
  std::unique_ptr<Buffer> buffer_;
};

/// Divides memory into parts, each on a 256-byte boundary. With null memory it only counts bytes.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* memory) : base_(memory) {}
  void* take(int64_t elements, DType type) {
    const int64_t begin = bytes_;
    bytes_ += (elements * static_cast<int64_t>(size_of(type)) + 255) / 256 * 256;
    return base_ ? base_ + begin : nullptr;
  }
  float* floats(int64_t count) { return static_cast<float*>(take(count, DType::f32)); }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

/// What such a layer is made from. All references outlive it.
struct LayerContext {
  LayerSpec spec;
  size_t index = 0;     // in the model
  Shape input, output;  // of one row
  LayerParameters parameters;
  int64_t stored_floats = 0;  // of the layer in the parameter layout, from the first float in memory
  float* first_parameter = nullptr;
  Device& device;
  Ops& ops;
  Scratch& scratch;
  bool tied = false;  // embedding: the token head uses its table, and its backward runs first
  Recompute recompute = Recompute::none;
  TensorGroup* tensor = nullptr;  // of a layer that tensor parallelism divides; null: the layer is whole here
  TensorGroup* tokens = nullptr;  // the ranks that divide the tokens of input or output; null: none
  bool takes_part = false, gives_part = false;  // whether they divide those of the input, of the output
  // Whether the layer below and the one above compute on images and are held here: such layers pass each other images
  // and gradients in the compute type, and gradients in two parts.
  bool images_below = false, images_above = false;
  Scratch* typed = nullptr;  // parameters are gathered for each pass: their copies in the compute type are here
};

class TypedLayer : public Layer {
 public:
  explicit TypedLayer(const LayerContext& context) : TypedLayer(context, context.ops.compute_type()) {}
  /// `type`: in which the layer computes.
  TypedLayer(const LayerContext& context, DType type) : context_(context), type_(type) {
    if (context.typed && type != DType::f32)
      context.typed->reserve(context.stored_floats * static_cast<int64_t>(size_of(type)));
  }

  int64_t input_width() const final { return count_of(context_.input); }
  int64_t output_width() const final { return count_of(context_.output); }
  LayerState make_state(int64_t max_rows) const override;
  void forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) final;
  void backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                      const GradientEpilogue& below, bool accumulate) final;
  /// Does nothing where backward_input is called too: that computed these gradients.
  void backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       WeightRows part, bool own_bias, bool accumulate, int reserved_sms) final;
  void backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                const GradientEpilogue& below, bool own_bias, bool accumulate) final;

 protected:
  virtual void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) = 0;
  /// Sets d_input (null: not wanted) and the gradients of the parameters; adds to the latter with `accumulate`.
  virtual void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                         float* d_input, bool accumulate) = 0;

  const ParameterView& tensor(size_t index) const { return context_.parameters.tensors[index]; }
  std::unique_ptr<Buffer> buffer(int64_t elements, DType type) const {
    return context_.device.allocate(static_cast<size_t>(elements) * size_of(type));
  }
  Ops& ops() const { return context_.ops; }
  DType type() const { return type_; }
  const LayerSpec& spec() const { return context_.spec; }
  const LayerContext& context() const { return context_; }
  bool computes_in_f32() const { return type_ == DType::f32; }
  /// The place among the ranks that divide the layer.
  TensorPlace place() const { return context_.tensor ? context_.tensor->place() : TensorPlace{}; }
  /// Adds up the ranks' parts of a result. Does nothing in a whole layer.
  void sum_parts(Stream& stream, void* data, int64_t count, DType type) const {
    if (context_.tensor) context_.tensor->sum(stream, data, count, type);
  }

  TokenPart input_tokens(int64_t rows) const {
    return {context_.takes_part ? context_.tokens : nullptr, rows * context_.input[0]};
  }
  TokenPart output_tokens(int64_t rows) const {
    return {context_.gives_part ? context_.tokens : nullptr, rows * context_.input[0]};
  }
  /// Scratch for all tokens of an input or output that ranks divide, as the first array in the scratch memory.
  void reserve_tokens(const TokenPart& part, int64_t width) const {
    ScratchParts parts(nullptr);
    parts.floats(part.gathered() * width);
    if (part.is_divided()) context_.scratch.reserve(parts.bytes());
  }
  float* token_scratch() const { return reinterpret_cast<float*>(context_.scratch.data()); }
  /// Copies this rank's tokens of `whole`.
  void take_tokens(Stream& stream, const TokenPart& part, float* whole, float* to, int64_t width) const {
    if (part.own() == 0) return;
    context_.device.copy_within(stream, to, part.mine(whole, width, DType::f32),
                                static_cast<size_t>(part.own() * width) * sizeof(float));
  }
  /// Gradients of whole parameters that each rank of `group` computed from its own tokens or heads, `sums`
  /// [tensors, width]: sums them over the ranks, and sets or adds to those of the parameters.
  void finish_gradients(Stream& stream, TensorGroup& group, float* sums, const std::vector<size_t>& tensors,
                        int64_t width, bool accumulate) const;

  /// Converts all parameters of the layer to the compute type, once per forward; nothing to do in f32. Where parameters
  /// are gathered for each pass, backward repeats it.
  void convert_parameters(Stream& stream);
  /// A parameter in the compute type, as of the last convert_parameters.
  const void* typed(size_t index) const;

 private:
  LayerContext context_;
  DType type_;
  std::unique_ptr<Buffer> typed_parameters_;
  bool converts_ = false;  // has converted its parameters
};

/// Makes the layer of any kind but dense and token_head. Error{environment_missing} where this build lacks its
/// operations.
std::unique_ptr<Layer> make_typed_layer(const LayerContext& context);

}  // namespace amdahl
