// Any plan equals one device: every row of the strategy table, on 1, 2, 3 and 4 virtual devices, gives the loss, the
// gradients and the weights after ten steps of a float64 single-device reference, and its declared traffic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr int64_t kStrategyRows = 26;  // not divisible by 3 or 4: uneven shares
constexpr int kStrategySteps = 10;
// float32 against float64: a few hundred roundings of 6e-8 each; ten Adam steps amplify where v is tiny.
constexpr double kGradientTolerance = 2e-6, kLossTolerance = 2e-6, kWeightTolerance = 2e-5;

struct StrategyCase {
  std::string strategy;
  int devices;
  int accumulate;
  bool overlap;
  LossKind loss;
  std::string optimizer;
};

void PrintTo(const StrategyCase& c, std::ostream* out) { *out << c.strategy << " on " << c.devices; }

std::vector<StrategyCase> strategy_cases() {
  std::vector<StrategyCase> all;
  for (const StrategyRow& row : strategy_table())
    for (int devices : {1, 2, 3, 4})
      for (int accumulate : {1, 2})
        for (bool overlap : {true, false})
          for (LossKind loss : {LossKind::mse, LossKind::softmax_cross_entropy})
            for (const char* optimizer : {"adam", "sgd"}) {
              const StrategyCase c{std::string(row.name), devices, accumulate, overlap, loss, optimizer};
              ParallelPlan plan;
              plan.mesh.dp = devices;
              plan.global_batch = kStrategyRows;
              plan.accumulate = accumulate;
              if (row.feasible(plan).ok) all.push_back(c);
            }
  return all;
}

std::string strategy_name_of(const ::testing::TestParamInfo<StrategyCase>& info) {
  const StrategyCase& c = info.param;
  return fmt::format("{}_{}dev_acc{}_{}_{}_{}", c.strategy, c.devices, c.accumulate, c.overlap ? "overlap" : "serial",
                     c.loss == LossKind::mse ? "mse" : "xent", c.optimizer);
}

TrainerOptions options_of(const StrategyCase& c) {
  TrainerOptions options;
  options.model = odd_model(c.loss);
  options.plan.strategy = c.strategy;
  options.plan.mesh.dp = c.devices;
  options.plan.global_batch = kStrategyRows;
  options.plan.accumulate = c.accumulate;
  options.plan.overlap = c.overlap;
  options.plan.bucket_bytes = 6000;  // several buckets
  options.hyper.optimizer = c.optimizer;
  options.hyper.learning_rate = 1e-2f;
  options.seed = 7;
  options.keep_gradients = true;
  return options;
}

class Strategies : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(Strategies, EqualOneDevice) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kStrategyRows, 11);
  JobDevices devices = cpu_job_devices(GetParam().devices);
  const JobResult result = run_job(devices, options, data, kStrategySteps);

  ReferenceMlp reference(options.model, options.hyper, options.seed);
  for (int step = 0; step < kStrategySteps; ++step) {
    const double loss = reference.gradients(data.features, data.targets, kStrategyRows, true);
    EXPECT_NEAR(result.losses[static_cast<size_t>(step)], loss, kLossTolerance * std::max(1.0, loss))
        << "step " << step;
    if (step == 0) {
      EXPECT_LT(relative_error(result.first_gradients, reference.grads(), 0), kGradientTolerance);
    }
    if (step == kStrategySteps - 1 && options.model.loss == LossKind::softmax_cross_entropy) {
      EXPECT_EQ(result.correct, reference.correct());
    }
    reference.update();
  }
  EXPECT_LT(relative_error(result.params[0], reference.params(), 0), kWeightTolerance);
}

TEST_P(Strategies, DeclareTheBytesTheySend) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kStrategyRows, 11);
  JobDevices devices = cpu_job_devices(GetParam().devices);
  const JobResult result = run_job(devices, options, data, 1);
  const StrategyRow& row = find_strategy(options.plan.strategy);
  for (int rank = 0; rank < GetParam().devices; ++rank)
    EXPECT_EQ(static_cast<int64_t>(result.comm_bytes[static_cast<size_t>(rank)]),
              row.traffic_bytes(options.plan, options.model, rank))
        << "rank " << rank;
}

TEST_P(Strategies, RerunBitEqualAndReplicasAgree) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kStrategyRows, 11);
  JobDevices first_devices = cpu_job_devices(GetParam().devices), second_devices = cpu_job_devices(GetParam().devices);
  const JobResult first = run_job(first_devices, options, data, 3), second = run_job(second_devices, options, data, 3);
  EXPECT_EQ(first.params, second.params);
  if (find_strategy(options.plan.strategy).data_on_root) return;  // only rank 0 holds the updated weights
  for (const std::vector<float>& replica : first.params) EXPECT_EQ(replica, first.params[0]);
}

INSTANTIATE_TEST_SUITE_P(Table, Strategies, ::testing::ValuesIn(strategy_cases()), strategy_name_of);

}  // namespace
}  // namespace amdahl::test
