// Every row of the table of findings: evidence that has it, and evidence that has not.
#include <gtest/gtest.h>

#include <set>

#include "doctor/findings.h"

namespace amdahl {
namespace {

/// Four healthy GPUs behind NVSwitches, measured.
Evidence healthy() {
  Evidence e;
  for (int i = 0; i < 4; ++i) {
    DeviceSpec device;
    device.index = i;
    device.kind = "cuda";
    device.name = "NVIDIA H200";
    device.num_links = 18;
    device.pcie_generation = 5, device.pcie_lanes = 16;
    device.numa_node = i / 2;
    e.machine.devices.push_back(device);
    DeviceState state;
    state.index = i;
    state.temperature_c = 40, state.slowdown_c = 90, state.power_w = 300, state.power_limit_w = 700;
    state.utilisation_percent = 0, state.num_processes = 0, state.used_memory_bytes = 500 << 20;
    state.pcie_generation = 1, state.pcie_lanes = 16;
    state.throttle_reasons = 1;  // idle
    e.idle.push_back(state);
    state.pcie_generation = 5, state.throttle_reasons = 0, state.temperature_c = 60;
    e.loaded.push_back(state);
    e.speeds.push_back({i, 400, 4100});
    for (int j = 0; j < 4; ++j) {
      if (i == j) continue;
      LinkSpec link;
      link.source = i, link.destination = j;
      link.path = PathKind::nvlink;
      link.num_links = 18;
      link.peer_access = true;
      link.expected_gbps = 394, link.measured_gbps = 395;
      e.machine.links.push_back(link);
      e.nccl_transports[{i, j}] = "P2P/CUMEM";
    }
  }
  e.machine.iommu = "off";
  e.machine.versions["nccl"] = "2.30.3";
  e.host.shm_bytes = int64_t{64} << 30;
  Record link;
  link.kind = "link";
  e.records.push_back(link);
  Record integrity;
  integrity.kind = "integrity";
  integrity.axes = {
      {"source", std::string("gpu 0")}, {"destination", std::string("gpu 1")}, {"way", std::string("kernel read")}};
  e.records.push_back(integrity);
  Record collective;
  collective.kind = "collective";
  collective.axes = {{"collective", std::string("all_reduce")}, {"bytes", int64_t{256} << 20}};
  collective.series = {{"busbw", "GB/s", {345}}};
  e.records.push_back(collective);
  e.training_checked = {"data-parallel", "small-batch", "missing-overlap", "much-communication"};
  return e;
}

std::vector<Finding> found(const Evidence& evidence) { return find_all(evidence); }

/// Exactly one kind of finding, and it says everything.
void expect_only(const Evidence& evidence, const std::string& name, size_t count, const std::string& text,
                 Finding::Severity severity) {
  const std::vector<Finding> findings = found(evidence);
  EXPECT_EQ(findings.size(), count) << name;
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.name, name) << finding.where << ": " << finding.measured;
    EXPECT_EQ(finding.severity, severity) << name;
    const std::string all = finding.where + '|' + finding.measured + '|' + finding.expected + '|' + finding.why;
    EXPECT_NE(all.find(text), std::string::npos) << text << " is not in " << all;
    for (const std::string* part :
         {&finding.where, &finding.measured, &finding.expected, &finding.why, &finding.remedy})
      EXPECT_FALSE(part->empty()) << name;
  }
}

constexpr auto kNotice = Finding::Severity::notice;
constexpr auto kWarning = Finding::Severity::warning;
constexpr auto kFault = Finding::Severity::fault;

TEST(Findings, AHealthyMachineHasNone) {
  const Evidence evidence = healthy();
  for (const Finding& finding : found(evidence)) ADD_FAILURE() << finding.name << ": " << finding.measured;
  std::set<std::string_view> names;
  for (const FindingRow& row : finding_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    EXPECT_TRUE(row.has_evidence(evidence)) << row.name;
  }
  EXPECT_GE(names.size(), 20u);
}

TEST(Findings, WithoutEvidenceNothingIsSaid) {
  const Evidence nothing;
  EXPECT_TRUE(found(nothing).empty());
  for (const FindingRow& row : finding_table())
    EXPECT_EQ(row.has_evidence(nothing), row.name == "nccl-settings" || row.name == "serial-launches") << row.name;
}

TEST(Findings, Topology) {
  Evidence e = healthy();
  e.machine.links[0].peer_access = false;
  e.machine.links[0].why_no_peer_access = "a driver setting disables it";
  e.nccl_transports[{0, 1}] = "SHM/direct/direct";  // without peer access that is right
  expect_only(e, "no-peer-access", 1, "gpu 0 -> gpu 1|no peer access|peer access|a driver setting disables it", kFault);

  e = healthy();
  e.machine.iommu = "translated";
  expect_only(e, "iommu-translation", 1, "IOMMU translates", kNotice);
  e.machine.links[3].path = PathKind::phb;
  expect_only(e, "iommu-translation", 1, "IOMMU translates", kWarning);

  e = healthy();
  e.machine.acs = "0000:17:01.0";
  expect_only(e, "acs-redirect", 1, "0000:17:01.0", kNotice);
  e.machine.links[3].path = PathKind::pix;
  expect_only(e, "acs-redirect", 1, "0000:17:01.0", kWarning);

  e = healthy();
  e.machine.devices[2].num_links = 17, e.machine.devices[2].num_links_down = 1;
  expect_only(e, "links-down", 1, "gpu 2|17 NVLinks up, 1 down|18 up", kFault);

  e = healthy();
  e.machine.devices[3].name = "NVIDIA H100";
  expect_only(e, "mixed-generations", 1, "NVIDIA H100, NVIDIA H200", kWarning);

  e = healthy();
  e.host.numa_nodes = {0};
  expect_only(e, "wrong-numa-binding", 2, "bound to NUMA node 0|node 1", kWarning);
  e.host.numa_nodes = {0, 1};
  EXPECT_TRUE(found(e).empty());

  e = healthy();
  e.host.shm_bytes = 64 << 20;
  expect_only(e, "small-shm", 1, "/dev/shm has 64 MiB", kWarning);
}

TEST(Findings, Health) {
  Evidence e = healthy();
  e.idle[1].num_processes = 2;
  expect_only(e, "busy-gpu", 1, "gpu 1|2 programs, 0 % busy", kWarning);
  e = healthy();
  e.idle[1].num_processes = -1, e.idle[1].used_memory_bytes = int64_t{30} << 30;
  expect_only(e, "busy-gpu", 1, "gpu 1|unknown programs, 0 % busy, 30720 MiB", kWarning);

  e = healthy();
  e.loaded[2].temperature_c = 86;
  expect_only(e, "hot-gpu", 1, "gpu 2|86 C|below 85 C", kWarning);
  e.idle[2].temperature_c = 86, e.idle[2].slowdown_c = -1;  // not twice
  expect_only(e, "hot-gpu", 1, "gpu 2|86 C", kWarning);

  e = healthy();
  e.loaded[0].throttle_reasons = 0x40;
  expect_only(e, "throttled", 1, "gpu 0|clocks are held by: hardware thermal slowdown", kFault);
  e.loaded[0].throttle_reasons = 0x20;
  expect_only(e, "throttled", 1, "software thermal slowdown", kWarning);
  e.loaded[0].throttle_reasons = 0x04;
  expect_only(e, "throttled", 1, "power cap", kNotice);
  e.loaded[0].throttle_reasons = 0x01 | 0x02 | 0x10;  // idle, application clocks, synchronised boost
  EXPECT_TRUE(found(e).empty());

  e = healthy();
  e.loaded[3].pcie_lanes = 8;
  expect_only(e, "low-pcie", 1, "gpu 3|PCIe 5.0 x8|PCIe 5.0 x16", kFault);
  e = healthy();
  e.loaded[3].pcie_generation = 3;
  expect_only(e, "low-pcie", 1, "gpu 3|PCIe 3.0 x16|PCIe 5.0 x16", kFault);
}

TEST(Findings, Measured) {
  Evidence e = healthy();
  e.machine.links[4].measured_gbps = 200;
  expect_only(e, "slow-link", 1, "200.0 GB/s|394.0 GB/s of 18 NVLinks", kFault);
  e = healthy();
  e.min_gbps = 400;
  expect_only(e, "slow-link", 12, "395.0 GB/s|400.0 GB/s as asked for", kFault);

  e = healthy();
  e.records[1].status = {Status::Kind::failed, "4 of 100 bytes differ"};
  expect_only(e, "failed-memory-pattern", 1, "gpu 0 -> gpu 1, kernel read|4 of 100 bytes differ", kFault);

  e = healthy();
  e.speeds[2].matrix_tflops = 380;
  expect_only(e, "unlike-gpus", 1, "gpu 2|matrix products 380.0 TFLOP/s|400.0", kWarning);
  e.loaded[2].throttle_reasons = 0x04;  // a throttled notice, and this: no longer a warning
  for (const Finding& finding : found(e)) EXPECT_EQ(finding.severity, kNotice) << finding.name;
  EXPECT_EQ(found(e).size(), 2u);
  e.speeds[2].matrix_tflops = 370;  // more than chips differ
  EXPECT_EQ(found(e).front().severity, kNotice);
  EXPECT_EQ(found(e).back().severity, kWarning);
  e.loaded[2].throttle_reasons = 0;
  e.speeds[2].matrix_tflops = 389;  // within 3 %
  EXPECT_TRUE(found(e).empty());
  e.speeds[1].copy_gbps = 3900;
  expect_only(e, "unlike-gpus", 1, "gpu 1|memory copies 3900.0 GB/s", kWarning);

  e = healthy();
  e.records[2].series = {{"busbw", "GB/s", {100}}};
  expect_only(e, "slow-collective", 1, "all-reduce of 256 MiB|100.0 GB/s", kWarning);

  e = healthy();
  e.records[2].status = {Status::Kind::failed, "3 elements are wrong"};
  expect_only(e, "wrong-collective", 1, "all_reduce of 268435456 bytes|3 elements are wrong", kFault);
}

TEST(Findings, Nccl) {
  Evidence e = healthy();
  e.nccl_transports[{1, 0}] = "NET/Socket/0";
  expect_only(e, "nccl-on-sockets", 1, "gpu 1 -> gpu 0|NET/Socket/0", kFault);
  e = healthy();
  e.nccl_transports[{1, 2}] = "SHM/direct/direct";
  expect_only(e, "nccl-through-host", 1, "gpu 1 -> gpu 2|SHM/direct/direct", kFault);

  for (const auto& [name, value] : std::map<std::string, std::string>{{"NCCL_P2P_DISABLE", "1"},
                                                                      {"NCCL_SHM_DISABLE", "1"},
                                                                      {"NCCL_NTHREADS", "16"},
                                                                      {"NCCL_P2P_LEVEL", "LOC"},
                                                                      {"NCCL_MAX_NCHANNELS", "1"}}) {
    e = healthy();
    e.environment[name] = value;
    expect_only(e, "nccl-settings", 1, name + "=" + value, kWarning);
  }
  e = healthy();
  e.environment = {{"NCCL_P2P_DISABLE", "0"}, {"NCCL_NTHREADS", "512"}, {"CUDA_LAUNCH_BLOCKING", "0"}};
  EXPECT_TRUE(found(e).empty());
  e.environment = {{"CUDA_LAUNCH_BLOCKING", "1"}};
  expect_only(e, "serial-launches", 1, "CUDA_LAUNCH_BLOCKING=1", kWarning);
}

TEST(Findings, NcclVersionsWithKnownFaults) {
  const auto faults = [](const char* version) {
    Evidence e = healthy();
    e.machine.versions["nccl"] = version;
    size_t severe = 0;
    const std::vector<Finding> findings = found(e);
    for (const Finding& finding : findings) severe += finding.severity == kFault;
    return std::pair{findings.size(), severe};
  };
  using Counts = std::pair<size_t, size_t>;
  EXPECT_EQ(faults("2.11.4"), (Counts{3, 3}));
  EXPECT_EQ(faults("2.12.7"), (Counts{2, 2}));
  EXPECT_EQ(faults("2.18.3"), (Counts{0, 0}));
  EXPECT_EQ(faults("2.27.5"), (Counts{2, 0}));
  EXPECT_EQ(faults("2.28.3"), (Counts{3, 0}));
  EXPECT_EQ(faults("2.28.9"), (Counts{1, 0}));
  EXPECT_EQ(faults("2.30.3"), (Counts{0, 0}));
  EXPECT_EQ(faults("unknown"), (Counts{0, 0}));
}

TEST(Findings, OfTrainingAreThoseOfTheStudy) {
  const auto checked = [](const Evidence& e) {
    std::set<std::string> names;
    for (const FindingRow& row : training_rows())
      if (row.has_evidence(e)) names.emplace(row.name);
    return names;
  };
  Evidence e = healthy();
  e.training_checked.clear();
  EXPECT_TRUE(checked(e).empty()) << "without a study nothing can be said";
  e.training_checked = {"data-parallel", "small-batch"};
  EXPECT_EQ(checked(e), (std::set<std::string>{"data-parallel", "small-batch"}));
  EXPECT_TRUE(found(e).empty());
  for (const char* name : {"data-parallel", "small-batch", "missing-overlap", "much-communication"}) {
    e.training = {{name, Finding::Severity::notice, "medium", "a", "b", "c", "d"}};
    expect_only(e, name, 1, "medium|a|b|c", Finding::Severity::notice);
  }
}

TEST(Findings, TransportsInTheLogOfNccl) {
  const auto transports = parse_nccl_transports(
      "host:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "host:12:34 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
      "host:12:35 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n"
      "host:12:35 [1] NCCL INFO Channel 00/0 : 2[2] -> 3[3] [send] via NET/Socket/0\n"
      "host:12:35 [1] NCCL INFO Channel 00/02 : 0 1 2 3\n"
      "host:12:35 [1] NCCL INFO Connected all rings\n");
  EXPECT_EQ(transports, (std::map<std::pair<int, int>, std::string>{
                            {{0, 1}, "P2P/CUMEM/read"}, {{1, 0}, "SHM/direct/direct"}, {{2, 3}, "NET/Socket/0"}}));
}

}  // namespace
}  // namespace amdahl
