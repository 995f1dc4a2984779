#include "report/export/export.h"

#include <gtest/gtest.h>

#include "report_records.h"

namespace amdahl {
namespace {

// RFC 4180, strictly: CRLF ends a row, quotes only around whole cells.
std::vector<std::vector<std::string>> parse(const std::string& csv) {
  std::vector<std::vector<std::string>> rows{{""}};
  for (size_t i = 0; i < csv.size(); ++i) {
    std::string& cell = rows.back().back();
    if (csv[i] == '"') {
      EXPECT_TRUE(cell.empty());
      for (++i; i < csv.size() && (csv[i] != '"' || (i + 1 < csv.size() && csv[i + 1] == '"')); ++i) {
        if (csv[i] == '"') ++i;
        cell += csv[i];
      }
      EXPECT_TRUE(i + 1 < csv.size() && (csv[i + 1] == ',' || csv[i + 1] == '\r'));
    } else if (csv[i] == ',') {
      rows.back().emplace_back();
    } else if (csv.compare(i, 2, "\r\n") == 0) {
      ++i;
      rows.push_back({""});
    } else {
      EXPECT_TRUE(csv[i] != '\r' && csv[i] != '\n') << "outside quotes";
      cell += csv[i];
    }
  }
  EXPECT_EQ(rows.back(), std::vector<std::string>{""}) << "the last row has its end";
  rows.pop_back();
  return rows;
}

std::string cell(const std::vector<std::vector<std::string>>& rows, size_t row, const std::string& column) {
  for (size_t i = 0; i < rows.front().size(); ++i)
    if (rows.front()[i] == column) return rows[row].at(i);
  ADD_FAILURE() << "no column " << column;
  return {};
}

Record record() {
  Record made;
  made.kind = "link";
  made.provenance = test::fake_provenance("cuda");
  made.axes = {{"bytes", int64_t{4096}}, {"pattern", std::string("a,b")}, {"peer", true}, {"share", 0.1}};
  made.series = {{"bandwidth", "GB/s", {1.5, -2.25, 1e-300}}, {"time", "us", {0.1}}};
  return made;
}

TEST(CsvExport, ARowASampleWithAllAxes) {
  const auto rows = parse(records_csv({record()}));
  ASSERT_EQ(rows.size(), 1u + 4u);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows.front().size());
  EXPECT_EQ(cell(rows, 1, "axis.bytes"), "4096");
  EXPECT_EQ(cell(rows, 1, "axis.pattern"), "a,b");
  EXPECT_EQ(cell(rows, 1, "axis.peer"), "true");
  EXPECT_EQ(cell(rows, 1, "axis.share"), "0.1");
  EXPECT_EQ(cell(rows, 2, "value"), "-2.25");  // a number, not a formula
  EXPECT_EQ(std::stod(cell(rows, 3, "value")), 1e-300);
  EXPECT_EQ(cell(rows, 3, "sample"), "2");
  EXPECT_EQ(cell(rows, 4, "series"), "time");
  EXPECT_EQ(cell(rows, 4, "unit"), "us");
  EXPECT_EQ(cell(rows, 4, "host"), "node-1");
  EXPECT_EQ(cell(rows, 4, "status"), "ok");
}

TEST(CsvExport, ARecordWithoutSamplesIsNotLost) {
  Record failed = record();
  failed.series.clear();
  failed.status = {Status::Kind::failed, "out of memory: \"4 GB\"\r\nasked"};
  const auto rows = parse(records_csv({record(), failed}));
  ASSERT_EQ(rows.size(), 1u + 4u + 1u);
  EXPECT_EQ(cell(rows, 5, "record"), "1");
  EXPECT_EQ(cell(rows, 5, "status"), "failed");
  EXPECT_EQ(cell(rows, 5, "reason"), failed.status.reason);
  EXPECT_EQ(cell(rows, 5, "value"), "");
}

TEST(CsvExport, AnAxisThatARecordLacksIsEmpty) {
  Record other = record();
  other.axes = {{"rank", int64_t{3}}};
  const auto rows = parse(records_csv({record(), other}));
  EXPECT_EQ(cell(rows, 1, "axis.rank"), "");
  EXPECT_EQ(cell(rows, 5, "axis.rank"), "3");
  EXPECT_EQ(cell(rows, 5, "axis.bytes"), "");
}

TEST(CsvExport, NoTextBeginsAFormula) {
  for (const std::string text : {"=1+1", "+1", "-1", "@x", "\tx", "\rx", "\n=x", "'x", "=\"x\",1"}) {
    Record made = record();
    made.axes = {{"name", text}};
    made.provenance.host = text;
    const auto rows = parse(records_csv({made}));
    EXPECT_EQ(cell(rows, 1, "axis.name"), "'" + text);
    EXPECT_EQ(cell(rows, 1, "host"), "'" + text);
  }
  Record made = record();
  made.axes = {{"name", std::string("a=1")}};
  EXPECT_EQ(cell(parse(records_csv({made})), 1, "axis.name"), "a=1");
}

TEST(CsvExport, NoRecordsAreAHeader) {
  const auto rows = parse(records_csv({}));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.front().front(), "record");
}

}  // namespace
}  // namespace amdahl
