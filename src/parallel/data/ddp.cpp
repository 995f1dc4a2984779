// ddp: each rank computes its share of the batch; gradients are summed bucket by bucket on the communication stream as
// soon as backward completes them, overlapping the rest of backward. The optimizer updates each bucket as it arrives,
// in the order in which the buckets were sent; clipped gradients wait for the last bucket, whose arrival completes the
// norm on every rank.
#include "parallel/data/ddp.h"

namespace amdahl {

void DataParallel::finish_step(StepStamps* stamps) {
  BucketedSync::finish_step(stamps);
  if (!context().optimizer.clips()) return;
  if (stamps) stamps->start(context().compute, StepStamps::at(stamps->updates, 0));
  update_alone();
  if (stamps) stamps->end(context().compute, stamps->updates[0]);
}

void DataParallel::update_alone() {
  clip_by_own_gradients(context().optimizer, context().compute, {{0, context().model.layout().num_floats}});
  for (const Bucket& bucket : buckets()) update(bucket);
}

void DataParallel::send(size_t i, bool) {
  const Bucket& bucket = buckets()[i];
  context().communicator.all_reduce(context().model.grads() + bucket.begin, static_cast<size_t>(bucket.floats()),
                                    DType::f32, ReduceOp::sum, context().comm);
}

int64_t DataParallel::bucket_bytes(size_t i) const {
  return buckets()[i].floats() * static_cast<int64_t>(sizeof(float));
}

void DataParallel::arrived(size_t i, size_t order, StepStamps* stamps) {
  if (context().optimizer.clips()) return;
  if (stamps) stamps->start(context().compute, StepStamps::at(stamps->updates, order));
  update(buckets()[i]);
  if (stamps) stamps->end(context().compute, stamps->updates[order]);
}

std::unique_ptr<GradientSync> make_data_parallel(const SyncContext& context) {
  if (context.plan.virtual_shards > 0) return make_ordered_sum(context);
  if (context.plan.compress > 0) return make_compressed(context);
  if (context.plan.local_sgd > 0) return make_local_sgd(context);
  if (context.plan.async_steps > 0) return make_late_updates(context);
  return std::make_unique<DataParallel>(context);
}

int64_t data_parallel_traffic(const ParallelPlan& plan, const ModelSpec& model, int) {
  if (plan.virtual_shards > 0) return ordered_sum_traffic(plan, model);
  if (plan.compress > 0) return compressed_traffic(plan, model);
  if (plan.local_sgd > 0) return local_sgd_traffic(plan, model);
  return make_layout(model).num_floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace amdahl
