// What reports, charts and exports say of a step account: its ratio to the measured step, and percentages only when it
// is near 1.
#include "report/common/account_text.h"

#include <gtest/gtest.h>

#include <map>

#include "chart/study_charts.h"
#include "chart/study_groups.h"
#include "page_checks.h"
#include "report/export/export.h"
#include "report/study/page.h"
#include "report/study/summary.h"
#include "report/study/verdict.h"
#include "report_records.h"
#include "spec/run_folder.h"
#include "study_texts.h"

namespace amdahl {
namespace {

Series& series_of(Record& record, const std::string& name) {
  for (Series& series : record.series)
    if (series.name == name) return series;
  record.series.push_back({name, "us", {0}});
  return record.series.back();
}

// One and two devices; the account is of a step `ratio` times the measured one.
std::vector<Record> accounted(double ratio, bool by_differences = true) {
  std::vector<Record> records;
  test::add_cell(records, {.global_batch = 64, .devices = 1, .step_us = 28.6});
  test::add_cell(records, {.global_batch = 64, .devices = 2, .step_us = 20});
  for (Record& record : records) {
    for (const char* part : {"account_step", "forward", "backward", "compute", "exposed_communication", "waiting",
                             "launch_gaps", "input", "optimizer", "total_communication"})
      series_of(record, part).samples.front() *= ratio;
    if (!by_differences) continue;
    record.series.push_back({"account_by_differences", "1", {1}});
    record.series.push_back({"account_noise", "us", {0.4}});
  }
  return records;
}

/// The section of the group: remarks and tables.
std::string section(const std::string& report) {
  const size_t begin = report.find("## medium"), end = report.find("\n## ", begin + 1);
  return report.substr(begin, end - begin);
}

std::string row_of(const std::string& text, const std::string& wanted) {
  const size_t at = text.find(wanted);
  return text.substr(at, text.find('\n', at) - at);
}

TEST(TrustedAccount, IsWithinTenPercentOfTheMeasuredStep) {
  StepAccount account;
  account.measured_us = 100;
  for (const auto& [step, trusted] :
       {std::pair{109.9, true}, {90.1, true}, {110.1, false}, {89.9, false}, {0.0, false}}) {
    account.step_us = step;
    EXPECT_EQ(account.trusted(), trusted) << step;
    EXPECT_EQ(account_refusal(account).empty(), trusted) << step;
  }
}

TEST(TrustedAccount, UnexplainedIsOfTheMeasuredStep) {
  StepAccount account;
  account.measured_us = 28.6;
  account.step_us = account.compute_us = 49.5;
  EXPECT_NEAR(account.unaccounted_us(), -20.9, 1e-9);
  EXPECT_NEAR(account.ratio(), 1.731, 1e-3);
}

/// The tables of the account and of what is beside it.
std::pair<std::string, std::string> account_tables(const std::string& text) {
  const size_t begin = text.find("**Step account"), middle = text.find("**Beside the account");
  return {text.substr(begin, middle - begin), text.substr(middle)};
}

TEST(AccountReport, GivesMeasuredAccountedAndRatioAndRefusesPercentages) {
  const std::string text = section(test::study_markdown(summarise_study(accounted(1.731))));
  const auto [parts, beside] = account_tables(text);
  EXPECT_NE(parts.find("Ratio: 1.731"), std::string::npos) << parts;
  EXPECT_NE(parts.find("-20.86"), std::string::npos) << "20.9 us are unexplained: " << parts;
  EXPECT_EQ((parts + beside).find('%'), std::string::npos) << parts << beside;
  EXPECT_NE(text.find("\nNo percentages for medium"), std::string::npos) << text;
  EXPECT_NE(text.find("1.731 times the measured"), std::string::npos) << text;
}

TEST(AccountReport, GivesPercentagesOfATrustedAccount) {
  const std::string text = section(test::study_markdown(summarise_study(accounted(1.04))));
  const auto [parts, beside] = account_tables(text);
  EXPECT_NE(parts.find("Unexplained (%): -4.000"), std::string::npos) << parts;
  EXPECT_NE(row_of(beside, "| 2 |").find(" %"), std::string::npos) << beside;
  EXPECT_EQ(text.find("No percentages"), std::string::npos);
}

TEST(AccountReport, SaysHowTheAccountWasMade) {
  const std::string differences = section(test::study_markdown(summarise_study(accounted(1))));
  EXPECT_NE(differences.find("by differences"), std::string::npos);
  EXPECT_EQ(differences.find("by time stamps"), std::string::npos);
  const std::string stamps = section(test::study_markdown(summarise_study(accounted(1, false))));
  EXPECT_NE(stamps.find("by time stamps"), std::string::npos);
  EXPECT_EQ(stamps.find("by differences"), std::string::npos);
}

TEST(AccountReport, NamesTheLaunchFloorAndAFusedUpdate) {
  std::vector<Record> records = accounted(1);
  for (Record& record : records) {
    record.series.push_back({"launch_floor", "us", {12.5}});
    record.series.push_back({"launch_kernels", "1", {14}});
    record.series.push_back({"fused_update", "1", {1}});
  }
  const std::string text = section(test::study_markdown(summarise_study(records)));
  EXPECT_NE(text.find("Launch floor (us): 12.50; Kernels: 14.00"), std::string::npos) << text;
  EXPECT_NE(text.find("as many empty kernels as the step has"), std::string::npos);
  EXPECT_NE(text.find("Backward updates parameters too"), std::string::npos);
}

TEST(AccountReport, FactsOfThePageRefuseSharesToo) {
  const auto facts = [](double ratio) { return study_facts(summarise_study(accounted(ratio))).back(); };
  EXPECT_NE(facts(1.02).find("accounted / measured step 1.020"), std::string::npos) << facts(1.02);
  EXPECT_EQ(facts(1.5).find('%'), std::string::npos) << facts(1.5);
  EXPECT_NE(facts(1.5).find("1.500 times the measured"), std::string::npos) << facts(1.5);
}

TEST(AccountPage, TableGivesTheRatioAndChartRefusesShares) {
  const std::vector<Record> records = accounted(1.5);
  const StudySummary summary = summarise_study(records);
  EXPECT_FALSE(account_chart(summary, groups_of(summary).front())) << "bars of what is no account of the step";
  size_t tables = 0, remarks = 0;
  for (const PageSection& part : study_page(summary, records).sections) {
    for (const PageTable& table : part.tables) tables += table.caption.find("Step account") == 0;
    for (const std::string& detail : part.details) remarks += detail.find("No percentages for") == 0;
  }
  EXPECT_EQ(tables, 1U);
  EXPECT_EQ(remarks, 2U);
}

TEST(AccountPage, StampsWithGapsInForwardAndBackwardDoNotSplitCompute) {
  std::vector<Record> records = accounted(1, false);
  for (Record& record : records) series_of(record, "backward").samples.front() *= 3;
  const StudySummary summary = summarise_study(records);
  const auto chart = account_chart(summary, groups_of(summary).front());
  std::map<std::string, double> sums, steps;
  for (const auto& row : chart->table.rows) {
    const auto on = std::get<std::string>(row[test::column_index(*chart, "configuration")]);
    sums[on] += std::get<double>(row[test::column_index(*chart, "time_us")]);
    steps[on] = std::get<double>(row[test::column_index(*chart, "step_us")]);
  }
  for (const auto& [on, sum] : sums) EXPECT_NEAR(sum, steps[on], 1e-6 * steps[on]) << on;
}

TEST(AccountExport, CsvAndPrometheusCarryTheRatio) {
  const std::vector<Record> records = accounted(1.25);
  EXPECT_NE(records_csv(records).find(",account_ratio,1,0,1.25"), std::string::npos);
  EXPECT_NE(prometheus_text(records).find("amdahl_account_ratio{"), std::string::npos);
  Record without = records.front();
  without.series.clear();
  EXPECT_FALSE(account_ratio_series(without));
}

// Two of twelve runs take four times as long, and lose most of it to communication: the median does not show them, and
// neither does the account. A run of its own account differs from its step by 4 %.
TEST(AccountReport, PartsAddUpToTheStepOfTheRow) {
  std::vector<Record> records;
  test::add_cell(records, {.global_batch = 64, .devices = 2, .step_us = 100, .num_runs = 12});
  for (size_t run = 0; run < records.size(); ++run) {
    const double step = (run % 6 == 3 ? 400 : 100) + static_cast<double>(run) / 10,
                 exposed = run % 6 == 3 ? 330 : 30 + static_cast<double>(run % 2);
    for (Series& series : records[run].series)
      for (const auto& [name, value] :
           std::initializer_list<std::pair<const char*, double>>{{"step_time", step},
                                                                 {"account_step", 1.04 * step},
                                                                 {"forward", 10},
                                                                 {"backward", 15},
                                                                 {"compute", 25},
                                                                 {"exposed_communication", exposed},
                                                                 {"waiting", 0},
                                                                 {"input", 0},
                                                                 {"launch_gaps", 5},
                                                                 {"total_communication", exposed},
                                                                 {"optimizer", 1.04 * step - 30 - exposed}})
        if (series.name == name) series.samples = {value};
  }
  const StudyCell cell = summarise_study(records).cells.at(0);
  ASSERT_TRUE(cell.account);
  const StepAccount& a = *cell.account;
  const double step = cell.step_time_us.estimate().value;
  EXPECT_LT(step, 102);
  EXPECT_DOUBLE_EQ(a.measured_us, step);
  EXPECT_NEAR(a.step_us, 1.04 * step, 1e-9 * step);
  EXPECT_NEAR(a.parts_us(), a.step_us, 1e-9 * step);
  EXPECT_NEAR(a.parts_us() + a.unaccounted_us(), step, 1e-9 * step);
  EXPECT_NEAR(a.exposed_communication_us, 30.5, 0.5) << "means over all runs have 80 us of 150";
  EXPECT_EQ(a.n, 6);
}

// The Records that were published before: by stamps, of steps up to 1.7 times as long.
TEST(AccountReport, RefusesPercentagesOfThePublishedRecordsByStamps) {
  const RunContents run = read_run(AMDAHL_SOURCE_DIR "/results/h200/medium");
  const StudySummary summary = summarise_study(run.records);
  size_t refused = 0;
  for (const StudyCell& cell : summary.cells) {
    ASSERT_TRUE(cell.account);
    EXPECT_EQ(cell.account->method, AccountMethod::stamps);
    EXPECT_NEAR(cell.account->unaccounted_us() + cell.account->parts_us(), cell.account->measured_us,
                1e-6 * cell.account->measured_us);
    refused += cell.account->trusted() ? 0 : 1;
  }
  EXPECT_GT(refused, 0U);
  const std::string text = test::study_markdown(summary);
  EXPECT_NE(text.find(" cells, whose account differs from the measured step by more than 10 %"), std::string::npos);
  EXPECT_NE(text.find("Most for medium"), std::string::npos) << "the worst cell is named";
  EXPECT_EQ(text.find("No percentages for medium"), std::string::npos) << "many cells are one remark";
}

}  // namespace
}  // namespace amdahl
