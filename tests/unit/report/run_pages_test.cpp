// Pages of sensor, training and doctor runs, and the charts by themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "chart/bar_chart.h"
#include "chart/heat_map.h"
#include "chart/line_chart.h"
#include "chart/spec_parts.h"
#include "measure/links/machine.h"
#include "page_checks.h"
#include "report/fabric/pages.h"
#include "report/page/page_parts.h"
#include "report/page/table_text.h"
#include "report/page/text_page.h"
#include "report/study/page.h"
#include "sensor/report/charts.h"
#include "sensor/report/page.h"
#include "sensor_records.h"
#include "spec/doctor_file.h"
#include "spec/json.h"

namespace amdahl {
namespace {

using nlohmann::json;
using test::column;
using test::expect_sound;
using test::find_chart;
using test::has_note;
using test::provenance_of;
using test::rows_with;
using test::uniform;

// ---- sensor ----

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

// ---- training and doctor ----

std::vector<Record> epochs(int count) {
  std::vector<Record> records;
  for (int i = 1; i <= count; ++i) {
    Record record;
    record.kind = "train-epoch";
    record.provenance = provenance_of("cpu-virtual", 1);
    record.axes = {{"model", std::string("medium")}, {"num_parameters", int64_t{54403}},  {"global_batch", int64_t{32}},
                   {"devices", int64_t{1}},          {"strategy", std::string("single")}, {"epoch", int64_t{i}}};
    record.series = {{"train_loss", "1", {2.0 / i}},
                     {"seconds", "s", {0.5}},
                     {"throughput", "samples/s", {uniform(static_cast<uint32_t>(i), 900, 1000)}},
                     {"validation_loss", "1", {2.2 / i}},
                     {"validation_accuracy", "1", {1 - 0.5 / i}}};
    records.push_back(record);
  }
  return records;
}

TEST(TrainingPage, ARowAnEpochAndALineALoss) {
  const std::vector<Record> records = epochs(5);
  const Page page = training_page(records);
  expect_sound(page);
  EXPECT_EQ(find_chart(page, "loss")->table.rows.size(), 10u);
  EXPECT_EQ(std::get<double>(column(*find_chart(page, "accuracy"), "accuracy_percent")[4]), 90);
  const std::vector<TableValue> rates = column(*find_chart(page, "throughput"), "samples_per_second");
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(std::get<double>(rates[i]), *records[i].value("throughput"));
  EXPECT_NE(page.verdict.find("fell from 2.00 to 0.400 in 5 epochs"), std::string::npos) << page.verdict;
}

TEST(TrainingPage, AFailedEpochIsANote) {
  std::vector<Record> records = epochs(3);
  records[2].status = {Status::Kind::failed, "the loss is not a number"};
  const Page page = training_page(records);
  EXPECT_TRUE(has_note(page, "the loss is not a number"));
  EXPECT_EQ(find_chart(page, "loss")->table.rows.size(), 4u);
}

MachineSpec machine_of_two() {
  MachineSpec machine;
  machine.host = "node-1";
  for (int i = 0; i < 2; ++i) {
    DeviceSpec device;
    device.index = i, device.kind = "cuda", device.name = "NVIDIA X";
    machine.devices.push_back(device);
  }
  return machine;
}

DoctorOutcome doctor_outcome() {
  DoctorOutcome outcome;
  outcome.machine = machine_of_two();
  outcome.findings = {{"no-peer-access", Finding::Severity::fault, "gpu 0 -> gpu 1", "no", "yes", "slow", "fix it"},
                      {"small-shm", Finding::Severity::warning, "host", "64 MB", "1 GB", "slow", "--shm-size"}};
  outcome.checked = {"no-peer-access", "small-shm", "hot-card"};
  outcome.unseen = {"IOMMU: the host does not show it"};
  outcome.failed = true;
  Record speed;
  speed.kind = "device-speed";
  speed.provenance = provenance_of("cuda", 2);
  speed.axes = {{"device", int64_t{0}}};
  speed.series = {{"matrix_rate", "TFLOP/s", {300, 310}}, {"copy_rate", "GB/s", {4000, 4010}}};
  outcome.records = {speed};
  return outcome;
}

TEST(DoctorPage, FindingsInWords) {
  const Page page = doctor_page(doctor_outcome());
  expect_sound(page);
  EXPECT_NE(page.verdict.find("1 fault must be fixed"), std::string::npos) << page.verdict;
  const PageSection& findings = page.sections.front();
  ASSERT_EQ(findings.tables.size(), 1u);
  EXPECT_EQ(findings.tables[0].table.rows.size(), 2u);
  EXPECT_EQ(std::get<std::string>(findings.tables[0].table.rows[0][0]), "fault: must be fixed");
  EXPECT_EQ(findings.paragraphs, (std::vector<std::string>{"node-1, 2 x NVIDIA X", "passed: hot-card"}));
  EXPECT_TRUE(has_note(page, "skipped: IOMMU"));
  EXPECT_NE(doctor_page(doctor_outcome(), false).verdict.find("not stored"), std::string::npos);
}

// Doctor copies 1 MiB first, by one copy engine, and 256 MiB later by both: the pair's figure is the best of all.
TEST(DoctorPage, TheSlowestPairIsTheHeatMapsLeast) {
  DoctorOutcome outcome = doctor_outcome();
  const auto add = [&](const char* end, int from, double gbps) {
    Record copy;
    copy.kind = "link";
    copy.provenance = provenance_of("cuda", 2);
    copy.axes = {{"test", std::string("device_to_device_memcpy_") + end},
                 {"source", "gpu " + std::to_string(from)},
                 {"destination", "gpu " + std::to_string(1 - from)}};
    copy.series = {{"bandwidth", "GB/s", {gbps, gbps, gbps, gbps, gbps}}};
    outcome.records.push_back(copy);
  };
  add("write_ce", 0, 208), add("write_ce", 1, 207);
  add("read_ce", 0, 390.35), add("read_ce", 1, 390.03);
  add("write_ce", 0, 394.78), add("write_ce", 1, 394.88);
  for (int from : {0, 1}) {
    LinkSpec link;
    link.source = from, link.destination = 1 - from;
    outcome.machine.links.push_back(link);
  }
  note_links(outcome.machine, outcome.records);
  const Page page = doctor_page(outcome);
  ASSERT_EQ(page.facts.size(), 3u);
  EXPECT_TRUE(page.facts[2].starts_with("395 GB/s: one direction of gpu 0 → gpu 1")) << page.facts[2];
  const Chart* pairs = find_chart(page, "pair-bandwidth");
  ASSERT_TRUE(pairs);
  const std::vector<TableValue> values = column(*pairs, "bandwidth_gbps"), low = column(*pairs, "low");
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::get<double>(values[i]), outcome.machine.links[i].measured_gbps);
    EXPECT_EQ(low[i], values[i]) << "the interval of another record";
  }
}

TEST(DoctorPage, ItsFileIsReadBack) {
  const DoctorOutcome outcome = doctor_outcome();
  const DoctorOutcome read = doctor_from_json(doctor_to_json(outcome), "doctor.json");
  EXPECT_EQ(doctor_page(outcome).verdict, doctor_page(read).verdict);
  ASSERT_EQ(read.findings.size(), 2u);
  EXPECT_EQ(read.findings[1].remedy, "--shm-size");
  EXPECT_EQ(read.checked, outcome.checked);
  std::string text = doctor_to_json(outcome);
  text.replace(text.find("\"warning\""), 9, "\"horrible\"");
  EXPECT_THROW(doctor_from_json(text, "doctor.json"), Error);
  EXPECT_THROW(doctor_from_json("{}", "doctor.json"), Error);
}

// ---- charts by themselves ----

TEST(FabricCharts, NothingToDrawIsNoChart) {
  EXPECT_FALSE(line_chart({}).has_value());
  EXPECT_FALSE(heat_map_chart({}).has_value());
  EXPECT_FALSE(bar_chart({}).has_value());
  LinePlot plot;
  plot.series = {{"a", "", Origin::measured, {{0, 1, std::nullopt, 1}, {1, -1, std::nullopt, 1}}}};
  EXPECT_FALSE(line_chart(plot).has_value()) << "no logarithm has a place for these";
}

TEST(FabricCharts, OneXValueIsBars) {
  LinePlot plot;
  plot.id = "x", plot.title = "Rate against size", plot.title_at_one = "Rate at {}", plot.summary = "x.";
  plot.x = {"bytes", "Size"}, plot.y = {"rate", "Rate"}, plot.series_title = "Line", plot.interval_title = "CI";
  plot.series = {{"a", "", Origin::measured, {{1024, 3, std::nullopt, 1}}},
                 {"b", "", Origin::measured, {{1024, 2, std::nullopt, 1}}},
                 {"b", "", Origin::modelled, {{1024, 4, std::nullopt, 0}}}};
  const Chart bars = *line_chart(plot);
  expect_sound(bars);
  EXPECT_EQ(bars.title, "Rate at 1 KiB");
  EXPECT_EQ(bars.table.rows.size(), 2u) << "what is modelled bounds the bar of its name";
  EXPECT_EQ(std::get<double>(column(bars, "bound")[1]), 4);
  EXPECT_EQ(json::parse(bars.spec)["layer"][0]["mark"]["type"], "bar");
  plot.series[0].points.push_back({2048, 5, std::nullopt, 1});
  EXPECT_EQ(json::parse(line_chart(plot)->spec)["layer"][0]["mark"], "line");
}

TEST(FabricCharts, LogarithmicTicksLieWithinTheirAxis) {
  for (uint32_t i = 0; i < 400; ++i) {
    const double low = std::pow(10, uniform(3 * i, -6, 6)), high = low * std::pow(10, uniform(3 * i + 1, 0.02, 12));
    const std::vector<double> ticks = log_ticks(low, high);
    ASSERT_GE(ticks.size(), 2u) << low << " to " << high;
    EXPECT_LE(ticks.size(), 13u) << low << " to " << high;
    EXPECT_TRUE(std::is_sorted(ticks.begin(), ticks.end()));
    EXPECT_GE(ticks.front(), low * (1 - 1e-6));
    EXPECT_LE(ticks.back(), high * (1 + 1e-6));
  }
}

TEST(FabricCharts, LogarithmicTicksCoverTheirAxis) {
  // Of 2.8 decades only two powers of ten lie within: linear ticks left the lower two decades without one.
  const std::vector<double> ticks = log_ticks(0.0145, 9.6);
  EXPECT_LE(ticks.front(), 0.03);
  EXPECT_GE(ticks.back(), 4.9);
}

TEST(FabricCharts, ShortBarsHaveTheirNumberBehindThem) {
  BarPlot plot{"x", "x", "x.", {"way", "Way"}, {"rate", "Rate"}, "", "CI", "Bound", false, {}};
  plot.bars = {{"a", "", 200, std::nullopt, std::nullopt, 10, Origin::measured},
               {"b", "", 3, std::nullopt, std::nullopt, 10, Origin::measured}};
  size_t texts = 0;
  const json spec = json::parse(bar_chart(plot)->spec);
  for (const json& layer : spec["layer"]) texts += layer["mark"].is_object() && layer["mark"]["type"] == "text" ? 1 : 0;
  EXPECT_EQ(texts, 2u) << "numbers of long and of short bars";
}

TEST(FabricCharts, BarsEndWithinTheirAxis) {
  BarPlot plot{"x", "x", "x.", {"way", "Way"}, {"rate", "Rate"}, "", "CI", "Bound", false, {}};
  plot.bars = {{"a", "", 45318, Interval{45254, 45382}, 46000, 10, Origin::measured}};
  const json scale = json::parse(bar_chart(plot)->spec)["layer"][0]["encoding"]["x"]["scale"];
  EXPECT_EQ(scale["domain"], json({0, 50000}));
}

TEST(FabricCharts, HeatMapsAskForTheWidthOfTheirWords) {
  HeatMap map;
  map.id = "x", map.title = "x", map.summary = "x.", map.rows = {"nccl graph symmetric"};
  map.row = {"transport", "Transport"}, map.column = {"bytes", "Size"}, map.value = {"percent", "Behind"};
  for (int64_t size = 1; size <= 7; ++size) map.cells.push_back({map.rows[0], size << 10, 1, "+24.6 %", "", {}});
  const Chart chart = *heat_map_chart(map);
  EXPECT_GE(chart.least_width, 20 * 6 + 7 * 50);
  EXPECT_EQ(json::parse(chart.spec)["layer"][0]["encoding"]["x"]["axis"]["labelOverlap"], false);
}

TEST(PageParts, WhatAllRowsShareIsSaidOnce) {
  TextTable table = text_table(
      {{{"op", "Operation"}, {"n", "n"}, {"way", "Way"}, {"rate", "Rate"}},
       {{std::string("fuse"), int64_t{5}, std::string(), 1.0}, {std::string("fuse"), int64_t{7}, std::string(), 2.0}}});
  EXPECT_EQ(take_common(table), "Operation: fuse");
  EXPECT_EQ(table.head, (std::vector<std::string>{"n", "Rate"}));
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), 2u);
}

TEST(FabricCharts, OriginsHaveALegendOnceOneIsNotMeasured) {
  LinePlot plot;
  plot.id = "x", plot.title = "x", plot.summary = "x.";
  plot.x = {"bytes", "Size"}, plot.y = {"rate", "Rate"}, plot.series_title = "Line", plot.interval_title = "CI";
  plot.series = {{"a", "", Origin::measured, {{1, 1, std::nullopt, 1}, {2, 1, std::nullopt, 1}}}};
  const auto legend = [](const Chart& chart) {
    return json::parse(chart.spec)["layer"][0]["encoding"]["strokeDash"]["legend"];
  };
  EXPECT_TRUE(legend(*line_chart(plot)).is_null());
  plot.series.push_back({"b", "", Origin::emulated, {{1, 2, std::nullopt, 1}, {2, 2, std::nullopt, 1}}});
  const Chart both = *line_chart(plot);
  EXPECT_EQ(legend(both)["values"], json({"measured", "emulated"}));
  EXPECT_EQ(both.origin, Origin::emulated);
  expect_sound(both);
}

}  // namespace
}  // namespace amdahl
