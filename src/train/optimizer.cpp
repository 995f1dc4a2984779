#include "train/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/profiler_ranges.h"

namespace amdahl {
namespace {

/// One float of state for every owned parameter.
class StateArray {
 public:
  StateArray(Device& device, const std::vector<FloatRange>& owned) : device_(device), owned_(owned) {
    int64_t floats = 0;
    for (const FloatRange& range : owned_) floats += range.floats();
    buffer_ = device.allocate(static_cast<size_t>(std::max<int64_t>(1, floats)) * sizeof(float));
  }
  void reset(Stream& stream) { device_.fill_zero(stream, buffer_->data(), buffer_->bytes()); }
  float* data() { return buffer_->as<float>(); }
  /// State of the parameters [begin, end) of the layout, which lie within one owned range.
  float* of(int64_t begin, int64_t end) {
    int64_t at = 0;
    for (const FloatRange& range : owned_) {
      if (begin >= range.begin && end <= range.end) return buffer_->as<float>() + at + (begin - range.begin);
      at += range.floats();
    }
    throw Error(Cause::internal, fmt::format("parameters [{}, {}) are not this rank's to update", begin, end));
  }

 private:
  Device& device_;
  std::vector<FloatRange> owned_;
  std::unique_ptr<Buffer> buffer_;
};

/// What every optimizer reads on the device in a step: the learning rate of a schedule, the scale that clips, and in
/// fp16 the scale of the loss, for which the norm of the whole gradient is needed too: it is finite where every
/// gradient is.
class StepInputs {
 public:
  StepInputs(const Hyper& hyper, Device& device, Ops& ops, Model& model)
      : hyper_(hyper), device_(device), ops_(ops), model_(model) {
    if (ops.compute_type() == DType::f16) loss_scale_ = device.allocate(sizeof(LossScale));
    if (has_rate() || clips()) values_ = device.allocate(kNumValues * sizeof(float));
  }

  bool clips() const { return hyper_.clip_norm > 0 || loss_scale_; }
  LossScale* loss_scale() const { return loss_scale_ ? loss_scale_->as<LossScale>() : nullptr; }
  void reset(Stream& stream) {
    if (loss_scale_) device_.copy_in(stream, loss_scale_->data(), &first_loss_scale_, sizeof first_loss_scale_);
  }
  StepFactors factors() const {
    return {.rate = has_rate() ? at(kRate) : nullptr,
            .grad_scale = clips() ? at(kScale) : nullptr,
            .skip = loss_scale_ ? &loss_scale()->skip : nullptr};
  }
  void begin_step(Stream& stream) {
    clipped_ = false;
    if (has_rate())
      ops_.optimizer().set_rate(stream, {hyper_.rate_plan, hyper_.learning_rate, model_.step_counter(), at(kRate)});
  }
  float* sum_of_squares(Stream& stream, const std::vector<FloatRange>& ranges) {
    if (ranges.empty()) device_.fill_zero(stream, at(kSum), sizeof(float));
    bool accumulate = false;
    for (const FloatRange& range : ranges) {
      ops_.optimizer().sum_of_squares(stream,
                                      {model_.storage().owned_grad(range.begin), range.floats(), at(kSum), accumulate});
      accumulate = true;
    }
    return at(kSum);
  }
  void clip(Stream& stream) {
    ops_.optimizer().clip_scale(stream, {at(kSum), hyper_.clip_norm, at(kScale), loss_scale()});
    clipped_ = true;
  }
  /// An update before the norm is known would use the scale of the step before.
  void require_clipped() const {
    if (clips() && !clipped_) throw Error(Cause::internal, "an update before the norm of the whole gradient is known");
  }

 private:
  enum Value : int64_t { kRate, kSum, kScale, kNumValues };
  bool has_rate() const { return !hyper_.rate_plan.is_constant(); }
  float* at(Value value) const { return values_->as<float>() + value; }

  Hyper hyper_;
  Device& device_;
  Ops& ops_;
  Model& model_;
  const LossScale first_loss_scale_{};
  std::unique_ptr<Buffer> values_, loss_scale_;
  bool clipped_ = false;  // in the step that is being enqueued
};

class OptimizerBase : public Optimizer {
 public:
  OptimizerBase(const Hyper& hyper, Device& device, Ops& ops, Model& model)
      : hyper_(hyper), ops_(ops), model_(model), inputs_(hyper, device, ops, model), memory_(device) {}

  uint32_t* sum_changes() override {
    if (!changes_) changes_ = memory_.allocate(2 * (1 + state().size()) * sizeof(uint32_t));
    return changes_->as<uint32_t>();
  }

  void begin_step(Stream& stream) override { inputs_.begin_step(stream); }
  bool clips() const override { return inputs_.clips(); }
  LossScale* loss_scale() override { return inputs_.loss_scale(); }
  float* sum_of_squares(Stream& stream, const std::vector<FloatRange>& ranges) override {
    return inputs_.sum_of_squares(stream, ranges);
  }
  void clip(Stream& stream) override { inputs_.clip(stream); }

 protected:
  Hyper hyper_;
  Ops& ops_;
  Model& model_;
  StepInputs inputs_;
  ChangeSums changes() { return {changes_ ? changes_->as<uint32_t>() : nullptr}; }

 private:
  Device& memory_;
  std::unique_ptr<Buffer> changes_;
};

/// A flag for each line of the layout.
std::vector<uint8_t> decay_flags(int64_t num_floats, const std::vector<FloatRange>& decaying) {
  std::vector<uint8_t> flags(static_cast<size_t>((num_floats + kDecayLine - 1) / kDecayLine), 0);
  for (const FloatRange& range : decaying) {
    if (range.begin % kDecayLine != 0 || range.end % kDecayLine != 0)
      throw Error(Cause::internal, fmt::format("weight decay of parameters [{}, {})", range.begin, range.end));
    std::fill(flags.begin() + range.begin / kDecayLine, flags.begin() + range.end / kDecayLine, uint8_t{1});
  }
  return flags;
}

/// Adam and AdamW.
class Adam final : public OptimizerBase {
 public:
  Adam(const Hyper& hyper, Device& device, Ops& ops, Model& model, const std::vector<FloatRange>& owned,
       const std::vector<FloatRange>& decaying)
      : OptimizerBase(hyper, device, ops, model), device_(device), m_(device, owned), v_(device, owned) {
    if (hyper.optimizer != "adamw") hyper_.weight_decay = 0;
    if (hyper_.weight_decay == 0 || decaying.empty()) return;
    flags_ = decay_flags(model.layout().num_floats, decaying);
    decays_ = device.allocate(flags_.size());
  }

  void reset(Stream& stream) override {
    if (decays_) device_.copy_in(stream, decays_->data(), flags_.data(), flags_.size());
    inputs_.reset(stream);
    m_.reset(stream);
    v_.reset(stream);
  }
  void update(Stream& stream, int64_t begin, int64_t end) override {
    const ProfilerRange range("optimizer");
    ops_.optimizer().adam_step(stream, adam_step(begin, end));
  }
  bool is_adam() const override { return true; }
  AdamStep adam_step(int64_t begin, int64_t end) override {
    inputs_.require_clipped();
    return AdamStep{.params = model_.storage().owned_param(begin),
                    .grads = model_.storage().owned_grad(begin),
                    .m = m_.of(begin, end),
                    .v = v_.of(begin, end),
                    .n = end - begin,
                    .step = model_.step_counter(),
                    .lr = hyper_.learning_rate,
                    .beta1 = hyper_.beta1,
                    .beta2 = hyper_.beta2,
                    .epsilon = hyper_.epsilon,
                    .factors = inputs_.factors(),
                    .weight_decay = hyper_.weight_decay,
                    .decays = decays_ ? decays_->as<uint8_t>() : nullptr,
                    .first = begin,
                    .changes = changes()};
  }
  std::vector<float*> state() override { return {m_.data(), v_.data()}; }

 private:
  Device& device_;
  std::vector<uint8_t> flags_;  // outlives their copy
  std::unique_ptr<Buffer> decays_;
  StateArray m_, v_;
};

class Sgd final : public OptimizerBase {
 public:
  Sgd(const Hyper& hyper, Device& device, Ops& ops, Model& model, const std::vector<FloatRange>& owned)
      : OptimizerBase(hyper, device, ops, model), velocity_(device, owned) {}

  void reset(Stream& stream) override {
    inputs_.reset(stream);
    velocity_.reset(stream);
  }
  void update(Stream& stream, int64_t begin, int64_t end) override {
    const ProfilerRange range("optimizer");
    inputs_.require_clipped();
    ops_.optimizer().sgd_step(stream, {.params = model_.storage().owned_param(begin),
                                       .grads = model_.storage().owned_grad(begin),
                                       .velocity = velocity_.of(begin, end),
                                       .n = end - begin,
                                       .lr = hyper_.learning_rate,
                                       .momentum = hyper_.momentum,
                                       .factors = inputs_.factors(),
                                       .changes = changes()});
  }
  std::vector<float*> state() override { return {velocity_.data()}; }

 private:
  StateArray velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Hyper& hyper, Device& device, Ops& ops, Model& model,
                                          const std::vector<FloatRange>& owned,
                                          const std::vector<FloatRange>& decaying) {
  if (hyper.optimizer == "adam" || hyper.optimizer == "adamw")
    return std::make_unique<Adam>(hyper, device, ops, model, owned, decaying);
  if (hyper.optimizer == "sgd") return std::make_unique<Sgd>(hyper, device, ops, model, owned);
  throw Error(Cause::usage, fmt::format("unknown optimizer '{}'", hyper.optimizer), "adam, adamw or sgd");
}

std::vector<FloatRange> decaying_ranges(const ParameterLayout& layout) {
  std::vector<FloatRange> ranges;
  for (size_t i = layout.range.first; i < layout.range.last; ++i)
    for (const TensorSlice& tensor : layout.layers[i].tensors) {
      const int64_t end = tensor.begin + tensor.spec.stored_floats();  // up to the next line, the padding is zero
      if (tensor.spec.decays()) ranges.push_back({tensor.begin, (end + kDecayLine - 1) / kDecayLine * kDecayLine});
    }
  return ranges;
}

int num_state_arrays(const Hyper& hyper) { return hyper.optimizer == "sgd" ? 1 : 2; }

std::string state_name(const Hyper& hyper, int array) {
  if (hyper.optimizer == "sgd") return "sgd.velocity";
  return array == 0 ? "adam.m" : "adam.v";
}

}  // namespace amdahl
