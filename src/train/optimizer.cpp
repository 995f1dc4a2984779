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

class Adam final : public Optimizer {
 public:
  Adam(const Hyper& hyper, Device& device, Ops& ops, Model& model, const std::vector<FloatRange>& owned)
      : hyper_(hyper), ops_(ops), model_(model), m_(device, owned), v_(device, owned) {}

  void reset(Stream& stream) override {
    m_.reset(stream);
    v_.reset(stream);
  }
  void update(Stream& stream, int64_t begin, int64_t end) override {
    const ProfilerRange range("optimizer");
    ops_.optimizer().adam_step(stream, adam_step(begin, end));
  }
  bool is_adam() const override { return true; }
  AdamStep adam_step(int64_t begin, int64_t end) override {
    return AdamStep{.params = model_.params() + begin,
                    .grads = model_.grads() + begin,
                    .m = m_.of(begin, end),
                    .v = v_.of(begin, end),
                    .n = end - begin,
                    .step = model_.step_counter(),
                    .lr = hyper_.learning_rate,
                    .beta1 = hyper_.beta1,
                    .beta2 = hyper_.beta2,
                    .epsilon = hyper_.epsilon};
  }

 private:
  Hyper hyper_;
  Ops& ops_;
  Model& model_;
  StateArray m_, v_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const Hyper& hyper, Device& device, Ops& ops, Model& model, const std::vector<FloatRange>& owned)
      : hyper_(hyper), ops_(ops), model_(model), velocity_(device, owned) {}

  void reset(Stream& stream) override { velocity_.reset(stream); }
  void update(Stream& stream, int64_t begin, int64_t end) override {
    const ProfilerRange range("optimizer");
    ops_.optimizer().sgd_step(stream, {.params = model_.params() + begin,
                                       .grads = model_.grads() + begin,
                                       .velocity = velocity_.of(begin, end),
                                       .n = end - begin,
                                       .lr = hyper_.learning_rate,
                                       .momentum = hyper_.momentum});
  }

 private:
  Hyper hyper_;
  Ops& ops_;
  Model& model_;
  StateArray velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Hyper& hyper, Device& device, Ops& ops, Model& model,
                                          const std::vector<FloatRange>& owned) {
  if (hyper.optimizer == "adam") return std::make_unique<Adam>(hyper, device, ops, model, owned);
  if (hyper.optimizer == "sgd") return std::make_unique<Sgd>(hyper, device, ops, model, owned);
  throw Error(Cause::usage, fmt::format("unknown optimizer '{}'", hyper.optimizer), "adam or sgd");
}

int num_state_arrays(const Hyper& hyper) { return hyper.optimizer == "adam" ? 2 : 1; }

}  // namespace amdahl
