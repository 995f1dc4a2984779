// What a study on one device says, from Records made by hand.
#include "report/study/one_device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/page/table_text.h"
#include "report/study/page.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "spec/json.h"
#include "study_texts.h"

namespace amdahl {
namespace {

using test::FakeCell;

// Launches bound small batches: eager takes 400 us up to batch 64, a graph far less; tf32 shows at batch 1024 alone.
std::vector<Record> one_gpu() {
  std::vector<Record> records;
  const auto add = [&](int64_t batch, const char* launch, const char* math, double us) {
    test::add_cell(
        records, {.global_batch = batch, .step_us = us, .num_runs = 5, .launch = launch, .math = math, .noise = 0.004});
  };
  for (const int64_t batch : {8, 16}) {
    add(batch, "eager", "fp32", 400);
    add(batch, "graph", "fp32", 50);
    add(batch, "graph", "tf32", 50);
  }
  add(512, "eager", "fp32", 500);
  add(512, "graph", "fp32", 400);
  add(1024, "eager", "fp32", 1000);
  add(1024, "graph", "fp32", 900);
  add(1024, "graph", "tf32", 600);
  return records;
}

const OneDeviceRow& row_of(const StudySummary& summary, int64_t batch) {
  return *std::find_if(summary.one_device->rows.begin(), summary.one_device->rows.end(),
                       [&](const OneDeviceRow& row) { return row.cell.global_batch == batch; });
}

TEST(OneDevice, BoundIsTheRatioOfTheFastestConfigurations) {
  const StudySummary summary = summarise_study(one_gpu());
  ASSERT_TRUE(summary.one_device);
  ASSERT_EQ(summary.one_device->rows.size(), 4u);
  EXPECT_EQ(row_of(summary, 1024).cell.launch, "eager") << "what was asked for";
  const auto& large = row_of(summary, 1024).two_devices;
  ASSERT_TRUE(large);
  EXPECT_EQ(large->whole.math, "tf32");    // 600 us
  EXPECT_EQ(large->half.launch, "graph");  // 400 us
  EXPECT_NEAR(large->ratio, 1.5, 0.02);
  EXPECT_FALSE(large->cannot_pay);
  const auto& small = row_of(summary, 16).two_devices;
  ASSERT_TRUE(small && small->ci);
  EXPECT_NEAR(small->ratio, 1.0, 0.01);
  EXPECT_TRUE(small->cannot_pay);
  EXPECT_FALSE(row_of(summary, 8).two_devices) << "half of it was not measured";
}

TEST(OneDevice, ABoundWithoutIntervalClaimsNothing) {
  std::vector<Record> records;
  test::add_cell(records, {.global_batch = 32, .num_runs = 1});
  test::add_cell(records, {.global_batch = 64, .num_runs = 1});
  const StudySummary summary = summarise_study(records);
  ASSERT_TRUE(row_of(summary, 64).two_devices);
  EXPECT_FALSE(row_of(summary, 64).two_devices->ci);
  EXPECT_FALSE(row_of(summary, 64).two_devices->cannot_pay);
}

TEST(OneDevice, TheLargerHalfOfAnOddBatchCounts) {
  std::vector<Record> records;
  test::add_cell(records, {.global_batch = 1, .step_us = 100});
  test::add_cell(records, {.global_batch = 3, .step_us = 300});
  EXPECT_FALSE(row_of(summarise_study(records), 3).two_devices);
  test::add_cell(records, {.global_batch = 2, .step_us = 200});
  const StudySummary summary = summarise_study(records);
  EXPECT_NEAR(row_of(summary, 3).two_devices->ratio, 1.5, 0.02);
  EXPECT_EQ(row_of(summary, 3).two_devices->half.global_batch, 2);
  EXPECT_FALSE(row_of(summary, 1).two_devices) << "one row cannot be divided";
}

TEST(OneDevice, AlternativesChangeOneThingAtATime) {
  const StudySummary summary = summarise_study(one_gpu());
  std::vector<std::string> seen;
  for (const OneDeviceAlternative& a : summary.one_device->alternatives)
    if (a.to.global_batch == 1024) {
      seen.push_back(a.from.launch + " " + a.from.math + " > " + a.to.launch + " " + a.to.math);
      EXPECT_EQ(a.test.verdict, Verdict::faster);
      EXPECT_NEAR(a.test.ratio, a.to.math == "tf32" ? 1.5 : 1000.0 / 900, 0.02);
    }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"eager fp32 > graph fp32", "graph fp32 > graph tf32"}));
}

TEST(OneDevice, LaunchShareIsReadFromTheAccountOrAbsent) {
  const StudySummary summary = summarise_study(one_gpu());
  ASSERT_TRUE(row_of(summary, 16).launch_share);
  EXPECT_NEAR(*row_of(summary, 16).launch_share, 0.15, 1e-9);  // of the fake records
  std::vector<Record> records;
  test::add_cell(records, {.account = false});
  const StudySummary without = summarise_study(records);
  EXPECT_FALSE(without.one_device->rows.front().launch_share);
  EXPECT_EQ(test::study_text(without).find("Launching"), std::string::npos) << "a column without any value";
}

TEST(OneDevice, TextSaysWhatABuyerAsks) {
  const StudySummary summary = summarise_study(one_gpu());
  const std::string text = test::study_text(summary);
  for (const char* words :
       {"One GPU: up to 1,7", "medium at global batch 1,024 (graph, tf32)",
        "A second GPU cannot pay at global batch 16, whatever the link; with one, at most 1.5",
        "Speedup of two, at most (modelled) [95 % CI]", "What this GPU still gives away",
        "best batch (eager, fp32): 1,024 with",
        "global batch 16: a second GPU cannot pay at this batch, whatever the link (speedup at most 1.0", "2.5 GB",
        "Launching (% of the step): 15.00", "amdahl report RUN `assume_devices=2,4` `link=nvlink4`"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in:\n" << text;
  EXPECT_EQ(text.find("Nothing to decide"), std::string::npos);
}

TEST(OneDevice, ABoundSaysWhichConfigurationsItIsOf) {
  const StudySummary summary = summarise_study(one_gpu());
  const PageTable page = one_device_section(summary).tables.front();
  EXPECT_NE(page.caption.find("The fastest configuration of each batch"), std::string::npos) << page.caption;
  EXPECT_EQ(std::get<std::string>(page.table.rows.front()[2]), "graph, fp32");
  TextTable asked = text_table(one_device_section(summary).tables[1].table);
  EXPECT_NE(take_common(asked).find("Configuration: eager, fp32"), std::string::npos);
  EXPECT_EQ(page.table.columns.back().title, "Configuration of the bound, B / B/2");
  EXPECT_EQ(std::get<std::string>(page.table.rows.back().back()), "graph, tf32 / graph, fp32");
  EXPECT_NE(one_device_headline(summary).find("of graph, tf32 / graph, fp32"), std::string::npos);
}

// The library takes another kernel at 128: its step takes 2.03 times that of 64.
TEST(OneDevice, ABoundAboveTwoIsExplained) {
  std::vector<Record> records;
  for (const auto& [batch, us] : {std::pair{64, 100.0}, {128, 203.0}, {256, 400.0}})
    test::add_cell(records, {.global_batch = batch, .step_us = us, .noise = 0.001});
  const StudySummary summary = summarise_study(records);
  const std::string text = test::study_text(summary);
  for (const char* words :
       {"global batch 128: T1(128) / T1(64) = 2.03x [2.0", "is above 2: the step of one GPU is less efficient",
        "One GPU with 128 as two accumulated halves (`accumulate=2`) takes at most about 2 x T1(64) = 200 us",
        "instead of 203 us"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " is not in:\n" << text;
  EXPECT_EQ(text.find("T1(256) / T1(128) ="), std::string::npos) << "1.97x is below 2\n" << text;
  EXPECT_NE(test::study_markdown(summary).find("two accumulated halves"), std::string::npos);
  EXPECT_EQ(test::study_text(summarise_study(one_gpu())).find("above 2"), std::string::npos);
}

TEST(OneDevice, VirtualDevicesAreNeverCalledGpus) {
  std::vector<Record> records;
  for (const int64_t batch : {8, 16})
    test::add_cell(records, {.global_batch = batch, .step_us = 400, .device_kind = "cpu-virtual", .noise = 0.004});
  const StudySummary summary = summarise_study(records);
  const std::string said = one_device_headline(summary) + one_device_sentences(summary).front() +
                           one_device_section(summary).tables.front().caption;
  EXPECT_EQ(said.find("GPU"), std::string::npos) << said;
  EXPECT_NE(said.find("second virtual device cannot pay"), std::string::npos) << said;
  EXPECT_NE(test::study_text(summary).find("virtual devices have neither CUDA graphs"), std::string::npos);
}

TEST(OneDevice, IsInMarkdownPageAndJson) {
  const std::vector<Record> records = one_gpu();
  const StudySummary summary = summarise_study(records);
  const std::string markdown = test::study_markdown(summary);
  EXPECT_NE(markdown.find("The fastest configuration of each batch on one GPU"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("cannot pay at this batch, whatever the link"), std::string::npos);
  const Page page = study_page(summary, records);
  EXPECT_EQ(page.verdict, summary.conclusion);
  ASSERT_FALSE(page.sections.empty());
  const auto section = std::find_if(page.sections.begin(), page.sections.end(),
                                    [](const PageSection& each) { return each.anchor == "one-device"; });
  ASSERT_NE(section, page.sections.end());
  EXPECT_EQ(section->tables.size(), 3u);
  EXPECT_EQ(page.title.find("several"), std::string::npos) << page.title;
  const StudySummary again = summary_from_json(summary_to_json(summary), "test");
  ASSERT_TRUE(again.one_device);
  EXPECT_EQ(summary_to_json(again), summary_to_json(summary));
  EXPECT_EQ(test::study_text(again), test::study_text(summary));
}

TEST(OneDevice, IsNotSaidOfAStudyOfSeveralDevices) {
  const StudySummary summary = summarise_study(test::sample_study());
  EXPECT_FALSE(summary.one_device);
  EXPECT_EQ(test::study_text(summary).find("still gives away"), std::string::npos);
}

}  // namespace
}  // namespace amdahl
