#include "plan_job.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <mutex>

#include "reference_mlp.h"
#include "reference_model.h"

namespace amdahl::test {
namespace {

/// Copies the owned parts of what a rank holds to their places in the whole layout.
void place_owned(const std::vector<float>& held, const ParameterLayout& layout, const std::vector<FloatRange>& owned,
                 const ParameterLayout& all, std::vector<float>& whole) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    if (layout.layers[i].is_table_copy) continue;
    for (size_t t = 0; t < layout.layers[i].tensors.size(); ++t) {
      const TensorSlice& tensor = layout.layers[i].tensors[t];
      const int64_t to = all.layers[i].tensors[t].begin;
      for_each_run(tensor, [&](int64_t in_whole, int64_t in_shard, int64_t count) {
        for (int64_t k = 0; k < count; ++k) {
          const int64_t at = tensor.begin + in_shard + k;
          for (const FloatRange& range : owned)
            if (at >= range.begin && at < range.end)
              whole[static_cast<size_t>(to + in_whole + k)] = held[static_cast<size_t>(at)];
        }
      });
    }
  }
}

/// Adam or SGD with momentum in float64, clipped.
struct Float64Optimizer {
  Hyper hyper;
  std::vector<double> m{}, v{};
  int step = 0;

  void update(std::vector<double>& parameters, std::vector<double> gradients) {
    m.resize(parameters.size(), 0.0), v.resize(parameters.size(), 0.0);
    double squares = 0;
    for (const double g : gradients) squares += g * g;
    if (hyper.clip_norm > 0 && std::sqrt(squares) > static_cast<double>(hyper.clip_norm))
      for (double& g : gradients) g *= static_cast<double>(hyper.clip_norm) / std::sqrt(squares);
    ++step;
    const auto rate = static_cast<double>(hyper.learning_rate);
    const auto beta1 = static_cast<double>(hyper.beta1), beta2 = static_cast<double>(hyper.beta2);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double g = gradients[i];
      if (hyper.optimizer == "sgd") {
        m[i] = static_cast<double>(hyper.momentum) * m[i] + g;
        parameters[i] -= rate * m[i];
        continue;
      }
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      parameters[i] -= rate * m[i] / (1 - std::pow(beta1, step)) /
                       (std::sqrt(v[i] / (1 - std::pow(beta2, step))) + static_cast<double>(hyper.epsilon));
    }
  }
};

std::vector<float> part_of_rows(const std::vector<float>& values, int64_t part, int64_t parts) {
  const auto size = static_cast<std::ptrdiff_t>(values.size()) / parts;
  return {values.begin() + part * size, values.begin() + (part + 1) * size};
}

}  // namespace

PlanResult run_plan(const TrainerOptions& options, const JobData& data, int steps) {
  JobDevices job = cpu_job_devices(options.plan.num_devices());
  return run_plan(job, options, data, steps);
}

PlanResult run_plan(JobDevices& job, const TrainerOptions& options, const JobData& data, int steps) {
  const int world = options.plan.num_devices();
  const ParameterLayout all = make_layout(options.model);
  PlanResult result;
  result.gradients.resize(static_cast<size_t>(all.num_floats));
  result.replica.resize(static_cast<size_t>(world));
  std::mutex lock;
  run_rank_threads(
      world,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        Device& device = *job.devices[r];
        device.bind_thread();
        RankContext rank{index, world, device, *job.ops[r], *job.communicators[r]};
        Trainer trainer(rank, options);
        const RowRange mine = trainer.rows_to_provide();
        const auto upload = [&](const std::vector<float>& values, int64_t width) {
          auto buffer = device.allocate(static_cast<size_t>(mine.rows() * width) * sizeof(float));
          device.copy_in(trainer.compute_stream(), buffer->data(), values.data() + mine.begin * width, buffer->bytes());
          trainer.synchronize();
          return buffer;
        };
        const auto features = upload(data.features, options.model.input_width);
        const auto targets = upload(data.targets, options.model.target_width());
        for (int step = 0; step < steps; ++step) {
          trainer.step(features->as<float>(), targets->as<float>());
          const StepStats stats = trainer.stats();
          if (step == 0 && options.keep_gradients) {
            const std::vector<float> gradients = read_gradients(trainer.parts());
            const std::lock_guard held(lock);
            place_owned(gradients, trainer.parts().model.layout(), trainer.parts().owned(), all, result.gradients);
          }
          if (index != 0) continue;
          result.losses.push_back(stats.loss);
          result.correct = stats.correct;
        }
        result.replica[r] = read_parameters(trainer.parts());
        std::vector<float> whole = gather_parameters(trainer.parts());
        if (index == 0) result.parameters = std::move(whole);
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return result;
}

void on_trainers(JobDevices& job, const TrainerOptions& options, const JobData& data, const TrainerWork& work) {
  const int world = options.plan.num_devices();
  run_rank_threads(
      world,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        RankContext rank{index, world, *job.devices[r], *job.ops[r], *job.communicators[r]};
        rank.device.bind_thread();
        std::unique_ptr<Buffer> copies[2];  // of features and targets
        Trainer trainer(rank, options);
        const RowRange mine = trainer.rows_to_provide();
        // Of a CPU device the data themselves, behind which a caller finds the other rows; else a copy.
        const auto rows_of = [&](const std::vector<float>& all, int64_t width,
                                 std::unique_ptr<Buffer>& copy) -> const float* {
          const float* const first = mine.rows() > 0 ? all.data() + mine.begin * width : nullptr;
          if (!first || rank.device.backend() == BackendKind::cpu) return first;
          copy = rank.device.allocate(float_bytes(mine.rows() * width));
          rank.device.copy_in(trainer.compute_stream(), copy->data(), first, copy->bytes());
          return copy->as<float>();
        };
        const float* const features = rows_of(data.features, options.model.input_width, copies[0]);
        const float* const targets = rows_of(data.targets, options.model.target_width(), copies[1]);
        trainer.synchronize();
        work(trainer, features, targets, index);
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
}

void on_trainers(const TrainerOptions& options, const JobData& data, const TrainerWork& work) {
  JobDevices job = cpu_job_devices(options.plan.num_devices());
  on_trainers(job, options, data, work);
}

TrainerState run_from(JobDevices& job, const TrainerOptions& options, const JobData& data, int steps,
                      const TrainerState* from, const RunHooks& hooks) {
  TrainerState result;
  on_trainers(job, options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
    if (from) load_state(trainer.parts(), rank == 0 ? *from : TrainerState{});
    for (int step = 0; step < steps; ++step) {
      trainer.step(features, targets);
      if (hooks.after_step) hooks.after_step(trainer, rank);
    }
    if (hooks.at_end) hooks.at_end(trainer, rank);
    TrainerState state = save_state(trainer.parts());
    if (state.parameters.empty() != (rank != 0)) throw Error(Cause::internal, "a state is not on rank 0 alone");
    if (rank == 0) result = std::move(state);
  });
  return result;
}

TrainerState run_from(const TrainerOptions& options, const JobData& data, int steps, const TrainerState* from,
                      const RunHooks& hooks) {
  JobDevices job = cpu_job_devices(options.plan.num_devices());
  return run_from(job, options, data, steps, from, hooks);
}

PlanReference reference_run(const TrainerOptions& options, const JobData& data, int steps, int64_t micro_batches) {
  PlanReference result;
  const int64_t rows = options.plan.global_batch;
  if (options.model.is_mlp()) {
    ReferenceMlp reference(options.model, options.hyper, options.seed);
    for (int step = 0; step < steps; ++step) {
      result.losses.push_back(reference.gradients(data.features, data.targets, rows, true));
      if (step == 0) result.gradients = reference.grads();
      reference.update();
    }
    result.parameters = reference.params();
    return result;
  }
  const std::vector<float> initial = initial_parameters(options.model, make_layout(options.model), options.seed);
  result.parameters.assign(initial.begin(), initial.end());
  const ReferenceModel reference(options.model);
  Float64Optimizer optimizer{options.hyper};
  for (int step = 0; step < steps; ++step) {
    std::vector<double> gradients(result.parameters.size(), 0.0);
    double loss = 0;
    const double share = 1.0 / static_cast<double>(micro_batches);
    for (int64_t part = 0; part < micro_batches; ++part) {
      const auto each = reference.run(result.parameters, part_of_rows(data.features, part, micro_batches),
                                      part_of_rows(data.targets, part, micro_batches), rows / micro_batches);
      loss += share * each.loss;
      for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += share * each.gradients[i];
    }
    result.losses.push_back(loss);
    if (step == 0) result.gradients = gradients;
    optimizer.update(result.parameters, gradients);
  }
  return result;
}

double allocated_bytes_of(const ModelSpec& model, const ParallelPlan& plan, int steps) {
  TrainerOptions options;
  options.model = model;
  options.plan = plan;
  JobDevices job = cpu_job_devices(plan.num_devices());
  std::vector<double> bytes;
  for (const auto& device : job.devices) bytes.push_back(-static_cast<double>(device->allocated_bytes()));
  const JobData data = random_data(model, plan.global_batch, 1);
  on_trainers(job, options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
    for (int step = 0; step < steps; ++step) trainer.step(features, targets);
    trainer.synchronize();
    const auto r = static_cast<size_t>(rank);
    bytes[r] += static_cast<double>(job.devices[r]->peak_allocated_bytes());
  });
  return *std::max_element(bytes.begin(), bytes.end());
}

std::string test_name(std::string plan) {
  std::replace_if(
      plan.begin(), plan.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return plan;
}

double relative_difference(const std::vector<float>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::nan("");
  return relative_error(a, b, 0);
}

}  // namespace amdahl::test
