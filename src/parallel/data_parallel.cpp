// ddp: each rank computes its share of the batch; gradients are summed bucket by bucket on the communication stream as
// soon as backward completes them, while backward goes on below. The optimizer updates each bucket as it arrives.
#include <algorithm>

#include "parallel/buckets.h"
#include "parallel/strategy.h"

namespace amdahl {
namespace {

class DataParallel final : public Strategy {
 public:
  explicit DataParallel(const StrategyContext& context)
      : context_(context), buckets_(make_buckets(context.model.layout(), context.plan.bucket_bytes)) {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      ready_.push_back(context_.device.make_event());
      reduced_.push_back(context_.device.make_event());
    }
  }

  void gradient_ready(size_t layer, StepStamps* stamps) override {
    if (!context_.plan.overlap) return;
    for (size_t i = 0; i < buckets_.size(); ++i)
      if (buckets_[i].last_layer == layer) reduce(i, stamps);
  }

  void finish_step(const UpdateRange& update, StepStamps* stamps) override {
    if (!context_.plan.overlap)
      for (size_t i = 0; i < buckets_.size(); ++i) reduce(i, stamps);
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->stalls, i));
      context_.compute.wait(*reduced_[i]);
      if (stamps) stamps->end(context_.compute, stamps->stalls[i]);
      if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->updates, i));
      update(std::max(buckets_[i].begin, ParameterLayout::kStatsFloats), buckets_[i].end);
      if (stamps) stamps->end(context_.compute, stamps->updates[i]);
    }
  }

 private:
  void reduce(size_t i, StepStamps* stamps) {
    context_.compute.record(*ready_[i]);
    context_.comm.wait(*ready_[i]);
    if (stamps) stamps->start(context_.comm, StepStamps::at(stamps->collectives, i));
    context_.communicator.all_reduce(context_.model.grads() + buckets_[i].begin, static_cast<size_t>(buckets_[i].floats()),
                                     DType::f32, ReduceOp::sum, context_.comm);
    if (stamps) stamps->end(context_.comm, stamps->collectives[i]);
    context_.comm.record(*reduced_[i]);
  }

  StrategyContext context_;
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Event>> ready_, reduced_;
};

}  // namespace

std::unique_ptr<Strategy> make_data_parallel(const StrategyContext& context) {
  return std::make_unique<DataParallel>(context);
}

int64_t data_parallel_traffic(const ParallelPlan& plan, const ModelSpec& model, int) {
  return plan.num_devices == 1 ? 0 : make_layout(model).num_floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace amdahl
