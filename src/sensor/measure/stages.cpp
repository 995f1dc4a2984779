#include "sensor/measure/stages.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "comm/world.h"
#include "sensor/ops/shard.h"

namespace amdahl {
namespace {

// Of a step's statistics in front of the gradients: the loss, and the correct rows.
constexpr int64_t kLogFloats = 2;

int64_t target_floats(const PipelinePlan& plan) { return plan.job.num_items * plan.model.target_width(); }

SensorJob pool_of(const PipelinePlan& plan) {
  SensorJob pool = plan.job;
  pool.num_items *= kPipelineBatches;
  return pool;
}

TrainerOptions options_of(const PipelinePlan& plan, const Device& device, const SensorBenchSettings& settings) {
  TrainerOptions options;
  options.model = plan.model;
  options.plan.global_batch = plan.job.num_items;
  options.launch = device.supports_graphs().ok ? LaunchMode::graph : LaunchMode::eager;
  options.seed = plan.job.seed;
  options.timeout_seconds = settings.timeout_seconds;
  return options;
}

}  // namespace

BatchBuffers::BatchBuffers(Device& device, const PipelinePlan& plan) {
  for (Place& place : places_) {
    place.features = device.allocate(float_bytes(plan.job.num_items * plan.model.input_width));
    place.targets = device.allocate(float_bytes(target_floats(plan)));
    place.filled = device.make_event();
    place.freed = device.make_event();
  }
}

FuseStage::FuseStage(RankContext& rank, SensorOps& ops, const PipelinePlan& plan, Stream& stream, Deadline deadline)
    : ops_(ops),
      rows_(plan.job.num_items),
      workload_({rank.device, ops, rank.communicator}, pool_of(plan), {0, pool_of(plan).num_items}, MergeMethod::none,
                1, stream, deadline) {}

void FuseStage::enqueue(Stream& stream, int batch, float* features) {
  const int64_t begin = batch % kPipelineBatches * rows_;
  FuseProblem problem = slice_of(workload_.fusion(0), ItemRange{begin, begin + rows_});
  problem.output = features;
  ops_.fuse(stream, problem);
}

TargetPool::TargetPool(Device& device, const PipelinePlan& plan, Stream& stream, Deadline deadline)
    : batch_bytes_(float_bytes(target_floats(plan))), all_(device.allocate(batch_bytes_ * kPipelineBatches)) {
  constexpr uint32_t kTag = 0x7a72u;  // apart from what draws the inputs
  std::vector<float> values(static_cast<size_t>(target_floats(plan) * kPipelineBatches));
  const int64_t classes = plan.model.output_width();
  for (size_t i = 0; i < values.size(); ++i) {
    const Philox4 bits = philox(plan.job.seed, static_cast<uint32_t>(i), 0, 0, kTag);
    values[i] = 2 * philox_uniform(bits.v[0]) - 1;
    if (plan.model.loss == LossKind::softmax_cross_entropy)
      values[i] = static_cast<float>(static_cast<int64_t>(bits.v[1]) % classes);
  }
  device.copy_in(stream, all_->data(), values.data(), values.size() * sizeof(float));
  stream.synchronize(deadline);
}

void TargetPool::enqueue_copy(Stream& stream, int batch, Buffer& targets) {
  const char* from = all_->as<char>() + static_cast<size_t>(batch % kPipelineBatches) * batch_bytes_;
  stream.device().copy_within(stream, targets.data(), from, batch_bytes_);
}

TrainStage::TrainStage(RankContext& rank, const PipelinePlan& plan, const SensorBenchSettings& settings, int batches)
    : device_(rank.device),
      alone_(make_lone_communicator(rank.device)),
      context_{0, 1, rank.device, rank.ops, *alone_},
      trainer_(context_, options_of(plan, rank.device, settings)),
      num_batches_(batches),
      log_(rank.device.allocate(float_bytes(batches * kLogFloats))) {}

void TrainStage::enqueue(BatchBuffers::Place& place, int batch) {
  trainer_.step(place.features->as<float>(), place.targets->as<float>());
  device_.copy_within(stream(), log_->as<float>() + batch * kLogFloats, trainer_.parts().model.grads(),
                      float_bytes(kLogFloats));
}

std::vector<double> TrainStage::losses(Deadline deadline) {
  std::vector<float> log(static_cast<size_t>(num_batches_ * kLogFloats));
  device_.copy_out(stream(), log.data(), log_->data(), log.size() * sizeof(float));
  stream().synchronize(deadline);
  std::vector<double> losses;
  for (size_t i = 0; i < log.size(); i += kLogFloats) losses.push_back(double{log[i]});
  return losses;
}

}  // namespace amdahl
