// Pages of sensor runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "page_checks.h"
#include "report/page/text_page.h"
#include "sensor/report/charts.h"
#include "sensor/report/page.h"
#include "sensor_records.h"
#include "spec/json.h"

namespace amdahl {
namespace {

using test::column;
using test::expect_sound;
using test::find_chart;
using test::has_note;
using test::rows_with;
using test::uniform;

struct SizeTimes {
  int64_t items = 0;
  double one_us = 0, two_us = 0;
};

std::vector<Record> scaling_records(const std::vector<SizeTimes>& times = {{4, 3, 4}, {64, 10, 8}, {1024, 100, 55}}) {
  std::vector<Record> records;
  uint64_t stream = 1;
  const auto add = [&](int64_t items, size_t devices, double time_us) {
    test::FakeSensor fake;
    fake.devices.assign(devices, test::kH100);
    fake.mode = "data", fake.scaling = "strong", fake.items = items, fake.time_us = time_us, fake.noise = 0.02;
    fake.workload = "b" + std::to_string(items) + " 30x512->50";
    fake.stream = ++stream;
    records.push_back(test::fake_sensor(fake));
  };
  for (const SizeTimes& size : times) add(size.items, 1, size.one_us), add(size.items, 2, size.two_us);
  return records;
}

TEST(SensorPage, TheCrossoverIsTheFirstSizeFromWhichOnSeveralAreAhead) {
  const std::vector<Record> records = scaling_records();
  const std::vector<Crossover> crossovers = sensor_crossovers(records);
  ASSERT_EQ(crossovers.size(), 1u);
  EXPECT_EQ(crossovers[0].sizes.from, 64);
  EXPECT_EQ(crossovers[0].devices, 2);
  EXPECT_EQ(crossover_lines(records),
            std::vector<std::string>{"crossover: fuse: 2 GPUs are faster by 10 % or more from 64 rows on, not at 4"});
  const Page page = sensor_page(records);
  expect_sound(page);
  const Chart* sizes = find_chart(page, "fuse-rate-against-batch");
  ASSERT_TRUE(sizes);
  EXPECT_EQ(rows_with(*sizes, "kind", "point"), 6u);
  EXPECT_EQ(rows_with(*sizes, "kind", "crossing"), 1u);
  std::vector<Record> ahead_once = records;  // ahead at 64 and behind at 1024: nothing is for good
  for (Series& series : ahead_once[5].series)
    if (series.name == "time")
      for (double& sample : series.samples) sample *= 10;
  EXPECT_TRUE(sensor_crossovers(ahead_once).empty());
  EXPECT_EQ(crossover_lines(ahead_once),
            std::vector<std::string>{"crossover: fuse: none, 2 GPUs are at no size faster by 10 % or more there and at "
                                     "every larger one, between 4 and 1,024 rows"});
  EXPECT_TRUE(crossover_lines({records[0], records[1]}).empty()) << "one size has none";
}

TEST(SensorPage, TheCrossoverFollowsTheRulesOfAStudy) {
  EXPECT_THAT(crossover_lines(scaling_records({{4, 10, 12}, {64, 100, 95}, {1024, 1000, 500}})),
              testing::ElementsAre(testing::HasSubstr("at 1,024 rows, the largest size measured, not at 64")))
      << "5 % are not enough";
  EXPECT_THAT(
      crossover_lines(scaling_records({{4, 3, 4}, {64, 48, 26}, {1024, 52, 30}})),
      testing::ElementsAre(testing::EndsWith("from 64 rows on, not at 4: the time of one device jumps between them")));
}

TEST(SensorPage, WhatFewSizesDoNotTellIsNotSaid) {
  const std::vector<Record> all = scaling_records();
  const std::vector<Record> one_size{all[4], all[5]}, last_size{all[0], all[1], all[4], all[5]},
      both_ahead{all[2], all[3], all[4], all[5]};
  const auto verdict = [](const std::vector<Record>& records) { return sensor_page(records).verdict; };
  EXPECT_NE(verdict(one_size).find("Several devices are faster by 10 % or more at 1,024 rows, the only size measured."),
            std::string::npos)
      << verdict(one_size);
  EXPECT_TRUE(crossover_lines(one_size).empty());
  EXPECT_NE(verdict(last_size).find("faster by 10 % or more at 1,024 rows, the largest size measured, not at 4."),
            std::string::npos)
      << verdict(last_size);
  EXPECT_EQ(
      crossover_lines(last_size),
      std::vector<std::string>{
          "crossover: fuse: 2 GPUs are faster by 10 % or more at 1,024 rows, the largest size measured, not at 4"});
  EXPECT_NE(verdict(both_ahead).find("faster by 10 % or more at every size measured, 64 to 1,024 rows."),
            std::string::npos)
      << verdict(both_ahead);
}

TEST(SensorPage, RatesAndIdealsByDevices) {
  const std::vector<Record> records = scaling_records();
  const std::vector<Chart> charts = sensor_device_charts(records);
  ASSERT_EQ(charts.size(), 1u);
  expect_sound(charts[0]);
  EXPECT_EQ(rows_with(charts[0], "origin", "measured"), 6u);
  EXPECT_EQ(rows_with(charts[0], "origin", "modelled"), 6u);  // 3 workloads on 1 and 2 devices
  EXPECT_TRUE(sensor_device_charts({records[0], records[2]}).empty());
}

TEST(SensorPage, SharesAddUpAndBoundsAreModelled) {
  std::vector<Record> records;
  for (const char* policy : {"one-device", "even", "proportional"}) {
    test::FakeSensor fake;
    fake.devices = {test::kH100, test::kA100}, fake.mode = "hetero", fake.items = 100, fake.time_us = 50;
    Record record = test::fake_sensor(fake);
    record.axes["policy"] = std::string(policy);
    record.origin = Origin::emulated;
    const double first = uniform(static_cast<uint32_t>(records.size()), 10, 90);
    record.series.push_back({"device_items", "1", {first, 100 - first}});
    record.series.push_back({"makespan_bound", "us", {40}});
    records.push_back(record);
  }
  const std::vector<Chart> charts = divided_work_charts(records);
  ASSERT_EQ(charts.size(), 2u);
  for (const Chart& chart : charts) {
    expect_sound(chart);
    EXPECT_EQ(chart.origin, Origin::emulated);
  }
  EXPECT_EQ(charts[0].title, "fuse: throughput (k batches/s)") << "what is the same for all stands in the caption";
  EXPECT_NE(charts[0].summary.find("mode hetero, 2 devices"), std::string::npos) << charts[0].summary;
  EXPECT_NEAR(std::get<double>(column(charts[0], "bound")[0]), 100 / 40.0 * 1e6 / 1e3, 1e-6);  // k batches/s
  const std::vector<TableValue> shares = column(charts[1], "share_percent");
  ASSERT_EQ(shares.size(), 6u);
  for (size_t i = 0; i < 6; i += 2)
    EXPECT_NEAR(std::get<double>(shares[i]) + std::get<double>(shares[i + 1]), 100, 1e-9);
}

TEST(SensorPage, LimitedDevicesAreNoWholeGpus) {
  std::vector<Record> records;
  for (const auto& [policy, us] : {std::pair{"one-device", 100.0}, {"even", 150.0}, {"proportional", 75.0}})
    records.push_back(record_from_json(
        record_to_json(test::fake_limited({.time_us = us, .noise = 0.01, .stream = 3}, policy)), "test"));
  const Page page = sensor_page(records);
  expect_sound(page);
  const std::string both = std::string("1 x ") + test::kH100 + " + 1 x " + test::kLimitedH100;
  EXPECT_EQ(page.qualifier, "some numbers are emulated");
  EXPECT_EQ(page.verdict.rfind(both + " (proportional) reach 1.3", 0), 0u) << page.verdict;
  EXPECT_NE(page.verdict.find("emulated, not measured on such devices"), std::string::npos) << page.verdict;
  EXPECT_EQ(page.verdict.find("2 GPUs"), std::string::npos) << page.verdict;
  EXPECT_EQ(page.subject.where, both);
  for (const Chart& chart : divided_work_charts(records)) EXPECT_EQ(chart.origin, Origin::emulated);
  const std::string text = text_page(sensor_page(records));
  EXPECT_NE(text.find("fuse, mode hetero, " + both + ", f32, graph, EMULATED"), std::string::npos) << text;
}

TEST(SensorPage, FailedCellsAreNotesAndNoNumbers) {
  std::vector<Record> records = scaling_records();
  records[5].status = {Status::Kind::failed, "results differ"};
  const Page page = sensor_page(records);
  EXPECT_TRUE(has_note(page, "results differ"));
  EXPECT_EQ(rows_with(*find_chart(page, "fuse-rate-against-batch"), "kind", "point"), 5u);
  EXPECT_TRUE(sensor_size_charts({}).empty());
  EXPECT_TRUE(divided_work_charts({}).empty());
}

}  // namespace
}  // namespace amdahl
