// Pipeline schedules: every kind is complete and in order for many sizes, holds as many activations as published, and
// survives CSV; each planted violation and each damaged text is found and named.
#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "errors.h"
#include "parallel/pipeline/simulate.h"

namespace amdahl {
namespace {

struct Size {
  ScheduleKind kind;
  int ranks, micro_batches, chunks;
};

std::string name_of(const Size& size) {
  return fmt::format("{} of {} ranks, {} micro-batches, {} chunks", to_string(size.kind), size.ranks,
                     size.micro_batches, size.chunks);
}

void for_each_size(const std::function<void(const Size&)>& look_at) {
  for (const ScheduleKind kind : schedule_kinds())
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (int micro_batches = 1; micro_batches <= 64; ++micro_batches)
        for (int chunks = 1; chunks <= 4; ++chunks)
          if (schedule_feasible(kind, ranks, micro_batches, chunks).ok) look_at({kind, ranks, micro_batches, chunks});
}

PipelineSchedule make(const Size& size) {
  return make_schedule(size.kind, size.ranks, size.micro_batches, size.chunks);
}

void expect_violation(const PipelineSchedule& schedule, const std::string& words) {
  const Error error = error_of([&] { check_schedule(schedule); });
  EXPECT_EQ(error.cause(), Cause::check_failed) << error.line();
  EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.line();
}

TEST(PipelineSchedule, EveryKindIsCompleteAndInOrder) {
  int sizes = 0;
  for_each_size([&](const Size& size) {
    ASSERT_NO_THROW(check_schedule(make(size))) << name_of(size);
    ++sizes;
  });
  EXPECT_GT(sizes, 4 * 16 * 64);
}

TEST(PipelineSchedule, ActivationsHeldAreThoseOfTheFormulas) {
  for_each_size([](const Size& size) {
    const PipelineSchedule schedule = make(size);
    for (int rank = 0; rank < size.ranks; ++rank)
      ASSERT_EQ(peak_activations(schedule, rank),
                peak_activations_formula(size.kind, size.ranks, size.micro_batches, size.chunks, rank))
          << name_of(size) << ", rank " << rank;
  });
}

TEST(PipelineSchedule, ZbH1AndZbVHoldNoMoreThanTheFirstRankOf1F1B) {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
      const int most = peak_activations(make_schedule(ScheduleKind::one_f_one_b, ranks, micro_batches), 0);
      const PipelineSchedule h1 = make_schedule(ScheduleKind::zb_h1, ranks, micro_batches);
      const PipelineSchedule v = make_schedule(ScheduleKind::zb_v, ranks, micro_batches, 2);
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(peak_activations(h1, rank), most);
        ASSERT_LE(peak_activations(v, rank), 2 * most);  // of halves
      }
    }
}

TEST(PipelineSchedule, SmallOnesAreThoseOfThePapers) {
  using enum ActionKind;
  const std::vector<std::vector<Action>> one_f_one_b{
      {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {forward, 0, 2}, {backward, 0, 1}, {backward, 0, 2}},
      {{forward, 1, 0}, {backward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}, {forward, 1, 2}, {backward, 1, 2}}};
  EXPECT_EQ(make_schedule(ScheduleKind::one_f_one_b, 2, 3).actions, one_f_one_b);

  const std::vector<Action> last_of_zb_h1{{forward, 1, 0},        {backward_input, 1, 0},  {forward, 1, 1},
                                          {backward_input, 1, 1}, {backward_weight, 1, 0}, {backward_weight, 1, 1}};
  EXPECT_EQ(make_schedule(ScheduleKind::zb_h1, 2, 2).actions[1], last_of_zb_h1);

  const std::vector<Action> last_interleaved{{forward, 1, 0}, {forward, 1, 1},  {forward, 3, 0},  {backward, 3, 0},
                                             {forward, 3, 1}, {backward, 3, 1}, {backward, 1, 0}, {backward, 1, 1}};
  EXPECT_EQ(make_schedule(ScheduleKind::interleaved, 2, 2, 2).actions[1], last_interleaved);

  const PipelineSchedule v = make_schedule(ScheduleKind::zb_v, 3, 5, 2);
  EXPECT_EQ(v.rank_of_stage, (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(make_schedule(ScheduleKind::interleaved, 3, 3, 2).rank_of_stage, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST(PipelineSchedule, WhatIsNotFeasibleNamesTheNearestThatIs) {
  const auto reason = [](ScheduleKind kind, int ranks, int micro_batches, int chunks) {
    const Feasibility feasible = schedule_feasible(kind, ranks, micro_batches, chunks);
    EXPECT_FALSE(feasible.ok);
    const Error error = error_of([&] { make_schedule(kind, ranks, micro_batches, chunks); });
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_EQ(std::string(error.what()), "pipeline schedule: " + feasible.reason);
    return feasible.reason;
  };
  EXPECT_EQ(reason(ScheduleKind::interleaved, 4, 6, 2),
            "interleaved needs micro-batches in multiples of the 4 ranks, not 6: 4 or 8");
  EXPECT_EQ(reason(ScheduleKind::interleaved, 4, 3, 2),
            "interleaved needs micro-batches in multiples of the 4 ranks, not 3: 4");
  EXPECT_EQ(reason(ScheduleKind::interleaved, 4, 0, 2), "0 micro-batches are no step; the fewest are 4");
  EXPECT_EQ(reason(ScheduleKind::interleaved, 4, 4, 1),
            "interleaved needs at least 2 model chunks per rank, 1 was asked for");
  EXPECT_EQ(reason(ScheduleKind::zb_v, 4, 4, 3), "zb-v needs 2 model chunks per rank, 3 were asked for");
  EXPECT_EQ(reason(ScheduleKind::gpipe, 4, 4, 2), "gpipe needs 1 model chunk per rank, 2 were asked for");
  EXPECT_EQ(reason(ScheduleKind::gpipe, 0, 4, 1), "0 ranks are no pipeline; the fewest are 1");
  EXPECT_EQ(reason(ScheduleKind::gpipe, 4, 0, 1), "0 micro-batches are no step; the fewest are 1");
  EXPECT_EQ(reason(ScheduleKind::zb_h1, 4, 1 << 30, 1),
            "1073741824 micro-batches in 1 chunks on each of 4 ranks are more than 16777216 forwards; the most "
            "micro-batches are 4194304");
  for (const int huge : {INT32_MAX, INT32_MAX - 1}) {
    reason(ScheduleKind::interleaved, huge, huge, huge);
    reason(ScheduleKind::interleaved, 3, huge, 2);
    reason(ScheduleKind::gpipe, huge, 1, 1);
  }
}

TEST(PipelineSchedule, EachPlantedViolationIsFound) {
  const PipelineSchedule good = make_schedule(ScheduleKind::zb_h1, 2, 3);
  const auto with = [&](const std::function<void(PipelineSchedule&)>& damage) {
    PipelineSchedule schedule = good;
    damage(schedule);
    return schedule;
  };
  ASSERT_NO_THROW(check_schedule(good));
  // Rank 0: F0 F1 I0 W0 F2 I1 W1 I2 W2, by micro-batch; I and W are the gradients of inputs and weights.
  expect_violation(with([](auto& s) { s.actions[0].pop_back(); }),
                   "backward-weight of stage 0, micro-batch 2 is missing on rank 0");
  expect_violation(with([](auto& s) { s.actions[0].erase(s.actions[0].begin() + 3); }),
                   "backward-weight of stage 0, micro-batch 0 is missing on rank 0");
  expect_violation(with([](auto& s) { s.actions[0].resize(7); }),
                   "backward of stage 0, micro-batch 2 is missing on rank 0");
  expect_violation(with([](auto& s) { s.actions[0].erase(s.actions[0].begin() + 4); }),
                   "backward-input of stage 0, micro-batch 2 comes before forward of stage 0, micro-batch 2");
  expect_violation(with([](auto& s) {
                     s.actions[0].resize(7);
                     s.actions[0].erase(s.actions[0].begin() + 4);
                   }),
                   "forward of stage 0, micro-batch 2 is missing on rank 0");
  expect_violation(with([](auto& s) { s.actions[0].push_back(s.actions[0][0]); }),
                   "rank 0, action 9: forward of stage 0, micro-batch 0 has already been computed");
  expect_violation(with([](auto& s) { s.actions[0].push_back(s.actions[0][2]); }), "has already been computed");
  expect_violation(with([](auto& s) { s.actions[0].push_back(s.actions[0][3]); }), "has already been computed");
  expect_violation(with([](auto& s) { s.actions[0][3].kind = ActionKind::backward; }), "has already been computed");
  expect_violation(with([](auto& s) { s.actions[0][2].kind = ActionKind::backward; }),
                   "rank 0, action 3: backward-weight of stage 0, micro-batch 0 has already been computed");
  expect_violation(
      with([](auto& s) { std::swap(s.actions[0][0], s.actions[0][2]); }),
      "rank 0, action 0: backward-input of stage 0, micro-batch 0 comes before forward of stage 0, micro-batch 0");
  expect_violation(with([](auto& s) { std::swap(s.actions[0][2], s.actions[0][3]); }),
                   "backward-weight of stage 0, micro-batch 0 comes before backward-input of stage 0, micro-batch 0");
  expect_violation(with([](auto& s) { s.actions[0][0].stage = 1; }), "is of a stage that rank 1 holds");
  expect_violation(with([](auto& s) { s.actions[0][0].stage = 2; }), "is of a stage outside 0 to 1");
  expect_violation(with([](auto& s) { s.actions[0][0].stage = -1; }), "is of a stage outside 0 to 1");
  expect_violation(with([](auto& s) { s.actions[0][0].micro_batch = 3; }), "is of a micro-batch outside 0 to 2");
  expect_violation(with([](auto& s) { s.actions[0][0].micro_batch = -1; }), "is of a micro-batch outside 0 to 2");
  expect_violation(with([](auto& s) { s.actions.pop_back(); }), "actions of 1 ranks, where there are 2 ranks");
  expect_violation(with([](auto& s) { s.rank_of_stage.pop_back(); }), "1 stages have a rank");
  expect_violation(with([](auto& s) { s.rank_of_stage[1] = 2; }), "stage 1 is on rank 2, which does not exist");
  expect_violation(with([](auto& s) { s.num_micro_batches = 1 << 30; }), "are fewer than one forward");
  expect_violation(PipelineSchedule{}, "where each is at least 1");
}

TEST(PipelineSchedule, NeighbouringStagesOfOneRankHaveAnOrder) {
  PipelineSchedule v = make_schedule(ScheduleKind::zb_v, 1, 1, 2);  // F0 F1 I1 W1 I0 W0
  std::swap(v.actions[0][0], v.actions[0][1]);
  expect_violation(v, "forward of stage 1, micro-batch 0 comes before forward of stage 0, micro-batch 0");
  v = make_schedule(ScheduleKind::zb_v, 1, 1, 2);
  std::swap(v.actions[0][2], v.actions[0][4]);
  expect_violation(v, "backward-input of stage 0, micro-batch 0 comes before backward-input of stage 1, micro-batch 0");
}

TEST(PipelineSchedule, PeakOfARankThatDoesNotExistIsRefused) {
  const PipelineSchedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2);
  for (const int rank : {-1, 2}) {
    EXPECT_EQ(error_of([&] { peak_activations(schedule, rank); }).cause(), Cause::usage);
    EXPECT_EQ(error_of([&] { peak_activations_formula(ScheduleKind::gpipe, 2, 2, 1, rank); }).cause(), Cause::usage);
  }
}

}  // namespace
}  // namespace amdahl
