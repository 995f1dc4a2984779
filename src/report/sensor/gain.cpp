#include "report/sensor/gain.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/units.h"
#include "base/limited_devices.h"
#include "report/common/record_axes.h"
#include "stats/bootstrap.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::string word(const Record& record, const char* name) { return axis<std::string>(record, name, ""); }

const std::vector<double>* samples(const Record& record, const char* name) {
  for (const Series& series : record.series)
    if (series.name == name && !series.samples.empty()) return &series.samples;
  return nullptr;
}

/// What one device makes of the same work, of modes in which all devices do the same; null without such a record.
const Record* one_device(const std::vector<Record>& records, const Record& many) {
  for (const Record& record : records) {
    const std::string mode = word(record, "mode");
    if (record.kind != "sensor" || axis<int64_t>(record, "devices", 0) != 1 || !samples(record, "throughput")) continue;
    if ((mode != word(many, "mode") && mode != "single") || base_items(record) != base_items(many)) continue;
    const auto same = [&](const char* name) { return word(record, name) == word(many, name); };
    if (same("op") && same("dtype") && same("voxel_mode") && same("cache") &&
        voxel_words(record) == voxel_words(many) && (word(many, "scaling") == "weak" || same("workload")))
      return &record;
  }
  return nullptr;
}

bool is_base(const Record& record) {
  if (word(record, "mode") == "hetero") return word(record, "policy") == "one-device";
  if (word(record, "mode") == "pipeline") return word(record, "schedule") == "sequential";
  return axis<int64_t>(record, "devices", 0) == 1;
}

/// The same divided work by one device, or in sequence; null without such a record.
const Record* undivided(const std::vector<Record>& records, const Record& record) {
  for (const Record& base : records) {
    if (base.kind != "sensor" || !is_base(base) || is_one_task(base) || !samples(base, "time")) continue;
    bool same = true;
    for (const char* name : {"mode", "op", "workload", "voxel_mode", "dtype", "path", "model"})
      same &= word(base, name) == word(record, name);
    if (same && axis<bool>(base, "deterministic", false) == axis<bool>(record, "deterministic", false)) return &base;
  }
  return nullptr;
}

double items_of(const Record& record) {
  return static_cast<double>(std::max<int64_t>(axis<int64_t>(record, "items", 1), 1));
}

}  // namespace

std::optional<SensorGain> sensor_gain(const std::vector<Record>& records, const Record& record) {
  const bool divided = is_divided_work(record);
  const Record* base = divided ? undivided(records, record) : one_device(records, record);
  const std::vector<double>*own = samples(record, "time"), *one = base ? samples(*base, "time") : nullptr;
  if (!own || !one) return std::nullopt;
  SensorGain gain;
  gain.base = base;
  if (base == &record) return gain;
  const double items = divided ? 1 : items_of(record) / items_of(*base);  // divided work is the same work
  gain.speedup = items * mean_of(*one) / mean_of(*own);
  gain.ci = bootstrap_ratio_of_means({*one, *own});
  if (gain.ci) gain.ci = Interval{gain.ci->low * items, gain.ci->high * items};
  gain.efficiency = gain.speedup / static_cast<double>(std::max<int64_t>(axis<int64_t>(record, "devices", 1), 1));
  return gain;
}

bool is_divided_work(const Record& record) {
  const std::string mode = word(record, "mode");
  return record.kind == "sensor" && (mode == "task" || mode == "pipeline" || mode == "hetero");
}

bool is_one_task(const Record& record) { return record.axes.contains("device"); }

int64_t base_items(const Record& record) {
  const int64_t items = axis<int64_t>(record, "items", 0);
  return word(record, "scaling") == "weak" ? items / std::max<int64_t>(axis<int64_t>(record, "devices", 1), 1) : items;
}

std::string sensor_way(const Record& record) {
  const std::string named = word(record, "policy") + word(record, "schedule");
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
  std::string text = word(record, "voxel_mode");
  if (axis<bool>(record, "deterministic", false)) text += " deterministic";
  return text;
}

std::string voxel_words(const Record& record) {
  const std::string text = voxel_option(record);
  return text.empty() ? "-" : text;
}

DividedWorkParts divided_work_parts(const Record& record) {
  const bool task = is_one_task(record);
  DividedWorkParts parts;
  parts[0] = task ? "tasks" : word(record, "op");
  parts[1] = "mode " + word(record, "mode");
  if (word(record, "mode") == "hetero") parts[2] = sharing_devices(record);
  if (!task) parts[3] = word(record, "dtype");
  parts[4] = word(record, "launch");
  if (word(record, "merge") == "host") parts[5] = "results gathered in host memory";
  if (!word(record, "model").empty())
    parts[6] = fmt::format("model {} ({} parameters)", word(record, "model"),
                           with_thousands(axis<int64_t>(record, "parameters", 0)));
  if (record.origin == Origin::emulated) parts[6] += parts[6].empty() ? "EMULATED" : ", EMULATED";
  if (task) return parts;
  parts[kWorkloadPart] = word(record, "workload");
  parts[kVoxelPart] = voxel_option(record);
  return parts;
}

std::string divided_work_words(const Record& record) {
  const DividedWorkParts parts = divided_work_parts(record);
  std::string text;
  for (size_t i = 0; i < kWorkloadPart; ++i)
    if (!parts[i].empty()) text += (text.empty() ? "" : ", ") + parts[i];
  if (!is_one_task(record)) text += "\n" + parts[kWorkloadPart];
  return parts[kVoxelPart].empty() ? text : text + ' ' + parts[kVoxelPart];
}

}  // namespace amdahl
