#include "sensor/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "chart/document.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "sensor/report/charts.h"
#include "sensor/report/gain.h"
#include "sensor/report/gain_charts.h"
#include "stats/estimate.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

bool is_measured(const Record& record) {
  return record.kind == "sensor" && record.status.kind == Status::Kind::ok && !samples_of(record, "time").empty();
}

std::string record_text(const Record& record) {
  const bool tasks = text_axis(record, "mode") == "task" && !is_one_task(record);
  std::string text = tasks ? "all tasks"
                           : fmt::format("{} {}, {}", text_axis(record, "op"), text_axis(record, "workload"),
                                         text_axis(record, "mode"));
  if (!voxel_option(record).empty()) text += ", " + voxel_option(record);
  text += axis<int64_t>(record, "devices", 0) == 1 ? ", 1 device" : ", " + sharing_devices(record);
  const std::string method = text_axis(record, "policy") + text_axis(record, "schedule");
  return method.empty() ? text : text + ", " + method;
}

/// Whether `a` precedes `b` in a headline: measured before emulated, then the larger number.
bool leads(const Record& a, double of_a, const Record& b, double of_b) {
  const bool measured_a = a.origin == Origin::measured, measured_b = b.origin == Origin::measured;
  return measured_a == measured_b ? of_a > of_b : measured_a;
}

/// Among multi-device and divided-work records, the one with the highest speedup: of those that are certainly faster,
/// if there are any.
std::pair<const Record*, SensorGain> best_gain(const std::vector<Record>& records) {
  std::pair<const Record*, SensorGain> best{nullptr, {}};
  for (const Record& record : records) {
    if (!is_measured(record) || is_one_task(record)) continue;
    const std::optional<SensorGain> gain = sensor_gain(records, record);
    if (!gain || gain->base == &record) continue;
    const auto sure = [](const SensorGain& g) { return g.ci && g.ci->low > 1; };
    if (best.first && sure(*gain) != sure(best.second) && record.origin == best.first->origin) {
      if (sure(*gain)) best = {&record, *gain};
    } else if (!best.first || leads(record, gain->speedup, *best.first, best.second.speedup)) {
      best = {&record, *gain};
    }
  }
  return best;
}

const Record* fastest(const std::vector<Record>& records, const std::string& op) {
  const Record* best = nullptr;
  for (const Record& record : records) {
    if (!is_measured(record) || is_one_task(record) || (!op.empty() && text_axis(record, "op") != op)) continue;
    const double rate = sensor_rate(record).value;
    if (rate > 0 && (!best || leads(record, rate, *best, sensor_rate(*best).value))) best = &record;
  }
  return best;
}

std::vector<std::string> operations(const std::vector<Record>& records) {
  std::vector<std::string> names;
  for (const Record& record : records)
    if (is_measured(record) && !is_one_task(record) &&
        std::find(names.begin(), names.end(), text_axis(record, "op")) == names.end())
      names.push_back(text_axis(record, "op"));
  return names;
}

std::string rate_text(const Record& record) {
  const RateUnit unit = rate_unit(record);
  return fmt::format("{} {}", format_number(sensor_rate(record).value / unit.divisor), unit.unit);
}

/// The size from which several devices are faster, or that they never are.
std::string format_crossover(const std::vector<Record>& records) {
  bool scaled = false;
  for (const Record& record : records)
    scaled = scaled || (is_measured(record) && !is_divided_work(record) && axis<int64_t>(record, "devices", 0) > 1 &&
                        text_axis(record, "scaling") == "strong");
  if (!scaled) return {};
  const std::vector<Crossover> crossovers = sensor_crossovers(records);
  if (crossovers.empty())
    return fmt::format(" At no measured size are several devices {} there and at every larger size.", clearly_faster());
  std::set<std::string> places;
  int64_t least = crossovers.front().sizes.from, most = least, alone = 0;
  for (const Crossover& crossover : crossovers) {
    places.insert(crossover_place(crossover));
    least = std::min(least, crossover.sizes.from), most = std::max(most, crossover.sizes.from);
    alone += crossover.num_sizes == 1;
  }
  if (places.size() == 1) return fmt::format(" Several devices are {} {}.", clearly_faster(), *places.begin());
  const std::string range = fmt::format(" Several devices are {} from {} to {} items per call on, by operation",
                                        clearly_faster(), with_thousands(least), with_thousands(most));
  return alone == 0 ? range + "."
                    : fmt::format("{}; {} of {} were measured at one size alone.", range, alone, crossovers.size());
}

std::string verdict_of(const std::vector<Record>& records) {
  const auto [best, gain] = best_gain(records);
  const Record* top = fastest(records, "");
  if (!top) return "Nothing could be measured: see the notes.";
  const DeviceWords words = device_text(top->provenance.device_kind);
  if (!best && axis<int64_t>(*top, "devices", 1) > 1)
    return fmt::format("{} do {} at best; one of them alone was not measured.", sharing_devices(*top), rate_text(*top));
  if (!best) return fmt::format("One {} does {} at best ({}).", words.one, rate_text(*top), record_text(*top));
  const int64_t devices = axis<int64_t>(*best, "devices", 1);
  const std::string method = text_axis(*best, "policy") + text_axis(*best, "schedule");
  if (!gain.ci || gain.ci->low <= 1)
    return fmt::format("No configuration is clearly faster than one {}; the best reaches {}.", words.one,
                       format_speedup(gain.speedup, gain.ci));
  if (best->origin != Origin::measured)
    return fmt::format(
        "{} ({}) reach {:.2f} times the speed of the fastest of them alone: {}, not measured on such "
        "devices.",
        sharing_devices(*best), method, gain.speedup, origin_text(best->origin));
  return fmt::format("{} {}{} {} {:.2f} times the speed of {}.{}", devices, devices == 1 ? words.one : words.many,
                     method.empty() ? "" : fmt::format(" ({})", method), devices == 1 ? "reaches" : "reach",
                     gain.speedup, text_axis(*best, "mode") == "pipeline" ? "one after the other" : "one",
                     format_crossover(records));
}

std::vector<std::string> facts_of(const std::vector<Record>& records) {
  std::vector<std::string> facts;
  if (const auto [best, gain] = best_gain(records); best)
    facts.push_back(fmt::format("{}: best speedup, {} ({}n = {} and {})", format_speedup(gain.speedup, gain.ci),
                                record_text(*best), gain.ci ? "95 % CI, " : "", samples_of(*best, "time").size(),
                                samples_of(*gain.base, "time").size()));
  for (const std::string& op : operations(records)) {
    const Record* top = fastest(records, op);
    if (!top || facts.size() >= 2) continue;
    const RateUnit unit = rate_unit(*top);
    const Figure figure =
        figure_of(scaled(sensor_rate(*top), 1 / unit.divisor), unit.unit, samples_of(*top, "time").size());
    facts.push_back(
        fmt::format("{}: the highest rate of {}, {} ({})", figure.number, op, record_text(*top), figure.basis));
  }
  double checked = 0;
  int64_t cells = 0, failed = 0;
  for (const Record& record : records) {
    if (record.kind != "sensor") continue;
    checked += record.value("checked").value_or(0), ++cells;
    failed += record.status.kind == Status::Kind::failed;
  }
  facts.push_back(fmt::format("{} of {} cells failed: {} values of results were compared", failed, cells,
                              with_thousands(static_cast<int64_t>(checked))));
  return facts;
}

/// Adds notes on GPUs whose state (clock, throttling) changed during the measurement.
void add_card_notes(Page& page, const Record& record) {
  const std::string where = fmt::format("{}, {}", text_axis(record, "workload"), voxel_text(record));
  const auto &before = samples_of(record, "sm_clock_before"), &after = samples_of(record, "sm_clock"),
             &reasons = samples_of(record, "throttle_reasons");
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i)
    if (std::fabs(after[i] - before[i]) > kClockTolerance * before[i])
      page.notes.push_back(
          fmt::format("{}: the SM clock of device {} moved from {:.0f} to {:.0f} MHz", where, i, before[i], after[i]));
  for (size_t i = 0; i < reasons.size(); ++i)
    if (was_throttled(reasons[i])) page.notes.push_back(fmt::format("{}: device {} was throttled", where, i));
}

/// Adds notes on points of files outside of all voxels, one per cloud.
void add_point_notes(Page& page, const std::vector<Record>& records) {
  std::set<std::string> notes;
  for (const Record& record : records) {
    const auto nan = axis<int64_t>(record, "points_nan", 0), outside = axis<int64_t>(record, "points_outside", 0);
    if (nan + outside > 0)
      notes.insert(fmt::format("of {} points of {} {} NaN and {} outside of the grid are in no voxel",
                               with_thousands(axis<int64_t>(record, "points", 0)), text_axis(record, "input"),
                               with_thousands(nan), with_thousands(outside)));
  }
  page.notes.insert(page.notes.end(), notes.begin(), notes.end());
}

PageSection cells_section(const std::vector<Record>& records) {
  PageSection section{"cells", "Every cell", {}, {}, sensor_tables(records)};
  if (section.tables.empty()) section.title = "Outliers";
  int64_t outliers = 0;
  for (const Record& record : records)
    if (record.kind == "sensor") outliers += summarise(samples_of(record, "time")).num_outliers;
  if (outliers > 0)
    section.paragraphs.push_back(
        fmt::format("{} sample{} of time flagged as outlier{} (modified z above 3.5), none "
                    "dropped.",
                    outliers, outliers == 1 ? "" : "s", outliers == 1 ? "" : "s"));
  if (!section.tables.empty())
    section.paragraphs.emplace_back(
        "Time: on the device, median and 95 % interval of n samples; call: one call until it is done, by the host's "
        "clock, median; merge: the share of it in single calls, and that share of the time; speedup against one "
        "device.");
  return section;
}

PageSection charts_section(const char* anchor, const char* title, std::vector<Chart> charts) {
  PageSection section{anchor, title, {}, {}, {}};
  section.charts = std::move(charts);
  return section;
}

}  // namespace

Page sensor_page(const std::vector<Record>& records) {
  Page page;
  page.subject = {"sensor benchmark", "sensor benchmarks", fmt::format("{}", fmt::join(operations(records), ", ")),
                  page_devices(records)};
  page.title = records.empty() ? "Sensor preprocessing"
                               : fmt::format("Sensor preprocessing ({}) on {}", fmt::join(operations(records), ", "),
                                             records.front().provenance.host);
  page.qualifier = page_qualifier(records);
  page.verdict = verdict_of(records);
  page.facts = facts_of(records);
  PageSection sizes = charts_section("sizes", "Against the size of the work", sensor_size_charts(records));
  sizes.paragraphs = crossover_lines(records);
  add_section(page, std::move(sizes));
  std::vector<Chart> devices = sensor_device_charts(records);
  for (Chart& chart : sensor_gain_charts(records)) devices.push_back(std::move(chart));
  add_section(page, charts_section("devices", "Against devices", std::move(devices)));
  add_section(page, divided_work_section(records));
  add_section(page, cells_section(records));
  page.provenance = page_provenance(records);
  for (const Record& record : records)
    if (record.kind == "sensor") add_card_notes(page, record);
  add_status_notes(page, records, record_text);
  add_point_notes(page, records);
  return page;
}

}  // namespace amdahl
