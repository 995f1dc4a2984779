// ddp: each rank computes its share of the batch; gradients are summed bucket by bucket on the communication stream as
// soon as backward completes them, while backward goes on. The optimizer updates each bucket as it arrives, in the order
// in which the buckets were sent.
#include <algorithm>

#include "parallel/buckets.h"
#include "parallel/strategy.h"

namespace amdahl {
namespace {

class DataParallel final : public Strategy {
 public:
  explicit DataParallel(const StrategyContext& context)
      : context_(context),
        buckets_(make_buckets(make_pieces(context.model.spec(), context.model.layout(), context.plan.bucket_bytes),
                              context.plan.bucket_bytes)) {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      ready_.push_back(context_.device.make_event());
      reduced_.push_back(context_.device.make_event());
    }
  }

  void begin_step(const BatchView&, float*, float*) override {
    sent_.clear();
    missing_.clear();
    for (const Bucket& bucket : buckets_) missing_.push_back(bucket.gradients);
  }

  void gradient_ready(int64_t begin, int64_t end, StepStamps* stamps) override {
    if (!context_.plan.overlap) return;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const int64_t overlap = std::min(end, buckets_[i].end) - std::max(begin, buckets_[i].begin);
      if (overlap <= 0) continue;
      missing_[i] -= overlap;
      if (missing_[i] == 0) reduce(i, stamps);
    }
  }

  void finish_step(const UpdateRange& update, StepStamps* stamps) override {
    if (!context_.plan.overlap)
      for (size_t i = 0; i < buckets_.size(); ++i) reduce(i, stamps);
    for (size_t order = 0; order < sent_.size(); ++order) {
      const Bucket& bucket = buckets_[sent_[order]];
      if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->stalls, order));
      context_.compute.wait(*reduced_[sent_[order]]);
      if (stamps) stamps->end(context_.compute, stamps->stalls[order]);
      if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->updates, order));
      update(std::max(bucket.begin, ParameterLayout::kStatsFloats), bucket.end);
      if (stamps) stamps->end(context_.compute, stamps->updates[order]);
    }
  }

 private:
  void reduce(size_t i, StepStamps* stamps) {
    const size_t order = sent_.size();
    sent_.push_back(i);
    context_.compute.record(*ready_[i]);
    context_.comm.wait(*ready_[i]);
    if (stamps) stamps->start(context_.comm, StepStamps::at(stamps->collectives, order));
    context_.communicator.all_reduce(context_.model.grads() + buckets_[i].begin, static_cast<size_t>(buckets_[i].floats()),
                                     DType::f32, ReduceOp::sum, context_.comm);
    if (stamps) stamps->end(context_.comm, stamps->collectives[order]);
    context_.comm.record(*reduced_[i]);
  }

  StrategyContext context_;
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Event>> ready_, reduced_;
  std::vector<int64_t> missing_;  // gradients of each bucket that backward has not made yet in this step
  std::vector<size_t> sent_;      // buckets in the order of their collectives in this step
};

}  // namespace

std::unique_ptr<Strategy> make_data_parallel(const StrategyContext& context) {
  return std::make_unique<DataParallel>(context);
}

int64_t data_parallel_traffic(const ParallelPlan&, const ModelSpec& model, int) {
  return make_layout(model).num_floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace amdahl
