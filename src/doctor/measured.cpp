// Findings from measurements.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/record_values.h"
#include "doctor/findings.h"

namespace amdahl {
namespace {

Findings slow_link(const Evidence& evidence) {
  constexpr double kLeastPart = 0.9;
  Findings found;
  for (const LinkSpec& link : evidence.machine.links) {
    const double least = std::max(evidence.min_gbps, kLeastPart * link.expected_gbps);
    if (link.measured_gbps <= 0 || link.measured_gbps >= least) continue;
    const std::string links = link.num_links > 0 ? fmt::format("{} NVLinks", link.num_links) : "this path";
    found.push_back({"", kFault, pair_name(link.source, link.destination),
                     fmt::format("{:.1f} GB/s", link.measured_gbps),
                     evidence.min_gbps >= least ? fmt::format("{:.1f} GB/s as asked for", least)
                                                : fmt::format("{:.1f} GB/s of {}", link.expected_gbps, links),
                     link.peer_access ? "links that are down or retrying, traffic of others, or copies through the host"
                                      : "without peer access every copy goes through host memory",
                     "`links tests=pairs`; nvidia-smi nvlink -e for error counters; dmesg for Xid messages"});
  }
  return found;
}

Findings failed_memory_pattern(const Evidence& evidence) {
  Findings found;
  for (const Record& record : evidence.records)
    if (record.kind == "integrity" && record.status.kind == Status::Kind::failed)
      found.push_back({"", kFault,
                       fmt::format("{} -> {}, {}", text_axis(record, "source"), text_axis(record, "destination"),
                                   text_axis(record, "way")),
                       record.status.reason, "every byte as it was sent",
                       "the path between them corrupts data although every call succeeded",
                       "`links tests=integrity machine=machine.json`, then `machine=machine.json` for the other "
                       "commands; IOMMU, ACS and driver"});
  return found;
}

bool at_power_cap(const Evidence& evidence, int index) {
  constexpr uint64_t kPowerCap = 0x04;  // nvmlClocksEventReasonSwPowerCap
  return std::any_of(evidence.loaded.begin(), evidence.loaded.end(), [&](const DeviceState& state) {
    return state.index == index && (state.throttle_reasons & kPowerCap) != 0;
  });
}

/// Devices whose rate is more than 3 % below the best of their model.
Findings heterogeneous_gpus(const Evidence& evidence) {
  constexpr double kApart = 0.03, kApartAtPowerCap = 0.06;
  struct Rate {
    const char* what;
    const char* unit;
    double DeviceSpeed::*value;
  };
  Findings found;
  for (const Rate& rate : {Rate{"matrix products", "TFLOP/s", &DeviceSpeed::matrix_tflops},
                           Rate{"memory copies", "GB/s", &DeviceSpeed::copy_gbps}}) {
    std::map<std::string, double> best;
    const auto name_of = [&](int index) {
      for (const DeviceSpec& device : evidence.machine.devices)
        if (device.index == index) return device.name;
      return std::string();
    };
    for (const DeviceSpeed& speed : evidence.speeds) {
      double& most = best[name_of(speed.index)];
      most = std::max(most, speed.*rate.value);
    }
    for (const DeviceSpeed& speed : evidence.speeds) {
      const double own = speed.*rate.value, most = best[name_of(speed.index)];
      if (own <= 0 || own >= (1 - kApart) * most) continue;
      // Chips differ in throughput at the same power: reported, but not a defect while the power cap limits them.
      const bool capped = at_power_cap(evidence, speed.index) && own >= (1 - kApartAtPowerCap) * most;
      found.push_back({"", capped ? kNotice : kWarning, gpu_name(speed.index),
                       fmt::format("{} {:.1f} {}", rate.what, own, rate.unit),
                       fmt::format("{:.1f} {}, the best of its model here", most, rate.unit),
                       capped
                           ? "each runs at its power cap, where chips of one model differ; steps wait for the slowest"
                           : "steps of several GPUs wait for the slowest",
                       "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER -i of both; equal clocks, cooling, power limits"});
    }
  }
  return found;
}

/// Compares the bus bandwidth of the largest all-reduce with the bandwidth of the slowest pair.
Findings slow_collective(const Evidence& evidence) {
  constexpr double kLeastPart = 0.6;
  double busbw = 0;
  int64_t bytes = 0;
  for (const Record& record : evidence.records) {
    if (record.kind != "collective" || record.status.kind != Status::Kind::ok) continue;
    const auto size = record.axes.find("bytes");
    const int64_t own = size == record.axes.end() ? 0 : std::get<int64_t>(size->second);
    if (own < bytes) continue;
    busbw = own > bytes ? 0 : busbw;
    bytes = own, busbw = std::max(busbw, record.value("busbw").value_or(0));
  }
  double slowest = 0;
  for (const LinkSpec& link : evidence.machine.links)
    if (link.measured_gbps > 0) slowest = slowest > 0 ? std::min(slowest, link.measured_gbps) : link.measured_gbps;
  constexpr int64_t kLarge = 16 << 20;
  if (bytes < kLarge || slowest <= 0 || evidence.machine.devices.empty() ||
      evidence.machine.devices.front().kind != "cuda" || busbw >= kLeastPart * slowest)
    return {};
  return {{"", kWarning, fmt::format("all-reduce of {} MiB", bytes >> 20),
           fmt::format("{:.1f} GB/s bus bandwidth", busbw),
           fmt::format("{:.1f} GB/s or more, of pairs that reach {:.1f}", kLeastPart * slowest, slowest),
           "NCCL does not use the bandwidth of the links",
           "`collectives arena` shows which transport does; NCCL_DEBUG=INFO shows its choice"}};
}

Findings wrong_collective(const Evidence& evidence) {
  Findings found;
  for (const Record& record : evidence.records)
    if (record.kind == "collective" && record.status.kind == Status::Kind::failed)
      found.push_back(
          {"", kFault,
           fmt::format("{} of {} bytes", text_axis(record, "collective"), std::get<int64_t>(record.axes.at("bytes"))),
           record.status.reason, "every element exact", "a collective that cannot be trusted",
           "`links tests=integrity` for the pair that corrupts; another NCCL version"});
  return found;
}

bool has_record(const Evidence& evidence, const char* kind) {
  return std::any_of(evidence.records.begin(), evidence.records.end(),
                     [&](const Record& record) { return record.kind == kind; });
}

}  // namespace

std::vector<FindingRow> measured_findings() {
  return {{"slow-link", "bandwidth of every pair against its expected bandwidth", slow_link,
           [](const Evidence& e) { return has_record(e, "link"); }},
          {"failed-memory-pattern", "integrity of every pair and method", failed_memory_pattern,
           [](const Evidence& e) { return has_record(e, "integrity"); }},
          {"unlike-gpus", "matrix and memory speed of GPUs of one model", heterogeneous_gpus,
           [](const Evidence& e) { return e.speeds.size() > 1; }},
          {"slow-collective", "all-reduce against the pairs", slow_collective,
           [](const Evidence& e) { return has_record(e, "collective") && has_record(e, "link"); }},
          {"wrong-collective", "every element of the collectives", wrong_collective,
           [](const Evidence& e) { return has_record(e, "collective"); }}};
}

}  // namespace amdahl
