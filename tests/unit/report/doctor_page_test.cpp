// Pages of the doctor.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "measure/links/machine.h"
#include "page_checks.h"
#include "report/fabric/pages.h"
#include "spec/doctor_file.h"
#include "spec/json.h"

namespace amdahl {
namespace {

using test::column;
using test::expect_sound;
using test::find_chart;
using test::has_note;
using test::provenance_of;

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

}  // namespace
}  // namespace amdahl
