#include "report/study/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "report/common/words.h"
#include "report/study/page.h"
#include "report_records.h"
#include "spec/json.h"
#include "stats/compare.h"
#include "study_texts.h"

namespace amdahl {
namespace {

using test::add_cell;
using test::FakeCell;

const StudyComparison* find(const StudySummary& s, const std::string& scaling, int64_t batch) {
  for (const StudyComparison& c : s.comparisons)
    if (c.multi.scaling == scaling && c.multi.global_batch == batch) return &c;
  return nullptr;
}

TEST(ReportStudy, ComparesWithTheOneDeviceCellOfTheSameWork) {
  const StudySummary s = summarise_study(test::sample_study());
  EXPECT_EQ(s.device_kind, "cuda");
  ASSERT_EQ(s.comparisons.size(), 3u);

  const StudyComparison* slow = find(s, "strong", 64);
  ASSERT_TRUE(slow);
  EXPECT_NEAR(slow->test.ratio, 0.8, 0.02);
  EXPECT_NEAR(slow->efficiency, 0.4, 0.01);
  EXPECT_EQ(slow->test.verdict, Verdict::slower);
  EXPECT_EQ(slow->recommendation, Recommendation::single_device);

  const StudyComparison* fast = find(s, "strong", 128);
  ASSERT_TRUE(fast);
  EXPECT_NEAR(fast->test.ratio, 1.6, 0.03);
  EXPECT_EQ(fast->test.verdict, Verdict::faster);
  EXPECT_EQ(fast->recommendation, Recommendation::multi_device);
  EXPECT_EQ(fast->single.global_batch, 128);

  const StudyComparison* weak = find(s, "weak", 128);  // device batch 64: 128 / 700 us against 64 / 640 us
  ASSERT_TRUE(weak);
  EXPECT_EQ(weak->single.global_batch, 64);
  EXPECT_NEAR(weak->test.ratio, 128.0 / 700 / (64.0 / 640), 0.03);
  EXPECT_NEAR(weak->efficiency, weak->test.ratio / 2, 1e-12);
}

TEST(ReportStudy, BaselineIsTheBestOneDeviceCellNotASlowOne) {
  std::vector<Record> records;
  add_cell(records, {.step_us = 2000, .launch = "eager"});
  add_cell(records, {.step_us = 900, .launch = "graph"});
  add_cell(records, {.devices = 2, .step_us = 1000, .launch = "eager"});
  add_cell(records, {.step_us = 100, .math = "bf16"});  // another number format is another question
  const StudySummary s = summarise_study(records);
  ASSERT_EQ(s.comparisons.size(), 1u);
  EXPECT_EQ(s.comparisons[0].single.launch, "graph");
  EXPECT_LT(s.comparisons[0].test.ratio, 1.0);
}

TEST(ReportStudy, FailedAndWaivedRunsAppear) {
  const StudySummary s = summarise_study(test::sample_study());
  int waived_cells = 0, failed_runs = 0;
  for (const StudyCell& cell : s.cells) {
    waived_cells += cell.status.kind == Status::Kind::waived;
    failed_runs += static_cast<int>(cell.num_failed);
  }
  EXPECT_EQ(waived_cells, 1);
  EXPECT_EQ(failed_runs, 1);
  const std::string report = test::study_markdown(s);
  EXPECT_NE(report.find("4 devices asked for, 2 are here"), std::string::npos);
  EXPECT_NE(report.find("1 of 6 runs failed: out of memory"), std::string::npos);
}

TEST(ReportStudy, NeverPoolsWhatIsNotAlike) {
  std::vector<Record> mixed = test::sample_study("cuda");
  const std::vector<Record> cpu = test::sample_study("cpu-virtual");
  mixed.insert(mixed.end(), cpu.begin(), cpu.end());
  EXPECT_THROW(summarise_study(mixed, {.allow_several_hosts = true}), Error);

  std::vector<Record> hosts = test::sample_study();
  hosts.back().provenance.host = "node-2";
  EXPECT_THROW(summarise_study(hosts), Error);
  EXPECT_NO_THROW(summarise_study(hosts, {.allow_several_hosts = true}));
}

TEST(ReportStudy, DamagedRecordsAreRefused) {
  std::vector<Record> twice;
  add_cell(twice, {});
  twice.push_back(twice.front());
  EXPECT_THROW(summarise_study(twice), Error);
  std::vector<Record> no_axis{test::fake_record({}, 0)};
  no_axis[0].axes.erase("global_batch");
  EXPECT_THROW(summarise_study(no_axis), Error);
  std::vector<Record> no_series{test::fake_record({}, 0)};
  no_series[0].series.clear();
  EXPECT_THROW(summarise_study(no_series), Error);
}

TEST(ReportStudy, OneRunAndNoRunsAreDefined) {
  std::vector<Record> records;
  add_cell(records, {.num_runs = 1, .account = false});
  add_cell(records, {.devices = 2, .step_us = 400, .num_runs = 1, .account = false});
  const StudySummary s = summarise_study(records);
  ASSERT_EQ(s.comparisons.size(), 1u);
  EXPECT_EQ(s.comparisons[0].test.verdict, Verdict::unclear);
  EXPECT_EQ(s.comparisons[0].recommendation, Recommendation::unclear);
  EXPECT_EQ(s.comparisons[0].test.more_runs, 4);
  const std::string report = test::study_markdown(s);
  EXPECT_NE(report.find("\\[n/a\\]"), std::string::npos);
  EXPECT_EQ(report.find(" nan"), std::string::npos);
  const StudySummary none = summarise_study({});
  EXPECT_TRUE(none.cells.empty());
  EXPECT_FALSE(test::study_markdown(none).empty());
  EXPECT_FALSE(test::study_text(none).empty());
}

// A row of a study: ratio and half-width of its interval, and what is written of it.
std::string row_text(double ratio, double half, Verdict verdict, int64_t more_runs, int64_t runs = 10) {
  StudyComparison c;
  c.test.ratio = ratio, c.test.ci = Interval{ratio - half, ratio + half};
  c.test.n_first = c.test.n_second = runs;
  c.test.verdict = verdict, c.test.more_runs = more_runs;
  c.recommendation = recommend(c.test);
  c.more_runs = runs_to_recommend(c.test);
  return verdict_text(c.test) + " | " + recommendation_text(c, "cuda");
}

TEST(ReportStudy, VerdictAndRecommendationOfARowAgree) {
  EXPECT_EQ(row_text(1.3, 0.1, Verdict::faster, 0), "FASTER | multi-GPU beneficial");
  EXPECT_EQ(row_text(1.15, 0.1, Verdict::faster, 0),
            "FASTER | unclear: faster, but not certainly by 10 % (~30 more runs)");
  EXPECT_EQ(row_text(0.92, 0.06, Verdict::slower, 0),
            "SLOWER | unclear: slower, but not certainly by 5 % (~30 more runs)");
  EXPECT_EQ(row_text(0.8, 0.1, Verdict::unclear, 12), "UNCLEAR (~12 more runs) | unclear (~12 more runs)");
  EXPECT_EQ(row_text(1.3, 0.1, Verdict::unclear, 2, 3), "too few runs (2 more) | too few runs (2 more)");
  EXPECT_EQ(row_text(0.99, 0.1, Verdict::unclear, 1).substr(0, 22), "UNCLEAR (~1 more run) ");
  EXPECT_EQ(row_text(1.003, 0.04, Verdict::unclear, 7415),
            "UNCLEAR (not settled by more runs: a difference of 0.3 % is too small for their spread) | marginal");
  EXPECT_EQ(
      row_text(1.101, 0.05, Verdict::faster, 0),
      "FASTER | unclear: faster, but not certainly by 10 % (not settled by more runs: the speedup is too near 1.10x "
      "for their spread)");
}

TEST(ReportStudy, ColumnsAreExplainedWhereTheyStand) {
  const std::vector<Record> records = test::sample_study();
  const StudySummary s = summarise_study(records);
  for (const std::string& shown : {test::study_text(s), test::study_markdown(s)})
    EXPECT_NE(shown.find("verdict, on the interval of the speedup: several devices from 1.10x on"), std::string::npos)
        << shown;
  const Page page = study_page(s, records);
  bool explained = false;
  for (const PageSection& section : page.sections)
    for (const PageTable& table : section.tables)
      explained = explained || table.caption.find(verdict_legend()) != std::string::npos;
  EXPECT_TRUE(explained);
}

TEST(ReportStudy, OlderSummariesHaveTheFurtherRunsOfTheRecommendationInTheTest) {
  std::vector<Record> records;
  add_cell(records, {.num_runs = 1});
  add_cell(records, {.devices = 2, .step_us = 400, .num_runs = 1});
  std::string text = summary_to_json(summarise_study(records));
  const size_t at = text.find("\"more_runs\": 4,\n      \"multi\"");
  ASSERT_NE(at, std::string::npos) << text;
  text.erase(at, std::string("\"more_runs\": 4,\n      ").size());
  EXPECT_EQ(summary_from_json(text, "old").comparisons.at(0).more_runs, 4);
  text.replace(text.find("UNCLEAR"), 7, "FASTER");
  EXPECT_EQ(summary_from_json(text, "old").comparisons.at(0).test.more_runs, 0) << "of the recommendation";
}

TEST(ReportStudy, GeometricMeanOverBatches) {
  const StudySummary s = summarise_study(test::sample_study());
  for (const AverageSpeedup& a : s.averages) {
    if (a.scaling != "strong") continue;
    EXPECT_EQ(a.num_batches, 2);
    EXPECT_EQ(a.configuration, "data_parallel, eager");
    EXPECT_NEAR(a.geometric_mean, std::sqrt(0.8 * 1.6), 0.02);
    ASSERT_TRUE(a.ci);
    EXPECT_TRUE(a.ci->low < a.geometric_mean && a.geometric_mean < a.ci->high);
  }
}

TEST(ReportStudy, UtilisationIsOfRunsAsLongAsItsWindow) {
  for (const int64_t steps : {100, 2000}) {  // 0.1 and 2 s
    std::vector<Record> records;
    for (int run = 0; run < 5; ++run) {
      records.push_back(test::fake_record({.step_us = 1000}, run));
      records.back().axes["steps"] = steps;
    }
    EXPECT_EQ(summarise_study(records).cells.at(0).utilisation_percent.has_value(), steps > 100);
  }
}

TEST(ReportStudy, VirtualDevicesAreNeverCalledGpus) {
  const StudySummary s = summarise_study(test::sample_study("cpu-virtual"));
  for (std::string text : {test::study_markdown(s), test::study_text(s)}) {
    EXPECT_NE(text.find("CPU virtual devices, not GPUs"), std::string::npos);
    text.erase(text.find("not GPUs"), 8);
    if (const size_t at = text.find("say nothing about a GPU"); at != std::string::npos) text.erase(at, 23);
    EXPECT_EQ(text.find("GPU"), std::string::npos) << text;
  }
}

// Ticks make single runs' readings of others wrong by more than they are: the sums over a cell's runs count.
TEST(ReportStudy, ABusyHostIsSaid) {
  const auto notes_with = [](double others_us, double wait_us) {
    std::vector<Record> records;
    for (int run = 0; run < 4; ++run) {
      Record record = test::fake_record({.step_us = 1000, .device_kind = "cpu-virtual"}, run);
      record.series.push_back({"processor_others", "us", {others_us + (run % 2 ? 20e3 : -20e3)}});
      record.series.push_back({"processor_wait", "us", {wait_us}});
      record.series.push_back({"processor_stolen", "us", {0}});
      records.push_back(record);
    }
    const StudySummary summary = summarise_study(records);
    std::string text;
    for (const std::string& warning : summary.warnings) text += warning + "\n";
    EXPECT_TRUE(text.empty() || test::study_text(summary).starts_with("warning: ")) << test::study_text(summary);
    return text;
  };
  EXPECT_NE(notes_with(60e3, 30e3).find("other programs took 0.30 CPU cores while its steps were timed"),
            std::string::npos);  // of 100 ms
  EXPECT_EQ(notes_with(2e3, 90e3).find("the host was busy"), std::string::npos);
  EXPECT_EQ(notes_with(90e3, 2e3).find("the host was busy"), std::string::npos);
}

TEST(ReportStudy, ALimitOfProcessorsIsSaid) {
  const auto notes_with = [](double throttled_us) {
    std::vector<Record> records;
    for (int run = 0; run < 4; ++run) {
      Record record = test::fake_record({.step_us = 1000, .device_kind = "cpu-virtual"}, run);
      if (throttled_us > 0) record.series.push_back({"processor_throttled", "us", {throttled_us}});
      records.push_back(record);
    }
    std::string text;
    for (const std::string& warning : summarise_study(records).warnings) text += warning + "\n";
    return text;
  };
  EXPECT_NE(notes_with(50e3).find("the job was throttled: its control group's limit of processors stopped threads for "
                                  "0.50 s of each second"),
            std::string::npos)
      << notes_with(50e3);
  EXPECT_EQ(notes_with(0).find("throttled"), std::string::npos);
  EXPECT_EQ(notes_with(100).find("throttled"), std::string::npos);
}

TEST(ReportText, AsciiMeansAscii) {
  const StudySummary s = summarise_study(test::sample_study());
  for (char c : test::study_text(s)) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_NE(test::study_text(s).find("single GPU preferred"), std::string::npos);
}

TEST(ReportWords, EscapesMarkdown) { EXPECT_EQ(escape_markdown("a|b*c_d\n<e>&`"), "a\\|b\\*c\\_d \\<e\\>&amp;\\`"); }

TEST(ReportWords, NumbersKeepThreeDigits) {
  EXPECT_EQ(format_number(16883.4), "16,883");
  EXPECT_EQ(format_number(100.0), "100");
  EXPECT_EQ(format_number(12.345), "12.3");
  EXPECT_EQ(format_number(0.012345), "0.0123");
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(0.99812, 4), "0.9981");
  EXPECT_EQ(format_number(123.456, 4), "123.5");
  EXPECT_EQ(format_number(999.96, 4), "1,000");
  EXPECT_EQ(format_axis("global_batch"), "global batch");
  EXPECT_EQ(format_axis("num_parameters"), "parameters");
  EXPECT_EQ(format_speedup(1.78, Interval{1.75, 1.81}), "1.78x [1.75, 1.81]");
}

// To accept a changed report: copy test-output/study_report.md from the build folder over the golden file and review
// it.
TEST(ReportMarkdown, MatchesTheGoldenFile) {
  const std::string report = test::study_markdown(summarise_study(test::sample_study()));
  std::filesystem::create_directories(AMDAHL_BINARY_DIR "/test-output");
  std::ofstream(AMDAHL_BINARY_DIR "/test-output/study_report.md", std::ios::binary) << report;
  std::ifstream file(AMDAHL_SOURCE_DIR "/tests/unit/report/golden/study_report.md", std::ios::binary);
  ASSERT_TRUE(file.good()) << "the golden file is missing";
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(report, golden.str());
}

}  // namespace
}  // namespace amdahl
