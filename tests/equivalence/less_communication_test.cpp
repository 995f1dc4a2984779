// Local SGD, compressed gradients and late updates, against what they are defined by, on virtual devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/small_floats.h"
#include "plan/compressed_blocks.h"
#include "plan_job.h"
#include "reference_mlp.h"

namespace amdahl::test {
namespace {

constexpr int64_t kSyncRows = 32;  // a power of two: means over shares are exact multiples of that over the batch

TrainerOptions sync_options(const std::string& plan, const char* optimizer = "sgd", float rate = 1e-2f) {
  TrainerOptions options;
  options.model = odd_model(LossKind::mse, 0.0);
  options.plan = parse_plan(plan);
  options.plan.global_batch = kSyncRows;
  options.plan.bucket_bytes = 6000;  // several buckets
  options.hyper.optimizer = optimizer;
  options.hyper.learning_rate = rate;
  options.seed = 7;
  options.keep_gradients = true;
  return options;
}

/// What one device makes of the rows of one of `ranks` ranks: parameters and gradients after `steps` steps.
struct Alone {
  std::vector<float> parameters, gradients;
};
Alone train_alone(const TrainerOptions& of_all, const JobData& data, int ranks, int rank, int steps) {
  TrainerOptions options = of_all;
  options.plan = parse_plan("dp1");
  options.plan.global_batch = kSyncRows / ranks;
  const int64_t begin = rank * options.plan.global_batch;
  Alone result;
  on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int) {
    for (int step = 0; step < steps; ++step)
      trainer.step(features + begin * options.model.input_width, targets + begin * options.model.target_width());
    result = {read_parameters(trainer.parts()), read_gradients(trainer.parts())};
  });
  return result;
}

JobData linear_data(const ModelSpec& model) {
  JobData data = random_data(model, kSyncRows, 11);
  for (int64_t row = 0; row < kSyncRows; ++row)
    for (int64_t i = 0; i < model.target_width(); ++i)
      data.targets[static_cast<size_t>(row * model.target_width() + i)] =
          data.features[static_cast<size_t>(row * model.input_width + i)] -
          0.5f * data.features[static_cast<size_t>(row * model.input_width + i + 1)];
  return data;
}

class OnRanks : public ::testing::TestWithParam<int> {};

TEST_P(OnRanks, LocalSgdAveragesTheParametersOfStepsTakenAlone) {
  const int ranks = GetParam();
  for (const char* optimizer : {"sgd", "adam"})
    for (const int steps : {1, 3}) {
      TrainerOptions options = sync_options(fmt::format("dp{},local{}", ranks, steps), optimizer);
      options.plan.bucket_bytes = 1 << 20;  // gradients of whole layers, as alone: pieces may round otherwise
      const JobData data = random_data(options.model, kSyncRows, 11);
      std::vector<float> mean = train_alone(options, data, ranks, 0, steps).parameters;
      for (int rank = 1; rank < ranks; ++rank) {
        const std::vector<float> other = train_alone(options, data, ranks, rank, steps).parameters;
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += other[i];
      }
      for (float& value : mean) value /= static_cast<float>(ranks);
      JobDevices devices = cpu_job_devices(ranks);
      const JobResult result = run_job(devices, options, data, steps);
      for (const std::vector<float>& parameters : result.params) EXPECT_EQ(parameters, mean) << optimizer << steps;
    }
}

TEST_P(OnRanks, LocalSgdAveragesTheOptimizerToo) {
  const int ranks = GetParam();
  const TrainerOptions options = sync_options(fmt::format("dp{},local2", ranks), "adam");
  const JobData data = random_data(options.model, kSyncRows, 11);
  std::vector<std::vector<float>> first(static_cast<size_t>(ranks)), averaged(first);
  on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
    trainer.step(features, targets);
    first[static_cast<size_t>(rank)] = read_parameters(trainer.parts());
    trainer.step(features, targets);
    averaged[static_cast<size_t>(rank)] = read_parameters(trainer.parts());
    const TrainerState state = save_state(trainer.parts());
    trainer.step(features, targets);  // from equal parameters and state, on different rows
    trainer.parts().finish_updates();
    averaged[static_cast<size_t>(rank)] = read_parameters(trainer.parts());
  });
  EXPECT_NE(first[0], first[1]);
  for (const std::vector<float>& parameters : averaged) EXPECT_EQ(parameters, averaged[0]);
}

TEST_P(OnRanks, RoundedGradientsAreTheSumOfRoundedGradients) {
  const int ranks = GetParam();
  for (const char* type : {"bf16", "fp16"}) {
    const TrainerOptions options = sync_options(fmt::format("dp{},compress={}", ranks, type));
    const JobData data = random_data(options.model, kSyncRows, 11);
    JobDevices devices = cpu_job_devices(ranks);
    const JobResult result = run_job(devices, options, data, 1);
    const bool is_bf16 = std::string(type) == "bf16";
    const auto rounded = [&](float value) { return is_bf16 ? to_float(to_bfloat(value)) : to_float(to_half(value)); };
    std::vector<float> expected;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float> own = train_alone(options, data, ranks, rank, 1).gradients;
      expected.resize(own.size());
      for (size_t i = 0; i < own.size(); ++i) expected[i] += rounded(own[i] / static_cast<float>(ranks));
    }
    for (float& value : expected) value = rounded(value);
    EXPECT_EQ(result.first_gradients, expected) << type;
    EXPECT_EQ(static_cast<int64_t>(result.comm_bytes[0]),
              find_strategy("ddp").traffic_bytes(options.plan, options.model, 0));
    EXPECT_EQ(static_cast<int64_t>(result.comm_bytes[0]), 2 * make_layout(options.model).num_floats);
  }
}

/// With a learning rate that changes nothing every step has the same gradients.
TEST_P(OnRanks, WhatWasSentAndWhatIsLeftAddUpToTheGradients) {
  constexpr int kSteps = 6;
  const int ranks = GetParam();
  TrainerOptions exact = sync_options(fmt::format("dp{}", ranks), "sgd", 1e-30f);
  const JobData data = random_data(exact.model, kSyncRows, 11);
  JobDevices devices = cpu_job_devices(ranks);
  const std::vector<float> gradients = run_job(devices, exact, data, 1).first_gradients;
  for (const char* kind : {"int8", "topk", "topk,keep=0.2"}) {
    const TrainerOptions options = sync_options(fmt::format("dp{},compress={}", ranks, kind), "sgd", 1e-30f);
    std::vector<std::vector<float>> sent(static_cast<size_t>(ranks), std::vector<float>(gradients.size(), 0.0f));
    TrainerState state;
    size_t bytes = 0;
    on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
      for (int step = 0; step < kSteps; ++step) {
        trainer.parts().divided.take_traffic();
        trainer.step(features, targets);
        const std::vector<float> used = read_gradients(trainer.parts());
        if (rank == 0) bytes = trainer.parts().divided.take_traffic();
        for (size_t i = 0; i < used.size(); ++i) sent[static_cast<size_t>(rank)][i] += used[i];
      }
      const TrainerState mine = save_state(trainer.parts());
      if (rank == 0) state = mine;
    });
    ASSERT_EQ(state.feedback.size(), static_cast<size_t>(ranks)) << kind;
    double difference = 0, norm = 0, left = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      double sum = double{sent[0][i]};
      for (const std::vector<float>& feedback : state.feedback) {
        sum += double{feedback[i]};
        left += std::abs(double{feedback[i]});
      }
      difference += std::pow(sum - kSteps * double{gradients[i]}, 2);
      norm += std::pow(kSteps * double{gradients[i]}, 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), 2e-6) << kind;
    EXPECT_GT(left, 0) << kind;
    for (const std::vector<float>& each : sent) EXPECT_EQ(each, sent[0]) << kind;
    EXPECT_EQ(static_cast<int64_t>(bytes), find_strategy("ddp").traffic_bytes(options.plan, options.model, 0)) << kind;
    const double most = options.plan.keep_ppm > 100'000 ? 0.6 : 0.3;  // of whole gradients; small buckets end in a part
    EXPECT_LT(static_cast<double>(bytes), most * 4 * static_cast<double>(gradients.size())) << kind;
  }
}

TEST_P(OnRanks, LateUpdatesApplyEveryGradientOnceAndNeverLaterThanTheBound) {
  const int ranks = GetParam();
  for (const int bound : {1, 3}) {
    const TrainerOptions options = sync_options(fmt::format("dp{},async{}", ranks, bound));
    const TrainerOptions exact = sync_options(fmt::format("dp{}", ranks));
    const JobData data = random_data(options.model, kSyncRows, 11);
    JobDevices devices = cpu_job_devices(ranks);
    const JobResult one = run_job(devices, exact, data, 1);
    std::vector<std::vector<float>> before(static_cast<size_t>(ranks)), finished(before);
    on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
      const auto r = static_cast<size_t>(rank);
      const std::vector<float> start = read_parameters(trainer.parts());
      trainer.step(features, targets);
      EXPECT_EQ(read_parameters(trainer.parts()), start);  // nothing has arrived
      trainer.parts().finish_updates();
      finished[r] = read_parameters(trainer.parts());
      for (int step = 0; step < 10; ++step) {
        trainer.step(features, targets);
        trainer.synchronize();
        EXPECT_LE(trainer.parts().sync->most_steps_behind(), bound);
      }
      EXPECT_EQ(trainer.parts().sync->most_steps_behind(), bound);
      before[r] = read_parameters(trainer.parts());
    });
    for (const auto& parameters : finished) EXPECT_EQ(parameters, one.params[0]);
    for (const auto& parameters : before) EXPECT_EQ(parameters, before[0]);
  }
}

/// One late step in float64: the gradient of step t is applied after step t + 1.
TEST_P(OnRanks, LateUpdatesAreThoseOfADelayedReference) {
  const TrainerOptions options = sync_options(fmt::format("dp{},async1", GetParam()));
  const JobData data = random_data(options.model, kSyncRows, 11);
  JobDevices devices = cpu_job_devices(GetParam());
  const JobResult result = run_job(devices, options, data, 6);
  // `probe` computes gradients at the current parameters; `keeper` applies those of the step before.
  ReferenceMlp probe(options.model, options.hyper, options.seed);
  std::vector<double> velocity(probe.params().size(), 0.0), late;
  for (int step = 0; step < 6; ++step) {
    const double loss = probe.gradients(data.features, data.targets, kSyncRows, true);
    EXPECT_NEAR(result.losses[static_cast<size_t>(step)], loss, 1e-5 * std::max(1.0, loss)) << step;
    const std::vector<double> now = probe.grads();
    for (size_t i = 0; i < late.size(); ++i) {
      velocity[i] = double{options.hyper.momentum} * velocity[i] + late[i];
      probe.mutable_params()[i] -= double{options.hyper.learning_rate} * velocity[i];
    }
    late = now;
  }
  EXPECT_LT(relative_error(result.params[0], probe.params(), 0), 2e-5);
}

TEST_P(OnRanks, EveryMethodLearns) {
  constexpr int kSteps = 60;
  const int ranks = GetParam();
  const TrainerOptions exact = sync_options(fmt::format("dp{}", ranks), "adam");
  const JobData data = linear_data(exact.model);
  for (const char* method : {"", ",local4", ",compress=fp16", ",compress=bf16", ",compress=int8",
                             ",compress=topk,keep=0.05", ",async2", ",local1"}) {
    const TrainerOptions options = sync_options(fmt::format("dp{}{}", ranks, method), "adam");
    JobDevices devices = cpu_job_devices(ranks);
    const JobResult result = run_job(devices, options, data, kSteps);
    EXPECT_LT(result.losses.back(), 0.15 * result.losses.front()) << method;
    for (const double loss : result.losses) ASSERT_TRUE(std::isfinite(loss)) << method;
    JobDevices again = cpu_job_devices(ranks);
    EXPECT_EQ(run_job(again, options, data, kSteps).params, result.params) << method << ": reruns differ";
  }
}

TEST_P(OnRanks, CheckpointsContinueBitByBit) {
  const int ranks = GetParam();
  for (const char* method : {",local3", ",compress=bf16", ",compress=int8", ",compress=topk", ",async2"}) {
    const TrainerOptions options = sync_options(fmt::format("dp{}{}", ranks, method), "adam");
    const JobData data = random_data(options.model, kSyncRows, 11);
    TrainerState middle, whole, resumed;
    on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
      for (int step = 0; step < 4; ++step) trainer.step(features, targets);
      TrainerState state = save_state(trainer.parts());
      if (rank == 0) middle = std::move(state);
      for (int step = 0; step < 5; ++step) trainer.step(features, targets);
      state = save_state(trainer.parts());
      if (rank == 0) whole = std::move(state);
    });
    on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
      trainer.step(features, targets);  // is forgotten
      load_state(trainer.parts(), rank == 0 ? middle : TrainerState{});
      for (int step = 0; step < 5; ++step) trainer.step(features, targets);
      TrainerState state = save_state(trainer.parts());
      if (rank == 0) resumed = std::move(state);
    });
    EXPECT_EQ(resumed.parameters, whole.parameters) << method;
    EXPECT_EQ(resumed.optimizer, whole.optimizer) << method;
    EXPECT_EQ(resumed.feedback, whole.feedback) << method;
    EXPECT_EQ(resumed.step, whole.step) << method;
  }
}

INSTANTIATE_TEST_SUITE_P(LessCommunication, OnRanks, ::testing::Values(2, 4));

/// Eight ranks, and buckets with chunks of unequal size and without any values.
TEST(Int8, SendsAQuarterOfDdpToAnyNumberOfRanks) {
  for (const int ranks : {2, 3, 8}) {
    const TrainerOptions options = sync_options(fmt::format("dp{},compress=int8", ranks), "adam");
    const JobData data = linear_data(options.model);
    JobDevices devices = cpu_job_devices(ranks);
    const JobResult result = run_job(devices, options, data, 60);
    for (const std::vector<float>& parameters : result.params) EXPECT_EQ(parameters, result.params[0]) << ranks;
    EXPECT_LT(result.losses.back(), 0.15 * result.losses.front()) << ranks;
    // A call of an all-to-all or all-gather of `count` bytes receives (ranks - 1) x count, an all-reduce of `count`
    // bytes 2 (ranks - 1) / ranks x count.
    const double ddp = 2.0 / ranks * 4 * static_cast<double>(make_layout(options.model).num_floats);
    EXPECT_EQ(static_cast<int64_t>(result.comm_bytes[0]),
              find_strategy("ddp").traffic_bytes(options.plan, options.model, 0));
    EXPECT_NEAR(static_cast<double>(result.comm_bytes[0]) / ddp, 0.25, 0.01) << ranks;  // small blocks have more scales
  }
  EXPECT_EQ(int8_chunk(1000, 8), 128);  // the last has 104
  EXPECT_EQ(int8_chunk(9, 8), 4);       // the third has 1, five have none
  EXPECT_EQ(int8_chunk(4096, 2), 2048);
}

TEST(ErrorFeedback, KeepsItsSumOnFewerRanksAndIsRefusedWithoutCompression) {
  const TrainerOptions four = sync_options("dp4,compress=int8");
  const JobData data = random_data(four.model, kSyncRows, 11);
  TrainerState saved, moved;
  on_trainers(four, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
    trainer.step(features, targets);
    TrainerState state = save_state(trainer.parts());
    if (rank == 0) saved = std::move(state);
  });
  for (const int ranks : {2, 3}) {
    on_trainers(sync_options(fmt::format("dp{},compress=topk", ranks)), data,
                [&](Trainer& trainer, const float*, const float*, int rank) {
                  load_state(trainer.parts(), rank == 0 ? saved : TrainerState{});
                  TrainerState state = save_state(trainer.parts());
                  if (rank == 0) moved = std::move(state);
                });
    ASSERT_EQ(moved.feedback.size(), static_cast<size_t>(ranks));
    for (size_t i = 0; i < moved.feedback[0].size(); ++i) {
      double before = 0, after = 0;
      for (const auto& feedback : saved.feedback) before += double{feedback[i]};
      for (const auto& feedback : moved.feedback) after += double{feedback[i]};
      ASSERT_NEAR(after, before, 1e-6 * std::abs(before) + 1e-9);
    }
  }
  try {
    on_trainers(sync_options("dp2"), data, [&](Trainer& trainer, const float*, const float*, int rank) {
      load_state(trainer.parts(), rank == 0 ? saved : TrainerState{});
    });
    ADD_FAILURE() << "feedback was dropped";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_NE(std::string(error.what()).find("error feedback"), std::string::npos) << error.what();
  }
}

/// Gradients, loss and weights of any shares are those of one device in float64.
TEST(Shares, GradientsEqualThoseOfOneDevice) {
  for (const char* text : {"dp2,shares=3:1", "dp2,shares=1:31", "dp2,shares=30:1,zero1", "dp3,shares=1:2:5",
                           "dp3,shares=5:1:2,zero1,m2", "dp4,shares=9:1:1:2,dp", "dp2,shares=3:1,m3",
                           "dp4,shares=1:1:9:1,no-overlap", "dp2,shares=5:2,compress=bf16"}) {
    TrainerOptions options = sync_options(text, "adam");
    options.model = odd_model(LossKind::mse, 0.25);
    const bool exact = options.plan.compress == 0;
    const JobData data = random_data(options.model, kSyncRows, 11);
    JobDevices devices = cpu_job_devices(options.plan.num_devices());
    const JobResult result = run_job(devices, options, data, 5);
    ReferenceMlp reference(options.model, options.hyper, options.seed);
    for (int step = 0; step < 5; ++step) {
      const double loss = reference.gradients(data.features, data.targets, kSyncRows, true);
      EXPECT_NEAR(result.losses[static_cast<size_t>(step)], loss, (exact ? 2e-6 : 1e-2) * std::max(1.0, loss)) << text;
      if (step == 0) {
        EXPECT_LT(relative_error(result.first_gradients, reference.grads(), 0), exact ? 2e-6 : 1e-2) << text;
      }
      reference.update();
    }
    EXPECT_LT(relative_error(result.params[0], reference.params(), 0), exact ? 2e-5 : 2e-2) << text;
  }
}

}  // namespace
}  // namespace amdahl::test
