#include "measure/step_account.h"

#include <gtest/gtest.h>

#include <random>

namespace amdahl {
namespace {

double sum_of_parts(const AccountedStep& s) {
  return s.compute + s.exposed_communication + s.waiting + s.launch_gaps + s.input + s.optimizer;
}

StepTimes times(double step, std::vector<double> stalls, std::vector<double> collectives) {
  StepTimes t;
  t.step = step;
  t.stalls = std::move(stalls);
  t.collectives = std::move(collectives);
  return t;
}

TEST(StepAccount, OneRankWithoutCommunicationOnlyComputes) {
  StepTimes t = times(100, {}, {});
  t.input = 5;
  t.optimizer = 15;
  t.idle = 10;
  t.forward = 30;
  t.backward = 50;
  const AccountedStep account = account_step({t});
  EXPECT_DOUBLE_EQ(account.step, 100);
  EXPECT_DOUBLE_EQ(account.compute, 70);
  EXPECT_DOUBLE_EQ(account.launch_gaps, 10);
  EXPECT_DOUBLE_EQ(account.input, 5);
  EXPECT_DOUBLE_EQ(account.optimizer, 15);
  EXPECT_DOUBLE_EQ(account.waiting + account.exposed_communication + account.total_communication, 0);
  EXPECT_DOUBLE_EQ(account.forward, 30);
  EXPECT_DOUBLE_EQ(account.backward, 50);
}

// Rank 0 is 40 us early at the collective, whose exchange itself takes 10 us.
TEST(StepAccount, WaitingIsTheEarlyRanks) {
  const StepTimes early = times(150, {50}, {50}), late = times(150, {10}, {10});
  const AccountedStep account = account_step({early, late});
  EXPECT_DOUBLE_EQ(account.waiting, 40.0 / 2);  // means over the ranks
  EXPECT_DOUBLE_EQ(account.exposed_communication, 10);
  EXPECT_DOUBLE_EQ(account.total_communication, 10);
  EXPECT_DOUBLE_EQ(account.compute, (100.0 + 140.0) / 2);

  const AccountedStep alone = account_step({early});  // without the late rank nobody can tell
  EXPECT_DOUBLE_EQ(alone.waiting, 0);
  EXPECT_DOUBLE_EQ(alone.exposed_communication, 50);
}

TEST(StepAccount, HiddenCommunicationIsNeitherExposedNorWaiting) {
  const AccountedStep account = account_step({times(100, {0}, {30}), times(100, {-2}, {25})});
  EXPECT_DOUBLE_EQ(account.exposed_communication, 0);
  EXPECT_DOUBLE_EQ(account.waiting, 0);
  EXPECT_DOUBLE_EQ(account.total_communication, 25);
  EXPECT_DOUBLE_EQ(account.compute, 100);
}

TEST(StepAccount, BucketsAreTakenOneByOne) {
  // Rank 0 arrives last at the first bucket, rank 1 at the second.
  const AccountedStep account = account_step({times(200, {10, 35}, {10, 35}), times(200, {30, 5}, {30, 5})});
  EXPECT_DOUBLE_EQ(account.waiting, ((0.0 + 30.0) + (20.0 + 0.0)) / 2);
  EXPECT_DOUBLE_EQ(account.total_communication, 15);
  EXPECT_DOUBLE_EQ(account.exposed_communication, 15);
}

TEST(StepAccount, IdleBeyondTheStepIsCutOff) {
  StepTimes t = times(50, {20}, {20});
  t.optimizer = 10;
  t.idle = 500;
  const AccountedStep account = account_step({t});
  EXPECT_DOUBLE_EQ(account.launch_gaps, 20);
  EXPECT_DOUBLE_EQ(account.compute, 0);
  EXPECT_DOUBLE_EQ(sum_of_parts(account), 50);
}

TEST(StepAccount, PartsSumToTheStepAndAreNotNegative) {
  std::mt19937_64 generator(3);
  const auto draw = [&](double most) { return std::uniform_real_distribution<double>(0, most)(generator); };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<StepTimes> ranks(1 + trial % 5);
    const size_t buckets = static_cast<size_t>(trial % 4);
    for (StepTimes& rank : ranks) {
      double spent = 0;
      for (size_t k = 0; k < buckets; ++k) {
        rank.collectives.push_back(draw(100));
        rank.stalls.push_back(draw(rank.collectives.back()));
        spent += rank.stalls.back();
      }
      rank.input = draw(20);
      rank.optimizer = draw(50);
      rank.idle = draw(60);
      rank.step = spent + rank.input + rank.optimizer + draw(300);
    }
    const AccountedStep account = account_step(ranks);
    ASSERT_NEAR(sum_of_parts(account), account.step, 1e-9 * account.step);
    for (const double part : {account.compute, account.exposed_communication, account.waiting, account.launch_gaps,
                              account.input, account.optimizer, account.total_communication})
      ASSERT_GE(part, -1e-9);
  }
}

TEST(StepAccount, MeanOverSteps) {
  AccountedStep a, b;
  a.step = 10;
  a.waiting = 4;
  b.step = 20;
  b.compute = 6;
  const AccountedStep mean = mean_account({a, b});
  EXPECT_DOUBLE_EQ(mean.step, 15);
  EXPECT_DOUBLE_EQ(mean.waiting, 2);
  EXPECT_DOUBLE_EQ(mean.compute, 3);
}

}  // namespace
}  // namespace amdahl
