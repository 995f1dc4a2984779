#include "sensor/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "chart/bar_chart.h"
#include "chart/line_chart.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "sensor/report/gain.h"
#include "stats/estimate.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr double kUsOfSecond = 1e6;

int64_t items_of(const Record& record) { return axis<int64_t>(record, "items", 0); }
int64_t devices_of(const Record& record) { return axis<int64_t>(record, "devices", 0); }

bool is_drawable(const Record& record) {
  return record.kind == "sensor" && record.status.kind == Status::Kind::ok &&
         !samples_of(record, "throughput").empty() && !is_one_task(record);
}

std::string format_count(const Record& record, int64_t devices) {
  const DeviceWords words = device_text(record.provenance.device_kind);
  return fmt::format("{} {}", devices, devices == 1 ? words.one : words.many);
}

/// "128x128x128" of the workload "p500000 128x128x128 f8": sizes of one grid form a line.
std::string grid_text(const Record& record) {
  const std::string workload = text_axis(record, "workload");
  const size_t space = workload.find(' ');
  if (text_axis(record, "op") != "voxelize" || space == std::string::npos) return {};
  return workload.substr(space + 1, workload.find(' ', space + 1) - space - 1);
}

/// Fields that may distinguish groups of records, as text; the voxel mode first.
using GroupWords = std::array<std::string, 7>;
GroupWords words_of(const Record& record) {
  return {voxel_option(record),
          grid_text(record),
          text_axis(record, "dtype"),
          text_axis(record, "cache").empty() ? "" : "cache " + text_axis(record, "cache"),
          text_axis(record, "launch"),
          text_axis(record, "path") == "host" ? "through host memory" : "",
          text_axis(record, "scaling").empty() ? "" : text_axis(record, "scaling") + " scaling"};
}

/// Records of one operation in which all devices do the same work, and the fields in which they differ.
struct ChartedOperation {
  std::string name;
  std::vector<const Record*> records;
  std::array<bool, 7> differ{};
  std::set<int64_t> counts;  // device counts

  std::string group(const Record& record, bool without_voxels = false, bool without_grid = false) const {
    const GroupWords words = words_of(record);
    std::string text;
    for (size_t i = 0; i < words.size(); ++i)
      if (differ[i] && !(i == 0 && without_voxels) && !(i == 1 && without_grid) && !words[i].empty())
        text += (text.empty() ? "" : ", ") + words[i];
    return text;
  }
};

const char* charted_items(const ChartedOperation& operation) {
  return operation.name == "voxelize" ? "points" : "rows";
}

std::vector<ChartedOperation> operations_of(const std::vector<Record>& records) {
  std::vector<ChartedOperation> operations;
  for (const Record& record : records) {
    if (!is_drawable(record) || is_divided_work(record)) continue;
    const std::string name = text_axis(record, "op");
    auto found = std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.name == name; });
    if (found == operations.end()) found = operations.insert(operations.end(), {name, {}, {}, {}});
    found->records.push_back(&record);
    found->counts.insert(devices_of(record));
    const GroupWords words = words_of(record), first = words_of(*found->records.front());
    for (size_t i = 0; i < words.size(); ++i) found->differ[i] = found->differ[i] || words[i] != first[i];
  }
  return operations;
}

LinePoint rate_point(const Record& record, double x) {
  const Estimate rate = scaled(sensor_rate(record), 1 / rate_unit(record).divisor);
  return {x, rate.value, rate.ci, static_cast<int64_t>(samples_of(record, "time").size())};
}

/// The series with that name, panel and origin; created if it does not exist.
LineSeries& series_in(LinePlot& plot, const std::string& panel, const std::string& name, Origin origin) {
  for (LineSeries& series : plot.series)
    if (series.panel == panel && series.name == name && series.origin == origin) return series;
  plot.series.push_back({name, panel, origin, {}});
  return plot.series.back();
}

void sort_points(LinePlot& plot) {
  for (LineSeries& series : plot.series)
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
}

std::string highest_text(const LinePlot& plot) {
  const LineSeries* best = nullptr;
  const LinePoint* top = nullptr;
  for (const LineSeries& series : plot.series)
    for (const LinePoint& point : series.points)
      if (series.origin != Origin::modelled && (!top || point.y > top->y)) best = &series, top = &point;
  if (!top) return {};
  const std::string where = best->panel.empty() ? best->name : fmt::format("{}, {}", best->name, best->panel);
  return fmt::format("Highest: {} at {} ({}).", format_number(top->y), with_thousands(static_cast<int64_t>(top->x)),
                     where);
}

LinePlot rate_plot(const ChartedOperation& operation, const char* against) {
  const Record& first = *operation.records.front();
  const RateUnit unit = rate_unit(first);
  LinePlot plot;
  plot.id = slug(fmt::format("{} rate against {}", operation.name, against));
  plot.title = fmt::format("{}: throughput against {} ({})", operation.name, against, unit.unit);
  plot.title_at_one = fmt::format("{}: throughput, {} {{}} ({})", operation.name, against, unit.unit);
  plot.y = {"rate", fmt::format("Throughput ({})", unit.unit)};
  plot.interval_title = "95 % CI";
  plot.x_scale = LinePlot::XScale::counts;
  return plot;
}

/// The workload without the part shared by the whole operation: "b256" of "b256 30x512->50".
std::string charted_text(const ChartedOperation& operation, const Record& record) {
  std::set<std::string> shorts, wholes;
  const auto first_word = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  for (const Record* other : operation.records)
    shorts.insert(first_word(text_axis(*other, "workload"))), wholes.insert(text_axis(*other, "workload"));
  if (text_axis(record, "scaling") == "weak") return fmt::format("{} per device", with_thousands(base_items(record)));
  return shorts.size() == wholes.size() ? first_word(text_axis(record, "workload")) : text_axis(record, "workload");
}

std::optional<Chart> size_chart(const ChartedOperation& operation, const std::vector<Crossover>& crossovers) {
  LinePlot plot = rate_plot(operation, operation.name == "voxelize" ? "points" : "batch");
  plot.x = {"items", operation.name == "voxelize" ? "Points of all devices together" : "Rows of all devices together"};
  const bool one_count = operation.counts.size() == 1, by_voxels = one_count && operation.differ[0],
             by_grid = one_count && !by_voxels && operation.differ[1];
  plot.series_title = by_voxels ? "Voxels" : by_grid ? "Grid" : "Devices";
  for (const Record* record : operation.records) {
    const std::string name = by_voxels ? voxel_option(*record)
                             : by_grid ? grid_text(*record)
                                       : format_count(*record, devices_of(*record));
    series_in(plot, operation.group(*record, by_voxels, by_grid), name, record->origin)
        .points.push_back(rate_point(*record, static_cast<double>(items_of(*record))));
  }
  sort_points(plot);
  std::string ahead;
  for (const Crossover& crossover : crossovers)
    for (const Record* record : operation.records) {
      const std::string group = operation.group(*record);
      if (crossover.group != fmt::format("{}\n{}", operation.name, group)) continue;
      const std::string devices = format_count(*record, crossover.devices);
      ahead += fmt::format(" {}{}: {} {}.", group.empty() ? "" : group + ", ", devices, clearly_faster(),
                           crossover_place(crossover));
      const bool last = crossover.sizes.from == crossover.sizes.largest;
      if (crossover.num_sizes > 1)
        plot.crossings.push_back({group, fmt::format("{} {}", last ? "only here" : "from here on", devices),
                                  static_cast<double>(crossover.sizes.from)});
      break;
    }
  plot.summary = highest_text(plot);
  if (operation.counts.size() > 1)
    plot.summary += ahead.empty()
                        ? " At no measured size are several devices faster than one there and at every larger size."
                        : ahead;
  return line_chart(plot);
}

std::optional<Chart> device_chart(const ChartedOperation& operation) {
  if (operation.counts.size() < 2) return std::nullopt;
  LinePlot plot = rate_plot(operation, "devices");
  plot.x = {"devices", "Devices"};
  plot.series_title = "Workload";
  std::map<std::pair<std::string, std::string>, double> one;  // one-device rate by panel and workload
  for (const Record* record : operation.records) {
    const std::string panel = operation.group(*record), name = charted_text(operation, *record);
    const LinePoint point = rate_point(*record, static_cast<double>(devices_of(*record)));
    if (devices_of(*record) == 1) one[{panel, name}] = point.y;
    series_in(plot, panel, name, record->origin).points.push_back(point);
  }
  for (const auto& [line, rate] : one)
    for (const int64_t devices : operation.counts)
      series_in(plot, line.first, line.second, Origin::modelled)
          .points.push_back({static_cast<double>(devices), rate * static_cast<double>(devices), std::nullopt, 0});
  sort_points(plot);
  plot.summary = highest_text(plot) + " Modelled lines: as many times the rate of one device as there are devices.";
  return line_chart(plot);
}

// ---- work that is divided ----

/// Methods that divide the same work. The texts are long, and mostly equal for all records of a page.
struct DividedWork {
  DividedWorkParts parts;
  std::vector<const Record*> members;
  std::string name;    // name with the distinguishing fields: "voxelize, count"
  std::string common;  // the other fields
  std::string slug_text;
};

void name_divided_works(std::vector<DividedWork>& works) {
  for (DividedWork& work : works)
    for (size_t i = 0; i < work.parts.size(); ++i) {
      const bool differs = std::any_of(works.begin(), works.end(),
                                       [&](const DividedWork& other) { return other.parts[i] != work.parts[i]; });
      std::string& text = i == 0 || differs ? work.name : work.common;
      if (!work.parts[i].empty()) text += (text.empty() ? "" : ", ") + work.parts[i];
    }
}

std::vector<DividedWork> divided_works(const std::vector<Record>& records) {
  std::vector<DividedWork> works;
  for (const Record& record : records) {
    if (!is_drawable(record) || !is_divided_work(record)) continue;
    const DividedWorkParts parts = divided_work_parts(record);
    auto found = std::find_if(works.begin(), works.end(), [&](const auto& work) { return work.parts == parts; });
    if (found == works.end()) found = works.insert(works.end(), {parts, {}, {}, {}, format_divided_work(record)});
    found->members.push_back(&record);
  }
  name_divided_works(works);
  return works;
}

std::string common_text(const DividedWork& work) {
  std::string common = work.common;  // the chart's badge marks it as emulated
  if (constexpr std::string_view kEmulated = ", EMULATED"; common.find(kEmulated) != std::string::npos)
    common.erase(common.find(kEmulated), kEmulated.size());
  return common.empty() ? std::string() : fmt::format(" Of {}.", common);
}

std::optional<Chart> paths_chart(const DividedWork& work) {
  const std::vector<const Record*>& members = work.members;
  const RateUnit unit = rate_unit(*members.front());
  BarPlot plot;
  plot.id = slug("rate " + work.slug_text);
  plot.title = fmt::format("{}: throughput ({})", work.name, unit.unit);
  plot.name = {"way", "Method"};
  plot.value = {"rate", fmt::format("Throughput ({})", unit.unit)};
  plot.interval_title = "95 % CI";
  plot.bound_title = fmt::format("Bound, modelled ({})", unit.unit);
  const Bar* best = nullptr;
  for (const Record* record : members) {
    const LinePoint point = rate_point(*record, 0);
    Bar bar;
    bar.name = sensor_method(*record);
    bar.value = point.y, bar.interval = point.interval, bar.samples = point.samples, bar.origin = record->origin;
    if (const double bound_us = record->value("makespan_bound").value_or(0); bound_us > 0)
      bar.bound = static_cast<double>(items_of(*record)) / bound_us * kUsOfSecond / unit.divisor;
    plot.bars.push_back(std::move(bar));
  }
  for (const Bar& bar : plot.bars)
    if (!best || bar.value > best->value) best = &bar;
  plot.summary = fmt::format("Highest of {}: {} with {} {}.", plot.bars.size(), best->name, format_number(best->value),
                             unit.unit) +
                 common_text(work);
  return bar_chart(plot);
}

std::optional<Chart> shares_chart(const DividedWork& work) {
  BarPlot plot;
  plot.id = slug("shares " + work.slug_text);
  plot.title = fmt::format("{}: share of each device (% of the items)", work.name);
  plot.name = {"way", "Method"};
  plot.value = {"share_percent", "Share of the items (%)"};
  plot.part_title = "Device";
  plot.percent = true;
  for (const Record* record : work.members) {
    const std::vector<double>& items = samples_of(*record, "device_items");
    double sum = 0;
    for (const double part : items) sum += part;
    if (items.size() < 2 || !(sum > 0)) continue;
    std::string shares;
    for (size_t device = 0; device < items.size(); ++device) {
      Bar bar;
      bar.name = sensor_method(*record), bar.part = fmt::format("device {}", device);
      bar.value = 100 * items[device] / sum;
      bar.samples = static_cast<int64_t>(samples_of(*record, "time").size()), bar.origin = record->origin;
      shares += fmt::format("{}{:.0f}", device == 0 ? "" : "/", bar.value);
      plot.bars.push_back(std::move(bar));
    }
    plot.summary += fmt::format("{}{} {}", plot.summary.empty() ? "" : "; ", sensor_method(*record), shares);
  }
  plot.summary += " % by device." + common_text(work);
  return bar_chart(plot);
}

/// Per group of an operation: the speedup of so many devices at each size.
std::map<std::string, std::map<int64_t, SpeedupPoint>> speedups_of(const std::vector<Record>& records,
                                                                   const ChartedOperation& operation, int64_t devices) {
  std::map<std::string, std::map<int64_t, SpeedupPoint>> speedups;
  for (const Record* record : operation.records) {
    if (devices_of(*record) != devices || text_axis(*record, "scaling") == "weak") continue;
    const std::optional<SensorGain> gain = sensor_gain(records, *record);
    if (gain && gain->base != record)
      speedups[operation.group(*record)][items_of(*record)] = {static_cast<double>(items_of(*record)), gain->speedup,
                                                               gain->ci, sensor_time(*gain->base).value};
  }
  return speedups;
}

}  // namespace

RateUnit rate_unit(const Record& record) {
  std::string unit = "items/s";
  for (const Series& series : record.series)
    if (series.name == "throughput") unit = series.unit;
  if (unit == "points/s") return {"M points/s", 1e6};
  if (unit == "batches/s") return {"k batches/s", 1e3};
  return {unit, 1};
}

std::vector<Crossover> sensor_crossovers(const std::vector<Record>& records) {
  std::vector<Crossover> crossovers;
  for (const ChartedOperation& operation : operations_of(records)) {
    if (operation.counts.size() < 2) continue;
    const int64_t most = *operation.counts.rbegin();
    for (const auto& [group, sizes] : speedups_of(records, operation, most))
      if (std::optional<Crossover> from = crossover_of(sizes, charted_items(operation))) {
        from->group = fmt::format("{}\n{}", operation.name, group);
        from->devices = most;
        crossovers.push_back(*std::move(from));
      }
  }
  return crossovers;
}

std::vector<std::string> crossover_lines(const std::vector<Record>& records) {
  std::vector<std::string> lines;
  for (const ChartedOperation& operation : operations_of(records)) {
    if (operation.counts.size() < 2) continue;
    const int64_t most = *operation.counts.rbegin();
    const std::string several = format_count(*operation.records.front(), most), items = charted_items(operation);
    for (const auto& [group, sizes] : speedups_of(records, operation, most)) {
      if (sizes.size() < 2) continue;
      const std::string what = group.empty() ? operation.name : operation.name + ", " + group;
      if (const std::optional<Crossover> from = crossover_of(sizes, charted_items(operation)))
        lines.push_back(
            fmt::format("crossover: {}: {} are {} {}", what, several, clearly_faster(), crossover_place(*from)));
      else
        lines.push_back(
            fmt::format("crossover: {}: none, {} are at no size {} there and at every larger one, between {} and {} {}",
                        what, several, clearly_faster(), with_thousands(sizes.begin()->first),
                        with_thousands(sizes.rbegin()->first), items));
    }
  }
  return lines;
}

std::vector<Chart> sensor_size_charts(const std::vector<Record>& records) {
  const std::vector<Crossover> crossovers = sensor_crossovers(records);
  std::vector<Chart> charts;
  for (const ChartedOperation& operation : operations_of(records))
    if (std::optional<Chart> chart = size_chart(operation, crossovers)) charts.push_back(std::move(*chart));
  return charts;
}

std::vector<Chart> sensor_device_charts(const std::vector<Record>& records) {
  std::vector<Chart> charts;
  for (const ChartedOperation& operation : operations_of(records))
    if (std::optional<Chart> chart = device_chart(operation)) charts.push_back(std::move(*chart));
  return charts;
}

std::vector<Chart> divided_work_charts(const std::vector<Record>& records) {
  std::vector<Chart> charts;
  for (const DividedWork& work : divided_works(records)) {
    if (std::optional<Chart> chart = paths_chart(work)) charts.push_back(std::move(*chart));
    if (std::optional<Chart> chart = shares_chart(work)) charts.push_back(std::move(*chart));
  }
  return charts;
}

}  // namespace amdahl
