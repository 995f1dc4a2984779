// Pages of sensor, training and doctor runs, and the charts by themselves.
#include <gtest/gtest.h>

#include <string>

#include "chart/bar_chart.h"
#include "chart/heat_map.h"
#include "chart/line_chart.h"
#include "page_checks.h"
#include "report/doctor_page.h"
#include "report/sensor_charts.h"
#include "report/sensor_page.h"
#include "report/training_page.h"
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

std::vector<Record> scaling_records() {
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
  add(4, 1, 3), add(4, 2, 4);  // two are slower
  add(64, 1, 10), add(64, 2, 8);
  add(1024, 1, 100), add(1024, 2, 55);
  return records;
}

TEST(SensorPage, TheCrossoverIsTheFirstSizeFromWhichOnSeveralAreAhead) {
  const std::vector<Record> records = scaling_records();
  const std::vector<Crossover> crossovers = sensor_crossovers(records);
  ASSERT_EQ(crossovers.size(), 1u);
  EXPECT_EQ(crossovers[0].items, 64);
  EXPECT_EQ(crossovers[0].devices, 2);
  EXPECT_EQ(crossover_text(records), "crossover: fuse: 2 GPUs are ahead of one from 64 rows on\n");
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
  EXPECT_EQ(crossover_text(ahead_once),
            "crossover: fuse: none, 2 GPUs are not ahead of one for good between 4 and 1,024 rows\n");
  EXPECT_EQ(crossover_text({records[0], records[1]}), "") << "one size has none";
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
  EXPECT_NEAR(std::get<double>(column(charts[0], "bound")[0]), 100 / 40.0 * 1e6 / 1e3, 1e-6);  // k batches/s
  const std::vector<TableValue> shares = column(charts[1], "share_percent");
  ASSERT_EQ(shares.size(), 6u);
  for (size_t i = 0; i < 6; i += 2)
    EXPECT_NEAR(std::get<double>(shares[i]) + std::get<double>(shares[i + 1]), 100, 1e-9);
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
  outcome.findings = {{"no-peer-access", Finding::Severity::fault, "gpu 0 -> gpu 1", "no", "yes", "slow", "mend it"},
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
  EXPECT_NE(page.verdict.find("1 fault must be mended"), std::string::npos) << page.verdict;
  const PageSection& findings = page.sections.front();
  ASSERT_EQ(findings.tables.size(), 1u);
  EXPECT_EQ(findings.tables[0].table.rows.size(), 2u);
  EXPECT_EQ(std::get<std::string>(findings.tables[0].table.rows[0][0]), "fault: must be mended");
  EXPECT_EQ(findings.paragraphs, std::vector<std::string>{"Looked for and not found: hot-card."});
  EXPECT_TRUE(has_note(page, "not looked at: IOMMU"));
  EXPECT_NE(doctor_page(doctor_outcome(), false).verdict.find("not kept"), std::string::npos);
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

TEST(FabricCharts, OriginsHaveALegendOnceOneIsNotMeasured) {
  LinePlot plot;
  plot.id = "x", plot.title = "x", plot.summary = "x.";
  plot.x = {"bytes", "Size"}, plot.y = {"rate", "Rate"}, plot.series_title = "Line", plot.interval_title = "CI";
  plot.series = {{"a", "", Origin::measured, {{1, 1, std::nullopt, 1}}}};
  const auto legend = [](const Chart& chart) {
    return json::parse(chart.spec)["layer"][0]["encoding"]["strokeDash"]["legend"];
  };
  EXPECT_TRUE(legend(*line_chart(plot)).is_null());
  plot.series.push_back({"b", "", Origin::emulated, {{1, 2, std::nullopt, 1}}});
  const Chart both = *line_chart(plot);
  EXPECT_EQ(legend(both)["values"], json({"measured", "emulated"}));
  EXPECT_EQ(both.origin, Origin::emulated);
  expect_sound(both);
}

}  // namespace
}  // namespace amdahl
