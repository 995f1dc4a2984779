// Pipelines over virtual devices: every schedule gives the loss, the gradients and the weights of one device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/pipeline/stage_runner.h"
#include "plan/stages.h"
#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr int kPipelineSteps = 3;

struct PipelineCase {
  ScheduleKind kind;
  int ranks, micro_batches, chunks;
  LossKind loss;
};

std::vector<PipelineCase> pipeline_cases() {
  std::vector<PipelineCase> all;
  for (const ScheduleKind kind : schedule_kinds())
    for (const int ranks : {1, 2, 4})
      for (const int micro_batches : {1, 4, 8})
        for (const int chunks : {1, 2})
          for (const LossKind loss : {LossKind::mse, LossKind::softmax_cross_entropy})
            if (schedule_feasible(kind, ranks, micro_batches, chunks).ok)
              all.push_back({kind, ranks, micro_batches, chunks, loss});
  return all;
}

std::string pipeline_name(const ::testing::TestParamInfo<PipelineCase>& info) {
  std::string kind(to_string(info.param.kind));
  std::replace(kind.begin(), kind.end(), '-', '_');
  return fmt::format("k{}_p{}_m{}_v{}_{}", kind, info.param.ranks, info.param.micro_batches, info.param.chunks,
                     info.param.loss == LossKind::mse ? "mse" : "xent");
}

/// What a rank ends with, by layer of the whole model.
struct Outcome {
  std::vector<std::vector<float>> gradients, parameters;  // of the first step; after the last one
  std::vector<double> losses;
};

std::vector<float> read(Device& device, Stream& stream, const float* from, size_t count) {
  std::vector<float> values(count);
  device.copy_out(stream, values.data(), from, count * sizeof(float));
  stream.synchronize(Deadline::after_seconds(20));
  return values;
}

/// A layer's part of an array in layout order, weight then bias.
template <class T>
std::vector<T> layer_of(const std::vector<T>& all, const ParameterLayout& layout, size_t layer) {
  const LayerSlice& slice = layout.layers[layer];
  return {all.begin() + slice.begin, all.begin() + slice.end};
}

/// `kPipelineSteps` steps of the rank on the schedule; its layers go into `outcome`.
void run_rank(const PipelineCase& c, const PipelineSchedule& schedule, JobDevices& job, size_t r, const JobData& data,
              int64_t rows, Outcome& outcome) {
  Device& device = *job.devices[r];
  device.bind_thread();
  const ModelSpec spec = deep_model(c.loss);
  StageRunner runner(spec, schedule, {device, *job.ops[r], *job.communicators[r], 20},
                     {.global_batch = rows, .seed = 11, .layers = {}});
  Stream& stream = runner.compute_stream();
  const auto upload = [&](const std::vector<float>& values) {
    auto buffer = device.allocate(values.size() * sizeof(float));
    device.copy_in(stream, buffer->data(), values.data(), values.size() * sizeof(float));
    stream.synchronize(Deadline::after_seconds(20));
    return buffer;
  };
  const auto features = upload(data.features), targets = upload(data.targets);
  runner.initialise();
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (size_t s = 0; s < runner.num_stages(); ++s)
    optimizers.push_back(
        make_optimizer(Hyper{}, device, *job.ops[r], runner.model(s), {{0, runner.model(s).layout().num_floats}}));
  for (auto& optimizer : optimizers) optimizer->reset(stream);
  for (int step = 0; step < kPipelineSteps; ++step) {
    runner.enqueue_gradients(features->as<float>(), targets->as<float>());
    for (size_t s = 0; s < runner.num_stages(); ++s) {
      Model& model = runner.model(s);
      const auto floats = static_cast<size_t>(model.layout().num_floats);
      const LayerRange range = model.layout().range;
      if (step == 0) {
        const std::vector<float> gradients = read(device, stream, model.grads(), floats);
        for (size_t i = range.first; i < range.last; ++i) outcome.gradients[i] = layer_of(gradients, model.layout(), i);
      }
      optimizers[s]->update(stream, 0, model.layout().num_floats);
      job.ops[r]->elementwise().increment(stream, model.step_counter());
      if (step + 1 < kPipelineSteps) continue;
      const std::vector<float> parameters = read(device, stream, model.params(), floats);
      for (size_t i = range.first; i < range.last; ++i) outcome.parameters[i] = layer_of(parameters, model.layout(), i);
    }
    if (const int last = runner.loss_stage(); last >= 0)
      outcome.losses.push_back(
          static_cast<double>(read(device, stream, runner.model(static_cast<size_t>(last)).loss_stats(), 2)[0]));
  }
  runner.synchronize();
}

Outcome run_pipeline(const PipelineCase& c, const JobData& data, int64_t rows) {
  const PipelineSchedule schedule = make_schedule(c.kind, c.ranks, c.micro_batches, c.chunks);
  JobDevices job = cpu_job_devices(c.ranks);
  Outcome outcome;
  outcome.gradients.resize(deep_model(c.loss).layers.size());
  outcome.parameters.resize(outcome.gradients.size());
  run_rank_threads(
      c.ranks, [&](int rank) { run_rank(c, schedule, job, static_cast<size_t>(rank), data, rows, outcome); },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return outcome;
}

class Pipeline : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(Pipeline, EqualsOneDeviceInFloat64) {
  const PipelineCase& c = GetParam();
  constexpr int64_t kPipelineRows = 35;  // micro-batches of different sizes
  const ModelSpec spec = deep_model(c.loss);
  const JobData data = random_data(spec, kPipelineRows, 3);
  const Outcome outcome = run_pipeline(c, data, kPipelineRows);
  ReferenceMlp reference(spec, Hyper{}, 11);
  const ParameterLayout layout = make_layout(spec);
  for (int step = 0; step < kPipelineSteps; ++step) {
    const double loss = reference.gradients(data.features, data.targets, kPipelineRows, true);
    EXPECT_NEAR(outcome.losses[static_cast<size_t>(step)], loss, 1e-5 * std::max(1.0, loss)) << "step " << step;
    for (size_t i = 0; step == 0 && i < spec.layers.size(); ++i)
      EXPECT_LT(relative_error(outcome.gradients[i], layer_of(reference.grads(), layout, i), 0), 1e-5) << "layer " << i;
    reference.update();
  }
  for (size_t i = 0; i < spec.layers.size(); ++i)
    EXPECT_LT(relative_error(outcome.parameters[i], layer_of(reference.params(), layout, i), 0), 1e-4) << "layer " << i;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pipeline, ::testing::ValuesIn(pipeline_cases()), pipeline_name);

// Micro-batches are summed in their order under every schedule: the division into stages changes no bit.
TEST(PipelineBits, DoNotDependOnTheScheduleOrTheNumberOfRanks) {
  constexpr int64_t kPipelineRows = 32;
  const JobData data = random_data(deep_model(LossKind::mse), kPipelineRows, 5);
  const Outcome one = run_pipeline({ScheduleKind::one_f_one_b, 1, 8, 1, LossKind::mse}, data, kPipelineRows);
  for (const ScheduleKind kind : schedule_kinds())
    for (const int ranks : {2, 4}) {
      const int chunks = kind == ScheduleKind::interleaved || kind == ScheduleKind::zb_v ? 2 : 1;
      const Outcome several = run_pipeline({kind, ranks, 8, chunks, LossKind::mse}, data, kPipelineRows);
      EXPECT_EQ(several.losses, one.losses) << to_string(kind) << " on " << ranks;
      EXPECT_EQ(several.parameters, one.parameters) << to_string(kind) << " on " << ranks;
    }
}

TEST(PipelineStages, AreBalancedByWork) {
  const auto sizes = [](const std::vector<double>& work, int stages) {
    std::vector<size_t> counts;
    for (const LayerRange& range : balance_stages(work, stages)) counts.push_back(range.last - range.first);
    return counts;
  };
  EXPECT_EQ(sizes({1, 1, 1, 1}, 2), (std::vector<size_t>{2, 2}));
  EXPECT_EQ(sizes({9, 1, 1, 1}, 2), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(sizes({1, 1, 1, 9}, 3).back(), 1u);
  EXPECT_EQ(sizes({0, 0, 0}, 3), (std::vector<size_t>{1, 1, 1}));
  EXPECT_THROW(balance_stages({1, 1}, 3), Error);
  EXPECT_THROW(balance_stages({1, 1}, 0), Error);
}

TEST(PipelineRunner, RefusesWhatDoesNotFit) {
  JobDevices job = cpu_job_devices(1);
  const auto cause_of = [&](int ranks, int micro_batches, int64_t rows) {
    try {
      StageRunner runner(deep_model(LossKind::mse), make_schedule(ScheduleKind::gpipe, ranks, micro_batches),
                         {*job.devices[0], *job.ops[0], *job.communicators[0], 5},
                         {.global_batch = rows, .layers = {}});
    } catch (const Error& error) {
      EXPECT_FALSE(error.remedy().empty());
      return error.cause();
    }
    return Cause::internal;
  };
  EXPECT_EQ(cause_of(2, 4, 8), Cause::usage);  // a pipeline of one rank
  EXPECT_EQ(cause_of(1, 4, 3), Cause::usage);  // a micro-batch without rows
}

// A rank that fails in the middle of a step: the others' waits end with its cause, not with a deadline.
TEST(PipelineRunner, AFailureEndsEveryRank) {
  constexpr int kRanks = 3;
  JobDevices job = cpu_job_devices(kRanks);
  const PipelineSchedule schedule = make_schedule(ScheduleKind::one_f_one_b, kRanks, 4);
  const ModelSpec spec = deep_model(LossKind::mse);
  const JobData data = random_data(spec, 16, 3);
  try {
    run_rank_threads(
        kRanks,
        [&](int rank) {
          const auto r = static_cast<size_t>(rank);
          StageRunner runner(spec, schedule, {*job.devices[r], *job.ops[r], *job.communicators[r], 20},
                             {.global_batch = 16, .layers = {}});
          runner.initialise();
          if (rank == 1) throw Error(Cause::device_error, "planted", {}, 1);
          runner.enqueue_gradients(data.features.data(), data.targets.data());
          runner.synchronize();
        },
        [&](const Error& cause) {
          for (auto& communicator : job.communicators) communicator->abort(cause);
        });
    FAIL() << "the planted failure got lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::device_error) << error.line();
  }
}

}  // namespace
}  // namespace amdahl::test
