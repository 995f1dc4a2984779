#include "small_job.h"

#include <algorithm>
#include <random>

#include "symmetric/symmetric_collectives.h"

namespace amdahl::test {

JobData random_data(const ModelSpec& model, int64_t rows, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  JobData data;
  data.features.resize(static_cast<size_t>(rows * model.input_width));
  std::uniform_int_distribution<int64_t> token(0, std::max<int64_t>(model.vocabulary() - 1, 0));
  for (float& value : data.features)
    value = model.vocabulary() > 0 ? static_cast<float>(token(generator)) : normal(generator);
  data.targets.resize(static_cast<size_t>(rows * model.target_width()));
  std::uniform_int_distribution<int64_t> label(0, model.output_width() - 1);
  for (float& value : data.targets)
    value = model.loss == LossKind::mse ? normal(generator) : static_cast<float>(label(generator));
  if (model.layers.front().end_token >= 0)
    for (size_t i = 0; i < data.targets.size(); ++i)
      data.targets[i] = static_cast<float>(model.vocabulary() - 1) - data.features[i];
  return data;
}

ModelSpec deep_model(LossKind loss) {
  ModelSpec model;
  model.name = "deep";
  model.input_width = 13;
  for (const int64_t units : {31, 24, 17, 40, 19, 33, 21, 16})
    model.layers.push_back({units, units != 40, Activation::relu, units % 2 == 0 ? 0.25 : 0.0});
  model.layers.push_back({5, true, Activation::none, 0.0});
  model.loss = loss;
  return model;
}

ModelSpec odd_model(LossKind loss, double dropout) {
  ModelSpec model;
  model.name = "odd";
  model.input_width = 13;
  model.layers = {{37, true, Activation::relu, dropout},
                  {66, false, Activation::relu, dropout},
                  {19, true, Activation::relu, 0.0},
                  {5, true, Activation::none, 0.0}};
  model.loss = loss;
  return model;
}

JobDevices cpu_job_devices(int count, MathMode math) {
  JobDevices job;
  job.devices = make_cpu_devices(count);
  for (auto& device : job.devices) job.ops.push_back(make_cpu_ops(*device, {math}));
  if (count == 1)  // as in fleets
    job.communicators.push_back(make_lone_communicator(*job.devices[0]));
  else
    job.communicators = make_inproc_communicators(count, 30);
  return job;
}

JobDevices symmetric_job_devices(int count) {
  JobDevices job = cpu_job_devices(count);
  std::vector<Device*> devices;
  for (const auto& device : job.devices) devices.push_back(device.get());
  job.communicators = make_symmetric_communicators(devices, std::move(job.communicators), 30, {});
  return job;
}

std::vector<float> read_gradients(TrainingParts& parts) {
  if (!parts.options.keep_gradients) throw Error(Cause::internal, "gradients were asked for but not kept");
  std::vector<float> whole(static_cast<size_t>(parts.model.layout().num_floats));
  std::vector<FloatRange> kept{{0, parts.model.layout().num_floats}};
  if (parts.model.storage().shards.gradients) kept = parts.owned();
  const float* from = parts.model.grads();
  for (const FloatRange& range : kept) {
    parts.rank.device.copy_out(*parts.compute, whole.data() + range.begin, from, float_bytes(range.floats()));
    from += range.floats();
  }
  parts.synchronize();
  return whole;
}

std::vector<float*> own_arrays(TrainingParts& parts) {
  const std::vector<FloatRange> owned = parts.owned();
  std::vector<float*> arrays = parts.optimizer->state();
  arrays.insert(arrays.begin(), owned.empty() ? nullptr : parts.model.storage().owned_param(owned.front().begin));
  return arrays;
}

JobResult run_job(JobDevices& job, const TrainerOptions& options, const JobData& data, int steps) {
  const int world = options.plan.num_devices();
  JobResult result;
  result.params.resize(static_cast<size_t>(world));
  result.comm_bytes.resize(static_cast<size_t>(world));
  result.comm_calls.resize(static_cast<size_t>(world));
  std::vector<std::vector<float>> gradients(static_cast<size_t>(world));
  run_rank_threads(
      world,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        job.devices[r]->bind_thread();
        Device& device = *job.devices[r];
        RankContext rank{index, world, device, *job.ops[r], *job.communicators[r]};
        Trainer trainer(rank, options);
        const RowRange mine = trainer.rows_to_provide();
        const int64_t width = options.model.input_width, targets = options.model.target_width();
        auto features = device.allocate(static_cast<size_t>(std::max<int64_t>(1, mine.rows() * width)) * sizeof(float));
        auto labels = device.allocate(static_cast<size_t>(std::max<int64_t>(1, mine.rows() * targets)) * sizeof(float));
        if (mine.rows() > 0) {
          device.copy_in(trainer.compute_stream(), features->data(), data.features.data() + mine.begin * width,
                         static_cast<size_t>(mine.rows() * width) * sizeof(float));
          device.copy_in(trainer.compute_stream(), labels->data(), data.targets.data() + mine.begin * targets,
                         static_cast<size_t>(mine.rows() * targets) * sizeof(float));
          trainer.synchronize();
        }
        rank.communicator.reset_traffic();
        for (int step = 0; step < steps; ++step) {
          trainer.step(features->as<float>(), labels->as<float>());
          const StepStats stats = trainer.stats();
          if (step == 0) {
            result.comm_bytes[r] = rank.communicator.traffic().payload_bytes;
            result.comm_calls[r] = rank.communicator.traffic().num_calls;
          }
          if (step == 0 && options.keep_gradients) gradients[r] = read_gradients(trainer.parts());
          if (index != 0) continue;
          result.losses.push_back(stats.loss);
          result.correct = stats.correct;
        }
        result.params[r] = read_parameters(trainer.parts());
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  result.first_gradients = gradients[0];
  if (!options.keep_gradients) return result;
  const StrategyRow& row = find_strategy(options.plan.strategy);
  for (int rank = 1; rank < world; ++rank)
    for (const FloatRange& range : row.owned(options.plan, make_layout(options.model), rank))
      std::copy(gradients[static_cast<size_t>(rank)].begin() + range.begin,
                gradients[static_cast<size_t>(rank)].begin() + range.end, result.first_gradients.begin() + range.begin);
  return result;
}

}  // namespace amdahl::test
