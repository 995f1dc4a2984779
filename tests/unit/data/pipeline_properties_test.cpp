// Simulated pipelines against the longest path through their actions, for schedules made here and in random order; the
// division of layers against all divisions; shares and buckets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "errors.h"
#include "parallel/data/buckets.h"
#include "parallel/pipeline/simulate.h"
#include "plan/shares.h"
#include "plan/stages.h"

namespace amdahl {
namespace {

double duration(const Action& action, const StageTimes& stage) {
  switch (action.kind) {
    case ActionKind::forward:
      return stage.forward_us;
    case ActionKind::backward:
      return stage.backward_input_us + stage.backward_weight_us;
    case ActionKind::backward_input:
      return stage.backward_input_us;
    case ActionKind::backward_weight:
      return stage.backward_weight_us;
  }
  return 0;
}

// Ends of actions by recursion from the last ones; nullopt when some action waits for itself.
class LongestPath {
 public:
  LongestPath(const PipelineSchedule& schedule, const PipelineTimes& times) : schedule_(schedule), times_(times) {
    for (size_t rank = 0; rank < schedule.actions.size(); ++rank)
      for (size_t i = 0; i < schedule.actions[rank].size(); ++i) place_[schedule.actions[rank][i]] = {rank, i};
  }

  std::optional<double> makespan() {
    double last = 0;
    for (const auto& [action, place] : place_) {
      const auto end = end_of(action);
      if (!end) return std::nullopt;
      last = std::max(last, *end);
    }
    return last;
  }

 private:
  using Place = std::pair<size_t, size_t>;

  std::vector<Action> inputs(const Action& a) const {
    std::vector<Action> wanted;
    const auto add = [&](ActionKind kind, int stage) {
      if (place_.contains({kind, stage, a.micro_batch})) wanted.push_back({kind, stage, a.micro_batch});
    };
    if (a.kind == ActionKind::forward) {
      add(ActionKind::forward, a.stage - 1);
      return wanted;
    }
    if (a.kind == ActionKind::backward_weight) {
      add(ActionKind::backward_input, a.stage);
      return wanted;
    }
    add(ActionKind::forward, a.stage);
    add(ActionKind::backward, a.stage + 1);
    add(ActionKind::backward_input, a.stage + 1);
    return wanted;
  }

  std::optional<double> end_of(const Action& action) {
    if (const auto known = end_.find(action); known != end_.end()) return known->second;
    if (!open_.insert({action, true}).second) return std::nullopt;  // a circle
    const auto [rank, index] = place_.at(action);
    double start = 0;
    if (index > 0) {
      const auto before = end_of(schedule_.actions[rank][index - 1]);
      if (!before) return std::nullopt;
      start = *before;
    }
    for (const Action& input : inputs(action)) {
      const auto ready = end_of(input);
      if (!ready) return std::nullopt;
      start = std::max(start, *ready + (place_.at(input).first == rank ? 0 : times_.transfer_us));
    }
    return end_[action] = start + duration(action, times_.stages[static_cast<size_t>(action.stage)]);
  }

  const PipelineSchedule& schedule_;
  const PipelineTimes& times_;
  std::map<Action, Place> place_;
  std::map<Action, double> end_;
  std::map<Action, bool> open_;
};

PipelineTimes random_times(const PipelineSchedule& schedule, std::mt19937_64& random) {
  std::uniform_real_distribution<double> time_us(0, 10);
  PipelineTimes times;
  times.transfer_us = random() % 3 == 0 ? 0 : time_us(random);
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    times.stages.push_back({time_us(random), time_us(random), time_us(random)});
  return times;
}

PipelineSchedule random_schedule(std::mt19937_64& random) {
  for (;;) {
    const ScheduleKind kind = schedule_kinds()[random() % schedule_kinds().size()];
    const int ranks = 1 + static_cast<int>(random() % 5), micro_batches = 1 + static_cast<int>(random() % 9),
              chunks = 1 + static_cast<int>(random() % 3);
    if (schedule_feasible(kind, ranks, micro_batches, chunks).ok)
      return make_schedule(kind, ranks, micro_batches, chunks);
  }
}

TEST(PipelineProperties, TheMakespanIsTheLongestPath) {
  std::mt19937_64 random(71);
  for (int trial = 0; trial < 400; ++trial) {
    const PipelineSchedule schedule = random_schedule(random);
    const PipelineTimes times = random_times(schedule, random);
    const auto expected = LongestPath(schedule, times).makespan();
    ASSERT_TRUE(expected) << "a circle in " << to_string(schedule.kind);
    ASSERT_NEAR(simulate(schedule, times).makespan_us, *expected, 1e-9) << to_string(schedule.kind);
  }
}

// Neighbours change places, as often as the schedule remains complete: some of these have deadlocks, others not.
TEST(PipelineProperties, OtherOrdersEndByTheLongestPathOrAreDeadlocks) {
  std::mt19937_64 random(72);
  int deadlocks = 0, others = 0;
  for (int trial = 0; trial < 600; ++trial) {
    PipelineSchedule schedule = random_schedule(random);
    for (int swap = 0; swap < 12; ++swap) {
      auto& actions = schedule.actions[random() % schedule.actions.size()];
      const size_t at = random() % actions.size(), next = (at + 1) % actions.size();
      if (at > next) continue;
      std::swap(actions[at], actions[next]);
      try {
        check_schedule(schedule);
      } catch (const Error&) {
        std::swap(actions[at], actions[next]);
      }
    }
    const PipelineTimes times = random_times(schedule, random);
    const auto expected = LongestPath(schedule, times).makespan();
    if (expected) {
      ++others;
      ASSERT_NEAR(simulate(schedule, times).makespan_us, *expected, 1e-9);
    } else {
      ++deadlocks;
      const Error error = error_of([&] { simulate(schedule, times); });
      ASSERT_EQ(error.cause(), Cause::check_failed);
      ASSERT_NE(error.line().find("has a deadlock"), std::string::npos) << error.line();
    }
  }
  EXPECT_GT(deadlocks, 20);
  EXPECT_GT(others, 20);
}

TEST(PipelineProperties, NothingGetsFasterByTakingLonger) {
  std::mt19937_64 random(73);
  std::uniform_real_distribution<double> more(0, 5);
  for (int trial = 0; trial < 300; ++trial) {
    const PipelineSchedule schedule = random_schedule(random);
    PipelineTimes times = random_times(schedule, random);
    const double before = simulate(schedule, times).makespan_us, added = more(random);
    StageTimes& stage = times.stages[random() % times.stages.size()];
    (random() % 3 == 0 ? stage.forward_us : stage.backward_input_us) += added;
    const double after = simulate(schedule, times).makespan_us;
    EXPECT_GE(after, before - 1e-9);
    EXPECT_LE(after, before + added * schedule.num_micro_batches + 1e-9) << "at most each micro-batch waits for it";
    times.transfer_us += added;
    EXPECT_GE(simulate(schedule, times).makespan_us, after - 1e-9);
  }
}

TEST(PipelineProperties, UnitsOfTimeDoNotMatter) {
  std::mt19937_64 random(74);
  for (int trial = 0; trial < 100; ++trial) {
    const PipelineSchedule schedule = random_schedule(random);
    PipelineTimes times = random_times(schedule, random);
    const SimulatedPipeline one = simulate(schedule, times);
    for (StageTimes& stage : times.stages)
      stage = {stage.forward_us * 1000, stage.backward_input_us * 1000, stage.backward_weight_us * 1000};
    times.transfer_us *= 1000;
    const SimulatedPipeline thousand = simulate(schedule, times);
    EXPECT_NEAR(thousand.makespan_us, 1000 * one.makespan_us, 1e-6);
    EXPECT_NEAR(thousand.bubble_fraction, one.bubble_fraction, 1e-9);
    EXPECT_NEAR(thousand.bubble_to_ideal, one.bubble_to_ideal, 1e-9);
    const double busy = std::accumulate(one.busy_us.begin(), one.busy_us.end(), 0.0);
    EXPECT_NEAR(one.bubble_fraction, 1 - busy / (schedule.num_ranks * one.makespan_us), 1e-9);
  }
}

TEST(PipelineProperties, MoreMicroBatchesHaveASmallerBubble) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
    for (int ranks = 2; ranks <= 6; ++ranks) {
      double before = 1;
      for (int micro_batches = ranks; micro_batches <= 40; micro_batches += 5) {
        const PipelineSchedule schedule = make_schedule(kind, ranks, micro_batches);
        const PipelineTimes times{std::vector<StageTimes>(static_cast<size_t>(ranks), {1, 1, 1}), 0.1};
        const double bubble = simulate(schedule, times).bubble_fraction;
        EXPECT_LT(bubble, before) << to_string(kind) << " of " << ranks << " with " << micro_batches;
        before = bubble;
      }
    }
}

// The most loaded stage of the best division, by trying all.
double best_by_trying(const std::vector<double>& work, size_t first, int stages) {
  if (stages == 1) return std::accumulate(work.begin() + static_cast<std::ptrdiff_t>(first), work.end(), 0.0);
  double best = std::numeric_limits<double>::infinity(), here = 0;
  for (size_t end = first + 1; end + static_cast<size_t>(stages) - 1 <= work.size(); ++end) {
    here += work[end - 1];
    best = std::min(best, std::max(here, best_by_trying(work, end, stages - 1)));
  }
  return best;
}

TEST(BalanceStages, IsTheBestOfAllDivisions) {
  std::mt19937_64 random(75);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> work(1 + random() % 9);
    for (double& each : work) each = static_cast<double>(random() % 20);
    const int stages = 1 + static_cast<int>(random() % work.size());
    const std::vector<LayerRange> ranges = balance_stages(work, stages);
    ASSERT_EQ(ranges.size(), static_cast<size_t>(stages));
    size_t end = 0;
    double most = 0;
    for (const LayerRange& range : ranges) {
      ASSERT_EQ(range.first, end);
      ASSERT_LT(range.first, range.last) << "an empty stage";
      end = range.last;
      most = std::max(most, std::accumulate(work.begin() + static_cast<std::ptrdiff_t>(range.first),
                                            work.begin() + static_cast<std::ptrdiff_t>(range.last), 0.0));
    }
    ASSERT_EQ(end, work.size());
    EXPECT_EQ(most, best_by_trying(work, 0, stages));
  }
}

TEST(BalanceStages, NamesWhatCannotBe) {
  for (const auto& [layers, stages] : {std::pair(0, 1), {3, 4}, {3, 0}, {3, -1}}) {
    const Error error = error_of([&, n = layers, s = stages] {
      static_cast<void>(balance_stages(std::vector<double>(static_cast<size_t>(n), 1.0), s));
    });
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_NE(error.line().find(fmt::format("{} layers", layers)), std::string::npos) << error.line();
  }
}

TEST(EvenShare, CoversAllAndIsEven) {
  std::mt19937_64 random(76);
  for (int trial = 0; trial < 500; ++trial) {
    const auto total = static_cast<int64_t>(random() % (trial % 3 == 0 ? 5 : 1'000'000'000'000));
    const auto parts = static_cast<int64_t>(1 + random() % 70);
    int64_t end = 0, before = std::numeric_limits<int64_t>::max();
    for (int64_t part = 0; part < parts; ++part) {
      const RowRange share = even_share(total, parts, part);
      ASSERT_EQ(share.begin, end);
      ASSERT_GE(share.rows(), total / parts);
      ASSERT_LE(share.rows(), total / parts + 1);
      ASSERT_LE(share.rows(), before) << "larger parts first";
      before = share.rows();
      end = share.end;
    }
    ASSERT_EQ(end, total);
  }
}

TEST(MicroBatchRows, EveryRowIsComputedOnceByOneRank) {
  std::mt19937_64 random(77);
  for (int trial = 0; trial < 300; ++trial) {
    ParallelPlan plan;
    plan.mesh.dp = 1 + static_cast<int>(random() % 9);
    plan.accumulate = static_cast<int64_t>(1 + random() % 6);
    plan.global_batch = static_cast<int64_t>(random() % 200);
    std::vector<int> computed(static_cast<size_t>(plan.global_batch), 0), of_one = computed;
    for (int rank = 0; rank < plan.mesh.dp; ++rank)
      for (int micro = 0; micro < plan.accumulate; ++micro) {
        const RowRange rows = micro_batch_rows(plan, false, rank, micro);
        for (int64_t row = rows.begin; row < rows.end; ++row) ++computed[static_cast<size_t>(row)];
        if (rank != 1 % plan.mesh.dp) continue;
        const RowRange all = micro_batch_rows(plan, true, rank, micro);
        for (int64_t row = all.begin; row < all.end; ++row) ++of_one[static_cast<size_t>(row)];
      }
    EXPECT_EQ(computed, std::vector<int>(computed.size(), 1));
    EXPECT_EQ(of_one, std::vector<int>(computed.size(), 1)) << "a rank that computes the full batch";
  }
}

TEST(Buckets, CoverTheLayoutAndKeepTheirCapacity) {
  std::mt19937_64 random(78);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<GradientPiece> pieces;
    int64_t end = 0;
    for (uint64_t left = 1 + random() % 20; left > 0; --left) {
      GradientPiece piece{};
      piece.begin = end;
      piece.end = end += static_cast<int64_t>(1 + random() % 500);
      pieces.push_back(piece);
    }
    const auto capacity = static_cast<int64_t>(4 * (1 + random() % 1500));
    const std::vector<Bucket> buckets = make_buckets(pieces, capacity);
    int64_t covered = 0;
    for (size_t i = 0; i < buckets.size(); ++i) {
      const Bucket& bucket = buckets[i];
      ASSERT_EQ(bucket.begin, covered);
      ASSERT_GT(bucket.floats(), 0);
      covered = bucket.end;
      int64_t pieces_in = 0;
      for (const GradientPiece& piece : pieces) {
        ASSERT_TRUE(piece.end <= bucket.begin || piece.begin >= bucket.end ||
                    (piece.begin >= bucket.begin && piece.end <= bucket.end))
            << "a piece in two buckets";
        pieces_in += piece.begin >= bucket.begin && piece.end <= bucket.end;
        if (i + 1 < buckets.size() && piece.begin == bucket.end) {
          EXPECT_GT((piece.end - bucket.begin) * 4, capacity) << "the next piece would have fitted";
        }
      }
      EXPECT_TRUE(bucket.floats() * 4 <= capacity || pieces_in == 1);
    }
    ASSERT_EQ(covered, end);
  }
}

TEST(Buckets, AreDividedIntoEqualWholeLines) {
  std::mt19937_64 random(79);
  for (int trial = 0; trial < 500; ++trial) {
    const int64_t begin = static_cast<int64_t>(random() % 1000) * 64;
    const Bucket bucket{begin, begin + static_cast<int64_t>(1 + random() % 3000) * 64};
    const int ranks = 1 + static_cast<int>(random() % 16);
    const Shards shards = divide(bucket, ranks);
    EXPECT_EQ(shards.front().begin, bucket.begin);
    int64_t end = shards.front().end;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(shards.part(rank).begin, end);
      EXPECT_EQ(shards.part(rank).floats(), shards.part_floats);
      EXPECT_EQ(shards.part(rank).begin % 64, 0);
      end = shards.part(rank).end;
    }
    EXPECT_EQ(end, bucket.end);
    EXPECT_LT(shards.front().floats(), 64 * ranks) << "no more than the rest is on all ranks";
  }
}

}  // namespace
}  // namespace amdahl
