// compress: as ddp, with gradients in fewer bytes.
//
// fp16, bf16: every rank rounds its gradients, and the rounded ones are summed by an all-reduce of that type.
// int8, topk: every rank sends a message that represents its gradients and what earlier messages left out (feedback);
// all ranks get all messages and sum them in f32, in rank order, so that parameters stay equal bit by bit. A rank
// receives (ranks - 1) messages, where an all-reduce of f32 moves 2 (ranks - 1) / ranks gradients each way.
#include <algorithm>

#include "base/compressed_blocks.h"
#include "parallel/data/ddp.h"

namespace amdahl {
namespace {

Compression kind_of(const ParallelPlan& plan) { return static_cast<Compression>(plan.compress); }

/// Payload of a rank for a bucket.
int64_t message_bytes(const ParallelPlan& plan, int64_t floats) {
  switch (kind_of(plan)) {
    case Compression::int8:
      return int8_message_bytes(floats);
    case Compression::topk:
      return topk_message_bytes(floats, plan.keep_ppm);
    default:
      return floats * static_cast<int64_t>(size_of(DType::bf16));
  }
}

class CompressedDataParallel : public DataParallel {
 public:
  explicit CompressedDataParallel(const SyncContext& context) : DataParallel(context) {
    for (const Bucket& bucket : buckets())
      most_bytes_ = std::max(most_bytes_, message_bytes(context.plan, bucket.floats()));
    message_ = context.device.allocate(static_cast<size_t>(most_bytes_));
  }

 protected:
  int64_t bucket_bytes(size_t i) const override { return message_bytes(context().plan, buckets()[i].floats()); }
  int64_t most_bytes() const { return most_bytes_; }
  // One for all buckets: the communication stream finishes one bucket before it begins the next.
  void* message() { return message_->data(); }

 private:
  int64_t most_bytes_ = 0;
  std::unique_ptr<Buffer> message_;
};

class RoundedDataParallel final : public CompressedDataParallel {
 public:
  using CompressedDataParallel::CompressedDataParallel;

 private:
  void send(size_t i, bool) override {
    const SyncContext& c = context();
    const Bucket& bucket = buckets()[i];
    const DType type = kind_of(c.plan) == Compression::fp16 ? DType::f16 : DType::bf16;
    float* const grads = c.model.grads() + bucket.begin;
    c.ops.compression().round(c.comm, {grads, DType::f32, message(), type, bucket.floats()});
    c.communicator.all_reduce(message(), static_cast<size_t>(bucket.floats()), type, ReduceOp::sum, c.comm);
    c.ops.compression().round(c.comm, {message(), type, grads, DType::f32, bucket.floats()});
  }
};

class FeedbackDataParallel final : public CompressedDataParallel {
 public:
  explicit FeedbackDataParallel(const SyncContext& context)
      : CompressedDataParallel(context),
        feedback_(context.device.allocate(static_cast<size_t>(context.model.layout().num_floats) * sizeof(float))),
        received_(context.device.allocate(static_cast<size_t>(most_bytes() * context.communicator.world_size()))) {}

  void reset() override { context().device.fill_zero(context().compute, feedback_->data(), feedback_->bytes()); }
  float* feedback() override { return feedback_->as<float>(); }

 private:
  void send(size_t i, bool) override {
    const SyncContext& c = context();
    const Bucket& bucket = buckets()[i];
    const bool picks = kind_of(c.plan) == Compression::topk;
    const int64_t kept = picks ? kept_of_block(c.plan.keep_ppm) : 0, bytes = bucket_bytes(i);
    float* const grads = c.model.grads() + bucket.begin;
    CompressionOps& ops = c.ops.compression();
    const CompressValues values{grads, feedback() + bucket.begin, message(), bucket.floats(), kept};
    const SumMessages sum{received_->data(), bytes, c.communicator.world_size(), grads, bucket.floats(), kept};
    picks ? ops.compress_topk(c.comm, values) : ops.compress_int8(c.comm, values);
    c.communicator.all_gather(message(), received_->data(), static_cast<size_t>(bytes), DType::u8, c.comm);
    picks ? ops.sum_topk(c.comm, sum) : ops.sum_int8(c.comm, sum);
  }

  std::unique_ptr<Buffer> feedback_, received_;
};

}  // namespace

std::unique_ptr<GradientSync> make_compressed(const SyncContext& context) {
  const Compression kind = kind_of(context.plan);
  if (kind == Compression::int8 || kind == Compression::topk) return std::make_unique<FeedbackDataParallel>(context);
  return std::make_unique<RoundedDataParallel>(context);
}

int64_t compressed_traffic(const ParallelPlan& plan, const ModelSpec& model) {
  int64_t bytes = 0;
  for (const Bucket& bucket : make_buckets(make_layout(model), plan)) bytes += message_bytes(plan, bucket.floats());
  return bytes;
}

}  // namespace amdahl
