// virtual_shards: the same bits on any number of devices (elastic determinism; EasyScale, Li et al. 2023). Every batch
// is cut into as many shards whatever the number of devices; a device computes its shards one by one, in shapes that do
// not depend on it, and their gradients are added in the order of the shards.
//
// So a device keeps the gradients of all its shards. Then ranks exchange slices chunk by chunk (all-to-all), each
// rank adds its slice of all shards, and all ranks gather the sums. A rank sends shards / ranks x (ranks - 1) / ranks
// of a gradient and once more (ranks - 1) / ranks, where an all-reduce sends 2 (ranks - 1) / ranks. One rank adds each
// shard as it is computed. Loss statistics and the running statistics of normalisations, of which every shard begins
// with those of the step before, are added likewise; the latter become their mean.
#include <algorithm>

#include "ops/loss_ops.h"
#include "parallel/data/ddp.h"
#include "plan/layer_kinds.h"

namespace amdahl {
namespace {

int64_t slice_floats(const FloatRange& chunk, int ranks) { return (chunk.floats() + ranks - 1) / ranks; }

/// Parts of the gradient that are exchanged one after another. Backward has ended, so layers do not matter.
std::vector<FloatRange> make_chunks(int64_t num_floats, const ParallelPlan& plan) {
  const int64_t size = std::max<int64_t>(plan.bucket_bytes / static_cast<int64_t>(sizeof(float)), 1);
  std::vector<FloatRange> chunks;
  for (int64_t begin = 0; begin < num_floats; begin += size)
    chunks.push_back({begin, std::min(begin + size, num_floats)});
  return chunks;
}

class OrderedSum final : public GradientSync {
 public:
  explicit OrderedSum(const SyncContext& context)
      : context_(context),
        ranks_(context.communicator.world_size()),
        shards_(most_virtual_shards(context.plan)),
        chunks_(make_chunks(num_floats(), context.plan)),
        buffers_(context.model.buffers()) {
    side_floats_ = kLossStats;
    for (const NamedBuffer& buffer : buffers_) side_floats_ += buffer.count;
    side_ = allocate(shards_ * side_floats_);
    all_sides_ = allocate(ranks_ * shards_ * side_floats_);
    side_sum_ = allocate(side_floats_);
    before_ = allocate(side_floats_);
    int64_t most = 0, all = 0;
    for (const FloatRange& chunk : chunks_) {
      starts_.push_back(all);
      all += shards_ * ranks_ * slice_floats(chunk, ranks_);
      most = std::max(most, shards_ * ranks_ * slice_floats(chunk, ranks_));
    }
    gradients_ = allocate(ranks_ == 1 ? num_floats() : all);
    if (ranks_ > 1) received_ = allocate(most);
  }

  void begin_step(const BatchView&, float*, float*) override { keep_buffers(before_->as<float>()); }

  void micro_batch_done(int64_t shard) override {
    float* const side = side_->as<float>() + shard * side_floats_;
    copy(side, context_.model.loss_stats(), kLossStats);
    keep_buffers(side);
    restore_buffers(before_->as<float>());
    if (ranks_ == 1)
      add_to_sum(shard);
    else
      keep_slices(shard);
  }

  void finish_step(StepStamps* stamps) override {
    if (stamps) {
      stamps->communicates_on_compute = true;
      stamps->set_bytes(0, ranks_ > 1 ? sent_bytes() : 0);
      stamps->start(context_.compute, StepStamps::at(stamps->collectives, 0));
      stamps->start(context_.compute, StepStamps::at(stamps->stalls, 0));
    }
    if (ranks_ > 1)
      for (size_t i = 0; i < chunks_.size(); ++i) sum_chunk(i);
    sum_sides();
    if (stamps) {
      stamps->end(context_.compute, stamps->collectives[0]);
      stamps->end(context_.compute, stamps->stalls[0]);
      stamps->start(context_.compute, StepStamps::at(stamps->updates, 0));
    }
    update_alone();
    if (stamps) stamps->end(context_.compute, stamps->updates[0]);
  }

  void update_alone() override {
    clip_by_own_gradients(context_.optimizer, context_.compute, {{0, num_floats()}});
    context_.optimizer.update(context_.compute, 0, num_floats());
  }

  bool has_whole_stats() const override { return true; }

 private:
  std::unique_ptr<Buffer> allocate(int64_t floats) { return context_.device.allocate(float_bytes(floats)); }
  int64_t num_floats() const { return context_.model.layout().num_floats; }
  int64_t shards_of(int rank) const { return virtual_shards_of(context_.plan, rank).rows(); }
  int64_t own_shards() const { return shards_of(context_.communicator.rank()); }
  int64_t sent_bytes() const {
    int64_t floats = shards_ * side_floats_;
    for (const FloatRange& chunk : chunks_) floats += (shards_ + 1) * slice_floats(chunk, ranks_);
    return static_cast<int64_t>(float_bytes(floats));
  }

  void copy(float* to, const float* from, int64_t count) {
    context_.device.copy_within(context_.compute, to, from, float_bytes(count));
  }
  void keep_buffers(float* side) {
    side += kLossStats;
    for (const NamedBuffer& buffer : buffers_) copy(side, buffer.data, buffer.count), side += buffer.count;
  }
  void restore_buffers(const float* side) {
    side += kLossStats;
    for (const NamedBuffer& buffer : buffers_) copy(buffer.data, side, buffer.count), side += buffer.count;
  }

  // The sum is in the model's gradients after the last shard, and in gradients_ between shards.
  void add_to_sum(int64_t shard) {
    float* const grads = context_.model.grads();
    if (shard > 0)
      context_.ops.elementwise().sum_arrays(
          context_.compute, {.arrays = gradients_->as<float>(), .sum = grads, .n = num_floats(), .accumulate = true});
    if (shard + 1 < own_shards()) copy(gradients_->as<float>(), grads, num_floats());
  }

  // gradients_ holds per chunk [rank that adds the slice][shard][slice], as all_to_all sends it.
  void keep_slices(int64_t shard) {
    for (size_t i = 0; i < chunks_.size(); ++i) {
      const FloatRange& chunk = chunks_[i];
      const int64_t slice = slice_floats(chunk, ranks_);
      for (int rank = 0; rank < ranks_; ++rank) {
        const int64_t begin = std::min(chunk.begin + rank * slice, chunk.end);
        const int64_t count = std::min(slice, chunk.end - begin);
        if (count > 0)
          copy(gradients_->as<float>() + starts_[i] + (rank * shards_ + shard) * slice, context_.model.grads() + begin,
               count);
      }
    }
  }

  /// Adds what ranks sent, [rank][shard][stride], in the order of the shards of the whole batch.
  void sum_in_order(const float* from, int64_t stride, float* sum) {
    for (int rank = 0; rank < ranks_; ++rank)
      context_.ops.elementwise().sum_arrays(context_.compute, {.arrays = from + rank * shards_ * stride,
                                                               .stride = stride,
                                                               .num_arrays = shards_of(rank),
                                                               .sum = sum,
                                                               .n = stride,
                                                               .accumulate = rank > 0});
  }

  void sum_chunk(size_t i) {
    const FloatRange& chunk = chunks_[i];
    const int64_t slice = slice_floats(chunk, ranks_);
    float* const kept = gradients_->as<float>() + starts_[i];
    float* const received = received_->as<float>();
    context_.communicator.all_to_all(kept, received, static_cast<size_t>(shards_ * slice), DType::f32,
                                     context_.compute);
    sum_in_order(received, slice, received);
    context_.communicator.all_gather(received, kept, static_cast<size_t>(slice), DType::f32, context_.compute);
    copy(context_.model.grads() + chunk.begin, kept, chunk.floats());
  }

  void sum_sides() {
    float* const sum = side_sum_->as<float>();
    if (ranks_ > 1) {
      context_.communicator.all_gather(side_->data(), all_sides_->data(), static_cast<size_t>(shards_ * side_floats_),
                                       DType::f32, context_.compute);
      sum_in_order(all_sides_->as<float>(), side_floats_, sum);
    } else {
      sum_in_order(side_->as<float>(), side_floats_, sum);
    }
    copy(context_.model.loss_stats(), sum, kLossStats);
    if (buffers_.empty()) return;
    context_.ops.elementwise().sum_arrays(context_.compute,
                                          {.arrays = sum + kLossStats,
                                           .sum = sum + kLossStats,
                                           .n = side_floats_ - kLossStats,
                                           .factor = 1.0f / static_cast<float>(context_.plan.virtual_shards)});
    restore_buffers(sum);
  }

  SyncContext context_;
  const int ranks_;
  const int64_t shards_;  // of the rank that has most
  std::vector<FloatRange> chunks_;
  std::vector<int64_t> starts_;  // of the chunks in gradients_
  std::vector<NamedBuffer> buffers_;
  int64_t side_floats_ = 0;  // loss statistics, then the buffers
  std::unique_ptr<Buffer> gradients_, received_, side_, all_sides_, side_sum_, before_;
};

/// Running means and variances of all normalisations.
int64_t running_floats(const ModelSpec& model) {
  int64_t floats = 0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    if (layer.kind != LayerKind::conv && layer.kind != LayerKind::residual_block) continue;
    for (const ParameterSpec& tensor : parameters_of(layer, model.layer_input_shape(i)))
      if (!tensor.decays()) floats += tensor.num_parameters();  // a mean for each gain, a variance for each bias
  }
  return floats;
}

int64_t side_floats_of(const ModelSpec& model) { return kLossStats + running_floats(model); }

}  // namespace

std::unique_ptr<GradientSync> make_ordered_sum(const SyncContext& context) {
  return std::make_unique<OrderedSum>(context);
}

int64_t ordered_sum_traffic(const ParallelPlan& plan, const ModelSpec& model) {
  if (plan.mesh.dp == 1) return 0;
  const int64_t shards = most_virtual_shards(plan);
  int64_t floats = shards * side_floats_of(model);
  for (const FloatRange& chunk : make_chunks(make_layout(model).num_floats, plan))
    floats += (shards + 1) * slice_floats(chunk, plan.mesh.dp);
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t ordered_sum_bytes(const ParallelPlan& plan, const ModelSpec& model) {
  const int64_t shards = most_virtual_shards(plan), num_floats = make_layout(model).num_floats;
  const int ranks = plan.mesh.dp;
  int64_t floats = (shards + ranks * shards + 2) * side_floats_of(model);
  if (ranks == 1) return static_cast<int64_t>(float_bytes(floats + num_floats));
  int64_t most = 0;
  for (const FloatRange& chunk : make_chunks(num_floats, plan)) {
    const int64_t sent = shards * ranks * slice_floats(chunk, ranks);
    floats += sent;
    most = std::max(most, sent);
  }
  return static_cast<int64_t>(float_bytes(floats + most));
}

}  // namespace amdahl
