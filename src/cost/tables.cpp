#include "cost/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/study_charts.h"
#include "report/common/break_even.h"
#include "report/page/page_parts.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

constexpr const char* kNone = "n/a";

std::string interval_text(const std::optional<Interval>& interval, std::string (*text)(double)) {
  if (!interval) return " [n/a]";
  return fmt::format(" [{}, {}]", text(interval->low), text(interval->high));
}

std::string money(double value) {
  const double size = std::abs(value);
  return size >= 0.1 || size == 0 ? fmt::format("{:.2f}", value) : format_number(value);
}

std::string maybe_money(const std::optional<double>& value) { return value ? money(*value) : std::string(kNone); }

std::string payback_text(const CostGain& gain) {
  if (gain.never_paid_back) return "never";
  return gain.payback_months ? fmt::format("{} months", format_number(*gain.payback_months)) : std::string(kNone);
}

std::string worth_text(const CostGain& gain) {
  if (!gain.break_even_price) return kNone;
  return money(*gain.break_even_price) + interval_text(gain.break_even_price_ci, money);
}

/// Singular: "sample" of "samples", "batch" of "batches".
std::string one_of(const std::string& unit) {
  for (const std::string_view plural : {"ches", "shes", "xes", "sses"})
    if (unit.ends_with(plural)) return unit.substr(0, unit.size() - 2);
  return unit.ends_with('s') ? unit.substr(0, unit.size() - 1) : unit;
}

/// Whether there are several runs: rows of one configuration may then differ only in the run.
bool of_several_runs(const CostReport& report) {
  return std::any_of(report.rows.begin(), report.rows.end(),
                     [&](const CostRow& row) { return row.run != report.rows.front().run; });
}

std::vector<std::string> row_text(const CostRow& row) {
  std::vector<std::string> cells{
      with_thousands(row.size),
      row.configuration,
      format_number(row.throughput) + interval_text(row.throughput_ci, format_number),
      std::to_string(row.n),
      short_number(row.work_per_hour),
      maybe_money(row.hourly_price),
      row.work_per_price ? short_number(*row.work_per_price) + interval_text(row.work_per_price_ci, short_number)
                         : std::string(kNone),
      row.joule_per_work ? format_number(*row.joule_per_work) : std::string("not measured")};
  if (!row.gain) {
    cells.insert(cells.end(), 5, row.devices == 1 ? "-" : kNone);
    return cells;
  }
  const CostGain& gain = *row.gain;
  cells.push_back(format_speedup(gain.speedup, gain.speedup_ci));
  cells.push_back(gain.break_even_speedup ? fmt::format("{:.2f}x", *gain.break_even_speedup) : std::string(kNone));
  cells.push_back(gain.break_even_speedup ? std::string(to_string(gain.payoff)) : std::string(kNone));
  cells.push_back(worth_text(gain));
  cells.push_back(payback_text(gain));
  return cells;
}

/// Where several devices are recommended by time, as in the report of a study.
std::string faster_text(const CostBreakEven& curve) {
  if (!curve.faster) return fmt::format("not certainly at {}, the largest measured", with_thousands(curve.largest));
  if (curve.faster->below == 0) return fmt::format("at every size measured, up to {}", with_thousands(curve.largest));
  return "at " + crossover_text(*curve.faster, format_axis(curve.size_name));
}

}  // namespace

PageTable cost_table(const CostReport& report, const CostWork& work) {
  const CostRow& first = report.rows.at(work.rows.front());
  const std::string& currency = report.currency;
  std::vector<std::string> head{format_axis(first.size_name),
                                "devices",
                                fmt::format("{}/s [95 % CI]", first.unit),
                                "n",
                                first.unit + "/h",
                                currency + "/h",
                                fmt::format("{}/{} [95 % CI]", first.unit, currency),
                                "J/" + one_of(first.unit),
                                "speedup [95 % CI]",
                                "break-even speedup",
                                "verdict",
                                fmt::format("further devices worth {}/h [95 % CI]", currency),
                                "payback"};
  std::vector<std::vector<std::string>> rows;
  for (const size_t i : work.rows) rows.push_back(row_text(report.rows[i]));
  if (of_several_runs(report)) {
    constexpr size_t kRunColumn = 2;  // after size and devices
    head.insert(head.begin() + kRunColumn, "run");
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].insert(rows[i].begin() + kRunColumn, printable(report.rows[work.rows[i]].run, 80));
  }
  return table_of_texts(work.work, head, rows);
}

PageTable break_even_table(const CostReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const CostBreakEven& curve : report.break_evens)
    rows.push_back({curve.work, curve.configuration, format_axis(curve.size_name), faster_text(curve),
                    curve.by_price ? fmt::format("{:.2f}x", curve.by_price->at_speedup) : kNone,
                    curve.by_price ? break_even_text(*curve.by_price) : kNone});
  return table_of_texts(
      "Where several devices begin to pay, measured sizes only",
      {"work", "devices", "over", fmt::format("faster by {:.0f} % or more", 100 * (kMultiBeneficial - 1)),
       "break-even speedup", "worth their price"},
      rows);
}

PageTable alternatives_table(const CostReport& report) {
  const std::string& currency = report.currency;
  const std::vector<std::string> head{"work",   "instead of more devices", "purchase " + currency, "assumed gain",
                                      "work/h", currency + "/h",           "work/" + currency,     "against one device",
                                      "source"};
  std::vector<std::vector<std::string>> rows;
  for (const CostAlternative& alternative : report.alternatives) {
    const CostRow& one = report.rows.at(alternative.baseline);
    const auto range = [](const std::optional<Interval>& values) {
      return values ? fmt::format("{} to {}", short_number(values->low), short_number(values->high))
                    : std::string(kNone);
    };
    rows.push_back(
        {fmt::format("{}, {} {}", one.work, format_axis(one.size_name), with_thousands(one.size)),
         printable(alternative.name, 80), money(alternative.purchase_price),
         alternative.gain ? fmt::format("{:.0f} to {:.0f} %", 100 * alternative.gain->low, 100 * alternative.gain->high)
                          : fmt::format("n/a: {}", alternative.why_absent),
         range(alternative.work_per_hour), maybe_money(alternative.hourly_price), range(alternative.work_per_price),
         one.work_per_price ? short_number(*one.work_per_price) : std::string(kNone),
         printable(alternative.note, 120)});
  }
  return table_of_texts(
      "Alternatives for the same money: modelled from the gains that the price table assumes, not measured", head,
      rows);
}

std::string prices_text(const CostReport& report) {
  return fmt::format("prices in {} are examples, those of {}{}: edit them to what you pay",
                     printable(report.currency, 20), report.prices,
                     report.as_of.empty() ? "" : fmt::format(" as of {}", printable(report.as_of, 40)));
}

std::vector<std::string> cost_method() {
  constexpr const char* kWork =
      "Work per hour is throughput x 3600; work per unit of currency is that over the price of an hour of devices and "
      "machine.";
  constexpr const char* kPays =
      "Several devices pay where their speedup over the best one device of their kind is at least the ratio of the "
      "prices of an hour; the verdict is by the 95 % interval of the speedup, which is that of the study.";
  constexpr const char* kWorth =
      "Further devices are worth at most (speedup - 1) x the price of an hour of one device.";
  constexpr const char* kPayback =
      "Payback: purchase of the further hardware over the further work a month, valued at what it costs on one device, "
      "less the further electricity.";
  constexpr const char* kBreakEven =
      "Several devices are faster from the smallest measured size at which, as at every larger one, they are "
      "recommended by the interval of their speedup. Sizes at which they are worth their price are interpolated "
      "between neighbouring measured sizes, both axes logarithmic, never beyond them; their interval comes from the "
      "ends of the speedups' intervals.";
  return {kWork, kPays, kWorth, kPayback, kBreakEven};
}

}  // namespace amdahl
