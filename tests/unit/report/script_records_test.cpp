// What ranks of a script report, as records of a study: waiting taken from exposed communication, the slowest rank's
// step, findings of the largest lost part.
#include "verbs/training/script_records.h"

#include <gtest/gtest.h>

#include <random>

#include "amdahl/error.h"
#include "report/study/findings.h"
#include "report/study/summary.h"
#include "report_records.h"

namespace amdahl {
namespace {

RankReport report_of(int rank, double window_us, double exposed_us, std::vector<double> arrivals_us) {
  RankReport report;
  report.rank = rank, report.world_size = 2, report.samples = 32, report.window_us = window_us, report.steps = 10;
  RankAccount account;
  account.steps = static_cast<int64_t>(arrivals_us.size());
  account.compute_us = 700, account.exposed_us = exposed_us, account.input_us = 20, account.optimizer_us = 80;
  account.step_us = account.parts_us();
  account.arrivals_us = std::move(arrivals_us);
  report.account = account;
  return report;
}

double value(const std::vector<Series>& series, const std::string& name) {
  for (const Series& s : series)
    if (s.name == name) return s.samples.front();
  return -1;
}

TEST(ScriptRecords, WaitingIsTheTimeToTheLastArrivalAndTakenFromExposed) {
  // Rank 0 arrives 100 and 300 us before rank 1: 200 on average of its 250.
  const std::vector<RankReport> ranks{report_of(0, 10000, 250, {1000, 2000}), report_of(1, 12000, 50, {1100, 2300})};
  const AccountedStep account = account_of_reports(ranks);
  EXPECT_DOUBLE_EQ(account.waiting, (200 + 0) / 2.0);
  EXPECT_DOUBLE_EQ(account.exposed_communication, (50 + 50) / 2.0);
  EXPECT_DOUBLE_EQ(account.compute + account.exposed_communication + account.waiting + account.launch_gaps +
                       account.input + account.optimizer,
                   account.step);
  const std::vector<Series> series = series_of_reports(ranks);
  EXPECT_DOUBLE_EQ(value(series, "step_time"), 1200);
  EXPECT_DOUBLE_EQ(value(series, "throughput"), 64 / 1200e-6);
}

TEST(ScriptRecords, WaitingInAllCommunicationsComesBeforeThatInTheLast) {
  std::vector<RankReport> ranks{report_of(0, 1e4, 250, {1000, 2000}), report_of(1, 1e4, 50, {1000, 2000})};
  ranks[0].account->waits_us = {100, 180}, ranks[1].account->waits_us = {0, 20};
  EXPECT_DOUBLE_EQ(account_of_reports(ranks).waiting, (140 + 10) / 2.0);
}

TEST(ScriptRecords, WaitingNeverExceedsExposed) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0, 1000);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<RankReport> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.push_back(report_of(rank, 1e4, time(random), {time(random), time(random), time(random)}));
    const AccountedStep account = account_of_reports(ranks);
    EXPECT_GE(account.exposed_communication, 0);
    EXPECT_GE(account.waiting, 0);
    EXPECT_NEAR(account.compute + account.exposed_communication + account.waiting + account.launch_gaps +
                    account.input + account.optimizer,
                account.step, 1e-9 * account.step);
  }
}

TEST(ScriptRecords, ArrivalsOfOtherStepsAreNotCompared) {
  const std::vector<RankReport> ranks{report_of(0, 1e4, 250, {1000, 2000}), report_of(1, 1e4, 50, {1100})};
  EXPECT_DOUBLE_EQ(account_of_reports(ranks).waiting, 0);
}

TEST(ScriptRecords, ABatchThatOneRankDoesNotKnowIsNotKnown) {
  std::vector<RankReport> ranks{report_of(0, 1e4, 0, {}), report_of(1, 1e4, 0, {})};
  EXPECT_EQ(global_batch_of(ranks), 64);
  ranks[1].samples = 0;
  EXPECT_EQ(global_batch_of(ranks), 0);
}

std::string report_text(const std::string& change_from = "", const std::string& change_to = "") {
  std::string text =
      R"({"schema":1,"rank":0,"world_size":1,"model":"m","optimizer":"SGD","math":"fp32","launch":"eager",)"
      R"("samples":32,"device":"cpu","device_name":"CPU","facts":{},"window_us":1000,"steps":10,"warmup":2,)"
      R"("account":{"steps":5,"step_us":100,"compute_us":60,"exposed_us":0,"launch_gaps_us":30,"input_us":10,)"
      R"("optimizer_us":0},"notes":[]})";
  if (const size_t at = text.find(change_from); !change_from.empty() && at != std::string::npos)
    text.replace(at, change_from.size(), change_to);
  return text;
}

TEST(RankReportJson, IsReadAndRefusedWhereItCannotBe) {
  const RankReport report = rank_report_from_json(report_text(), "r.json");
  EXPECT_EQ(report.samples, 32);
  EXPECT_DOUBLE_EQ(report.account->launch_gaps_us, 30);
  EXPECT_FALSE(report.loss_first);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"schema\":1", "\"schema\":9"},
                                                        {"\"window_us\":1000", "\"window_us\":0"},
                                                        {"\"window_us\":1000", "\"window_us\":-1"},
                                                        {"\"steps\":10", "\"steps\":0"},
                                                        {"\"compute_us\":60", "\"compute_us\":90"},
                                                        {"\"input_us\":10", "\"input_us\":-10"},
                                                        {"\"samples\":32", "\"samples\":\"a\""},
                                                        {"\"notes\":[]", "\"notes\":[1]"}})
    EXPECT_THROW(rank_report_from_json(report_text(from, to), "r.json"), Error) << to;
}

/// A study of a script on one device with this account of its step of 1000 us.
StudySummary summary_with(const char* part, double us) {
  std::vector<Record> records;
  test::add_cell(records, {.global_batch = 64, .devices = 1, .step_us = 1000});
  for (Record& record : records) {
    std::erase_if(record.series, [](const Series& s) { return s.unit == "us" && s.name != "step_time"; });
    AccountedStep account;
    account.step = 1000, account.compute = 1000 - us;
    for (Series& series : account_series(account)) {
      if (series.name == part) series.samples = {us};
      record.series.push_back(std::move(series));
    }
    record.series.push_back({"account_by_partition", "1", {1}});
  }
  return summarise_study(records);
}

TEST(ScriptFindings, NameTheLargestLostPartWithItsNumber) {
  for (const auto& [part, name] :
       std::vector<std::pair<const char*, std::string>>{{"launch_gaps", "launch-gaps"},
                                                        {"input", "slow-input"},
                                                        {"waiting", "unequal-ranks"},
                                                        {"exposed_communication", "exposed-communication"}}) {
    const TrainingFindings findings = training_findings(summary_with(part, 750));
    ASSERT_EQ(findings.found.size(), 1u) << part;
    EXPECT_EQ(findings.found.front().name, name);
    EXPECT_TRUE(findings.found.front().measured.starts_with("75")) << findings.found.front().measured;
    EXPECT_NE(findings.found.front().why.find("4.0x"), std::string::npos) << findings.found.front().why;
    EXPECT_TRUE(training_findings(summary_with(part, 100)).found.empty()) << part;
  }
}

}  // namespace
}  // namespace amdahl
