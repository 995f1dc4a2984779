#include "measure/links/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/record_values.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

std::string label_of(const DeviceSpec& device) {
  return fmt::format("{} {}", device.kind == "cuda" ? "gpu" : "cpu", device.index);
}

double median_of(const Record& record, const char* series) {
  for (const Series& candidate : record.series)
    if (candidate.name == series && !candidate.samples.empty()) return percentile(candidate.samples, 50);
  return 0;
}

void note_pair(LinkSpec& link, const Record& record) {
  const std::string test = text_axis(record, "test");
  if (test == "device_to_device_memcpy_read_ce" || test == "device_to_device_memcpy_write_ce")
    link.measured_gbps = std::max(link.measured_gbps, median_of(record, "bandwidth"));
  if (test == "device_to_device_latency_sm") link.latency_us = median_of(record, "latency");
  const bool corrupt = record.kind == "integrity" || median_of(record, "bad_bytes") > 0;
  if (record.status.kind == Status::Kind::failed && corrupt && link.quarantine.empty())
    link.quarantine =
        fmt::format("{}: {}", record.kind == "integrity" ? text_axis(record, "way") : test, record.status.reason);
}

}  // namespace

void note_links(MachineSpec& machine, const std::vector<Record>& records) {
  std::map<std::string, int> index_of;
  for (const DeviceSpec& device : machine.devices) index_of[label_of(device)] = device.index;
  for (const Record& record : records) {
    if (record.kind != "link" && record.kind != "integrity") continue;
    const auto source = index_of.find(text_axis(record, "source")),
               destination = index_of.find(text_axis(record, "destination"));
    if (source == index_of.end() || destination == index_of.end()) continue;
    if (text_axis(record, "test") == "device_local_copy")
      for (DeviceSpec& device : machine.devices)
        if (device.index == source->second) device.copy_gbps = 2 * median_of(record, "bandwidth");
    for (LinkSpec& link : machine.links)
      if (link.source == source->second && link.destination == destination->second) note_pair(link, record);
  }
}

void forget_measurements(MachineSpec& machine) {
  for (DeviceSpec& device : machine.devices) device.copy_gbps = 0;
  for (LinkSpec& link : machine.links) link.measured_gbps = link.latency_us = 0, link.quarantine.clear();
}

MachineSpec machine_of_records(const std::vector<Record>& records) {
  MachineSpec machine;
  if (records.empty()) return machine;
  const Provenance& provenance = records.front().provenance;
  machine.host = provenance.host;
  constexpr std::string_view kDevice = "device.";  // "device.0": its name
  for (const auto& [fact, name] : provenance.facts) {
    const std::string index = fact.starts_with(kDevice) ? fact.substr(kDevice.size()) : std::string();
    if (index.empty() || index.size() > 4 || index.find_first_not_of("0123456789") != std::string::npos) continue;
    DeviceSpec device;
    device.index = std::stoi(index);
    device.kind = provenance.device_kind;
    device.name = name;
    machine.devices.push_back(device);
  }
  std::sort(machine.devices.begin(), machine.devices.end(),
            [](const DeviceSpec& a, const DeviceSpec& b) { return a.index < b.index; });
  for (const DeviceSpec& source : machine.devices)
    for (const DeviceSpec& destination : machine.devices) {
      if (source.index == destination.index) continue;
      LinkSpec link;
      link.source = source.index, link.destination = destination.index;
      machine.links.push_back(link);
    }
  return machine;
}

std::vector<std::string> slow_links(const MachineSpec& machine, double min_gbps) {
  std::vector<std::string> lines;
  for (const LinkSpec& link : machine.links) {
    if (link.measured_gbps <= 0) continue;
    const double least = std::max(min_gbps, kLeastPart * link.expected_gbps);
    if (link.measured_gbps >= least) continue;
    lines.push_back(fmt::format("{} -> {}: {:.1f} GB/s, {}", link.source, link.destination, link.measured_gbps,
                                min_gbps >= least
                                    ? fmt::format("at least {:.1f} was asked for", min_gbps)
                                    : fmt::format("{:.0f} % of the expected {:.1f}",
                                                  100 * link.measured_gbps / link.expected_gbps, link.expected_gbps)));
  }
  return lines;
}

}  // namespace amdahl
