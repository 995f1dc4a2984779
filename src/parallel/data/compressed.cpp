// compress: as ddp, with gradients in fewer bytes.
//
// fp16, bf16: every rank rounds its gradients, and the rounded ones are summed by an all-reduce of that type.
//
// int8, topk: messages represent gradients and what earlier messages left out (feedback).
// - int8: a bucket has one chunk per rank. Ranks send each other a message for every chunk (all-to-all); a rank sums
//   those for its own chunk in f32, compresses the sum in turn, and all ranks gather these messages (all-gather). A
//   rank receives 2 (ranks - 1) / ranks of a bucket in codes, a quarter of an all-reduce of f32. What the second
//   compression leaves out is added to the rank's own feedback, so that no gradient is lost.
// - topk: every rank sends one message, and all ranks get all messages and sum them in f32, in rank order: a rank
//   receives (ranks - 1) messages. The sum of sparse gradients is less sparse, and is not compressed in turn.
//
// All ranks compute their sums from the same messages in the same order, so that parameters stay equal bit by bit.
#include <algorithm>

#include "parallel/data/ddp.h"
#include "plan/compressed_blocks.h"

namespace amdahl {
namespace {

Compression kind_of(const ParallelPlan& plan) { return static_cast<Compression>(plan.compress); }

/// Payload of a rank for a bucket. int8: of both collectives.
int64_t message_bytes(const ParallelPlan& plan, int64_t floats) {
  switch (kind_of(plan)) {
    case Compression::int8:
      return 2 * int8_message_bytes(int8_chunk(floats, plan.mesh.dp));
    case Compression::topk:
      return topk_message_bytes(floats, plan.keep_ppm);
    default:
      return floats * static_cast<int64_t>(size_of(DType::bf16));
  }
}

class CompressedDataParallel : public DataParallel {
 public:
  using DataParallel::DataParallel;

 protected:
  int64_t bucket_bytes(size_t i) const override { return message_bytes(context().plan, buckets()[i].floats()); }
  int64_t most_floats() const {  // of a bucket
    int64_t most = 0;
    for (const Bucket& bucket : buckets()) most = std::max(most, bucket.floats());
    return most;
  }
  std::unique_ptr<Buffer> allocate(int64_t bytes) { return context().device.allocate(static_cast<size_t>(bytes)); }
};

// Message buffers serve all buckets: the communication stream finishes one bucket before it begins the next.

class RoundedDataParallel final : public CompressedDataParallel {
 public:
  explicit RoundedDataParallel(const SyncContext& context)
      : CompressedDataParallel(context), message_(allocate(message_bytes(context.plan, most_floats()))) {}

 private:
  void send(size_t i, bool) override {
    const SyncContext& c = context();
    const Bucket& bucket = buckets()[i];
    const DType type = kind_of(c.plan) == Compression::fp16 ? DType::f16 : DType::bf16;
    float* const grads = c.model.grads() + bucket.begin;
    c.ops.compression().round(c.comm, {grads, DType::f32, message_->data(), type, bucket.floats()});
    c.communicator.all_reduce(message_->data(), static_cast<size_t>(bucket.floats()), type, ReduceOp::sum, c.comm);
    c.ops.compression().round(c.comm, {message_->data(), type, grads, DType::f32, bucket.floats()});
  }

  std::unique_ptr<Buffer> message_;
};

class FeedbackDataParallel : public CompressedDataParallel {
 public:
  explicit FeedbackDataParallel(const SyncContext& context)
      : CompressedDataParallel(context),
        feedback_(allocate(context.model.layout().num_floats * static_cast<int64_t>(sizeof(float)))) {}

  void reset() override { context().device.fill_zero(context().compute, feedback_->data(), feedback_->bytes()); }
  float* feedback() override { return feedback_->as<float>(); }

 private:
  std::unique_ptr<Buffer> feedback_;
};

class TopkDataParallel final : public FeedbackDataParallel {
 public:
  explicit TopkDataParallel(const SyncContext& context)
      : FeedbackDataParallel(context),
        message_(allocate(message_bytes(context.plan, most_floats()))),
        received_(allocate(message_bytes(context.plan, most_floats()) * context.communicator.world_size())) {}

 private:
  void send(size_t i, bool) override {
    const SyncContext& c = context();
    const Bucket& bucket = buckets()[i];
    const int64_t kept = kept_of_block(c.plan.keep_ppm), bytes = bucket_bytes(i);
    float* const grads = c.model.grads() + bucket.begin;
    c.ops.compression().compress_topk(c.comm,
                                      {grads, feedback() + bucket.begin, message_->data(), bucket.floats(), kept});
    c.communicator.all_gather(message_->data(), received_->data(), static_cast<size_t>(bytes), DType::u8, c.comm);
    c.ops.compression().sum_topk(c.comm,
                                 {received_->data(), bytes, c.communicator.world_size(), grads, bucket.floats(), kept});
  }

  std::unique_ptr<Buffer> message_, received_;
};

class Int8DataParallel final : public FeedbackDataParallel {
 public:
  explicit Int8DataParallel(const SyncContext& context)
      : FeedbackDataParallel(context),
        messages_(allocate(ranks() * int8_message_bytes(int8_chunk(most_floats(), ranks())))),
        received_(allocate(static_cast<int64_t>(messages_->bytes()))) {}

 private:
  int ranks() const { return context().communicator.world_size(); }

  void send(size_t i, bool) override {
    const SyncContext& c = context();
    const Bucket& bucket = buckets()[i];
    const int64_t each = int8_chunk(bucket.floats(), ranks()), bytes = int8_message_bytes(each);
    const auto chunk_of = [&](int rank) {
      return FloatRange{std::min(bucket.begin + rank * each, bucket.end),
                        std::min(bucket.begin + (rank + 1) * each, bucket.end)};
    };
    const auto compress = [&](const FloatRange& chunk, int place) {
      if (chunk.floats() > 0)
        c.ops.compression().compress_int8(c.comm, {c.model.grads() + chunk.begin, feedback() + chunk.begin,
                                                   messages_->as<std::byte>() + place * bytes, chunk.floats()});
    };
    const auto sum = [&](const FloatRange& chunk, int first, int count) {
      if (chunk.floats() > 0)
        c.ops.compression().sum_int8(c.comm, {received_->as<std::byte>() + first * bytes, bytes, count,
                                              c.model.grads() + chunk.begin, chunk.floats()});
    };
    const FloatRange own = chunk_of(c.communicator.rank());
    for (int rank = 0; rank < ranks(); ++rank) compress(chunk_of(rank), rank);
    c.communicator.all_to_all(messages_->data(), received_->data(), static_cast<size_t>(bytes), DType::u8, c.comm);
    sum(own, 0, ranks());
    compress(own, 0);  // with what the first compression of this chunk left out here
    c.communicator.all_gather(messages_->data(), received_->data(), static_cast<size_t>(bytes), DType::u8, c.comm);
    for (int rank = 0; rank < ranks(); ++rank) sum(chunk_of(rank), rank, 1);
  }

  std::unique_ptr<Buffer> messages_, received_;  // one message per rank
};

}  // namespace

std::unique_ptr<GradientSync> make_compressed(const SyncContext& context) {
  switch (kind_of(context.plan)) {
    case Compression::int8:
      return std::make_unique<Int8DataParallel>(context);
    case Compression::topk:
      return std::make_unique<TopkDataParallel>(context);
    default:
      return std::make_unique<RoundedDataParallel>(context);
  }
}

int64_t compressed_traffic(const ParallelPlan& plan, const ModelSpec& model) {
  int64_t bytes = 0;
  for (const Bucket& bucket : make_buckets(make_layout(model), plan)) bytes += message_bytes(plan, bucket.floats());
  return bytes;
}

}  // namespace amdahl
