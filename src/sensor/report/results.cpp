#include "sensor/report/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

using Axes = std::map<std::string, AxisValue>;
using Role = SensorRow::Role;

constexpr std::string_view kOptionalAxes[] = {"voxel_mode", "model"};

bool is_optional(std::string_view name) {
  return std::find(std::begin(kOptionalAxes), std::end(kOptionalAxes), name) != std::end(kOptionalAxes);
}

template <class T>
T required(const Record& record, const char* name) {
  const auto found = record.axes.find(name);
  const T* value = found == record.axes.end() ? nullptr : std::get_if<T>(&found->second);
  if (value) return *value;
  throw damaged_record(
      record,
      fmt::format("{} axis '{}'", found == record.axes.end() ? "lacks" : "has a value of another type in", name));
}

int64_t required_count(const Record& record, const char* name) {
  const auto count = required<int64_t>(record, name);
  if (count < 1) throw damaged_record(record, fmt::format("has {} in axis '{}', which counts from 1", count, name));
  return count;
}

struct SideWords {
  const char* field;
  const char* wanted;
};

SideWords words_of(Role role) {
  switch (role) {
    case Role::single:
      return {"`single`", "on one device"};
    case Role::multi:
      return {"`multi`", "on several devices"};
    case Role::hetero:
      break;
  }
  return {"`hetero`", "in mode hetero"};
}

Role role_of(const Record& record) {
  if (required<std::string>(record, "mode") == "hetero") return Role::hetero;
  return required_count(record, "devices") == 1 ? Role::single : Role::multi;
}

bool has_run(const std::vector<SensorRun>& runs, const std::string& name) {
  return std::any_of(runs.begin(), runs.end(), [&](const SensorRun& run) { return run.name == name; });
}

const std::vector<SensorRun>& side(const SensorSides& sides, Role role) {
  return role == Role::single ? sides.single : role == Role::multi ? sides.multi : sides.hetero;
}

const Series& series_of(const Record& record, const char* name) {
  for (const Series& series : record.series) {
    if (series.name != name || series.samples.empty()) continue;
    for (const double sample : series.samples) require_speed(record, name, sample);
    return series;
  }
  throw damaged_record(record, fmt::format("is ok and lacks a value of '{}'", name));
}

SensorResult result_of(const Record& record, Role role, const std::string& run) {
  SensorResult found;
  found.record = &record;
  for (const char* name : kWorkloadAxes)
    if (!is_optional(name) || record.axes.contains(name)) found.workload[name] = required<std::string>(record, name);
  found.devices = required_count(record, "devices");
  found.items = required_count(record, "items");
  if (record.axes.contains("scaling")) found.scaling = required<std::string>(record, "scaling");
  SensorRow& row = found.row;
  row.role = role;
  row.run = run;
  row.axes = record.axes;
  row.axes.erase("run");
  row.devices = first_devices(record.provenance, found.devices);
  row.device_kind = record.provenance.device_kind;
  row.origin = record.origin;
  return found;
}

void add_samples(SensorResult& result, const Record& record) {
  const Series &time = series_of(record, "time"), &throughput = series_of(record, "throughput");
  if (time.unit != "us") throw damaged_record(record, fmt::format("gives 'time' in {}", printable(time.unit, 40)));
  if (result.unit.empty()) result.unit = throughput.unit;
  if (throughput.unit != result.unit || !throughput.unit.ends_with("/s"))
    throw damaged_record(record, fmt::format("gives 'throughput' in {}", printable(throughput.unit, 40)));
  result.time_us.insert(result.time_us.end(), time.samples.begin(), time.samples.end());
  result.work = throughput.samples.front() * time.samples.front() / 1e6;
}

/// Why a record is left out; nullopt when it belongs to the side.
std::optional<std::string> misfit(const Record& record, Role role) {
  if (record.kind != "sensor") return fmt::format("of kind {}", printable(record.kind, 40));
  if (record.status.kind != Status::Kind::ok)
    return fmt::format("{}: {}", record.status.kind == Status::Kind::failed ? "failed" : "waived",
                       printable(record.status.reason, 200));
  const Role own = role_of(record);
  // The record's time is of the one device it was placed on; the gain of several devices is in the record of all tasks.
  if (record.axes.contains("device") && required_count(record, "devices") > 1)
    return "a task on one of several devices";
  if (own == role) return std::nullopt;
  return fmt::format("{}, which {} takes", words_of(own).wanted, named(words_of(own).field));
}

/// The results of one run for a side, with the records of each configuration pooled.
std::vector<SensorResult> results_in(const SensorRun& run, Role role, const SensorSides& sides,
                                     std::vector<std::string>& notes) {
  std::vector<SensorResult> found;
  std::set<Axes> seen_runs;
  std::map<std::string, size_t> left_out;
  for (const Record& record : run.records) {
    if (const auto why = misfit(record, role)) {
      const bool other_side =
          record.kind == "sensor" && record.status.kind == Status::Kind::ok && role_of(record) != role;
      if (!other_side || !has_run(side(sides, role_of(record)), run.name)) ++left_out[*why];
      continue;
    }
    if (record.axes.contains("run") && !seen_runs.insert(record.axes).second)
      throw damaged_record(record, "is a run that is there already");
    SensorResult next = result_of(record, role, run.name);
    auto same = std::find_if(found.begin(), found.end(), [&](const SensorResult& r) {
      return r.row.axes == next.row.axes && r.row.devices == next.row.devices && r.row.origin == next.row.origin;
    });
    if (same == found.end()) same = found.insert(found.end(), std::move(next));
    add_samples(*same, record);
  }
  for (const auto& [why, count] : left_out)
    add_note(notes, fmt::format("{}: {} record{} left out: {}", run.name, count, count == 1 ? "" : "s", why));
  return found;
}

}  // namespace

std::vector<SensorResult> results_on(const std::vector<SensorRun>& runs, Role role, const SensorSides& sides,
                                     std::vector<std::string>& notes) {
  std::vector<SensorResult> found;
  std::vector<std::string> names, own_notes;
  for (const SensorRun& run : runs) {
    if (std::find(names.begin(), names.end(), run.name) != names.end())
      throw Error(Cause::usage, fmt::format("{} has {} twice", words_of(role).field, run.name), "each run once");
    names.push_back(run.name);
    std::vector<SensorResult> more = results_in(run, role, sides, own_notes);
    found.insert(found.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  if (found.empty() && !runs.empty())
    throw Error(
        Cause::usage,
        fmt::format("{}: no result {} in {}{}", words_of(role).field, words_of(role).wanted, fmt::join(names, ", "),
                    own_notes.empty() ? "" : fmt::format(" ({})", fmt::join(own_notes, "; "))),
        fmt::format("amdahl sensor bench {}", words_of(role).wanted));
  for (const std::string& note : own_notes) add_note(notes, note);
  return found;
}

std::string format_workload(const Axes& workload) {
  std::vector<std::string> parts;
  for (const char* name : kWorkloadAxes)
    if (const auto found = workload.find(name); found != workload.end()) parts.push_back(axis_text(found->second));
  return printable(fmt::format("{}", fmt::join(parts, " ")), 200);
}

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

}  // namespace amdahl
