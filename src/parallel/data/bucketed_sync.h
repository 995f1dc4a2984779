// Base class of strategies that communicate bucket by bucket: on the communication stream as soon as backward has
// completed a bucket, or after backward without plan.overlap.
#pragma once

#include <memory>
#include <vector>

#include "parallel/data/buckets.h"
#include "parallel/data/strategy.h"

namespace amdahl {

class BucketedSync : public GradientSync {
 public:
  explicit BucketedSync(const SyncContext& context);

  void begin_step(const BatchView& full, float* staged_features, float* staged_targets) override;
  void gradient_ready(int64_t begin, int64_t end, Stream& stream, StepStamps* stamps) override;
  void finish_step(StepStamps* stamps) override;

 protected:
  /// Enqueues the communication of a bucket, whose gradients are complete, on the communication stream. `last`: the
  /// last bucket of this step.
  virtual void send(size_t bucket, bool last) = 0;
  /// Payload bytes that `send` passes to collectives for a bucket.
  virtual int64_t bucket_bytes(size_t bucket) const = 0;
  /// Called right after the compute stream waits for the bucket, which was sent at position `order` (from 0).
  virtual void arrived(size_t bucket, size_t order, StepStamps* stamps) { (void)bucket, (void)order, (void)stamps; }
  /// Whether `send` changes parameters: it must then wait until the input gradients of the bucket's layers have read
  /// them.
  virtual bool changes_parameters() const { return false; }

  const SyncContext& context() const { return context_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void dispatch(size_t bucket, Stream& stream, StepStamps* stamps);

  SyncContext context_;
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Event>> ready_, chain_, done_;
  std::vector<int64_t> missing_;  // floats of each bucket whose gradients are not computed yet in this step
  std::vector<size_t> sent_;      // buckets in the order of their communication in this step
};

}  // namespace amdahl
