// zero1 (ZeRO stage 1, Rajbhandari et al. 2020): the batch is split as in ddp, but each rank keeps optimizer state only
// for its part of every bucket. Gradients are reduce-scattered to the owner of the part, which updates it; the new
// parameters are then all-gathered. All of this runs on the communication stream and overlaps backward.
//
// With collectives, a bucket's short front (see Shards) is all-reduced and updated by every rank. If the ranks can
// access each other's memory and the optimizer is Adam, one kernel per bucket does all of this instead; rank 0 then
// also updates the front.
#include "parallel/data/bucketed_sync.h"
#include "parallel/data/peer_connection.h"

namespace amdahl {
namespace {

// Payload of a rank for a bucket: the front once, and its part of the gradients and of the parameters.
size_t payload_bytes(const Shards& shards) {
  return static_cast<size_t>(shards.front().floats() + 2 * shards.part_floats) * sizeof(float);
}

class ShardedDataParallel final : public BucketedSync {
 public:
  explicit ShardedDataParallel(const SyncContext& context) : BucketedSync(context) {
    for (const Bucket& bucket : buckets()) shards_.push_back(divide(bucket, context.plan.mesh.dp));
    if (context.optimizer.is_adam()) peers_ = connect_peers(context);
  }

  int reserved_sms() const override {
    const ParallelPlan& plan = context().plan;
    if (!peers_ || !plan.overlap) return 0;
    return plan.peer_blocks > 0 ? plan.peer_blocks : kBlocksBesideWork;
  }

  void finish_step(StepStamps* stamps) override {
    BucketedSync::finish_step(stamps);
    first_step_ = false;
  }

  void update_alone() override {
    for (const Shards& shards : shards_)
      for (const FloatRange& range : {shards.front(), shards.part(context().communicator.rank())})
        if (range.floats() > 0) context().optimizer.update(context().compute, range.begin, range.end);
  }

 private:
  bool changes_parameters() const override { return true; }

  void send(size_t i, bool last) override {
    if (peers_)
      send_directly(shards_[i], last);
    else
      send_by_collectives(shards_[i]);
  }

  int64_t bucket_bytes(size_t i) const override { return static_cast<int64_t>(payload_bytes(shards_[i])); }

  void send_directly(const Shards& shards, bool last) {
    const SyncContext& c = context();
    // In the first step a rank may allocate or time alternatives, which can synchronize with other devices. The barrier
    // ensures that no rank's kernel waits for a rank that is still doing so.
    if (first_step_) c.communicator.barrier(Deadline::after_seconds(c.timeout_seconds));
    PeerAdam update;
    update.last = last;
    update.alone = last || !c.plan.overlap;
    update.num_blocks = update.alone ? 0 : c.plan.peer_blocks;
    const FloatRange part = shards.part(c.communicator.rank());
    update.begin = c.communicator.rank() == 0 ? shards.begin : part.begin;
    update.end = part.end;
    update.front_end = shards.parts;
    if (update.end > update.begin) update.adam = c.optimizer.adam_step(update.begin, update.end);
    c.communicator.count_traffic(payload_bytes(shards));
    peers_->adam(c.comm, update);
  }

  void send_by_collectives(const Shards& shards) {
    const SyncContext& c = context();
    const FloatRange front = shards.front(), mine = shards.part(c.communicator.rank());
    const auto count = static_cast<size_t>(shards.part_floats);
    float *const grads = c.model.grads(), *const params = c.model.params();
    if (front.floats() > 0)
      c.communicator.all_reduce(grads + front.begin, static_cast<size_t>(front.floats()), DType::f32, ReduceOp::sum,
                                c.comm);
    if (count > 0)
      c.communicator.reduce_scatter(grads + shards.parts, grads + mine.begin, count, DType::f32, ReduceOp::sum, c.comm);
    if (front.floats() > 0) c.optimizer.update(c.comm, front.begin, front.end);
    if (count == 0) return;
    c.optimizer.update(c.comm, mine.begin, mine.end);
    c.communicator.all_gather(params + mine.begin, params + shards.parts, count, DType::f32, c.comm);
  }

  std::vector<Shards> shards_;  // by bucket
  std::unique_ptr<PeerUpdater> peers_;
  bool first_step_ = true;
};

}  // namespace

std::unique_ptr<GradientSync> make_sharded_data_parallel(const SyncContext& context) {
  return std::make_unique<ShardedDataParallel>(context);
}

int64_t sharded_data_parallel_traffic(const ParallelPlan& plan, const ModelSpec& model, int) {
  size_t bytes = 0;
  for (const Bucket& bucket : make_buckets(make_layout(model), plan))
    bytes += payload_bytes(divide(bucket, plan.mesh.dp));
  return static_cast<int64_t>(bytes);
}

std::vector<FloatRange> sharded_data_parallel_owned(const ParallelPlan& plan, const ModelSpec& model, int rank) {
  std::vector<FloatRange> owned;
  for (const Bucket& bucket : make_buckets(make_layout(model), plan)) {
    const Shards shards = divide(bucket, plan.mesh.dp);
    for (const FloatRange& range : {shards.front(), shards.part(rank)}) {
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
