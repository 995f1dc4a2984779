// Simulated pipelines: no deadlock for any kind, bubbles as the formulas say, bounds that hold for any times, and a
// planted deadlock that is named.
#include "errors.h"
#include "parallel/pipeline/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace amdahl {
namespace {

PipelineTimes equal_times(const PipelineSchedule& schedule, const StageTimes& stage, double transfer_us = 0) {
  return {std::vector<StageTimes>(static_cast<size_t>(schedule.num_stages), stage), transfer_us};
}

SimulatedPipeline run(ScheduleKind kind, int ranks, int micro_batches, int chunks, const StageTimes& stage) {
  const PipelineSchedule schedule = make_schedule(kind, ranks, micro_batches, chunks);
  return simulate(schedule, equal_times(schedule, stage));
}

int chunks_of(ScheduleKind kind) { return schedule_feasible(kind, 1, 1, 1).ok ? 1 : 2; }

TEST(PipelineSimulate, EveryKindEndsWithTheBubbleOfItsFormula) {
  std::mt19937_64 random(29);
  std::uniform_real_distribution<double> time_us(0, 10);
  int with_formula = 0;
  for (const ScheduleKind kind : schedule_kinds())
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (int micro_batches = 1; micro_batches <= 64; ++micro_batches)
        for (int chunks = 1; chunks <= 4; ++chunks) {
          if (!schedule_feasible(kind, ranks, micro_batches, chunks).ok) continue;
          for (const StageTimes& stage :
               {StageTimes{1, 1, 1}, StageTimes{time_us(random), time_us(random), time_us(random)}}) {
            const SimulatedPipeline result = run(kind, ranks, micro_batches, chunks, stage);
            const auto formula = bubble_formula(kind, ranks, micro_batches, chunks, stage);
            if (!formula) {
              ASSERT_EQ(kind, ScheduleKind::zb_v);
              continue;
            }
            ++with_formula;
            ASSERT_NEAR(result.bubble_fraction, *formula, 1e-9) << fmt::format(
                "{} of {} ranks, {} micro-batches, {} chunks", to_string(kind), ranks, micro_batches, chunks);
            ASSERT_NEAR(result.bubble_to_ideal, *formula / (1 - *formula), 1e-9);
          }
        }
  EXPECT_GT(with_formula, 7000);
}

// Rank 0: F0 0-2, F1 2-5, B0 9-12, B1 12-14; rank 1: F0 2-5, F1 5-7, B0 7-9, B1 9-12. Both work from 2 to 5 and from 9
// to 12, half as fast again.
TEST(PipelineSimulate, RanksAtWorkAtOnceSlowEachOther) {
  const PipelineSchedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  PipelineTimes times = equal_times(schedule, {2, 1, 1});
  times.slowdowns = {1, 1.5};
  const SimulatedPipeline result = simulate(schedule, times);
  EXPECT_DOUBLE_EQ(result.makespan_us, 14);
  EXPECT_EQ(result.busy_us, (std::vector<double>{10, 10}));
  EXPECT_DOUBLE_EQ(result.times[1][3].start_us, 9);
  EXPECT_DOUBLE_EQ(result.times[1][3].end_us, 12);
}

TEST(PipelineSimulate, RanksOnOneCoreTakeAllTheirWorkAndOnEnoughCoresNoMore) {
  std::mt19937_64 random(31);
  std::uniform_real_distribution<double> time_us(0, 10);
  for (const ScheduleKind kind : schedule_kinds())
    for (const int ranks : {2, 3, 4})
      for (const int micro_batches : {ranks, 2 * ranks, 3 * ranks}) {
        const PipelineSchedule schedule = make_schedule(kind, ranks, micro_batches, chunks_of(kind));
        PipelineTimes times;
        double work_us = 0;
        for (int stage = 0; stage < schedule.num_stages; ++stage) {
          times.stages.push_back({time_us(random), time_us(random), time_us(random)});
          const StageTimes& last = times.stages.back();
          work_us += micro_batches * (last.forward_us + last.backward_input_us + last.backward_weight_us);
        }
        const double apart = simulate(schedule, times).makespan_us;
        times.slowdowns.assign(static_cast<size_t>(ranks), 1);
        EXPECT_NEAR(simulate(schedule, times).makespan_us, apart, 1e-9 * apart) << to_string(kind);
        for (int working = 1; working <= ranks; ++working)
          times.slowdowns[static_cast<size_t>(working) - 1] = std::max(1.0, working / 2.0);
        const double two_cores = simulate(schedule, times).makespan_us;
        EXPECT_GE(two_cores, std::max(apart, work_us / 2) - 1e-9 * work_us) << to_string(kind);
        for (int working = 1; working <= ranks; ++working) times.slowdowns[static_cast<size_t>(working) - 1] = working;
        EXPECT_NEAR(simulate(schedule, times).makespan_us, work_us, 1e-9 * work_us)
            << to_string(kind) << ": one core always has work";
        EXPECT_LE(two_cores, work_us * (1 + 1e-9)) << to_string(kind);
      }
}

TEST(PipelineSimulate, TakesTheTimeOfEveryActionWhereItIsGiven) {
  const PipelineSchedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);  // each rank: F0 F1 B0 B1
  PipelineTimes times = equal_times(schedule, {1, 1, 1});
  const SimulatedPipeline by_stage = simulate(schedule, times);
  times.actions_us.assign(2, {1, 1, 2, 2});
  EXPECT_EQ(simulate(schedule, times).makespan_us, by_stage.makespan_us);
  times.actions_us[0][1] = 4;  // rank 1 waits for micro-batch 1 from 2 to 5 and ends its backwards at 8 and 10
  const SimulatedPipeline uneven = simulate(schedule, times);
  EXPECT_EQ(uneven.times[1][1].start_us, 5);
  EXPECT_EQ(uneven.makespan_us, 12);
  EXPECT_EQ(uneven.busy_us, (std::vector<double>{9, 6}));
  EXPECT_NEAR(uneven.bubble_fraction, 1 - 15.0 / 24, 1e-12);
  times.actions_us[1].pop_back();
  EXPECT_EQ(error_of([&] { simulate(schedule, times); }).cause(), Cause::usage);
  times.actions_us[1].push_back(-1);
  EXPECT_EQ(error_of([&] { simulate(schedule, times); }).cause(), Cause::usage);
}

TEST(PipelineSimulate, BubblesArePublishedOnes) {
  const StageTimes equal{1, 1, 1};
  for (int ranks = 2; ranks <= 16; ++ranks)
    for (int micro_batches = ranks; micro_batches <= 64; micro_batches += ranks) {
      const double behind = ranks - 1, m = micro_batches;
      const auto to_ideal = [&](ScheduleKind kind, int chunks) {
        return run(kind, ranks, micro_batches, chunks, equal).bubble_to_ideal;
      };
      ASSERT_NEAR(to_ideal(ScheduleKind::gpipe, 1), behind / m, 1e-9);
      ASSERT_NEAR(to_ideal(ScheduleKind::one_f_one_b, 1), behind / m, 1e-9);
      ASSERT_NEAR(to_ideal(ScheduleKind::interleaved, 2), behind / (2 * m), 1e-9);
      ASSERT_NEAR(to_ideal(ScheduleKind::interleaved, 4), behind / (4 * m), 1e-9);
      ASSERT_NEAR(to_ideal(ScheduleKind::zb_h1, 1), behind / (3 * m), 1e-9);
    }
  // 12 layers on 4 ranks, 32 micro-batches.
  EXPECT_NEAR(run(ScheduleKind::one_f_one_b, 4, 32, 1, equal).bubble_to_ideal, 0.094, 5e-4);
  EXPECT_NEAR(run(ScheduleKind::zb_h1, 4, 32, 1, equal).bubble_to_ideal, 0.031, 5e-4);
}

TEST(PipelineSimulate, ZbH1HasASmallerBubbleThan1F1B) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> time_us(0.1, 10);
  for (int ranks = 2; ranks <= 16; ++ranks)
    for (int micro_batches = 2; micro_batches <= 64; ++micro_batches) {
      const StageTimes stage{time_us(random), time_us(random), time_us(random)};
      ASSERT_LT(run(ScheduleKind::zb_h1, ranks, micro_batches, 1, stage).bubble_fraction,
                run(ScheduleKind::one_f_one_b, ranks, micro_batches, 1, stage).bubble_fraction);
    }
}

TEST(PipelineSimulate, ZbVHasNoBubbleWithinTheSpanOfARank) {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (int micro_batches = 2 * ranks - 1; micro_batches <= 64; ++micro_batches) {
      const SimulatedPipeline result = run(ScheduleKind::zb_v, ranks, micro_batches, 2, {1, 1, 1});
      ASSERT_NEAR(result.span_bubble_fraction, 0, 1e-12);
      ASSERT_NEAR(result.makespan_us, 6.0 * micro_batches + ranks - 1, 1e-9);
    }
}

TEST(PipelineSimulate, ActionsStartWhenTheirInputsArrive) {
  const PipelineSchedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 2);
  const SimulatedPipeline result = simulate(schedule, {{{10, 12, 8}, {11, 15, 6}}, 3});
  // Backward of the first micro-batch ends on rank 1 at 45 and its gradient arrives on rank 0 at 48.
  const auto expect_times = [&](size_t rank, const std::vector<std::pair<double, double>>& expected) {
    ASSERT_EQ(result.times[rank].size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_DOUBLE_EQ(result.times[rank][i].start_us, expected[i].first) << rank << " " << i;
      EXPECT_DOUBLE_EQ(result.times[rank][i].end_us, expected[i].second) << rank << " " << i;
    }
  };
  expect_times(0, {{0, 10}, {10, 20}, {48, 68}, {80, 100}});
  expect_times(1, {{13, 24}, {24, 45}, {45, 56}, {56, 77}});
  EXPECT_DOUBLE_EQ(result.makespan_us, 100);
  EXPECT_EQ(result.busy_us, (std::vector<double>{60, 64}));
  EXPECT_DOUBLE_EQ(result.bubble_fraction, 1 - 124.0 / 200);
  EXPECT_DOUBLE_EQ(result.bubble_to_ideal, 100.0 / 62 - 1);
  EXPECT_DOUBLE_EQ(result.longest_span_us, 100);
}

TEST(PipelineSimulate, StagesOfOneRankNeedNoTransfer) {
  const PipelineSchedule schedule = make_schedule(ScheduleKind::zb_v, 1, 4, 2);
  EXPECT_DOUBLE_EQ(simulate(schedule, equal_times(schedule, {1, 2, 3}, 100)).makespan_us, 48);
}

TEST(PipelineSimulate, RandomTimesRespectTheLowerBounds) {
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> time_us(0, 10);
  for (int trial = 0; trial < 1000; ++trial) {
    const ScheduleKind kind = schedule_kinds()[random() % schedule_kinds().size()];
    const int ranks = 1 + static_cast<int>(random() % 8), micro_batches = ranks * (1 + static_cast<int>(random() % 4));
    const PipelineSchedule schedule = make_schedule(kind, ranks, micro_batches, chunks_of(kind));
    PipelineTimes times;
    times.transfer_us = time_us(random);
    for (int stage = 0; stage < schedule.num_stages; ++stage)
      times.stages.push_back({time_us(random), time_us(random), time_us(random)});
    const SimulatedPipeline result = simulate(schedule, times);

    // One micro-batch goes through all stages forth and back, and the first stage computes its weight gradient last.
    const bool split = kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v;
    double path_us = times.stages[0].backward_weight_us;
    for (size_t stage = 0; stage < times.stages.size(); ++stage) {
      path_us += times.stages[stage].forward_us + times.stages[stage].backward_input_us;
      if (stage > 0 && !split) path_us += times.stages[stage].backward_weight_us;
      if (stage > 0 && schedule.rank_of_stage[stage] != schedule.rank_of_stage[stage - 1])
        path_us += 2 * times.transfer_us;
    }
    ASSERT_GE(result.makespan_us, path_us * (1 - 1e-12));
    ASSERT_GE(result.makespan_us, *std::max_element(result.busy_us.begin(), result.busy_us.end()) * (1 - 1e-12));
    ASSERT_GE(result.makespan_us, result.longest_span_us);
    ASSERT_GE(result.bubble_fraction, result.span_bubble_fraction);
    ASSERT_LT(result.bubble_fraction, 1);
    for (size_t rank = 0; rank < result.times.size(); ++rank) {
      double end_us = 0;
      for (const ActionTime& time : result.times[rank]) {
        ASSERT_GE(time.start_us, end_us);
        end_us = time.end_us;
      }
    }
  }
}

TEST(PipelineSimulate, ADeadlockNamesEveryBlockedRank) {
  PipelineSchedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 2);
  // Rank 0: F0 B0 F1 B1; rank 1: F0 F1 B0 B1. Each order is possible by itself.
  std::swap(schedule.actions[0][1], schedule.actions[0][2]);
  std::swap(schedule.actions[1][1], schedule.actions[1][2]);
  ASSERT_NO_THROW(check_schedule(schedule));
  const Error error = error_of([&] { simulate(schedule, equal_times(schedule, {1, 1, 1})); });
  EXPECT_EQ(error.cause(), Cause::check_failed);
  EXPECT_EQ(std::string(error.what()),
            "the pipeline schedule has a deadlock: "
            "rank 0 is at backward of stage 0, micro-batch 0 and waits for the gradients of stage 1 on rank 1; "
            "rank 1 is at forward of stage 1, micro-batch 1 and waits for the activations of stage 0 on rank 0");
}

TEST(PipelineSimulate, IncompleteSchedulesAreRefused) {
  PipelineSchedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  schedule.actions[1].pop_back();
  EXPECT_EQ(error_of([&] { simulate(schedule, equal_times(schedule, {1, 1, 1})); }).cause(), Cause::check_failed);
}

TEST(PipelineSimulate, TimesThatCannotBeAreRefused) {
  const PipelineSchedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const StageTimes& stage : {StageTimes{-1, 1, 1}, StageTimes{1, std::nan(""), 1}, StageTimes{1, 1, infinity}}) {
    EXPECT_EQ(error_of([&] { simulate(schedule, equal_times(schedule, stage)); }).cause(), Cause::usage);
    EXPECT_EQ(error_of([&] { bubble_formula(ScheduleKind::gpipe, 2, 2, 1, stage); }).cause(), Cause::usage);
  }
  EXPECT_EQ(error_of([&] { simulate(schedule, equal_times(schedule, {1, 1, 1}, -1)); }).cause(), Cause::usage);
  EXPECT_EQ(error_of([&] { simulate(schedule, {{{1, 1, 1}}, 0}); }).cause(), Cause::usage);
  EXPECT_EQ(error_of([&] { bubble_formula(ScheduleKind::zb_v, 2, 2, 1, {1, 1, 1}); }).cause(), Cause::usage);
}

TEST(PipelineSimulate, NothingThatTakesTimeHasNoBubble) {
  const SimulatedPipeline result = run(ScheduleKind::zb_h1, 3, 4, 1, {0, 0, 0});
  EXPECT_EQ(result.makespan_us, 0);
  EXPECT_EQ(result.bubble_fraction, 0);
  EXPECT_EQ(bubble_formula(ScheduleKind::zb_h1, 3, 4, 1, {0, 0, 0}), 0);
}

}  // namespace
}  // namespace amdahl
