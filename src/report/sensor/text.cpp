#include "report/sensor/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "amdahl/units.h"
#include "base/record_values.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/sensor/charts.h"
#include "report/sensor/gain.h"
#include "report/sensor/modes.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Row = std::vector<std::string>;

/// Fields shared by all rows of a table.
std::string heading(const Record& record) {
  std::string text = fmt::format("{}, mode {}", text_axis(record, "op"), text_axis(record, "mode"));
  if (!text_axis(record, "scaling").empty()) text += fmt::format(", {} scaling", text_axis(record, "scaling"));
  text += fmt::format(", {}", text_axis(record, "dtype"));
  for (const char* name : {"cache", "launch"})
    if (!text_axis(record, name).empty()) text += fmt::format(", {}", text_axis(record, name));
  if (text_axis(record, "path") == "host") text += ", devices through host memory";
  if (!text_axis(record, "policy").empty()) text += fmt::format(", policy {}", text_axis(record, "policy"));
  return text;
}

/// "1,234.5 +- 12.3": mean and half-width of its interval.
std::string mean_cell(const Record& record, const char* name) {
  const std::vector<double>& values = samples_of(record, name);
  return values.empty() ? "n/a" : format_plus_minus(mean_of(values), t_interval(values), Charset::ascii);
}

std::string median_cell(const Record& record, const char* name) {
  const std::vector<double>& values = samples_of(record, name);
  return values.empty() ? "n/a" : format_number(median_of(values));
}

/// Speedup by throughput, which under strong scaling is the ratio of times, and efficiency.
std::pair<std::string, std::string> gain_text(const std::vector<Record>& records, const Record& record) {
  const std::optional<SensorGain> gain = sensor_gain(records, record);
  if (!gain) return {"n/a", "n/a"};
  if (gain->base == &record) return {"1", "100 %"};
  return {format_speedup(gain->speedup, gain->ci), format_percent(gain->efficiency)};
}

bool shares_work(const Record& record) { return text_axis(record, "mode") != "single"; }

Row titles(const Record& first) {
  Row row{"workload"};
  const bool voxels = text_axis(first, "op") == "voxelize";
  if (voxels) row.emplace_back("voxels");
  if (shares_work(first)) row.emplace_back("devices");
  row.insert(row.end(), {"time us", "call us", voxels ? "M points/s" : "k batches/s", "GB/s"});
  if (shares_work(first)) row.insert(row.end(), {"speedup [95 % CI]", "efficiency"});
  if (shares_work(first) && voxels) row.insert(row.end(), {"merge", "merge us", "share"});
  row.emplace_back("n");
  return row;
}

Row text_row(const std::vector<Record>& records, const Record& record) {
  Row row{printable(text_axis(record, "workload"))};
  const bool voxels = text_axis(record, "op") == "voxelize";
  if (voxels) row.push_back(voxel_text(record));
  if (shares_work(record)) row.push_back(fmt::to_string(axis<int64_t>(record, "devices", 0)));
  const std::vector<double>& rate = samples_of(record, "throughput");
  row.push_back(mean_cell(record, "time"));
  row.push_back(median_cell(record, "call_time"));
  row.push_back(rate.empty() ? "n/a" : format_number(mean_of(rate) / (voxels ? 1e6 : 1e3)));
  row.push_back(median_cell(record, "bandwidth"));
  if (shares_work(record)) {
    const auto [speedup, efficiency] = gain_text(records, record);
    row.insert(row.end(), {speedup, efficiency});
  }
  if (shares_work(record) && voxels) {
    const std::vector<double>& share = samples_of(record, "communication_share");
    row.push_back(text_axis(record, "merge").empty() ? "-" : text_axis(record, "merge"));
    row.push_back(share.empty() ? "-" : median_cell(record, "merge_time"));
    row.push_back(share.empty() ? "-" : format_percent(median_of(share) / 100));
  }
  row.push_back(fmt::to_string(samples_of(record, "time").size()));
  return row;
}

std::string faults_text(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records)
    if (record.kind == "sensor" && record.status.kind != Status::Kind::ok)
      text += fmt::format("{}: {}, {}, {}, {} devices: {}\n",
                          record.status.kind == Status::Kind::failed ? "FAILED" : "waived", text_axis(record, "op"),
                          printable(text_axis(record, "workload")), voxel_text(record),
                          axis<int64_t>(record, "devices", 0), printable(record.status.reason));
  return text;
}

/// GPUs whose state (clock, throttling) changed during the measurement.
std::string card_text(const Record& record) {
  std::string text;
  const auto &before = samples_of(record, "sm_clock_before"), &after = samples_of(record, "sm_clock"),
             &reasons = samples_of(record, "throttle_reasons");
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i)
    if (std::fabs(after[i] - before[i]) > kClockTolerance * before[i])
      text += fmt::format("note: {}, {}: the SM clock of device {} moved from {:.0f} to {:.0f} MHz\n",
                          printable(text_axis(record, "workload")), voxel_text(record), i, before[i], after[i]);
  for (size_t i = 0; i < reasons.size(); ++i)
    if (was_throttled(reasons[i]))
      text += fmt::format("note: {}, {}: device {} was throttled\n", printable(text_axis(record, "workload")),
                          voxel_text(record), i);
  return text;
}

/// Points of files outside of all voxels, once per cloud.
std::string fates_text(const std::vector<Record>& records) {
  std::set<std::string> notes;
  for (const Record& record : records) {
    const auto nan = axis<int64_t>(record, "points_nan", 0), outside = axis<int64_t>(record, "points_outside", 0);
    if (nan + outside > 0)
      notes.insert(fmt::format("note: of {} points of {} {} NaN and {} outside of the grid are in no voxel\n",
                               with_thousands(axis<int64_t>(record, "points", 0)),
                               printable(text_axis(record, "input")), with_thousands(nan), with_thousands(outside)));
  }
  return fmt::format("{}", fmt::join(notes, ""));
}

std::string outliers_text(const std::vector<Record>& records) {
  int64_t outliers = 0;
  for (const Record& record : records)
    if (record.kind == "sensor") outliers += summarise(samples_of(record, "time")).num_outliers;
  if (outliers == 0) return {};
  return fmt::format("{} sample{} of time flagged as outlier{} (modified z above 3.5), none dropped\n", outliers,
                     outliers == 1 ? "" : "s", outliers == 1 ? "" : "s");
}

}  // namespace

std::string sensor_text(const std::vector<Record>& records) {
  std::vector<std::pair<std::string, std::vector<Row>>> tables;
  std::string text;
  for (const Record& record : records) {
    if (record.kind != "sensor") continue;
    if (text.empty() && record.provenance.device_kind != "cuda") text = "Measured on CPU virtual devices, not GPUs.\n";
    if (is_divided_work(record)) continue;
    const std::string title = heading(record);
    auto found = std::find_if(tables.begin(), tables.end(), [&](const auto& table) { return table.first == title; });
    if (found == tables.end()) found = tables.insert(tables.end(), {title, {titles(record)}});
    found->second.push_back(text_row(records, record));
  }
  for (const auto& [title, rows] : tables) text += fmt::format("\n{}\n{}", printable(title), aligned_table(rows));
  text += crossover_text(records);
  text += divided_work_text(records);
  for (const Record& record : records)
    if (record.kind == "sensor") text += card_text(record);
  return text + faults_text(records) + fates_text(records) + outliers_text(records) +
         "\ntime: on the device, mean and 95 % interval of n samples; call: one call until it is done, by the host's "
         "clock, median.\n";
}

}  // namespace amdahl
