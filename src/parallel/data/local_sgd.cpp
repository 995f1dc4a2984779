// local_sgd (Stich 2019): each rank takes so many steps alone, from the mean gradient of its own rows; then the ranks'
// parameters and the state of their optimizers are averaged, so that all ranks hold the same bits again. Between
// averages they differ; `finish_updates` averages early: at the end of an epoch, before a checkpoint and before
// replicas are compared.
#include "parallel/data/ddp.h"

namespace amdahl {
namespace {

class LocalSgd final : public GradientSync {
 public:
  explicit LocalSgd(const SyncContext& context)
      : context_(context),
        scale_(context.device.allocate(sizeof(float))),
        factor_(static_cast<float>(static_cast<double>(context.plan.global_batch) /
                                   static_cast<double>(data_share(context.plan, context.communicator.rank()).rows()))) {
    context.model.scale_gradient(scale_->as<float>());
  }

  void reset() override {
    context_.device.copy_in(context_.compute, scale_->data(), &factor_, sizeof factor_);
    steps_alone_ = 0;
  }

  void finish_step(StepStamps* stamps) override {
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->updates, 0));
    update_alone();
    if (stamps) stamps->end(context_.compute, stamps->updates[0]);
    ++steps_alone_;
    const bool averages = steps_alone_ == context_.plan.local_sgd;
    if (stamps) {
      stamps->communicates_on_compute = true;
      stamps->set_bytes(0, averages ? bytes() : 0);
      stamps->start(context_.compute, StepStamps::at(stamps->collectives, 0));
      stamps->start(context_.compute, StepStamps::at(stamps->stalls, 0));
    }
    if (averages) finish_updates();
    if (stamps) {
      stamps->end(context_.compute, stamps->collectives[0]);
      stamps->end(context_.compute, stamps->stalls[0]);
    }
  }

  void finish_updates() override {
    if (steps_alone_ == 0) return;
    steps_alone_ = 0;
    average(context_.model.params());
    for (float* const array : context_.optimizer.state()) average(array);
  }

  void update_alone() override {
    const int64_t end = context_.model.layout().num_floats;
    clip_by_own_gradients(context_.optimizer, context_.compute, {{0, end}});
    context_.optimizer.update(context_.compute, 0, end);
  }

  bool updates_finished() const override { return steps_alone_ == 0; }
  int64_t period() const override { return context_.plan.local_sgd; }

 private:
  size_t num_floats() const { return static_cast<size_t>(context_.model.layout().num_floats); }
  int64_t bytes() const {
    return static_cast<int64_t>(num_floats() * sizeof(float) * (1 + context_.optimizer.state().size()));
  }
  void average(float* values) {
    context_.communicator.all_reduce(values, num_floats(), DType::f32, ReduceOp::avg, context_.compute);
  }

  SyncContext context_;
  std::unique_ptr<Buffer> scale_;  // of the loss's gradient: from the mean over the global batch to that of own rows
  const float factor_;
  int64_t steps_alone_ = 0;
};

}  // namespace

std::unique_ptr<GradientSync> make_local_sgd(const SyncContext& context) { return std::make_unique<LocalSgd>(context); }

// Two arrays of state, as of Adam; the strategy counts what it sends.
int64_t local_sgd_traffic(const ParallelPlan& plan, const ModelSpec& model) {
  constexpr int64_t kArrays = 3;
  return kArrays * make_layout(model).num_floats * static_cast<int64_t>(sizeof(float)) / plan.local_sgd;
}

}  // namespace amdahl
