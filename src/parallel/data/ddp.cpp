// ddp: each rank computes its share of the batch; gradients are summed bucket by bucket on the communication stream as
// soon as backward completes them, overlapping the rest of backward. The optimizer updates each bucket as it arrives,
// in the order in which the buckets were sent; clipped gradients wait for the last bucket, whose arrival completes the
// norm on every rank.
#include "parallel/data/bucketed_sync.h"

namespace amdahl {
namespace {

class DataParallel final : public BucketedSync {
 public:
  using BucketedSync::BucketedSync;

  void finish_step(StepStamps* stamps) override {
    BucketedSync::finish_step(stamps);
    if (!context().optimizer.clips()) return;
    if (stamps) stamps->start(context().compute, StepStamps::at(stamps->updates, 0));
    update_alone();
    if (stamps) stamps->end(context().compute, stamps->updates[0]);
  }

  void update_alone() override {
    clip_by_own_gradients(context().optimizer, context().compute, {{0, context().model.layout().num_floats}});
    for (const Bucket& bucket : buckets()) update(bucket);
  }

 private:
  void send(size_t i, bool) override {
    const Bucket& bucket = buckets()[i];
    context().communicator.all_reduce(context().model.grads() + bucket.begin, static_cast<size_t>(bucket.floats()),
                                      DType::f32, ReduceOp::sum, context().comm);
  }

  int64_t bucket_bytes(size_t i) const override { return buckets()[i].floats() * static_cast<int64_t>(sizeof(float)); }

  void arrived(size_t i, size_t order, StepStamps* stamps) override {
    if (context().optimizer.clips()) return;
    if (stamps) stamps->start(context().compute, StepStamps::at(stamps->updates, order));
    update(buckets()[i]);
    if (stamps) stamps->end(context().compute, stamps->updates[order]);
  }

  void update(const Bucket& bucket) { context().optimizer.update(context().compute, bucket.begin, bucket.end); }
};

}  // namespace

std::unique_ptr<GradientSync> make_data_parallel(const SyncContext& context) {
  return std::make_unique<DataParallel>(context);
}

int64_t data_parallel_traffic(const ParallelPlan&, const ModelSpec& model, int) {
  return make_layout(model).num_floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace amdahl
