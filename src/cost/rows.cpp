#include "cost/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "base/record_values.h"
#include "report/common/baseline.h"
#include "report/common/words.h"
#include "report/study/summary.h"
#include "sensor/report/cost.h"
#include "sensor/report/results.h"
#include "stats/bootstrap.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Role = SensorRow::Role;

/// "2x NVIDIA H200", "1x H100 + 1x A100".
std::string devices_text(const std::vector<std::string>& names, int64_t devices) {
  if (static_cast<int64_t>(names.size()) != devices) return fmt::format("{} devices", devices);
  return counted_devices(names);
}

/// Energy per sample in J, the median over runs, if the records have the energy of their timed steps.
std::optional<double> joule_per_sample(const std::vector<Record>& records, const StudyCell& cell) {
  std::vector<double> joule;
  for (const Record& record : records) {
    if (record.kind != "study-run" || record.status.kind != Status::Kind::ok || cell_key_of(record) != cell.key)
      continue;
    const auto energy = record.value("energy");
    if (!energy || cell.steps < 1) return std::nullopt;
    joule.push_back(*energy / static_cast<double>(cell.steps * cell.key.global_batch));
  }
  if (joule.empty()) return std::nullopt;
  return median_of(joule);
}

MeasuredRow study_row(const CostRun& run, const StudyCell& cell) {
  const CellKey& key = cell.key;
  MeasuredRow measured;
  CostRow& row = measured.row;
  const Provenance empty;
  const Provenance& provenance = run.study->provenance.empty() ? empty : run.study->provenance.front();
  row.run = run.name;
  measured.family = fmt::format("{}, {}, {}", key.math, key.optimizer, printable(key.data, 60));
  row.work = fmt::format("{}, {} parameters, {}", printable(key.model, 60), with_thousands(key.num_parameters),
                         measured.family);
  row.size_name = "global_batch";
  row.size = key.global_batch;
  row.num_parameters = key.num_parameters;
  row.devices = key.devices;
  row.device_names = first_devices(provenance, key.devices);
  row.device_kind = run.study->device_kind;
  row.origin = cell.origin;
  row.configuration = devices_text(row.device_names, key.devices) + ", " + configuration_text(key);
  if (key.devices > 1 && key.scaling == "weak") row.configuration += ", weak scaling";
  row.unit = "samples";
  const Estimate throughput = cell.throughput();
  row.n = cell.step_time_us.n;
  row.throughput = throughput.value;
  row.throughput_ci = throughput.ci;
  row.joule_per_work = joule_per_sample(run.records, cell);
  measured.study = &*run.study;
  measured.cell = &cell;
  measured.baseline_size = size_of_one_device(key.global_batch, key.devices, key.scaling);
  measured.time_us = cell.step_time_us.estimate().value;
  measured.memory_bytes = cell.memory_peak_bytes;
  // Zero input time means a zero share, for any account.
  if (cell.account && cell.account->input_us <= 0) measured.input_share = 0;
  if (cell.account && cell.account->trusted()) measured.input_share = cell.account->input_us / cell.account->whole_us();
  return measured;
}

/// A workload's text begins with its items ("b256 30x512->50", "p500000 128x128x128"); the rest is its shape.
std::string shape_of(const SensorResult& result) {
  std::map<std::string, AxisValue> axes = result.workload;
  const auto workload = axes.find("workload");
  const std::string text = axis_text(workload->second);
  const size_t space = text.find(' ');
  if (text.size() > 1 && (text[0] == 'b' || text[0] == 'p') && space != std::string::npos &&
      text.find_first_not_of("0123456789", 1) == space)
    workload->second = text.substr(space + 1);
  return format_workload(axes);
}

MeasuredRow sensor_row(const CostRun& run, const SensorResult& result) {
  MeasuredRow measured;
  CostRow& row = measured.row;
  const Record& record = *result.record;
  row.run = run.name;
  row.work = shape_of(result);
  row.size_name = "items";
  row.size = result.items;
  row.devices = result.devices;
  row.device_names = result.row.devices;
  row.device_kind = result.row.device_kind;
  row.origin = result.row.origin;
  row.configuration = devices_text(row.device_names, row.devices);
  for (const char* name : {"mode", "merge", "policy", "schedule", "path"})
    if (const std::string value = axis<std::string>(record, name, ""); !value.empty() && value != "direct")
      row.configuration += fmt::format(", {}{}", std::string_view(name) == "merge" ? "merge " : "", value);
  if (row.devices > 1 && result.scaling == "weak") row.configuration += ", weak scaling";
  row.unit = result.unit.substr(0, result.unit.size() - 2);  // without "/s"
  const Estimate throughput = result.throughput();
  row.n = static_cast<int64_t>(result.time_us.size());
  row.throughput = throughput.value;
  row.throughput_ci = throughput.ci;
  measured.time_us = median_of(result.time_us);
  measured.baseline_size = size_of_one_device(result.items, result.devices, result.scaling);
  return measured;
}

Role role_of(const Record& record) {
  if (axis<std::string>(record, "mode", "") == "hetero") return Role::hetero;
  return axis<int64_t>(record, "devices", 1) == 1 ? Role::single : Role::multi;
}

void add_sensors(const CostRun& run, std::vector<MeasuredRow>& rows, std::vector<std::string>& notes) {
  SensorSides sides;
  std::set<Role> roles;
  size_t without = 0;
  for (const Record& record : run.records) {
    if (record.kind == "sensor" && record.status.kind == Status::Kind::ok)
      roles.insert(role_of(record));
    else
      ++without;
  }
  if (without > 0)
    add_note(notes, fmt::format("{}: {} record{} without a result", run.name, without, without == 1 ? "" : "s"));
  std::vector<std::string> elsewhere;                         // notes about other sides are not needed here
  const std::vector<SensorRun> one{{run.name, run.records}};  // must outlive the results
  for (const Role role : roles)
    for (const SensorResult& result : results_on(one, role, sides, elsewhere)) rows.push_back(sensor_row(run, result));
}

}  // namespace

std::vector<MeasuredRow> measured_rows(const std::vector<CostRun>& runs, std::vector<std::string>& notes) {
  std::vector<MeasuredRow> rows;
  for (const CostRun& run : runs) {
    if (!run.study) {
      add_sensors(run, rows, notes);
      continue;
    }
    for (const StudyCell& cell : run.study->cells)
      if (cell.step_time_us.n > 0) rows.push_back(study_row(run, cell));
    for (const std::string& note : run.study->notes) add_note(notes, fmt::format("{}: {}", run.name, note));
  }
  if (rows.empty())
    throw Error(Cause::usage, "no run has a result to put a price on", "runs of amdahl study or amdahl sensor bench");
  std::set<std::string> kinds;
  for (const MeasuredRow& measured : rows) kinds.insert(measured.row.device_kind);
  if (kinds.size() > 1)
    throw Error(Cause::usage, fmt::format("device kinds differ: {}", fmt::join(kinds, ", ")),
                "runs on the same kind of device: a virtual device says nothing about a GPU");
  return rows;
}

}  // namespace amdahl
