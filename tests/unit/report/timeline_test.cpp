#include "chart/timeline.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "trace_records.h"

namespace amdahl {
namespace {

using test::fake_trace;
using test::traced;

TEST(StepOverlap, IsMeasuredPerRankAndAveraged) {
  const StepOverlap overlap = step_overlap(fake_trace(), 12);
  EXPECT_DOUBLE_EQ(overlap.step_us, 140);
  EXPECT_DOUBLE_EQ(overlap.hidden_us, (40.0 + 30.0) / 2);
  EXPECT_DOUBLE_EQ(overlap.exposed_us, (20.0 + 0.0) / 2);
  EXPECT_EQ(overlap.bytes, 4000);
  EXPECT_EQ(overlap.num_buckets, 2);
}

TEST(StepOverlap, WorkOnTwoStreamsHidesOnce) {
  StepTrace trace = fake_trace();
  trace.events.push_back(traced(TraceKind::compute, "weight gradient 0", "weights", 0, 50, 40));
  EXPECT_DOUBLE_EQ(step_overlap(trace, 12).hidden_us, (40.0 + 30.0) / 2);
  trace.events.push_back(traced(TraceKind::compute, "weight gradient 1", "weights", 0, 95, 15));
  EXPECT_DOUBLE_EQ(step_overlap(trace, 12).hidden_us, (50.0 + 30.0) / 2);
}

TEST(StepOverlap, AnotherStepDoesNotCount) {
  const StepOverlap overlap = step_overlap(fake_trace(), 11);
  EXPECT_DOUBLE_EQ(overlap.step_us + overlap.hidden_us + overlap.exposed_us, 0);
}

TEST(Timeline, DrawsEveryPieceButTheHosts) {
  const std::optional<Chart> chart = timeline_chart(fake_trace());
  ASSERT_TRUE(chart.has_value());
  EXPECT_EQ(chart->table.rows.size(), 8u);
  EXPECT_EQ(std::get<std::string>(chart->table.rows.front()[0]), "rank 0, compute");
  EXPECT_EQ(std::get<std::string>(chart->table.rows.back()[0]), "rank 1, comm");
  for (const auto& row : chart->table.rows) ASSERT_EQ(row.size(), chart->table.columns.size());
  EXPECT_NE(chart->summary.find("45 us"), std::string::npos) << chart->summary;
  EXPECT_NE(chart->summary.find("35 us (78 %) hidden"), std::string::npos) << chart->summary;
  EXPECT_NE(chart->summary.find("10 us (22 %) exposed"), std::string::npos) << chart->summary;
}

TEST(Timeline, SpecificationNamesOnlyColumnsOfItsTable) {
  const Chart chart = *timeline_chart(fake_trace());
  std::set<std::string> columns{"middle_us"};  // calculated in the specification
  for (const TableColumn& column : chart.table.columns) columns.insert(column.name);
  const std::regex field("\"field\":\"([^\"]*)\"");
  int fields = 0;
  for (std::sregex_iterator at(chart.spec.begin(), chart.spec.end(), field), end; at != end; ++at, ++fields)
    EXPECT_TRUE(columns.contains((*at)[1])) << (*at)[1];
  EXPECT_GT(fields, 8);
  EXPECT_EQ(chart.spec.find("rank 0"), std::string::npos);  // data are in the table alone
}

TEST(Timeline, TimesBeginWithTheStep) {
  StepTrace trace = fake_trace();
  for (TraceEvent& event : trace.events) event.start_us += 5000;
  const Chart late = *timeline_chart(trace), early = *timeline_chart(fake_trace());
  EXPECT_EQ(late.table.rows, early.table.rows);
}

TEST(Timeline, OneDeviceSaysThatNobodyCommunicated) {
  StepTrace trace = fake_trace();
  std::erase_if(trace.events, [](const TraceEvent& event) {
    return event.rank == 1 || event.kind == TraceKind::communication || event.kind == TraceKind::waiting;
  });
  const Chart chart = *timeline_chart(trace);
  EXPECT_NE(chart.summary.find("No rank communicated."), std::string::npos) << chart.summary;
  const std::string legend = chart.spec.substr(chart.spec.find("\"legend\""));
  EXPECT_EQ(legend.substr(0, legend.find(']')).find("waiting"), std::string::npos)
      << "no legend of what does not occur";
}

TEST(Timeline, NothingWithoutEvents) {
  StepTrace trace = fake_trace();
  trace.events.clear();
  EXPECT_FALSE(timeline_chart(trace).has_value());
}

}  // namespace
}  // namespace amdahl
