// async_steps: updates use the gradients of an earlier step, so that a sum has as long as the steps in between to
// arrive, and a rank may be as many steps ahead of the slowest (bounded staleness, Ho et al. 2013). The gradient of
// step t, taken at that step's parameters, is applied after step t + async_steps on every rank: the bound is always
// reached and never exceeded, all ranks hold the same bits, and reruns are equal.
//
// The first steps after a start or `finish_updates` change nothing; `finish_updates` applies what is on its way.
#include <algorithm>

#include "parallel/data/ddp.h"

namespace amdahl {
namespace {

class LateUpdates final : public GradientSync {
 public:
  explicit LateUpdates(const SyncContext& context) : context_(context), ready_(context.device.make_event()) {
    for (int64_t i = 0; i <= context.plan.async_steps; ++i)
      slots_.push_back({context.device.allocate(num_bytes()), context.device.make_event()});
  }

  void reset() override { sent_ = applied_ = 0; }

  void finish_step(StepStamps* stamps) override {
    if (stamps) {
      stamps->set_bytes(0, static_cast<int64_t>(num_bytes()));
      stamps->start(context_.comm, StepStamps::at(stamps->collectives, 0));
    }
    send();
    if (stamps) stamps->end(context_.comm, stamps->collectives[0]);
    const bool applies = sent_ - applied_ > context_.plan.async_steps;
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->stalls, 0));
    if (applies) context_.compute.wait(*oldest().summed);
    if (stamps) stamps->end(context_.compute, stamps->stalls[0]);
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->updates, 0));
    if (applies) apply();
    if (stamps) stamps->end(context_.compute, stamps->updates[0]);
  }

  void finish_updates() override {
    while (applied_ < sent_) {
      context_.compute.wait(*oldest().summed);
      apply();
    }
  }

  void update_alone() override {
    const int64_t end = context_.model.layout().num_floats;
    clip_by_own_gradients(context_.optimizer, context_.compute, {{0, end}});
    context_.optimizer.update(context_.compute, 0, end);
  }

  bool updates_finished() const override { return applied_ == sent_; }
  int64_t period() const override { return context_.plan.async_steps + 1; }
  int64_t most_steps_behind() const override { return most_behind_; }

 private:
  struct Slot {
    std::unique_ptr<Buffer> gradients;
    std::unique_ptr<Event> summed;
  };

  size_t num_bytes() const { return static_cast<size_t>(context_.model.layout().num_floats) * sizeof(float); }
  Slot& slot_of(int64_t step) { return slots_[static_cast<size_t>(step) % slots_.size()]; }
  Slot& oldest() { return slot_of(applied_); }

  // The slot's earlier gradients were applied before, in the order of the compute stream.
  void send() {
    Slot& slot = slot_of(sent_++);
    context_.device.copy_within(context_.compute, slot.gradients->data(), context_.model.grads(), num_bytes());
    context_.compute.record(*ready_);
    context_.comm.wait(*ready_);
    context_.communicator.all_reduce(slot.gradients->data(), num_bytes() / sizeof(float), DType::f32, ReduceOp::sum,
                                     context_.comm);
    context_.comm.record(*slot.summed);
  }

  void apply() {
    most_behind_ = std::max(most_behind_, sent_ - 1 - applied_);
    context_.device.copy_within(context_.compute, context_.model.grads(), oldest().gradients->data(), num_bytes());
    ++applied_;
    update_alone();
  }

  SyncContext context_;
  std::vector<Slot> slots_;
  std::unique_ptr<Event> ready_;
  int64_t sent_ = 0, applied_ = 0;  // gradients since the start
  int64_t most_behind_ = 0;
};

}  // namespace

std::unique_ptr<GradientSync> make_late_updates(const SyncContext& context) {
  return std::make_unique<LateUpdates>(context);
}

}  // namespace amdahl
