#include "sensor/report/gain.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "base/record_values.h"
#include "report/common/baseline.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

/// For divided work, a base is the result of one device or of sequential execution. Otherwise all devices do the same
/// work, and a base is the result of one device.
bool is_base(const Record& record, bool divided) {
  if (record.kind != "sensor" || (divided && is_one_task(record)) ||
      samples_of(record, divided ? "time" : "throughput").empty())
    return false;
  if (divided && text_axis(record, "mode") == "hetero") return text_axis(record, "policy") == "one-device";
  if (divided && text_axis(record, "mode") == "pipeline") return text_axis(record, "schedule") == "sequential";
  return axis<int64_t>(record, "devices", 0) == 1;
}

/// Fields that a base must share with `many`. One-device data-parallel work may have the mode "single", and under weak
/// scaling it has a different workload.
std::string work_of(const Record& record, const Record& many, bool divided) {
  std::string text = fmt::format("{}\n{}\n{}", text_axis(record, "op"), text_axis(record, "dtype"), voxel_text(record));
  if (divided)
    return text + fmt::format("\n{}\n{}\n{}\n{}", text_axis(record, "mode"), text_axis(record, "workload"),
                              text_axis(record, "path"), text_axis(record, "model"));
  const std::string mode = text_axis(record, "mode");
  text += fmt::format("\n{}\n{}", text_axis(record, "cache"), mode == "single" ? text_axis(many, "mode") : mode);
  return text_axis(many, "scaling") == "weak" ? text : text + '\n' + text_axis(record, "workload");
}

/// The same work by one device, or sequentially; null without such a record.
const Record* base_of(const std::vector<Record>& records, const Record& record) {
  const bool divided = is_divided_work(record);
  std::vector<BaselineCandidate> candidates(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& base = records[i];
    if (!is_base(base, divided)) continue;
    const double speed = divided ? 1 / sensor_time(base).value : sensor_rate(base).value;
    candidates[i] = {
        true, work_of(base, record, divided), divided ? 0 : base_items(base), text_axis(base, "launch"), "", speed};
  }
  const auto found = find_baseline(
      candidates, {work_of(record, record, divided), divided ? 0 : base_items(record), text_axis(record, "launch")});
  return found ? &records[*found] : nullptr;
}

double work_items(const Record& record) {
  return static_cast<double>(std::max<int64_t>(axis<int64_t>(record, "items", 1), 1));
}

}  // namespace

Estimate sensor_time(const Record& record) { return estimate_of(samples_of(record, "time")); }

Estimate sensor_rate(const Record& record, const char* series) {
  const std::vector<double>&time = samples_of(record, "time"), &rate = samples_of(record, series);
  if (time.empty() || rate.empty()) return {};
  return rate_of(rate.front() * time.front(), sensor_time(record));
}

std::optional<SensorGain> sensor_gain(const std::vector<Record>& records, const Record& record) {
  const bool divided = is_divided_work(record);
  const Record* base = base_of(records, record);
  if (!base) return std::nullopt;
  if (samples_of(record, "time").empty() || samples_of(*base, "time").empty()) return std::nullopt;
  SensorGain gain;
  gain.base = base;
  if (base == &record) return gain;
  const double items = divided ? 1 : work_items(record) / work_items(*base);  // divided work has the same total
  const Estimate speedup = scaled(ratio_of(sensor_time(*base), sensor_time(record)), items);
  gain.speedup = speedup.value;
  gain.ci = speedup.ci;
  gain.efficiency = gain.speedup / static_cast<double>(std::max<int64_t>(axis<int64_t>(record, "devices", 1), 1));
  return gain;
}

bool is_divided_work(const Record& record) {
  const std::string mode = text_axis(record, "mode");
  return record.kind == "sensor" && (mode == "task" || mode == "pipeline" || mode == "hetero");
}

bool is_one_task(const Record& record) { return record.axes.contains("device"); }

int64_t base_items(const Record& record) {
  return size_of_one_device(axis<int64_t>(record, "items", 0), axis<int64_t>(record, "devices", 1),
                            text_axis(record, "scaling"));
}

std::string sensor_method(const Record& record) {
  const std::string named = text_axis(record, "policy") + text_axis(record, "schedule");
  return named.empty() ? fmt::format("on {}", axis<int64_t>(record, "devices", 0)) : named;
}

std::string sharing_devices(const Record& record) {
  const auto devices = axis<int64_t>(record, "devices", 0);
  const std::vector<std::string> names = first_devices(record.provenance, devices);
  if (origin_of_devices(record.provenance) == Origin::emulated && static_cast<int64_t>(names.size()) == devices)
    return counted_devices(names, " x ");
  return fmt::format("{} devices", devices);
}

std::string voxel_option(const Record& record) {
  std::string text = text_axis(record, "voxel_mode");
  if (axis<bool>(record, "deterministic", false)) text += " deterministic";
  return text;
}

std::string voxel_text(const Record& record) {
  const std::string text = voxel_option(record);
  return text.empty() ? "-" : text;
}

DividedWorkParts divided_work_parts(const Record& record) {
  const bool task = is_one_task(record);
  DividedWorkParts parts;
  parts[0] = task ? "tasks" : text_axis(record, "op");
  parts[1] = "mode " + text_axis(record, "mode");
  if (text_axis(record, "mode") == "hetero") parts[2] = sharing_devices(record);
  if (!task) parts[3] = text_axis(record, "dtype");
  parts[4] = text_axis(record, "launch");
  if (text_axis(record, "merge") == "host") parts[5] = "results gathered in host memory";
  if (!text_axis(record, "model").empty())
    parts[6] = fmt::format("model {} ({} parameters)", text_axis(record, "model"),
                           with_thousands(axis<int64_t>(record, "parameters", 0)));
  if (record.origin == Origin::emulated) parts[6] += parts[6].empty() ? "EMULATED" : ", EMULATED";
  if (task) return parts;
  parts[kWorkloadPart] = text_axis(record, "workload");
  parts[kVoxelPart] = voxel_option(record);
  return parts;
}

std::string format_divided_work(const Record& record) {
  const DividedWorkParts parts = divided_work_parts(record);
  std::string text;
  for (size_t i = 0; i < kWorkloadPart; ++i)
    if (!parts[i].empty()) text += (text.empty() ? "" : ", ") + parts[i];
  if (!is_one_task(record)) text += "\n" + parts[kWorkloadPart];
  return parts[kVoxelPart].empty() ? text : text + ' ' + parts[kVoxelPart];
}

}  // namespace amdahl
