// Pages of links, collectives and arena runs: what is drawn of which record, and what is said of it.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "chart/line_chart.h"
#include "measure/links/machine.h"
#include "page_checks.h"
#include "report/fabric/collectives.h"
#include "report/fabric/link_charts.h"
#include "report/fabric/pages.h"
#include "report/page/text_page.h"

namespace amdahl {
namespace {

using test::column;
using test::expect_sound;
using test::find_chart;
using test::has_note;
using test::provenance_of;
using test::rows_with;
using test::uniform;

// ---- links ----

constexpr int kDevices = 3;

MachineSpec machine_of(int devices) {
  MachineSpec machine;
  machine.host = "node-1";
  for (int i = 0; i < devices; ++i) {
    DeviceSpec device;
    device.index = i, device.kind = "cuda", device.name = "NVIDIA X";
    machine.devices.push_back(device);
  }
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      LinkSpec link;
      link.source = from, link.destination = to, link.path = PathKind::nvlink, link.num_links = 18;
      link.expected_gbps = 400;
      machine.links.push_back(link);
    }
  return machine;
}

Record link_record(const std::string& test, const std::string& source, const std::string& destination) {
  Record record;
  record.kind = "link";
  record.provenance = provenance_of("cuda", kDevices);
  record.axes = {{"test", test}, {"source", source}, {"destination", destination}, {"bytes", int64_t{1} << 20}};
  return record;
}

/// Copies, latencies and sweeps of every pair; what links say of them is in `machine`.
std::vector<Record> link_records(MachineSpec& machine) {
  std::vector<Record> records;
  uint32_t index = 0;
  for (LinkSpec& link : machine.links) {
    const std::string from = "gpu " + std::to_string(link.source), to = "gpu " + std::to_string(link.destination);
    link.measured_gbps = uniform(++index, 370, 399);
    Record copy = link_record("device_to_device_memcpy_write_ce", from, to);
    copy.series = {{"bandwidth", "GB/s", {link.measured_gbps, link.measured_gbps, link.measured_gbps}}};
    records.push_back(copy);
    link.latency_us = uniform(++index, 0.5, 1);
    Record latency = link_record("device_to_device_latency_sm", from, to);
    latency.series = {{"latency", "us", {link.latency_us}}};
    records.push_back(latency);
    Record sweep = link_record("device_to_device_sweep", from, to);
    sweep.series = {{"bytes", "bytes", {4096, 65536}},
                    {"time", "us", {2, 3}},
                    {"bandwidth_by_size", "GB/s", {uniform(++index, 1, 3), uniform(++index, 10, 30)}},
                    {"alpha", "us", {2}},
                    {"beta", "GB/s", {300}}};
    records.push_back(sweep);
  }
  return records;
}

TEST(LinksPage, CellsAreWhatRecordsHold) {
  MachineSpec machine = machine_of(kDevices);
  const std::vector<Record> records = link_records(machine);
  const Page page = links_page(records, machine, slow_links(machine, 0), 0);
  expect_sound(page);
  const Chart* pairs = find_chart(page, "pair-bandwidth");
  ASSERT_TRUE(pairs);
  const std::vector<TableValue> values = column(*pairs, "bandwidth_gbps");
  ASSERT_EQ(values.size(), machine.links.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::get<double>(values[i]), machine.links[i].measured_gbps);
  EXPECT_EQ(rows_with(*pairs, "judgement", "below the expected bandwidth"), 0u);
  EXPECT_NE(page.verdict.find("All 6 pairs"), std::string::npos) << page.verdict;
  EXPECT_TRUE(find_chart(page, "pair-latency"));
  ASSERT_EQ(page.sections[1].pictures.size(), 1u);
  EXPECT_EQ(page.sections[1].pictures[0].svg.find("<svg"), 0u);
}

TEST(LinksPage, SlowWaysAreOutlinedAndSaid) {
  MachineSpec machine = machine_of(kDevices);
  std::vector<Record> records = link_records(machine);
  machine.links[4].measured_gbps = 100;
  for (Record& record : records)
    if (std::get<std::string>(record.axes["source"]) == "gpu 2" &&
        std::get<std::string>(record.axes["destination"]) == "gpu 0" && record.series[0].name == "bandwidth")
      record.series[0].samples = {100, 100, 100};
  const Page page = links_page(records, machine, slow_links(machine, 0), 0);
  EXPECT_EQ(rows_with(*find_chart(page, "pair-bandwidth"), "judgement", "below the expected bandwidth"), 1u);
  EXPECT_NE(page.verdict.find("1 of 6 pairs"), std::string::npos) << page.verdict;
  EXPECT_NE(page.verdict.find("gpu 2 → gpu 0"), std::string::npos) << page.verdict;
  const Page asked =
      links_page(records, machine, slow_links(machine, 1000), 1000);  // what was asked for is more than any link has
  EXPECT_EQ(rows_with(*find_chart(asked, "pair-bandwidth"), "judgement", "below the expected bandwidth"), 6u);
}

TEST(LinksPage, FittedCurvesAreModelled) {
  MachineSpec machine = machine_of(kDevices);
  const Page page = links_page(link_records(machine), machine, {}, 0);
  const Chart* sweep = find_chart(page, "device-to-device-sweep");
  ASSERT_TRUE(sweep);
  EXPECT_EQ(rows_with(*sweep, "origin", "measured"), 12u);
  EXPECT_EQ(rows_with(*sweep, "origin", "modelled"), 12u);
  // 4096 bytes in 2 us + 4096 B / (300 GB/s): 2.0137 us.
  EXPECT_NEAR(std::get<double>(column(*sweep, "bandwidth_gbps")[2]), 4096 / (2 + 4096 / 300e3) / 1e3, 1e-9);
}

TEST(LinksPage, FailedAndCorruptOnesAreNotesAndNoNumbers) {
  MachineSpec machine = machine_of(kDevices);
  std::vector<Record> records = link_records(machine);
  Record failed = link_record("device_to_device_sweep", "gpu 0", "gpu 9");
  failed.status = {Status::Kind::failed, "out of memory"};
  records.push_back(failed);
  Record corrupt = link_record("", "gpu 0", "gpu 1");
  corrupt.kind = "integrity";
  corrupt.axes["way"] = std::string("kernel");
  corrupt.status = {Status::Kind::failed, "8 bytes differ"};
  records.push_back(corrupt);
  const Page page = links_page(records, machine, slow_links(machine, 0), 0);
  expect_sound(page);
  EXPECT_TRUE(has_note(page, "out of memory"));
  EXPECT_TRUE(has_note(page, "8 bytes differ"));
  EXPECT_NE(page.verdict.find("must not be used"), std::string::npos) << page.verdict;
  EXPECT_EQ(column(*find_chart(page, "device-to-device-sweep"), "series").size(), 24u);
}

TEST(LinksPage, NothingMeasuredDrawsNothing) {
  const Page page = links_page({}, machine_of(2), {}, 0);
  for (const PageSection& section : page.sections) EXPECT_TRUE(section.charts.empty()) << section.title;
  EXPECT_FALSE(host_chart({}).has_value());
}

// ---- collectives and arena ----

Record collective_record(const std::string& collective, const std::string& transport, int64_t bytes, bool in_place,
                         double time_us, const std::string& kind = "cuda") {
  Record record;
  record.kind = "collective";
  record.provenance = provenance_of(kind, 4);
  record.axes = {{"collective", collective},
                 {"dtype", std::string("f32")},
                 {"op", std::string("sum")},
                 {"devices", int64_t{4}},
                 {"bytes", bytes},
                 {"count", bytes / 4},
                 {"in_place", in_place},
                 {"transport", transport},
                 {"launch", std::string("eager")}};
  record.series = {{"time", "us", {time_us}},
                   {"call_time", "us", {time_us, 2 * time_us, 3 * time_us}},
                   {"algbw", "GB/s", {static_cast<double>(bytes) / time_us / 1e3}},
                   {"busbw", "GB/s", {1.5 * static_cast<double>(bytes) / time_us / 1e3}},
                   {"wrong", "1", {0}}};
  return record;
}

TEST(CollectivesPage, PointsAreWhatRecordsHold) {
  std::vector<Record> records;
  uint32_t index = 0;
  for (const bool in_place : {false, true})
    for (const int64_t bytes : {64, 4096, 1 << 20}) {
      records.push_back(collective_record("all_reduce", "nccl", bytes, in_place, uniform(++index, 5, 50)));
      records.back().series.push_back({"peak", "GB/s", {450}});
    }
  const Page page = collectives_page(records);
  expect_sound(page);
  const Chart* bandwidth = find_chart(page, "bus-bandwidth");
  ASSERT_TRUE(bandwidth);
  EXPECT_EQ(rows_with(*bandwidth, "kind", "point"), records.size());
  EXPECT_EQ(rows_with(*bandwidth, "kind", "limit"), 1u);
  const std::vector<TableValue> rates = column(*bandwidth, "busbw_gbps");
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(std::get<double>(rates[i]), *records[i].value("busbw"));
  const Chart* times = find_chart(page, "call-time");
  ASSERT_TRUE(times);
  const std::vector<TableValue> medians = column(*times, "call_us"), low = column(*times, "low");
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_NEAR(std::get<double>(medians[i]), 2 * *records[i].value("time"), 1e-9);
    EXPECT_LT(std::get<double>(low[i]), std::get<double>(medians[i]));
  }
}

TEST(CollectivesPage, ColumnsNameTheLoopTheyAreFrom) {
  const std::vector<Record> records{collective_record("all_reduce", "nccl", 1024, false, 5)};
  const Page page = collectives_page(records);
  const PageTable* table = nullptr;
  for (const PageSection& section : page.sections)
    if (!section.tables.empty()) table = &section.tables.front();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->caption.rfind("all_reduce, f32, sum over ", 0), 0u) << table->caption;
  std::set<std::string> titles;
  for (const TableColumn& column : table->table.columns) titles.insert(column.title);
  for (const char* title : {"Time (us)", "p50 (us)", "p99 (us)", "n (single calls)"})
    EXPECT_TRUE(titles.contains(title)) << title;
  const std::string text = text_page(page);
  EXPECT_NE(text.find("second loop with an event after every call"), std::string::npos) << text;
  EXPECT_NE(text.find("no percentiles of the time"), std::string::npos) << text;
}

TEST(CollectivesPage, ManyLinesBecomePanels) {
  std::vector<Record> records;
  for (int i = 0; i < 11; ++i)  // more transports than a picture tells apart
    for (const int64_t bytes : {1024, 2048})
      records.push_back(collective_record("all_reduce", "way " + std::to_string(i), bytes, false, 5 + i));
  const Chart many = *collective_chart(records, CollectiveQuantity::bus_bandwidth);
  expect_sound(many);
  std::map<std::string, std::set<std::string>> names;
  const std::vector<TableValue> panels = column(many, "panel"), series = column(many, "series");
  for (size_t i = 0; i < panels.size(); ++i)
    names[std::get<std::string>(panels[i])].insert(std::get<std::string>(series[i]));
  EXPECT_EQ(names.size(), 2u);
  for (const auto& [panel, lines] : names) EXPECT_LE(lines.size(), kMostSeriesOfAPicture) << panel;
  records.resize(16);
  const Chart few = *collective_chart(records, CollectiveQuantity::bus_bandwidth);
  for (const TableColumn& c : few.table.columns) EXPECT_NE(c.name, "panel");
}

TEST(CollectivesPage, PanelsByPlacementLeaveNamesShort) {
  std::vector<Record> records;
  for (int i = 0; i < 6; ++i)
    for (const bool in_place : {false, true})
      for (const int64_t bytes : {1024, 2048}) {
        records.push_back(collective_record("all_reduce", "way " + std::to_string(i), bytes, in_place, 5 + i));
        records.back().axes["launch"] = std::string(i == 5 ? "graph" : "eager");  // as the transport says already
      }
  const Chart chart = *collective_chart(records, CollectiveQuantity::bus_bandwidth);
  EXPECT_EQ(rows_with(chart, "panel", "in place"), 12u);
  EXPECT_EQ(rows_with(chart, "series", "way 5"), 4u) << "neither the collective nor the placement nor the launch";
  EXPECT_TRUE(chart.wide);
}

TEST(CollectivesPage, WrongResultsAreNoNumbers) {
  std::vector<Record> records{collective_record("all_reduce", "nccl", 1024, false, 5),
                              collective_record("all_reduce", "nccl", 2048, false, 5)};
  records[1].series[4].samples = {3};
  records[1].status = {Status::Kind::failed, "3 elements are wrong"};
  const Page page = collectives_page(records);
  EXPECT_EQ(find_chart(page, "bus-bandwidth")->table.rows.size(), 1u);
  EXPECT_TRUE(has_note(page, "3 elements are wrong"));
  EXPECT_NE(page.verdict.find("must not be used"), std::string::npos) << page.verdict;
  EXPECT_FALSE(collective_chart({}, CollectiveQuantity::bus_bandwidth).has_value());
  EXPECT_FALSE(collective_chart({records[1]}, CollectiveQuantity::call_time).has_value());
}

TEST(ArenaPage, TheFastestOfEachSizeIsOutlined) {
  std::vector<Record> records;
  for (const int64_t bytes : {1024, 65536})
    for (const char* transport : {"nccl", "nccl ring", "nccl tree"})
      records.push_back(collective_record("all_reduce", transport, bytes, false,
                                          std::string(transport) == "nccl tree" ? 10.0 : 15.0));
  Record absent;
  absent.kind = "transport";
  absent.axes = {{"transport", std::string("mpi")}};
  absent.status = {Status::Kind::waived, "no MPI here"};
  records.insert(records.begin(), absent);  // of no host: nothing was started there
  records.push_back(absent);
  records.back().axes = {{"transport", std::string("mpi graph")}};
  const Page page = arena_page(records);
  expect_sound(page);
  const Chart& best = page.sections.front().charts.front();
  EXPECT_EQ(best.table.rows.size(), 6u);
  EXPECT_EQ(rows_with(best, "judgement", "fastest"), 2u);
  EXPECT_NEAR(std::get<double>(column(best, "behind_percent")[0]), 50, 1e-9);
  EXPECT_EQ(page.notes, (std::vector<std::string>{"waived mpi; mpi graph: no MPI here"})) << "one note per reason";
  EXPECT_EQ(page.title, "Transports of collectives on " + records[1].provenance.host);
  EXPECT_NE(page.verdict.find("takes 1.50x as long"), std::string::npos) << page.verdict;
  EXPECT_EQ(page.qualifier, "");
}

TEST(ArenaPage, VirtualDevicesAreSaid) {
  const Page page = arena_page({collective_record("all_reduce", "threads", 1024, false, 5, "cpu-virtual")});
  EXPECT_EQ(page.qualifier, "measured on CPU virtual devices, not GPUs");
  EXPECT_EQ(page.verdict.find("GPUs"), std::string::npos) << page.verdict;
}

}  // namespace
}  // namespace amdahl
