#include "train/optimizer.h"

#include <fmt/format.h>

namespace amdahl {
namespace {

std::unique_ptr<Buffer> like_parameters(Device& device, Mlp& model) {
  return device.allocate(static_cast<size_t>(model.layout().num_floats) * sizeof(float));
}

class Adam final : public Optimizer {
 public:
  Adam(const Hyper& hyper, Device& device, Ops& ops, Mlp& model)
      : hyper_(hyper), device_(device), ops_(ops), model_(model), m_(like_parameters(device, model)),
        v_(like_parameters(device, model)) {}

  void reset(Stream& stream) override {
    device_.fill_zero(stream, m_->data(), m_->bytes());
    device_.fill_zero(stream, v_->data(), v_->bytes());
  }
  void update(Stream& stream, int64_t begin, int64_t end) override {
    ops_.adam_step(stream, {.params = model_.params() + begin,
                            .grads = model_.grads() + begin,
                            .m = m_->as<float>() + begin,
                            .v = v_->as<float>() + begin,
                            .n = end - begin,
                            .step = model_.step_counter(),
                            .lr = hyper_.learning_rate,
                            .beta1 = hyper_.beta1,
                            .beta2 = hyper_.beta2,
                            .epsilon = hyper_.epsilon});
  }

 private:
  Hyper hyper_;
  Device& device_;
  Ops& ops_;
  Mlp& model_;
  std::unique_ptr<Buffer> m_, v_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const Hyper& hyper, Device& device, Ops& ops, Mlp& model)
      : hyper_(hyper), device_(device), ops_(ops), model_(model), velocity_(like_parameters(device, model)) {}

  void reset(Stream& stream) override { device_.fill_zero(stream, velocity_->data(), velocity_->bytes()); }
  void update(Stream& stream, int64_t begin, int64_t end) override {
    ops_.sgd_step(stream, {.params = model_.params() + begin,
                           .grads = model_.grads() + begin,
                           .velocity = velocity_->as<float>() + begin,
                           .n = end - begin,
                           .lr = hyper_.learning_rate,
                           .momentum = hyper_.momentum});
  }

 private:
  Hyper hyper_;
  Device& device_;
  Ops& ops_;
  Mlp& model_;
  std::unique_ptr<Buffer> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Hyper& hyper, Device& device, Ops& ops, Mlp& model) {
  if (hyper.optimizer == "adam") return std::make_unique<Adam>(hyper, device, ops, model);
  if (hyper.optimizer == "sgd") return std::make_unique<Sgd>(hyper, device, ops, model);
  throw Error(Cause::usage, fmt::format("unknown optimizer '{}'", hyper.optimizer), "adam or sgd");
}

}  // namespace amdahl
