#include "report/compare/compare.h"

#include <gtest/gtest.h>

#include "report/common/process_spread.h"
#include "report/page/text_page.h"
#include "report_records.h"
#include "spec/json.h"

namespace amdahl {
namespace {

using test::add_cell;
using test::FakeCell;

std::vector<Record> records_of(FakeCell cell) {
  std::vector<Record> records;
  if (cell.processes == 0) cell.processes = 5;
  add_cell(records, cell);
  return records;
}

std::string refusal(const std::vector<Record>& a, const std::vector<Record>& b, const CompareOptions& options = {}) {
  try {
    compare_runs(a, b, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::usage);
    return e.what();
  }
  return "accepted";
}

TEST(ReportCompare, SaysWhoIsFasterAndByHowMuch) {
  const auto a = records_of({.step_us = 1000, .num_runs = 50}),
             b = records_of({.step_us = 1780, .num_runs = 50, .stream = 2});
  const RunComparison c = compare_runs(a, b, {.name_a = "new", .name_b = "old"});
  ASSERT_EQ(c.cells.size(), 1u);
  EXPECT_NEAR(c.cells[0].test.ratio, 1.78, 0.02);
  EXPECT_EQ(c.cells[0].test.verdict, Verdict::faster);
  EXPECT_EQ(c.unit, "us");
  const std::string text = text_page(compare_page({{c}}, ""));
  EXPECT_NE(text.find("A (baseline) is new\nB is old\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0.56x [0.5"), std::string::npos) << text;  // the speed of old over new, 1 / 1.78
  EXPECT_NE(text.find("5x10+5x10  < 0.0001  SLOWER"), std::string::npos) << text;
  EXPECT_EQ(text.rfind("B against A: slower in 1 of 1 cell (median speed 0.56", 0), 0u) << text;
  const std::string turned = text_page(compare_page({{compare_runs(b, a, {})}}, ""));
  EXPECT_NE(turned.find("1.78x [1.7"), std::string::npos) << turned;
  EXPECT_NE(turned.find("FASTER"), std::string::npos) << turned;
  EXPECT_NE(comparison_to_json({{c}}, "").find("\"verdict\": \"FASTER\""), std::string::npos);
}

TEST(ReportCompare, OneProcessPerSideIsNotJudged) {
  const auto one = [](uint64_t stream, double step_us) {
    return records_of({.step_us = step_us, .num_runs = 50, .stream = stream, .processes = 1});
  };
  const RunComparison c = compare_runs(one(1, 1000), one(2, 1780));
  EXPECT_EQ(c.cells.at(0).test.verdict, Verdict::unclear);
  EXPECT_EQ(c.cells[0].test.level, TestLevel::none);
  const std::string text = text_page(compare_page({{c}}, ""));
  EXPECT_NE(text.find("UNCLEAR (one process per side)"), std::string::npos) << text;
  EXPECT_NE(text.find("`processes=5`"), std::string::npos) << text;
  // The same processes measured both: runs in turns are judged as a study judges them.
  EXPECT_EQ(compare_runs(one(1, 1000), one(2, 1780), {.same_run = true}).cells.at(0).test.verdict, Verdict::faster);
  // The spread of processes on this machine is known: of this cell, or the largest of its kind.
  const ProcessSpread spread{"study-run", "cuda", spread_cell(c.cells[0].axes), 0.01, 10, 10};
  EXPECT_EQ(compare_runs(one(1, 1000), one(2, 1780), {.spreads = {spread}}).cells.at(0).test.verdict, Verdict::faster);
  ProcessSpread wide = spread;
  wide.relative_sd = 0.5;
  EXPECT_EQ(compare_runs(one(1, 1000), one(2, 1780), {.spreads = {wide}}).cells.at(0).test.verdict, Verdict::unclear);
  wide.cell = "another";
  EXPECT_EQ(compare_runs(one(1, 1000), one(2, 1780), {.spreads = {wide, spread}}).cells.at(0).test.verdict,
            Verdict::faster);
  wide.device_kind = "cpu-virtual";
  EXPECT_EQ(compare_runs(one(1, 1000), one(2, 1780), {.spreads = {wide}}).cells.at(0).test.level, TestLevel::none);
}

TEST(ReportCompare, SpreadsComeFromRunsOfFiveProcesses) {
  EXPECT_TRUE(spreads_in(records_of({.num_runs = 40, .processes = 4})).empty());
  const std::vector<ProcessSpread> spreads = spreads_in(records_of({.num_runs = 40, .processes = 10}));
  ASSERT_EQ(spreads.size(), 1u);
  EXPECT_EQ(spreads[0].processes, 10);
  EXPECT_EQ(spreads[0].runs, 4);
  EXPECT_GT(spreads[0].relative_sd, 0.001);
  EXPECT_LT(spreads[0].relative_sd, 0.01);
  ProcessSpread newer = spreads[0];
  newer.relative_sd = 0.25;
  const auto merged = merge_spreads(spreads, {newer});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].relative_sd, 0.25);
}

TEST(ReportCompare, ProcessesPoolIntoOneRecord) {
  std::vector<Record> records = records_of({.num_runs = 3, .processes = 3});
  for (Record& record : records) record.axes.erase("run");
  records[1].status = {Status::Kind::failed, "boom"};
  const std::vector<Record> pooled = pooled_processes(records);
  ASSERT_EQ(pooled.size(), 1u);
  EXPECT_FALSE(pooled[0].axes.contains("process"));
  EXPECT_EQ(pooled[0].status.reason, "process 1: boom");
  EXPECT_EQ(pooled[0].series[0].samples.size(), 1u);
  EXPECT_EQ(pooled_processes(pooled).size(), 1u);
}

TEST(ReportCompare, ThroughputPointsTheOtherWay) {
  const auto a = records_of({.step_us = 1000}), b = records_of({.step_us = 2000, .stream = 2});
  const RunComparison c = compare_runs(a, b, {.series = "throughput"});
  EXPECT_EQ(c.unit, "samples/s");
  EXPECT_EQ(c.cells.at(0).test.verdict, Verdict::faster);
}

TEST(ReportCompare, ListsWhatOnlyOneSideHas) {
  std::vector<Record> a = records_of({.global_batch = 64}), b = records_of({.global_batch = 64, .stream = 2});
  add_cell(a, {.global_batch = 128});
  add_cell(b, {.global_batch = 256});
  b.push_back(test::without_result(test::fake_record({.global_batch = 512}, 0), Status::Kind::failed, "boom"));
  const RunComparison c = compare_runs(a, b);
  EXPECT_EQ(c.cells.size(), 1u);
  ASSERT_EQ(c.only_a.size(), 1u);
  EXPECT_NE(c.only_a[0].find("global batch 128"), std::string::npos);
  ASSERT_EQ(c.only_b.size(), 1u);
  EXPECT_EQ(c.notes.size(), 1u);
}

TEST(ReportCompare, RefusesUnlikeProvenance) {
  const auto gpu = records_of({}), cpu = records_of({.device_kind = "cpu-virtual"});
  EXPECT_NE(refusal(gpu, cpu).find("never compared"), std::string::npos);
  EXPECT_NE(refusal(gpu, cpu, {.allow_unlike = true}).find("never compared"), std::string::npos);

  auto other_host = records_of({});
  for (Record& r : other_host) r.provenance.host = "node-9";
  EXPECT_NE(refusal(gpu, other_host).find("host differs: node-1 (A) against node-9 (B)"), std::string::npos);
  EXPECT_EQ(compare_runs(gpu, other_host, {.allow_unlike = true}).notes.size(), 1u);

  auto other_gpu = records_of({});
  for (Record& r : other_gpu) r.provenance.facts["device.0.name"] = "GPU_Y";
  EXPECT_NE(refusal(gpu, other_gpu).find("device name differs"), std::string::npos);

  const auto graph = records_of({.launch = "graph"}), bf16 = records_of({.math = "bf16"});
  EXPECT_NE(refusal(gpu, graph).find("launch differs: eager (A) against graph (B)"), std::string::npos);
  EXPECT_NE(refusal(gpu, bf16).find("math differs"), std::string::npos);
  EXPECT_EQ(compare_runs(gpu, graph, {.differing_axes = {"launch"}}).cells.size(), 1u);
  EXPECT_EQ(compare_runs(gpu, graph, {.allow_unlike = true}).cells.size(), 1u);
  EXPECT_NE(refusal(gpu, records_of({.global_batch = 7})).find("no cell in common"), std::string::npos);
}

TEST(ReportCompare, RefusesAnAmbiguousMatch) {
  std::vector<Record> both = records_of({.launch = "eager"});
  add_cell(both, {.launch = "graph"});
  EXPECT_NE(refusal(both, records_of({.launch = "graph"}), {.differing_axes = {"launch"}}).find("two cells become one"),
            std::string::npos);
}

TEST(ReportCompare, RegressionIsJudgedByTheNearEndOfTheInterval) {
  const auto base = records_of({.step_us = 1000, .num_runs = 50}),
             slower = records_of({.step_us = 1050, .num_runs = 50, .stream = 2});
  const RunComparison c = compare_runs(base, slower);
  EXPECT_TRUE(regression(c, 3.0));
  EXPECT_TRUE(regression(c, 0.0));
  EXPECT_FALSE(regression(c, 5.0));
  EXPECT_FALSE(regression(compare_runs(slower, base), 0.0));  // the candidate is faster
  const RunComparison same = compare_runs(base, records_of({.step_us = 1000, .num_runs = 50, .stream = 3}));
  EXPECT_EQ(same.cells.at(0).test.verdict, Verdict::same);
  EXPECT_FALSE(regression(same, 0.0));
}

}  // namespace
}  // namespace amdahl
