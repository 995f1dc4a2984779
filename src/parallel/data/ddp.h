// The class of strategy ddp, for strategies that send a bucket's gradients in another form.
#pragma once

#include "parallel/data/bucketed_sync.h"

namespace amdahl {

/// Sums gradients bucket by bucket; the optimizer updates each bucket as it arrives.
class DataParallel : public BucketedSync {
 public:
  using BucketedSync::BucketedSync;

  void finish_step(StepStamps* stamps) override;
  void update_alone() override;

 protected:
  /// Afterwards, in the order of the communication stream, the bucket's gradients are those of the global batch.
  void send(size_t bucket, bool last) override;
  int64_t bucket_bytes(size_t bucket) const override;

 private:
  void arrived(size_t bucket, size_t order, StepStamps* stamps) override;
  void update(const Bucket& bucket) { context().optimizer.update(context().compute, bucket.begin, bucket.end); }
};

/// What replaces the sum of whole gradients in every step, by the plan's fields compress, local_sgd and async_steps.
std::unique_ptr<GradientSync> make_compressed(const SyncContext& context);
std::unique_ptr<GradientSync> make_local_sgd(const SyncContext& context);
std::unique_ptr<GradientSync> make_late_updates(const SyncContext& context);
/// The same for plans with virtual_shards, of one rank too.
std::unique_ptr<GradientSync> make_ordered_sum(const SyncContext& context);
/// As StrategyRow::traffic_bytes. Of local_sgd: the mean over the steps from one average to the next.
int64_t compressed_traffic(const ParallelPlan& plan, const ModelSpec& model);
int64_t ordered_sum_traffic(const ParallelPlan& plan, const ModelSpec& model);
/// Bytes that it keeps on the rank with most shards.
int64_t ordered_sum_bytes(const ParallelPlan& plan, const ModelSpec& model);
int64_t local_sgd_traffic(const ParallelPlan& plan, const ModelSpec& model);

}  // namespace amdahl
