// A training that is saved, ended and continued by new trainers equals one without interruption, bit by bit: weights,
// optimizer state and dropout, for every strategy on 1, 2 and 3 virtual devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan_job.h"

namespace amdahl::test {
namespace {

constexpr int64_t kResumeRows = 26;

struct ResumeCase {
  std::string strategy;
  int devices;
  std::string optimizer;
};

void PrintTo(const ResumeCase& c, std::ostream* out) { *out << c.strategy << " on " << c.devices; }

TrainerOptions options_of(const ResumeCase& c) {
  TrainerOptions options;
  options.model = odd_model(LossKind::mse);
  options.plan.strategy = c.strategy;
  options.plan.mesh.dp = c.devices;
  options.plan.global_batch = kResumeRows;
  options.plan.bucket_bytes = 6000;  // several buckets
  options.hyper.optimizer = c.optimizer;
  options.hyper.learning_rate = 1e-2f;
  options.hyper.weight_decay = 0.1f;
  options.hyper.clip_norm = c.optimizer == "adamw" ? 0.05f : 0;
  options.hyper.rate_plan = {RateSchedule::cosine, 2, 12};
  options.seed = 7;
  return options;
}

void expect_same_state(const TrainerState& a, const TrainerState& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.optimizer, b.optimizer);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i)
    EXPECT_EQ(a.buffers[i].values, b.buffers[i].values) << a.buffers[i].name;
}

class Resume : public ::testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, EqualsTheTrainingWithoutInterruption) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kResumeRows, 11);
  const TrainerState whole = run_from(options, data, 9, nullptr);
  const TrainerState part = run_from(options, data, 4, nullptr);
  EXPECT_EQ(part.step, 4u);
  EXPECT_NE(part.parameters, whole.parameters);
  ASSERT_EQ(static_cast<int>(part.optimizer.size()), num_state_arrays(options.hyper));
  for (const std::vector<float>& array : part.optimizer)
    EXPECT_TRUE(std::any_of(array.begin(), array.end(), [](float value) { return value != 0; }));
  expect_same_state(run_from(options, data, 5, &part), whole);
}

TEST_P(Resume, KeepsTheStateOnAnotherNumberOfDevices) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kResumeRows, 11);
  const TrainerState saved = run_from(options, data, 3, nullptr);
  for (const ResumeCase& other : {ResumeCase{"single", 1, GetParam().optimizer},
                                  {"zero1", 4, GetParam().optimizer},
                                  {"zero3", 2, GetParam().optimizer}})
    expect_same_state(run_from(options_of(other), data, 0, &saved), saved);
}

std::vector<ResumeCase> resume_cases() {
  std::vector<ResumeCase> all;
  for (const StrategyRow& row : strategy_table())
    for (const int devices : {1, 2, 3})
      for (const char* optimizer : {"adam", "adamw", "sgd"}) {
        ParallelPlan plan;
        plan.mesh.dp = devices;
        plan.global_batch = kResumeRows;
        if (row.feasible(plan).ok) all.push_back({std::string(row.name), devices, optimizer});
      }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, Resume, ::testing::ValuesIn(resume_cases()), [](const auto& test_case) {
  return fmt::format("{}_{}dev_{}", test_case.param.strategy, test_case.param.devices, test_case.param.optimizer);
});

}  // namespace
}  // namespace amdahl::test
