#include "measure/study/step_account.h"
#include "amdahl/summary.h"

#include <gtest/gtest.h>

#include <random>

namespace amdahl {
namespace {

double sum_of_parts(const AccountedStep& s) {
  return s.compute + s.exposed_communication + s.waiting + s.launch_gaps + s.input + s.optimizer;
}

// A rank that does everything itself, in `full`.
PartTimes alone(double full) {
  PartTimes t;
  t.full = t.staged = t.local = t.local_work = full;
  t.backward_work = 0.8 * full;
  t.forward_work = 0.3 * full;
  return t;
}

// A rank whose communication adds `added` to 100 us, and how a stamped step divided it.
PartTimes sending(double added, std::vector<double> stalls, std::vector<double> collectives) {
  PartTimes t = alone(100);
  t.full = t.staged = 100 + added;
  t.communication = {std::move(stalls), std::move(collectives)};
  return t;
}

TEST(StepAccount, PartsAreDifferencesOfSteps) {
  PartTimes t;
  t.full = 130;
  t.staged = 120;
  t.local = 100;
  t.local_work = 90;
  t.backward_work = 70;
  t.forward_work = 25;
  t.launch_floor = 18;
  t.launch_kernels = 12;
  t.noise = 3;
  const AccountedStep account = account_step({t});
  EXPECT_DOUBLE_EQ(account.step, 130);
  EXPECT_DOUBLE_EQ(account.forward, 25);
  EXPECT_DOUBLE_EQ(account.backward, 45);
  EXPECT_DOUBLE_EQ(account.compute, 70) << "forward and backward are its parts, without launch gaps";
  EXPECT_DOUBLE_EQ(account.optimizer, 20);
  EXPECT_DOUBLE_EQ(account.launch_gaps, 10);
  EXPECT_DOUBLE_EQ(account.exposed_communication, 20);
  EXPECT_DOUBLE_EQ(account.input, 10);
  EXPECT_DOUBLE_EQ(account.waiting, 0);
  EXPECT_DOUBLE_EQ(account.launch_floor, 18);
  EXPECT_DOUBLE_EQ(account.launch_kernels, 12);
  EXPECT_DOUBLE_EQ(account.noise, 3);
}

// Rank 0 is 40 us early at the collective, whose exchange itself takes 10 us.
TEST(StepAccount, WaitingIsTheEarlyRanks) {
  const PartTimes early = sending(50, {50}, {50}), late = sending(50, {10}, {10});
  const AccountedStep account = account_step({early, late});
  EXPECT_DOUBLE_EQ(account.waiting, 40.0 / 2);  // means over the ranks
  EXPECT_DOUBLE_EQ(account.exposed_communication, (10.0 + 50.0) / 2);
  EXPECT_DOUBLE_EQ(account.total_communication, 10);
  EXPECT_DOUBLE_EQ(account.step, 150);

  const AccountedStep one = account_step({early});  // without the late rank nobody can tell
  EXPECT_DOUBLE_EQ(one.waiting, 0);
  EXPECT_DOUBLE_EQ(one.exposed_communication, 50);
}

TEST(StepAccount, StampsDivideWhatCommunicationAddsAndDoNotLengthenIt) {
  const AccountedStep account = account_step({sending(20, {50, 50}, {50, 50}), sending(20, {50, 50}, {25, 25})});
  EXPECT_DOUBLE_EQ(account.exposed_communication + account.waiting, 20);
  EXPECT_DOUBLE_EQ(account.waiting, 0.5 * 20 / 2);
}

TEST(StepAccount, HiddenCommunicationIsNeitherExposedNorWaiting) {
  const AccountedStep account = account_step({sending(0, {0}, {30}), sending(0, {-2}, {25})});
  EXPECT_DOUBLE_EQ(account.exposed_communication, 0);
  EXPECT_DOUBLE_EQ(account.waiting, 0);
  EXPECT_DOUBLE_EQ(account.total_communication, 25);
  EXPECT_DOUBLE_EQ(account.compute, 80);
}

TEST(StepAccount, AFasterRankWaitsForTheSlowest) {
  const AccountedStep account = account_step({alone(100), alone(140)});
  EXPECT_DOUBLE_EQ(account.step, 140) << "as the measured step is";
  EXPECT_DOUBLE_EQ(account.waiting, 40.0 / 2);
  EXPECT_DOUBLE_EQ(sum_of_parts(account), 140);
}

TEST(StepAccount, ADifferenceBelowNothingIsNoiseAndTheSumStays) {
  PartTimes t = alone(100);
  t.local = 104;          // without communication longer than with it
  t.local_work = 98;      // no gap of 6
  t.backward_work = 103;  // without the update longer than with it
  t.forward_work = 20;
  const AccountedStep account = account_step({t});
  EXPECT_DOUBLE_EQ(account.exposed_communication, 0);
  EXPECT_DOUBLE_EQ(account.optimizer, 0);
  EXPECT_DOUBLE_EQ(account.launch_gaps, 2);
  EXPECT_DOUBLE_EQ(account.compute, 98);
  EXPECT_DOUBLE_EQ(sum_of_parts(account), 100);
}

TEST(StepAccount, PartsSumToTheStepAndAreNotNegativeWhateverTheNoise) {
  std::mt19937_64 generator(3);
  const auto draw = [&](double most) { return std::uniform_real_distribution<double>(0, most)(generator); };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<PartTimes> ranks(1 + trial % 5);
    const size_t buckets = static_cast<size_t>(trial % 4);
    for (PartTimes& rank : ranks) {
      for (size_t k = 0; k < buckets; ++k) {
        rank.communication.collectives.push_back(draw(100));
        rank.communication.stalls.push_back(draw(rank.communication.collectives.back()));
      }
      for (const auto time : {&PartTimes::full, &PartTimes::staged, &PartTimes::local, &PartTimes::local_work,
                              &PartTimes::backward_work, &PartTimes::forward_work})
        rank.*time = 1 + draw(300);
    }
    const AccountedStep account = account_step(ranks);
    ASSERT_NEAR(sum_of_parts(account), account.step, 1e-9 * account.step);
    ASSERT_NEAR(account.forward + account.backward, account.compute, 1e-9 * account.step);
    for (const double part :
         {account.forward, account.backward, account.compute, account.exposed_communication, account.waiting,
          account.launch_gaps, account.input, account.optimizer, account.total_communication})
      ASSERT_GE(part, -1e-9);
  }
}

}  // namespace
}  // namespace amdahl
