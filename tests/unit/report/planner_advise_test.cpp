#include "planner/advise.h"

#include <gtest/gtest.h>

#include "report/study/summary.h"
#include "report_records.h"

namespace amdahl {
namespace {

using test::add_cell;

std::string published(int64_t parameters, int64_t batch) {
  return advise_published({.num_parameters = parameters, .global_batch = batch}).decision;
}

TEST(PlannerPublished, RepeatsTheSelectorsThresholds) {
  EXPECT_EQ(published(999'999, 4096), "single");
  EXPECT_EQ(published(1'000'000, 127), "single");
  EXPECT_EQ(published(1'000'000, 128), "evaluate");
  EXPECT_EQ(published(4'999'999, 128), "evaluate");
  EXPECT_EQ(published(5'000'000, 128), "benchmark");
  EXPECT_EQ(published(9'999'999, 1), "benchmark");
  EXPECT_EQ(published(10'000'000, 64), "multi");
  EXPECT_EQ(published(10'000'000, 63), "single");
}

TEST(PlannerPublished, NamesItsContradictionsAndThatNothingWasMeasured) {
  const Advice advice = advise_published({.num_parameters = 6'885'376, .global_batch = 128});
  EXPECT_EQ(advice.modes_to_measure, (std::vector<std::string>{"single", "multi"}));
  std::string all;
  for (const std::string& line : advice.evidence) all += line + "\n";
  for (const char* part : {"nothing was measured here", "contradict", "15M to 20M", "sometimes (20 %)", "500K"})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
}

class PlannerMeasured : public ::testing::Test {
 protected:
  static StudySummary summary_of(double multi_step_us, int64_t batch = 64, int num_runs = 10) {
    std::vector<Record> records;
    add_cell(records, {.global_batch = batch, .step_us = 1000, .num_runs = num_runs});
    add_cell(records,
             {.global_batch = batch, .devices = 2, .step_us = multi_step_us, .num_runs = num_runs, .stream = 2});
    return summarise_study(records);
  }
  AdviceRequest request_{.model = "medium", .num_parameters = 54'403, .global_batch = 64};
};

TEST_F(PlannerMeasured, AnswersFromTheCellAskedFor) {
  const Advice multi = advise_measured(request_, summary_of(600));
  EXPECT_EQ(multi.decision, "multi");
  ASSERT_EQ(multi.evidence.size(), 1u);
  EXPECT_NE(multi.evidence[0].find("n=10+10, the cell asked for"), std::string::npos) << multi.evidence[0];
  EXPECT_NE(multi.reason.find("best with 2 devices, data_parallel, eager"), std::string::npos) << multi.reason;
  EXPECT_TRUE(multi.command.empty());
  EXPECT_EQ(advise_measured(request_, summary_of(1300)).decision, "single");
  const Advice marginal = advise_measured(request_, summary_of(1000));
  EXPECT_EQ(marginal.decision, "single");
  EXPECT_NE(marginal.reason.find("marginal"), std::string::npos);
}

TEST_F(PlannerMeasured, AsksForMoreRunsWhenTheIntervalDoesNotDecide) {
  const Advice advice = advise_measured(request_, summary_of(600, 64, 1));
  EXPECT_EQ(advice.decision, "benchmark");
  EXPECT_NE(advice.command.find(" runs=5`"), std::string::npos) << advice.command;
}

TEST_F(PlannerMeasured, SaysHowNearTheEvidenceIs) {
  AdviceRequest near = request_;
  near.global_batch = 96;
  const Advice advice = advise_measured(near, summary_of(600));
  EXPECT_EQ(advice.decision, "multi");
  EXPECT_NE(advice.evidence.at(0).find("the same parameters, 1.50 times away in batch"), std::string::npos)
      << advice.evidence[0];
  EXPECT_EQ(advice.command, "`study model=medium batch_sizes=96 devices=1,2`");
}

TEST_F(PlannerMeasured, IsUnknownWithoutEvidence) {
  AdviceRequest far = request_;
  far.num_parameters = 6'885'376;
  far.model = "large-6.9m";
  const Advice advice = advise_measured(far, summary_of(600));
  EXPECT_EQ(advice.decision, "unknown");
  EXPECT_TRUE(advice.reason.starts_with("not measured"));
  EXPECT_EQ(advice.command, "`study model=large-6.9m batch_sizes=64 devices=1,2`");
  EXPECT_EQ(advice.evidence.size(), 1u);  // the nearest there is, named as too far
  EXPECT_EQ(advise_measured(request_, {}).decision, "unknown");

  AdviceRequest other_kind = request_;
  other_kind.device_kind = "cpu-virtual";
  EXPECT_EQ(advise_measured(other_kind, summary_of(600)).decision, "unknown");
}

TEST_F(PlannerMeasured, TheNearestEvidenceHasTheBatchThatWasAskedFor) {
  std::vector<Record> records;
  for (const int64_t batch : {32, 1024, 8192}) {
    add_cell(records, {.global_batch = batch, .step_us = 1000});
    add_cell(records, {.global_batch = batch, .devices = 2, .step_us = 600, .stream = 2});
  }
  const StudySummary summary = summarise_study(records);
  AdviceRequest far = request_;
  far.num_parameters = 54'403 * int64_t{1014};
  far.global_batch = 8192;
  const Advice advice = advise_measured(far, summary);
  ASSERT_EQ(advice.evidence.size(), 1u);
  EXPECT_NE(advice.evidence[0].find("batch 8192"), std::string::npos) << advice.evidence[0];
  EXPECT_NE(advice.evidence[0].find("1,014 times away in parameters, the same batch"), std::string::npos)
      << advice.evidence[0];
  EXPECT_NE(advice.reason.find("1,014 times away in parameters, the same batch"), std::string::npos) << advice.reason;
  far.global_batch = 1 << 20;  // 128 times the largest
  EXPECT_NE(advise_measured(far, summary).evidence.at(0).find("128 times away in batch"), std::string::npos);
}

TEST_F(PlannerMeasured, AsksForNoRunsThatWouldNotSettleIt) {
  StudySummary summary = summary_of(600, 64, 1);
  ASSERT_EQ(summary.comparisons.size(), 1u);
  summary.comparisons[0].more_runs = 7415;
  EXPECT_EQ(advise_measured(request_, summary).command.find(" runs="), std::string::npos);
}

TEST_F(PlannerMeasured, DisagreeingNeighboursMeanMeasure) {
  std::vector<Record> records;
  for (const int64_t batch : {48, 96}) {
    add_cell(records, {.global_batch = batch, .step_us = 1000});
    add_cell(records, {.global_batch = batch, .devices = 2, .step_us = batch == 48 ? 1300.0 : 600.0, .stream = 2});
  }
  const Advice advice = advise_measured(request_, summarise_study(records));
  EXPECT_EQ(advice.decision, "benchmark");
  EXPECT_EQ(advice.evidence.size(), 2u);
}

}  // namespace
}  // namespace amdahl
