// Curves of collectives: what is drawn for which record, and where.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "report/common/words.h"
#include "report/fabric/drawings.h"
#include "report/fabric/size_drawing.h"

namespace amdahl {
namespace {

struct FakeSize {
  std::string collective = "all_reduce";
  std::string transport = "nccl";
  int64_t bytes = 1024;
  double busbw = 10;
  bool in_place = false;
};

Record record_of(const FakeSize& fake) {
  Record record;
  record.kind = "collective";
  record.provenance.device_kind = "cuda";
  record.provenance.host = "node-1";
  record.provenance.facts = {{"device.0", "GPU_X"}, {"nccl", "2.28.9"}};
  record.axes = {{"collective", fake.collective}, {"dtype", std::string("f32")}, {"op", std::string("sum")},
                 {"devices", int64_t{4}},         {"transport", fake.transport}, {"launch", std::string("eager")},
                 {"bytes", fake.bytes},           {"in_place", fake.in_place}};
  record.series = {{"time", "us", {1.5}}, {"call_time", "us", {1, 2, 1}}, {"busbw", "GB/s", {fake.busbw}}};
  return record;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

struct Spot {
  double x, y;
};

/// Where the elements of a class are, in the order of the picture.
std::vector<Spot> spots(const std::string& svg, const std::string& kind) {
  std::vector<Spot> list;
  for (size_t at = svg.find("class=\"" + kind + "\""); at != std::string::npos;
       at = svg.find("class=\"" + kind + "\"", at + 1)) {
    const size_t place = svg.find("translate(", at) + 10;
    char* end = nullptr;
    const double x = std::strtod(svg.c_str() + place, &end);
    list.push_back({x, std::strtod(end, nullptr)});
  }
  return list;
}

TEST(Curves, BothAxesAreLogarithmic) {
  const std::string svg =
      collectives_curves({record_of({.bytes = 1 << 10, .busbw = 1}), record_of({.bytes = 1 << 14, .busbw = 10}),
                          record_of({.bytes = 1 << 18, .busbw = 100})});
  const std::vector<Spot> marks = spots(svg, "mark");
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_NEAR(marks[1].x - marks[0].x, marks[2].x - marks[1].x, 0.2);  // coordinates have one decimal
  EXPECT_NEAR(marks[0].y - marks[1].y, marks[1].y - marks[2].y, 0.2);
  EXPECT_GT(marks[1].x - marks[0].x, 50);
  EXPECT_GT(marks[0].y - marks[1].y, 50);
}

TEST(Curves, OneLineACollectiveTransportAndPlacement) {
  std::vector<Record> records;
  for (const char* collective : {"all_reduce", "broadcast"})
    for (const char* transport : {"nccl", "nccl ring"})
      for (const bool in_place : {false, true})
        for (const int64_t bytes : {1024, 4096, 1 << 20})
          records.push_back(record_of({collective, transport, bytes, 3, in_place}));
  const std::string svg = collectives_curves(records);
  EXPECT_EQ(count(svg, "class=\"curve\""), 8u);
  EXPECT_EQ(count(svg, "class=\"mark\""), records.size());
  EXPECT_NE(svg.find(">broadcast, nccl ring, in place</text>"), std::string::npos);
  EXPECT_NE(svg.find(">f32, sum, 4 GPUs, eager</text>"), std::string::npos);  // what all of them share
}

TEST(Curves, TheLimitLiesWhereItsRateIs) {
  Record at_limit = record_of({.busbw = 450});
  at_limit.series.push_back({"peak", "GB/s", {450}});
  Record below = record_of({.bytes = 4096, .busbw = 20});
  below.series.push_back({"peak", "GB/s", {450}});
  const std::string svg = collectives_curves({at_limit, below});
  ASSERT_EQ(count(svg, "class=\"limit\""), 1u);
  const std::vector<Spot> marks = spots(svg, "mark");
  const size_t line = svg.rfind("<line", svg.find("class=\"limit\""));
  const double y = std::strtod(svg.c_str() + svg.find("y1=\"", line) + 4, nullptr);
  EXPECT_NEAR(y, marks[0].y, 0.11);
  EXPECT_LT(y, marks[1].y - 50);
  EXPECT_EQ(count(collectives_curves({record_of({})}), "class=\"limit\""), 0u);
}

TEST(Curves, FailedRecordsAreCrossesBesideTheLine) {
  Record wrong = record_of({.bytes = 4096, .busbw = 20});
  wrong.status = {Status::Kind::failed, "3 elements are wrong"};
  Record no_room = record_of({.bytes = int64_t{1} << 40});
  no_room.series.clear();
  no_room.status = {Status::Kind::failed, "out of memory"};
  const std::string svg = collectives_curves({record_of({}), wrong, record_of({.bytes = 8192}), no_room});
  EXPECT_EQ(count(svg, "class=\"failed\""), 1u);
  EXPECT_EQ(count(svg, "class=\"mark\""), 2u);
  const size_t points = svg.find("points=\"") + 8;
  EXPECT_EQ(count(svg.substr(points, svg.find('"', points) - points), ","), 2u);
  EXPECT_NE(svg.find("1 record without a bandwidth, not drawn"), std::string::npos);
  EXPECT_EQ(collectives_curves({no_room}), "");
  EXPECT_EQ(collectives_curves({}), "");
}

TEST(Curves, SizesAtTheEndsOfTheirRange) {
  for (const int64_t bytes : {int64_t{1}, int64_t{1} << 60}) {
    const std::string svg = collectives_curves({record_of({.bytes = bytes, .busbw = 1e-7})});
    EXPECT_EQ(count(svg, "class=\"mark\""), 1u);
    EXPECT_EQ(count(svg, "nan"), 0u);
    EXPECT_EQ(count(svg, "inf"), 0u);
  }
  EXPECT_EQ(collectives_curves({record_of({.bytes = INT64_MAX})}), "");
  EXPECT_EQ(collectives_curves({record_of({.bytes = 0})}), "");
}

TEST(Curves, NamesOfRecordsAreNoMarkup) {
  const std::string svg = collectives_curves({record_of({.transport = "<b>\"&\x1b"})});
  EXPECT_NE(svg.find("&lt;b&gt;&quot;&amp;\\x1b"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(Curves, StylesDifferUpToTheirNumber) {
  SizeChart chart;
  for (int style = 0; style < kChartStyles; ++style) {
    ChartLine line;
    line.style = style;
    line.points = {{1024, 1, false, ""}};
    chart.lines.push_back(line);
  }
  const std::string svg = size_chart_svg(chart);
  std::vector<std::string> looks;
  for (size_t at = svg.find("class=\"mark\""); at != std::string::npos; at = svg.find("class=\"mark\"", at + 1)) {
    std::string look = svg.substr(at, svg.find('>', at) - at);
    for (const std::string& other : looks) EXPECT_NE(look, other);
    looks.push_back(std::move(look));
  }
  EXPECT_EQ(looks.size(), static_cast<size_t>(kChartStyles));
}

TEST(Curves, SizesInWords) {
  EXPECT_EQ(binary_bytes(0), "0 B");
  EXPECT_EQ(binary_bytes(512), "512 B");
  EXPECT_EQ(binary_bytes(1536), "1,536 B");
  EXPECT_EQ(binary_bytes(256 << 10), "256 KiB");
  EXPECT_EQ(binary_bytes(int64_t{3} << 40), "3072 GiB");
}

}  // namespace
}  // namespace amdahl
