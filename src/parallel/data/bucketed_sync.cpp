#include "parallel/data/bucketed_sync.h"

#include <algorithm>

#include "device/profiler_ranges.h"

namespace amdahl {

BucketedSync::BucketedSync(const SyncContext& context)
    : context_(context), buckets_(make_buckets(context.model.layout(), context.plan)) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    ready_.push_back(context_.device.make_event());
    chain_.push_back(context_.device.make_event());
    done_.push_back(context_.device.make_event());
  }
}

void BucketedSync::begin_step(const BatchView&, float*, float*) {
  sent_.clear();
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.floats());
}

void BucketedSync::gradient_ready(int64_t begin, int64_t end, Stream& stream, StepStamps* stamps) {
  if (!context_.plan.overlap) return;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const int64_t overlap = std::min(end, buckets_[i].end) - std::max(begin, buckets_[i].begin);
    if (overlap <= 0) continue;
    missing_[i] -= overlap;
    if (missing_[i] == 0) dispatch(i, stream, stamps);
  }
}

void BucketedSync::finish_step(StepStamps* stamps) {
  if (!context_.plan.overlap)
    for (size_t i = 0; i < buckets_.size(); ++i) dispatch(i, context_.compute, stamps);
  for (size_t order = 0; order < sent_.size(); ++order) {
    if (stamps) stamps->start(context_.compute, StepStamps::at(stamps->stalls, order));
    context_.compute.wait(*done_[sent_[order]]);
    if (stamps) stamps->end(context_.compute, stamps->stalls[order]);
    arrived(sent_[order], order, stamps);
  }
}

// `stream` computed the bucket's last gradients. The others were enqueued earlier on it or on streams that it has
// waited for.
void BucketedSync::dispatch(size_t bucket, Stream& stream, StepStamps* stamps) {
  const ProfilerRange range("bucket", bucket_bytes(bucket));
  const size_t order = sent_.size();
  sent_.push_back(bucket);
  stream.record(*ready_[bucket]);
  context_.comm.wait(*ready_[bucket]);
  if (changes_parameters() && &stream != &context_.compute) {
    // The layer's input gradient was enqueued on the compute stream before this call, and may still be running.
    context_.compute.record(*chain_[bucket]);
    context_.comm.wait(*chain_[bucket]);
  }
  if (stamps) {
    stamps->set_bytes(order, bucket_bytes(bucket));
    stamps->start(context_.comm, StepStamps::at(stamps->collectives, order));
  }
  send(bucket, sent_.size() == buckets_.size());
  if (stamps) stamps->end(context_.comm, stamps->collectives[order]);
  context_.comm.record(*done_[bucket]);
}

}  // namespace amdahl
