// zero1 (ZeRO stage 1, Rajbhandari et al. 2020): the batch is split as in ddp, but each rank keeps optimizer state for its
// part of every bucket only. Gradients are reduced to the part's owner, which updates it; the new parameters then go to
// everybody. All of that runs on the communication stream, while backward goes on.
//
// A bucket's short front (see Shards) is all-reduced and updated by every rank alike.
#include <algorithm>

#include "parallel/bucketed_strategy.h"

namespace amdahl {
namespace {

FloatRange parameters_of(const FloatRange& front) { return {std::max(front.begin, ParameterLayout::kStatsFloats), front.end}; }

class ShardedDataParallel final : public BucketedStrategy {
 public:
  explicit ShardedDataParallel(const StrategyContext& context) : BucketedStrategy(context) {
    for (const Bucket& bucket : buckets()) shards_.push_back(divide(bucket, context.plan.num_devices));
  }

 private:
  bool changes_parameters() const override { return true; }

  void send(size_t i, bool) override {
    const StrategyContext& c = context();
    const Shards& shards = shards_[i];
    const FloatRange front = shards.front(), shared = parameters_of(front), mine = shards.part(c.communicator.rank());
    const auto count = static_cast<size_t>(shards.part_floats);
    float *const grads = c.model.grads(), *const params = c.model.params();
    if (front.floats() > 0)
      c.communicator.all_reduce(grads + front.begin, static_cast<size_t>(front.floats()), DType::f32, ReduceOp::sum, c.comm);
    if (count > 0)
      c.communicator.reduce_scatter(grads + shards.parts, grads + mine.begin, count, DType::f32, ReduceOp::sum, c.comm);
    if (shared.floats() > 0) c.optimizer.update(c.comm, shared.begin, shared.end);
    if (count == 0) return;
    c.optimizer.update(c.comm, mine.begin, mine.end);
    c.communicator.all_gather(params + mine.begin, params + shards.parts, count, DType::f32, c.comm);
  }

  std::vector<Shards> shards_;  // by bucket
};

}  // namespace

std::unique_ptr<Strategy> make_sharded_data_parallel(const StrategyContext& context) {
  return std::make_unique<ShardedDataParallel>(context);
}

int64_t sharded_data_parallel_traffic(const ParallelPlan& plan, const ModelSpec& model, int) {
  int64_t floats = 0;
  for (const Bucket& bucket : make_buckets(model, make_layout(model), plan)) {
    const Shards shards = divide(bucket, plan.num_devices);
    floats += shards.front().floats() + 2 * shards.part_floats;
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

std::vector<FloatRange> sharded_data_parallel_owned(const ParallelPlan& plan, const ModelSpec& model, int rank) {
  std::vector<FloatRange> owned;
  for (const Bucket& bucket : make_buckets(model, make_layout(model), plan)) {
    const Shards shards = divide(bucket, plan.num_devices);
    for (const FloatRange& range : {parameters_of(shards.front()), shards.part(rank)}) {
      if (range.floats() <= 0) continue;
      if (!owned.empty() && owned.back().end == range.begin)
        owned.back().end = range.end;
      else
        owned.push_back(range);
    }
  }
  return owned;
}

}  // namespace amdahl
