// zero1 (ZeRO stage 1, Rajbhandari et al. 2020): the batch is split as in ddp, but each rank keeps optimizer state only
// for its part of every bucket. Gradients are reduce-scattered to the owner of the part, which updates it; the new
// parameters are then all-gathered. All of this runs on the communication stream and overlaps backward.
//
// With collectives, a bucket's short front (see Shards) is all-reduced and updated by every rank. If the ranks can
// access each other's memory and the optimizer is Adam, one kernel per bucket does all of this instead; rank 0 then
// also updates the front.
//
// Clipped gradients are only reduced during backward. Each rank then sums the squares of its parts, rank 0 those of the
// fronts too, one all-reduce of a float completes the norm, and the updates and gathers follow.
#include <vector>

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
    if (context.optimizer.is_adam() && !clips()) peers_ = connect_peers(context);
    if (clips()) updated_ = context.device.make_event(), computed_ = context.device.make_event();
  }

  int reserved_sms() const override {
    const ParallelPlan& plan = context().plan;
    if (!peers_ || !plan.overlap) return 0;
    return plan.peer_blocks > 0 ? plan.peer_blocks : kBlocksBesideWork;
  }

  void finish_step(StepStamps* stamps) override {
    BucketedSync::finish_step(stamps);
    if (clips()) finish_clipped(stamps);
    first_step_ = false;
  }

  void update_alone() override {
    const std::vector<FloatRange> ranges = held(true);
    clip_by_own_gradients(context().optimizer, context().compute, ranges);
    for (const FloatRange& range : ranges) context().optimizer.update(context().compute, range.begin, range.end);
  }

 private:
  bool clips() const { return context().optimizer.clips(); }
  bool changes_parameters() const override { return !clips(); }

  /// This rank's part of every bucket, with the fronts or without.
  std::vector<FloatRange> held(bool with_fronts) const {
    std::vector<FloatRange> ranges;
    for (const Shards& shards : shards_) {
      const FloatRange front = shards.front(), part = shards.part(context().communicator.rank());
      if (with_fronts && front.floats() > 0) ranges.push_back(front);
      if (part.floats() > 0) ranges.push_back(part);
    }
    return ranges;
  }

  void send(size_t i, bool last) override {
    if (peers_)
      send_directly(shards_[i], last);
    else
      send_by_collectives(shards_[i]);
  }

  int64_t bucket_bytes(size_t i) const override {
    const int64_t bytes = static_cast<int64_t>(payload_bytes(shards_[i]));
    return clips() ? bytes - shards_[i].part_floats * static_cast<int64_t>(sizeof(float)) : bytes;
  }

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
    reduce(shards);
    if (!clips()) update_and_gather(shards);
  }

  void reduce(const Shards& shards) {
    const SyncContext& c = context();
    const FloatRange front = shards.front(), mine = shards.part(c.communicator.rank());
    float* const grads = c.model.grads();
    if (front.floats() > 0)
      c.communicator.all_reduce(grads + front.begin, static_cast<size_t>(front.floats()), DType::f32, ReduceOp::sum,
                                c.comm);
    if (shards.part_floats > 0)
      c.communicator.reduce_scatter(grads + shards.parts, grads + mine.begin, static_cast<size_t>(shards.part_floats),
                                    DType::f32, ReduceOp::sum, c.comm);
  }

  void update_and_gather(const Shards& shards) {
    const SyncContext& c = context();
    const FloatRange front = shards.front(), mine = shards.part(c.communicator.rank());
    float* const params = c.model.params();
    if (front.floats() > 0) c.optimizer.update(c.comm, front.begin, front.end);
    if (shards.part_floats == 0) return;
    c.optimizer.update(c.comm, mine.begin, mine.end);
    c.communicator.all_gather(params + mine.begin, params + shards.parts, static_cast<size_t>(shards.part_floats),
                              DType::f32, c.comm);
  }

  /// The norm and the updates, in the order of the communication stream, which has reduced every bucket.
  void finish_clipped(StepStamps* stamps) {
    const SyncContext& c = context();
    const size_t order = buckets().size();  // one more entry, after those of the buckets
    c.compute.record(*computed_);           // backward no longer reads the parameters
    c.comm.wait(*computed_);
    if (stamps) {
      stamps->set_bytes(order, gathered_bytes());
      stamps->start(c.comm, StepStamps::at(stamps->collectives, order));
      stamps->start(c.compute, StepStamps::at(stamps->stalls, order));
    }
    float* const sum = c.optimizer.sum_of_squares(c.comm, held(c.communicator.rank() == 0));
    c.communicator.all_reduce(sum, 1, DType::f32, ReduceOp::sum, c.comm);
    c.optimizer.clip(c.comm);
    for (const Shards& shards : shards_) update_and_gather(shards);
    c.comm.record(*updated_);
    c.compute.wait(*updated_);
    if (stamps) {
      stamps->end(c.comm, stamps->collectives[order]);
      stamps->end(c.compute, stamps->stalls[order]);
    }
  }

  int64_t gathered_bytes() const {
    int64_t floats = 1;  // the norm
    for (const Shards& shards : shards_) floats += shards.part_floats;
    return floats * static_cast<int64_t>(sizeof(float));
  }

  std::vector<Shards> shards_;  // by bucket
  std::unique_ptr<PeerUpdater> peers_;
  std::unique_ptr<Event> computed_, updated_;  // with clipping
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

std::vector<FloatRange> sharded_data_parallel_owned(const ParallelPlan& plan, const ParameterLayout& layout, int rank) {
  std::vector<FloatRange> owned;
  for (const Bucket& bucket : make_buckets(layout, plan)) {
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
