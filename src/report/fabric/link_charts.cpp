#include "report/fabric/link_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/record_values.h"
#include "chart/bar_chart.h"
#include "chart/document.h"
#include "chart/heat_map.h"
#include "chart/line_chart.h"
#include "report/common/words.h"
#include "report/fabric/link_figures.h"
#include "report/page/page_parts.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

/// Names of all devices, in the order of the machine.
std::vector<std::string> ends_of(const MachineSpec& machine) {
  std::vector<std::string> ends;
  for (const DeviceSpec& device : machine.devices) ends.push_back(link_end(machine, device.index));
  return ends;
}

TableValue known(double value) {
  if (value > 0) return value;
  return {};
}

/// A heat map over ordered pairs, without its cells.
HeatMap pair_map(const MachineSpec& machine) {
  HeatMap map;
  map.row = {"source", "From"};
  map.column = {"destination", "To"};
  map.rows = map.columns = ends_of(machine);
  map.further = {{"low", "95 % CI, low"}, {"high", "95 % CI, high"}, {"samples", "samples"}, {"origin", "origin"}};
  return map;
}

/// low, high, samples, origin of a series.
std::vector<TableValue> sample_columns(const Record& record, const char* series) {
  const SampleSummary summary = summarise(samples_of(record, series));
  const auto& ci = summary.median_ci;
  return {ci ? TableValue{ci->low} : TableValue{}, ci ? TableValue{ci->high} : TableValue{}, summary.n,
          std::string(origin_text(record.origin))};
}

std::string range_text(const HeatMap& map, const char* unit) {
  const auto [least, most] = std::minmax_element(map.cells.begin(), map.cells.end(),
                                                 [](const auto& a, const auto& b) { return a.value < b.value; });
  return fmt::format("{} pairs, {} to {} {}; lowest from {} to {}", map.cells.size(), format_number(least->value),
                     format_number(most->value), unit, least->row, std::get<std::string>(least->column));
}

}  // namespace

std::optional<Chart> pair_bandwidth_chart(const std::vector<Record>& records, const MachineSpec& machine,
                                          double min_gbps) {
  HeatMap map = pair_map(machine);
  map.id = "pair-bandwidth";
  map.title = "Copies between devices, one direction (GB/s)";
  map.value = {"bandwidth_gbps", "Bandwidth (GB/s)"};
  map.judgement_title = "Judgement";
  map.outlined = "below the expected bandwidth", map.plain = "as expected";
  map.further.insert(map.further.begin(), {"expected_gbps", "Expected (GB/s)"});
  size_t slow = 0;
  for (const LinkSpec& link : machine.links) {
    const Record* record = copy_engine_record(records, link, machine);
    if (!record || link.measured_gbps <= 0) continue;
    const bool outlined = is_slow(link, min_gbps);
    slow += outlined;
    HeatCell cell{link_end(machine, link.source),    link_end(machine, link.destination), link.measured_gbps,
                  format_number(link.measured_gbps), outlined ? map.outlined : map.plain, {known(link.expected_gbps)}};
    for (TableValue& value : sample_columns(*record, "bandwidth")) cell.further.push_back(std::move(value));
    map.cells.push_back(std::move(cell));
  }
  if (map.cells.empty()) return std::nullopt;
  map.summary =
      fmt::format("{}. {}.", range_text(map, "GB/s"),
                  slow == 0 ? "None is outlined as slow" : fmt::format("{} outlined: {}", slow, map.outlined));
  return heat_map_chart(map);
}

std::optional<Chart> pair_latency_chart(const std::vector<Record>& records, const MachineSpec& machine) {
  HeatMap map = pair_map(machine);
  map.id = "pair-latency";
  map.title = "Time of a load from another device's memory (us)";
  map.value = {"latency_us", "Latency (us)"};
  for (const LinkSpec& link : machine.links) {
    const Record* record = pair_record(records, link, machine, "device_to_device_latency_sm");
    if (!record || link.latency_us <= 0 || record->status.kind != Status::Kind::ok) continue;
    map.cells.push_back({link_end(machine, link.source), link_end(machine, link.destination), link.latency_us,
                         format_number(link.latency_us), "", sample_columns(*record, "latency")});
  }
  if (map.cells.empty()) return std::nullopt;
  map.summary = range_text(map, "us") + ".";
  return heat_map_chart(map);
}

std::optional<Chart> link_sweep_chart(const std::vector<Record>& records, const std::string& test,
                                      const std::string& mover) {
  LinePlot plot;
  plot.id = slug(test);
  plot.title = fmt::format("Bandwidth of copies by {} against their size (GB/s)", mover);
  plot.x = {"bytes", "Size of a copy"};
  plot.y = {"bandwidth_gbps", "Bandwidth (GB/s)"};
  plot.series_title = "Path";
  plot.interval_title = "95 % CI";
  plot.joined = false;
  std::vector<const Record*> pairs;
  for (const Record& record : records)
    if (record.kind == "link" && text_axis(record, "test") == test && record.status.kind == Status::Kind::ok)
      pairs.push_back(&record);
  double least_alpha = 0, most_beta = 0;
  for (const Record* record : pairs) {
    const std::string panel = pairs.size() > kMostSeriesOfAPicture ? "from " + text_axis(*record, "source") : "";
    const std::string name =
        panel.empty() ? fmt::format("{} → {}", text_axis(*record, "source"), text_axis(*record, "destination"))
                      : "to " + text_axis(*record, "destination");
    LineSeries measured{name, panel, record->origin, {}}, fitted{name, panel, Origin::modelled, {}};
    const std::vector<double>&sizes = samples_of(*record, "bytes"), &rates = samples_of(*record, "bandwidth_by_size");
    const double alpha = record->value("alpha").value_or(0), beta = record->value("beta").value_or(0);
    for (size_t i = 0; i < std::min(sizes.size(), rates.size()); ++i) {
      measured.points.push_back({sizes[i], rates[i], std::nullopt, 1});
      if (beta > 0) fitted.points.push_back({sizes[i], fitted_gbps(alpha, beta, sizes[i]), std::nullopt, 0});
    }
    if (beta > 0) least_alpha = most_beta > 0 ? std::min(least_alpha, alpha) : alpha;
    most_beta = std::max(most_beta, beta);
    plot.series.push_back(std::move(measured));
    plot.series.push_back(std::move(fitted));
  }
  plot.summary = fmt::format("{} paths; fitted lines start from {} us and end at up to {} GB/s.", pairs.size(),
                             format_number(least_alpha), format_number(most_beta));
  return line_chart(plot);
}

std::optional<Chart> host_chart(const std::vector<Record>& records) {
  BarPlot plot;
  plot.id = "host-bandwidth";
  plot.title = "Copies between host memory and devices (GB/s)";
  plot.name = {"way", "Path"};
  plot.value = {"bandwidth_gbps", "Bandwidth (GB/s)"};
  plot.interval_title = "95 % CI";
  double least = 0, most = 0;
  for (const Record& record : records) {
    const std::string test = text_axis(record, "test");
    const bool to_device = test == "host_to_device_memcpy_ce", to_host = test == "device_to_host_memcpy_ce";
    const std::vector<double>& samples = samples_of(record, "bandwidth");
    if ((!to_device && !to_host) || record.status.kind != Status::Kind::ok || samples.empty()) continue;
    const SampleSummary summary = summarise(samples);
    Bar bar;
    bar.name = fmt::format("{} → {}", text_axis(record, "source"), text_axis(record, "destination"));
    bar.value = summary.median, bar.interval = summary.median_ci, bar.samples = summary.n, bar.origin = record.origin;
    least = plot.bars.empty() ? bar.value : std::min(least, bar.value), most = std::max(most, bar.value);
    plot.bars.push_back(std::move(bar));
  }
  plot.summary = fmt::format("{} paths, {} to {} GB/s.", plot.bars.size(), format_number(least), format_number(most));
  return bar_chart(plot);
}

}  // namespace amdahl
