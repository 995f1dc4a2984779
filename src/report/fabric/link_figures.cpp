#include "report/fabric/link_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/record_values.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

double median_bandwidth(const Record& record) {
  for (const Series& series : record.series)
    if (series.name == "bandwidth" && !series.samples.empty()) return percentile(series.samples, 50);
  return 0;
}

bool is_of_pair(const Record& record, const LinkSpec& link, const MachineSpec& machine, const std::string& test) {
  return record.kind == "link" && text_axis(record, "test") == test &&
         text_axis(record, "source") == link_end(machine, link.source) &&
         text_axis(record, "destination") == link_end(machine, link.destination);
}

}  // namespace

std::vector<LinkTestGroup> link_test_groups(const std::vector<Record>& records) {
  std::vector<LinkTestGroup> tests;
  for (const Record& record : records) {
    if (record.kind != "link") continue;
    if (tests.empty() || tests.back().first != text_axis(record, "test"))
      tests.push_back({text_axis(record, "test"), {}});
    tests.back().second.push_back(&record);
  }
  return tests;
}

IntegrityTotals integrity_totals(const std::vector<Record>& records) {
  IntegrityTotals totals;
  for (const Record& record : records) {
    if (record.kind == "integrity-proof") {
      totals.injected += record.value("injected").value_or(0);
      totals.found += record.value("found").value_or(0);
    }
    if (record.kind != "integrity") continue;
    ++totals.paths;
    totals.waived += record.status.kind == Status::Kind::waived;
    totals.corrupt += record.status.kind == Status::Kind::failed;
    totals.transfers += record.value("transfers").value_or(0);
    totals.bytes += record.value("bytes").value_or(0);
    totals.bad_bytes += record.value("bad_bytes").value_or(0);
  }
  return totals;
}

ExpectedParts expected_parts(const MachineSpec& machine) {
  ExpectedParts parts;
  for (const LinkSpec& link : machine.links) {
    if (link.measured_gbps <= 0 || link.expected_gbps <= 0) continue;
    const double part = link.measured_gbps / link.expected_gbps;
    parts.least = parts.pairs > 0 ? std::min(parts.least, part) : part;
    parts.most = std::max(parts.most, part);
    ++parts.pairs;
  }
  return parts;
}

bool is_slow(const LinkSpec& link, double min_gbps) {
  constexpr double kLeastPart = 0.9;  // the limit at which `amdahl links` fails
  return link.measured_gbps > 0 && link.measured_gbps < std::max(min_gbps, kLeastPart * link.expected_gbps);
}

const Record* pair_record(const std::vector<Record>& records, const LinkSpec& link, const MachineSpec& machine,
                          const std::string& test) {
  const Record* last = nullptr;
  for (const Record& record : records)
    if (is_of_pair(record, link, machine, test)) last = &record;
  return last;
}

const Record* copy_engine_record(const std::vector<Record>& records, const LinkSpec& link, const MachineSpec& machine) {
  const Record* best = nullptr;
  for (const Record& record : records)
    for (const char* test : {"device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"})
      if (is_of_pair(record, link, machine, test) && median_bandwidth(record) > (best ? median_bandwidth(*best) : 0))
        best = &record;
  return best;
}

std::string link_end(const MachineSpec& machine, int device) {
  const bool gpu = std::any_of(machine.devices.begin(), machine.devices.end(), [device](const DeviceSpec& spec) {
    return spec.index == device && spec.kind == "cuda";
  });
  return fmt::format("{} {}", gpu ? "gpu" : "cpu", device);
}

double fitted_gbps(double alpha_us, double beta_gbps, double bytes) {
  constexpr double kBytesOfUsAtOneGbps = 1e3;
  return bytes / (alpha_us + bytes / (beta_gbps * kBytesOfUsAtOneGbps)) / kBytesOfUsAtOneGbps;
}

}  // namespace amdahl
