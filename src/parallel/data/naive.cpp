// dp: the naive baseline that the study compares against (one master device, as DataParallel in common frameworks): in
// each step device 0 broadcasts the weights, scatters the batch, reduces the gradients and updates alone. Nothing
// overlaps.
#include "parallel/data/strategy.h"

namespace amdahl {
namespace {

class NaiveDataParallel final : public GradientSync {
 public:
  explicit NaiveDataParallel(const SyncContext& context) : context_(context) {}

  void begin_step(const BatchView& full, float* staged_features, float* staged_targets) override {
    const ModelSpec& spec = context_.model.spec();
    hand_out(full.features, staged_features, spec.input_width);
    hand_out(full.targets, staged_targets, spec.target_width());
    context_.communicator.broadcast(context_.model.params(), num_floats(), DType::f32, 0, context_.compute);
  }

  void finish_step(StepStamps* stamps) override {
    if (stamps) {
      stamps->communicates_on_compute = true;
      stamps->set_bytes(0, static_cast<int64_t>(num_floats() * sizeof(float)));
    }
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->collectives, 0));
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->stalls, 0));
    context_.communicator.reduce(context_.model.grads(), num_floats(), DType::f32, ReduceOp::sum, 0, context_.compute);
    if (stamps) stamps->end(context_.compute, stamps->collectives[0]);
    if (stamps) stamps->end(context_.compute, stamps->stalls[0]);
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->updates, 0));
    update_alone();
    if (LossScale* scale = context_.optimizer.loss_scale())  // rank 0 decides whether the step counts
      context_.communicator.broadcast(scale, sizeof(LossScale) / sizeof(float), DType::f32, 0, context_.compute);
    if (stamps) stamps->end(context_.compute, stamps->updates[0]);
  }

  void update_alone() override {
    if (context_.communicator.rank() != 0) return;
    const int64_t end = context_.model.layout().num_floats;
    clip_by_own_gradients(context_.optimizer, context_.compute, {{0, end}});
    context_.optimizer.update(context_.compute, 0, end);
  }

 private:
  size_t num_floats() const { return static_cast<size_t>(context_.model.layout().num_floats); }

  // Scatters rank 0's batch: every rank's rows go to its staging buffer.
  void hand_out(const float* full, float* staged, int64_t width) {
    const int rank = context_.communicator.rank();
    const auto share = [&](int r) { return data_share(context_.plan, r); };
    const auto count = [&](int r) { return static_cast<size_t>(share(r).rows() * width); };
    if (rank != 0) {
      context_.communicator.recv(staged, count(rank), DType::f32, 0, context_.compute);
      return;
    }
    context_.device.copy_within(context_.compute, staged, full, count(0) * sizeof(float));
    for (int r = 1; r < context_.plan.mesh.dp; ++r)
      context_.communicator.send(full + share(r).begin * width, count(r), DType::f32, r, context_.compute);
  }

  SyncContext context_;
};

}  // namespace

std::unique_ptr<GradientSync> make_naive_data_parallel(const SyncContext& context) {
  return std::make_unique<NaiveDataParallel>(context);
}

int64_t naive_data_parallel_traffic(const ParallelPlan& plan, const ModelSpec& model, int rank) {
  const int64_t floats = 2 * make_layout(model).num_floats;  // weights and gradients
  const int64_t row = model.input_width + model.target_width();
  const RowRange mine = data_share(plan, rank);
  const int64_t rows = rank == 0 ? plan.global_batch - mine.rows() : mine.rows();
  return (floats + rows * row) * static_cast<int64_t>(sizeof(float));
}

}  // namespace amdahl
