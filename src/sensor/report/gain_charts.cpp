#include "sensor/report/gain_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "base/record_values.h"
#include "chart/bar_chart.h"
#include "chart/line_chart.h"
#include "report/page/page_parts.h"
#include "sensor/report/gain.h"
#include "stats/estimate.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

struct GainOfRecord {
  const Record* record;
  SensorGain gain;
};

constexpr const char* kLineAxes[] = {"voxel_mode", "workload", "dtype", "cache", "launch", "path", "merge", "scaling"};

/// Names lines by the axes in which the records of an operation differ.
std::vector<std::string> names_of(const std::vector<GainOfRecord>& gains) {
  std::map<std::string, std::set<std::string>> values;
  for (const GainOfRecord& one : gains)
    for (const char* name : kLineAxes) values[name].insert(text_axis(*one.record, name));
  std::vector<std::string> names;
  for (const GainOfRecord& one : gains) {
    std::vector<std::string> words;
    for (const char* name : kLineAxes)
      if (const std::string text = text_axis(*one.record, name); values[name].size() > 1 && !text.empty())
        words.push_back(text);
    names.push_back(words.empty() ? text_axis(*one.record, "op") : fmt::format("{}", fmt::join(words, ", ")));
  }
  return names;
}

struct GainKind {
  const char *name, *title, *axis;
  double of_one;  // value on one device
  double (*value)(const SensorGain& gain, double time_us);
};

constexpr GainKind kGainKinds[] = {
    {"speedup", "speedup over one device", "Speedup (ratio)", 1, [](const SensorGain& g, double) { return g.speedup; }},
    {"efficiency", "efficiency, speedup over the number of devices (%)", "Efficiency (%)", 100,
     [](const SensorGain& g, double) { return 100 * g.efficiency; }},
    {"overhead", "overhead, time beyond that of ideal scaling (us)", "Overhead (us)", 0,
     [](const SensorGain& g, double us) { return us * (1 - g.efficiency); }}};

std::optional<Chart> gain_chart(const std::string& operation, const std::vector<GainOfRecord>& gains,
                                const GainKind& kind) {
  LinePlot plot;
  plot.id = slug(fmt::format("{} {}", operation, kind.name));
  plot.title = fmt::format("{}: {}", operation, kind.title);
  plot.x = {"devices", "Devices"}, plot.y = {kind.name, kind.axis};
  plot.series_title = "Work", plot.interval_title = "95 % interval";
  plot.x_scale = LinePlot::XScale::linear, plot.log_y = false;
  const std::vector<std::string> names = names_of(gains);
  std::pair<double, std::string> most{0, ""};
  for (size_t i = 0; i < gains.size(); ++i) {
    const auto& [record, gain] = gains[i];
    auto line = std::find_if(plot.series.begin(), plot.series.end(),
                             [&](const LineSeries& series) { return series.name == names[i]; });
    const auto samples = static_cast<int64_t>(samples_of(*record, "time").size());
    if (line == plot.series.end())
      line = plot.series.insert(line, {names[i], "", record->origin, {{1, kind.of_one, std::nullopt, samples}}});
    LinePoint point{static_cast<double>(axis<int64_t>(*record, "devices", 1)),
                    kind.value(gain, estimate_of(samples_of(*record, "time")).value), std::nullopt, samples};
    if (kind.of_one == 1) point.interval = gain.ci;
    if (most.second.empty() || point.y > most.first) most = {point.y, fmt::format("{} on {:.0f}", names[i], point.x)};
    line->points.push_back(point);
  }
  for (LineSeries& series : plot.series)
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
  plot.summary = fmt::format("Highest: {} ({}).", format_number(most.first), most.second);
  return line_chart(plot);
}

}  // namespace

std::vector<Chart> sensor_gain_charts(const std::vector<Record>& records) {
  std::map<std::string, std::vector<GainOfRecord>> operations;
  for (const Record& record : records) {
    if (record.kind != "sensor" || record.status.kind != Status::Kind::ok || is_divided_work(record)) continue;
    const std::optional<SensorGain> gain = sensor_gain(records, record);
    if (gain && gain->base != &record) operations[text_axis(record, "op")].push_back({&record, *gain});
  }
  std::vector<Chart> charts;
  for (const auto& [operation, gains] : operations)
    for (const GainKind& kind : kGainKinds)
      if (std::optional<Chart> chart = gain_chart(operation, gains, kind)) charts.push_back(std::move(*chart));
  return charts;
}

std::vector<Chart> workload_charts(const WorkloadComparison& workload, size_t number,
                                   const std::vector<std::string>& names) {
  BarPlot speedup, efficiency;
  speedup.id = fmt::format("speedup-{}", number), efficiency.id = fmt::format("efficiency-{}", number);
  speedup.title = "Speedup over the best single device", speedup.value = {"speedup", "Speedup (ratio)"};
  efficiency.title = "Efficiency and overhead (% of what the devices do alone)";
  efficiency.value = {"percent", "Share (%)"}, efficiency.part_title = "Share";
  speedup.name = efficiency.name = {"result", "Result"};
  speedup.interval_title = "95 % interval";
  efficiency.percent = true;
  for (size_t i = 0; i < workload.rows.size(); ++i) {
    const SensorRow& row = workload.rows[i];
    if (row.speedup) speedup.bars.push_back({names[i], "", row.speedup->ratio, row.speedup->ci, {}, row.n, row.origin});
    if (!row.efficiency) continue;
    const double percent = 100 * *row.efficiency;
    efficiency.percent = efficiency.percent && percent <= 100;
    efficiency.bars.push_back({names[i], "efficiency", percent, {}, {}, row.n, row.origin});
    if (percent < 100) efficiency.bars.push_back({names[i], "overhead", 100 - percent, {}, {}, row.n, row.origin});
  }
  const auto by_value = [](const Bar& a, const Bar& b) { return a.value > b.value; };
  std::stable_sort(speedup.bars.begin(), speedup.bars.end(), by_value);
  std::vector<Chart> charts;
  if (!speedup.bars.empty())
    speedup.summary = fmt::format("Highest: {:.2f}x, {}.", speedup.bars.front().value, speedup.bars.front().name);
  efficiency.summary = "Overhead is what efficiency lacks to 100 %: communication, waiting and launches.";
  for (const BarPlot* plot : {&speedup, &efficiency})
    if (std::optional<Chart> chart = bar_chart(*plot)) charts.push_back(std::move(*chart));
  return charts;
}

}  // namespace amdahl
