#include "report/fabric/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/common/aligned_table.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

std::string header(const MachineSpec& machine) {
  std::map<std::string, int> names;
  bool is_virtual = false;
  for (const DeviceSpec& device : machine.devices) {
    is_virtual = is_virtual || device.kind != "cuda";
    ++names[device.kind == "cuda" ? device.name : "CPU virtual device"];
  }
  std::string text = fmt::format("amdahl doctor: {}", machine.host);
  for (const auto& [name, count] : names) text += fmt::format(", {} x {}", count, name);
  for (const char* version : {"driver", "cuda_runtime", "nccl"})
    if (const auto found = machine.versions.find(version); found != machine.versions.end())
      text += fmt::format(", {} {}", version, found->second);
  if (is_virtual) text += "\nCPU virtual devices: threads that stand in for GPUs; nothing here is a statement on GPUs";
  return text + '\n';
}

std::string loud(Finding::Severity severity) {
  std::string text(to_string(severity));
  for (char& c : text) c = static_cast<char>(std::toupper(c));
  return text;
}

const Series* series_of(const Record& record, const char* name) {
  for (const Series& series : record.series)
    if (series.name == name && !series.samples.empty()) return &series;
  return nullptr;
}

/// One row per device with its throughput, then the range of the pairs' bandwidths and latencies.
std::string measurements(const DoctorOutcome& outcome) {
  std::vector<std::vector<std::string>> table{{"device", "GEMM TFLOP/s", "copies GB/s"}};
  for (const Record& record : outcome.records) {
    const Series *matrix = series_of(record, "matrix_rate"), *copy = series_of(record, "copy_rate");
    if (record.kind != "device-speed" || !matrix || !copy) continue;
    table.push_back({fmt::format("{}", std::get<int64_t>(record.axes.at("device"))),
                     fmt::format("{:.2f}", percentile(matrix->samples, 50)),
                     fmt::format("{:.1f}", percentile(copy->samples, 50))});
  }
  std::string text = table.size() > 1 ? aligned_table(table) : std::string();
  double least = 0, most = 0, latency = 0;
  for (const LinkSpec& link : outcome.machine.links) {
    if (link.measured_gbps <= 0) continue;
    least = least > 0 ? std::min(least, link.measured_gbps) : link.measured_gbps;
    most = std::max(most, link.measured_gbps), latency = std::max(latency, link.latency_us);
  }
  if (most > 0) text += fmt::format("pairs: {:.1f} to {:.1f} GB/s", least, most);
  if (most > 0) text += latency > 0 ? fmt::format(", loads take up to {:.3f} us\n", latency) : std::string("\n");
  for (const Record& record : outcome.records)
    if (record.kind == "collective" && record.value("busbw") && !std::get<bool>(record.axes.at("in_place")))
      text += fmt::format("all-reduce of {} bytes: {:.1f} us, {:.1f} GB/s bus bandwidth\n",
                          std::get<int64_t>(record.axes.at("bytes")), record.value("time").value_or(0),
                          *record.value("busbw"));
  return text;
}

}  // namespace

std::string doctor_text(const DoctorOutcome& outcome) {
  std::string text = header(outcome.machine) + measurements(outcome);
  std::map<Finding::Severity, int> counts;
  std::set<std::string> named;
  for (const Finding& finding : outcome.findings) {
    text += fmt::format("{} {}, {}: measured {}; expected {}; {}; fix: {}\n", loud(finding.severity), finding.name,
                        finding.where, finding.measured, finding.expected, finding.why, finding.remedy);
    ++counts[finding.severity];
    named.insert(finding.name);
  }
  std::vector<std::string> fine;
  for (const std::string& name : outcome.checked)
    if (!named.contains(name)) fine.push_back(name);
  if (!fine.empty()) text += fmt::format("passed: {}\n", fmt::join(fine, ", "));
  for (const std::string& line : outcome.unseen) text += fmt::format("skipped: {}\n", line);
  return text + fmt::format("verdict: {} faults, {} warnings, {} notices\n", counts[Finding::Severity::fault],
                            counts[Finding::Severity::warning], counts[Finding::Severity::notice]);
}

}  // namespace amdahl
