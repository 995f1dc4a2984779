// The page of a comparison of sensor runs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "chart/document.h"
#include "report/common/settings.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "sensor/report/compare.h"
#include "sensor/report/gain_charts.h"
#include "sensor/report/results.h"

namespace amdahl {
namespace {

constexpr const char* kAbsent = "-";

std::string devices_text(const SensorRow& row) {
  if (row.devices.empty()) return fmt::format("{} devices", axis_text(row.axes.at("devices")));
  return counted_devices(row.devices);
}

/// "data, strong scaling, merge peer, path direct": how the work was divided.
std::string sharing_text(const SensorRow& row) {
  static constexpr const char* kFirst[] = {"mode", "scaling", "policy", "merge", "path"};
  static constexpr const char* kElsewhere[] = {"devices", "items",      "batch",         "points",
                                               "input",   "points_nan", "points_outside"};  // in the table or its title
  std::vector<std::string> parts;
  std::set<std::string> said(std::begin(kWorkloadAxes), std::end(kWorkloadAxes));
  said.insert(std::begin(kElsewhere), std::end(kElsewhere));
  const auto say = [&](const std::string& name, const AxisValue& value) {
    if (!said.insert(name).second || value == AxisValue(std::string("none")) ||
        value == AxisValue(std::string("direct")))
      return;
    parts.push_back(setting_text(name, value));
  };
  for (const char* name : kFirst)
    if (const auto found = row.axes.find(name); found != row.axes.end()) say(name, found->second);
  for (const auto& [name, value] : row.axes) say(name, value);
  if (row.origin == Origin::emulated) parts.emplace_back("emulated");
  if (row.origin == Origin::modelled) parts.emplace_back("modelled");
  return printable(fmt::format("{}", fmt::join(parts, ", ")), 160);
}

std::string label(const SensorRow& row) { return fmt::format("{}, {}", devices_text(row), sharing_text(row)); }

/// Four digits with an SI prefix from a million on: "1.247G", "144.6M". Hourly work has many digits.
std::string compact(double value) {
  static constexpr std::pair<double, const char*> kMultiples[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}};
  for (const auto& [multiple, letter] : kMultiples)
    if (value >= 0.99995 * multiple) {
      const double rest = value / multiple;
      return fmt::format("{:.{}f}{}", rest, rest < 9.9995 ? 3 : rest < 99.995 ? 2 : 1, letter);
    }
  return format_number(value);
}

std::string with_interval(double value, const std::optional<Interval>& ci) {
  if (!ci) return fmt::format("{} [n/a]", compact(value));
  return fmt::format("{} [{}, {}]", compact(value), compact(ci->low), compact(ci->high));
}

std::string format_speedup(const SensorRow& row) {
  return row.speedup ? format_speedup(row.speedup->ratio, row.speedup->ci) : "baseline";
}

std::string verdict_of_row(const SensorRow& row) {
  if (!row.speedup) return kAbsent;
  if (!row.recommendation) return verdict_text(*row.speedup);
  return recommendation_text(*row.recommendation, *row.speedup, row.device_kind, "samples") +
         (row.origin == Origin::measured ? "" : fmt::format(" ({})", origin_text(row.origin)));
}

/// "batches" of "batches/s".
std::string item_text(const WorkloadComparison& workload) {
  return printable(workload.unit.substr(0, workload.unit.rfind('/')), 20);
}

struct CostColumns {
  bool hourly = false, purchase = false;
};

CostColumns cost_columns(const WorkloadComparison& workload) {
  CostColumns columns;
  for (const SensorRow& row : workload.rows) {
    columns.hourly = columns.hourly || row.cost;
    columns.purchase = columns.purchase || (row.cost && row.cost->purchase_per_throughput);
  }
  return columns;
}

std::vector<std::string> header(const WorkloadComparison& workload, const std::string& currency, CostColumns columns) {
  const std::string items = item_text(workload), unit = items + "/s";
  std::vector<std::string> cells{"devices",           "sharing",    unit + " [95 % CI]", "n",
                                 "speedup [95 % CI]", "efficiency", items + "/h"};
  if (columns.hourly) {
    cells.push_back(currency + "/h");
    cells.push_back(fmt::format("{}/{}", items, currency));
  }
  if (columns.purchase) cells.push_back(fmt::format("{} per {}", currency, unit));
  cells.insert(cells.end(), {"verdict", "from"});
  return cells;
}

std::vector<std::string> cells_of(const SensorRow& row, CostColumns columns) {
  std::vector<std::string> cells{
      devices_text(row),         sharing_text(row),   with_interval(row.throughput, row.throughput_ci),
      std::to_string(row.n),     format_speedup(row), row.efficiency ? format_percent(*row.efficiency) : kAbsent,
      compact(row.work_per_hour)};
  if (columns.hourly) {
    cells.push_back(row.cost
                        ? fmt::format("{}{}", format_number(row.cost->hourly_price), row.cost->owned ? " (owned)" : "")
                        : kAbsent);
    cells.push_back(row.cost ? compact(row.cost->work_per_price) : kAbsent);
  }
  if (columns.purchase)
    cells.push_back(row.cost && row.cost->purchase_per_throughput ? format_number(*row.cost->purchase_per_throughput)
                                                                  : kAbsent);
  cells.push_back(verdict_of_row(row));
  cells.push_back(printable(row.run, 60));
  return cells;
}

/// The recommendations, as lines without a line end.
std::vector<std::string> conclusions(const WorkloadComparison& workload, const std::string& currency) {
  const SensorRow &multi = workload.rows[workload.fastest_multi], &fastest = workload.rows[workload.fastest];
  std::vector<std::string> lines{
      fmt::format("verdict: {} ({}: {})", verdict_of_row(multi), label(multi), format_speedup(multi))};
  lines.push_back(
      fmt::format("best throughput: {}: {} {}", label(fastest), compact(fastest.throughput), workload.unit));
  if (workload.cheapest) {
    const SensorRow& cheapest = workload.rows[*workload.cheapest];
    lines.push_back(fmt::format("most for the price: {}: {} {} for 1 {}", label(cheapest),
                                compact(cheapest.cost->work_per_price), item_text(workload), currency));
  }
  return lines;
}

/// "1.66x [1.63, 1.69] with 2x NVIDIA H100".
std::string gain_text(const SensorRow& row) {
  const std::string origin = row.origin == Origin::measured ? "" : fmt::format(", {}", origin_text(row.origin));
  return fmt::format("{} with {}{}", format_speedup(row), devices_text(row), origin);
}

/// How many workloads several devices pay for, and the largest speedup; measured rows precede emulated ones.
std::string sensor_compare_verdict(const SensorComparison& comparison) {
  const auto row_of = [](const WorkloadComparison& workload) -> const SensorRow& {
    return workload.rows[workload.fastest_multi];
  };
  const auto is_unclear = [](const SensorRow& row) {
    return row.recommendation == Recommendation::unclear || has_too_few_runs(*row.speedup);
  };
  const WorkloadComparison* best = &comparison.workloads.front();
  size_t paying = 0, unclear = 0;
  for (const WorkloadComparison& workload : comparison.workloads) {
    const SensorRow &row = row_of(workload), &other = row_of(*best);
    unclear += is_unclear(row);
    paying += !is_unclear(row) && row.recommendation == Recommendation::multi_device;
    const bool measured = row.origin == Origin::measured;
    if (measured != (other.origin == Origin::measured) ? measured : row.speedup->ratio > other.speedup->ratio)
      best = &workload;
  }
  const DeviceWords words = device_text(row_of(*best).device_kind);
  const size_t total = comparison.workloads.size();
  const std::string gain = gain_text(row_of(*best)), where = total == 1 ? "" : " at " + format_workload(best->axes);
  if (paying == 0)
    return fmt::format(
        "{} {}: at best {}{}.",
        unclear > 0 ? "It is not settled whether more are faster; stay with one" : "One is enough: stay with one",
        words.one, gain, where);
  const std::string cases = total == 1        ? "the one workload"
                            : paying == total ? fmt::format("all {} workloads", total)
                                              : fmt::format("{} of {} workloads", paying, total);
  return fmt::format("Several {} are faster in {}: up to {}{}.", words.many, cases, gain, where);
}

bool on_virtual_devices(const SensorComparison& comparison) {
  for (const WorkloadComparison& workload : comparison.workloads)
    for (const SensorRow& row : workload.rows)
      if (row.device_kind == "cpu-virtual") return true;
  return false;
}

/// Text that applies to all tables, as lines without a line end.
std::vector<std::string> preface(const SensorComparison& comparison) {
  std::vector<std::string> lines;
  lines.emplace_back(
      "Speedup is over the best result on one device; efficiency is throughput over the sum of what the same devices "
      "do "
      "alone.");
  if (!comparison.prices.empty())
    lines.push_back(fmt::format("Prices are those of {}{}, not measured.", printable(comparison.prices, 200),
                                comparison.as_of.empty() ? "" : ", as of " + printable(comparison.as_of, 40)));
  return lines;
}

}  // namespace

Page sensor_compare_page(const SensorComparison& comparison, const std::string& json) {
  Page page;
  page.title = "Preprocessing on one device and on several";
  if (on_virtual_devices(comparison)) page.qualifier = "measured on CPU virtual devices, not GPUs";
  page.verdict = sensor_compare_verdict(comparison);
  page.facts = preface(comparison);
  const std::string currency = printable(comparison.currency, 10);
  for (const WorkloadComparison& workload : comparison.workloads) {
    const CostColumns columns = cost_columns(workload);
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> names;
    for (const SensorRow& row : workload.rows) rows.push_back(cells_of(row, columns)), names.push_back(label(row));
    const size_t number = page.sections.size() + 1;
    page.sections.push_back({fmt::format("workload-{}", number),
                             format_workload(workload.axes),
                             conclusions(workload, currency),
                             workload_charts(workload, number, names),
                             {table_of_texts("", header(workload, currency, columns), rows)}});
  }
  page.notes = comparison.notes;
  page.embedded_json = json;
  return page;
}

}  // namespace amdahl
