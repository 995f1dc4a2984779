// Strategies without communication: one device, or every device computing the whole batch (replicated).
#include <optional>

#include "parallel/data/ddp.h"

namespace amdahl {
namespace {

class NoCommunication final : public GradientSync {
 public:
  explicit NoCommunication(const SyncContext& context) : context_(context) {
    const ModelSpec& model = context.model.spec();
    if (!model.is_mlp() || context.plan.mesh.pp > 1) return;
    const WeightShard& first = context.model.layout().layers.front().shard;
    const int64_t in = first.columns(), out = first.rows();
    const bool last_too = model.layers.size() == 1;  // the last layer's bias gradient is part of the same call
    if (!context.optimizer.is_adam() || context.optimizer.clips() || context.plan.accumulate > 1 ||
        context.keep_gradients || last_too || !context.ops.gemm().fuses_backward(context.plan.global_batch) ||
        !context.ops.gemm().fuses_update(context.plan.global_batch, in, out))
      return;
    const int64_t begin = context.model.layout().layers.front().weight;
    first_weights_ = context.optimizer.adam_step(begin, begin + in * out);
  }

  const AdamStep* update_in_backward() const override { return first_weights_ ? &*first_weights_ : nullptr; }

  void finish_step(StepStamps* stamps) override {
    Span* span = stamps ? &StepStamps::at(stamps->updates, 0) : nullptr;
    if (span) stamps->start(context_.compute, *span);
    // The first layer's weights come last in the layout.
    const ParameterLayout& layout = context_.model.layout();
    const int64_t end = first_weights_ ? layout.layers.front().weight : layout.num_floats;
    clip_by_own_gradients(context_.optimizer, context_.compute, {{0, layout.num_floats}});
    context_.optimizer.update(context_.compute, 0, end);
    if (span) stamps->end(context_.compute, *span);
  }

  void update_alone() override {
    const int64_t end = context_.model.layout().num_floats;
    clip_by_own_gradients(context_.optimizer, context_.compute, {{0, end}});
    context_.optimizer.update(context_.compute, 0, end);
  }

 private:
  SyncContext context_;
  std::optional<AdamStep> first_weights_;
};

}  // namespace

std::unique_ptr<GradientSync> make_single(const SyncContext& context) {
  if (context.plan.virtual_shards > 0) return make_ordered_sum(context);
  return std::make_unique<NoCommunication>(context);
}

}  // namespace amdahl
