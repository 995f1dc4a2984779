#include "report/study/findings.h"

#include <gtest/gtest.h>

namespace amdahl {
namespace {

StudySummary one_cell(const std::string& strategy, double exposed_us, double total_us, bool overlap = true) {
  StudyCell cell;
  cell.key.model = "medium";
  cell.key.devices = 2;
  cell.key.global_batch = 64;
  cell.key.strategy = strategy;
  cell.key.plan.overlap = overlap;
  cell.account.emplace();
  cell.account->step_us = 100;
  cell.account->exposed_communication_us = exposed_us;
  cell.account->total_communication_us = total_us;
  StudySummary summary;
  summary.cells.push_back(cell);
  return summary;
}

bool says(const StudySummary& summary, const std::string& text) {
  for (const std::string& finding : study_findings(summary))
    if (finding.find(text) != std::string::npos) return true;
  return false;
}

TEST(StudyFindings, NamesDataParallel) {
  EXPECT_TRUE(says(one_cell("dp", 0, 0), "`strategy=ddp`"));
  EXPECT_TRUE(study_findings(one_cell("ddp", 0, 0)).empty());
}

TEST(StudyFindings, NamesCommunicationAboveAFifthOfTheStep) {
  EXPECT_TRUE(study_findings(one_cell("ddp", 20, 20)).empty());
  EXPECT_TRUE(says(one_cell("ddp", 30, 90), "30 % of the step (expected at most 20 %)"));
  EXPECT_FALSE(says(one_cell("ddp", 30, 90), "overlap"));
}

TEST(StudyFindings, JudgesTheTargetOfCommunicationInOneLine) {
  StudySummary summary = one_cell("ddp", 20, 20);
  const auto add = [&](const std::string& strategy, double exposed_us, double measured_us = 0) {
    summary.cells.push_back(one_cell(strategy, exposed_us, exposed_us).cells.front());
    summary.cells.back().account->measured_us = measured_us;
  };
  const std::string target = "communication target, at most 20 % of the step exposed: ";
  EXPECT_EQ(communication_target_line(summary), target + "met by 1 of 1 cell on several devices (20 %)");
  add("dp2,zero1", 21);
  add("tp2", 4);
  EXPECT_EQ(communication_target_line(summary),
            target +
                "met by 2 of 3 cells on several devices (4 to 20 %); missed by dp2,zero1 at batch 64 on 2 devices "
                "(21 %)");
  add("pp2", 50, 200);  // whose account does not explain the measured step
  EXPECT_NE(communication_target_line(summary).find("2 of 3"), std::string::npos);
  for (StudyCell& cell : summary.cells) cell.key.devices = 1;
  EXPECT_EQ(communication_target_line(summary), "");
}

TEST(StudyFindings, NamesMissingOverlap) {
  EXPECT_TRUE(says(one_cell("ddp", 30, 40), "75 % of the communication does not overlap with backward"));
  EXPECT_TRUE(says(one_cell("ddp", 30, 30, false), "overlap is off"));
}

TEST(StudyFindings, ExposedCommunicationIsAtMostAllOfIt) {
  EXPECT_TRUE(says(one_cell("ddp", 65, 10), "100 % of the communication does not overlap with backward"));
}

TEST(StudyFindings, CellsWithTheSameFindingAreOneLine) {
  StudySummary summary = one_cell("ddp", 30, 90);
  for (const int64_t batch : {128, 256}) {
    summary.cells.push_back(summary.cells.front());
    summary.cells.back().key.global_batch = batch;
  }
  ASSERT_EQ(study_findings(summary).size(), 1u);
  EXPECT_TRUE(says(summary, "likewise in 2 more cells"));
  EXPECT_EQ(training_findings(summary).found.size(), 3u) << "doctor has a row for each";
}

TEST(StudyFindings, SaysNothingOfOneDevice) {
  StudySummary summary = one_cell("dp", 50, 50);
  summary.cells[0].key.devices = 1;
  EXPECT_TRUE(study_findings(summary).empty());
}

void set_rate(StudyCell& cell, double samples_per_s, double spread = 0.001) {
  const double us = 1e6 * static_cast<double>(cell.key.global_batch) / samples_per_s;
  cell.step_time_us.n = 10, cell.step_time_us.median = us;
  cell.step_time_us.median_ci = Interval{us * (1 - spread), us * (1 + spread)};
}

StudyCell cell_of(int64_t batch, int64_t devices, double samples_per_s) {
  StudyCell cell;
  cell.key.model = "medium";
  cell.key.global_batch = batch, cell.key.devices = devices;
  cell.key.strategy = devices > 1 ? "ddp" : "single";
  set_rate(cell, samples_per_s);
  return cell;
}

TEST(StudyFindings, NamesBatchesPerDeviceOfWhichMostOfTheStepIsFixed) {
  // One device: 1.6 times the samples/s at twice the batch is 75 % fixed, 1.3 times is 46 %.
  StudySummary summary;
  summary.cells = {cell_of(32, 1, 1000), cell_of(64, 1, 1600), cell_of(128, 1, 2080), cell_of(64, 2, 1700),
                   cell_of(128, 2, 3000)};
  const TrainingFindings findings = training_findings(summary);
  ASSERT_EQ(findings.found.size(), 1u);
  EXPECT_EQ(findings.found[0].name, "small-batch");
  EXPECT_EQ(findings.found[0].severity, Finding::Severity::notice);
  EXPECT_EQ(findings.checked, (std::vector<std::string>{"data-parallel", "small-batch"}));
  EXPECT_TRUE(says(summary, "batch of 32 per device; on one device 64 instead of 32 gives 1.60x"));
  EXPECT_TRUE(says(summary, "so 75 % of the step does not depend on the batch (expected at most 50 %)"));
  EXPECT_TRUE(says(summary, "2 devices, ddp"));

  set_rate(summary.cells[2], 2400);  // 1.5 times: 67 %
  EXPECT_TRUE(says(summary, "batches of 32, 64 per device; on one device 128 instead of 64 gives 1.50x"));
  EXPECT_EQ(training_findings(summary).found.size(), 1u) << "a line for each configuration";
}

TEST(StudyFindings, SmallBatchesNeedEvidence) {
  StudySummary summary;
  summary.cells = {cell_of(32, 1, 1000), cell_of(64, 1, 1600), cell_of(64, 2, 1700)};
  set_rate(summary.cells[1], 1600, 0.4);  // an interval that reaches below
  EXPECT_TRUE(training_findings(summary).found.empty());
  summary.cells[1].step_time_us.median_ci.reset();  // none
  EXPECT_EQ(training_findings(summary).checked, std::vector<std::string>{"data-parallel"});
  summary.cells[1] = cell_of(64, 1, 1600);
  EXPECT_EQ(training_findings(summary).found.size(), 1u);
  summary.cells[1].key.math = "bf16";  // other work
  EXPECT_TRUE(training_findings(summary).found.empty());
  summary.cells.erase(summary.cells.begin() + 1);  // twice the batch was not measured
  EXPECT_EQ(training_findings(summary).checked, std::vector<std::string>{"data-parallel"});
}

}  // namespace
}  // namespace amdahl
