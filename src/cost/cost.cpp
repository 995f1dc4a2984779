#include "cost/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "cost/rows.h"
#include "report/common/baseline.h"
#include "report/common/break_even.h"
#include "report/common/words.h"
#include "sensor/report/cost.h"
#include "sensor/report/results.h"
#include "stats/compare.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

using Rows = std::vector<MeasuredRow>;
using Notes = std::vector<std::string>;

constexpr double kWattsPerKilowatt = 1000;

Interval scaled(const Interval& interval, double factor) { return {interval.low * factor, interval.high * factor}; }

const MachinePrice* machine_for(const PriceTable& prices, int64_t devices) {
  for (const MachinePrice& machine : prices.machines)
    if (machine.devices == devices) return &machine;
  return nullptr;
}

ResultDevices devices_of(const CostRow& row) {
  return {row.run, row.devices, row.device_names, row.device_kind, row.origin};
}

/// Electricity cost per hour of the row's devices; 0 if unknown.
double electricity(const PriceTable& prices, const CostRow& row) {
  double watts = 0;
  for (const std::string& name : devices_of(row).priced_names())
    if (const DevicePrice* price = find_price(prices, name)) watts += price->watts.value_or(0);
  return watts / kWattsPerKilowatt * prices.electricity_per_kwh.value_or(0);
}

struct Purchase {
  std::optional<double> price;  // price of devices and machine
};

/// Adds the price per hour and the work per unit of money; returns the purchase price, if everything is bought.
Purchase add_prices(const PriceTable& prices, CostRow& row, Notes& notes) {
  const auto cost = cost_of(prices, devices_of(row), row.throughput, notes);
  if (!cost) return {};
  Purchase purchase;
  row.hourly_price = cost->hourly_price;
  row.owned = cost->owned;
  if (cost->owned) {
    const MachinePrice* machine = machine_for(prices, row.devices);
    if (!machine && !prices.machines.empty())
      add_note(notes, fmt::format("{} has no [[machine]] for {} device{}: what it costs beside them is left out",
                                  prices.source, row.devices, row.devices == 1 ? "" : "s"));
    const double beside = machine ? machine->purchase_price : 0;
    row.hourly_price = cost->hourly_price + beside / paid_hours(prices);
    if (cost->purchase_price) purchase.price = *cost->purchase_price + beside;
  }
  const double work_for_one = kSecondsPerHour / *row.hourly_price;
  row.work_per_price = row.throughput * work_for_one;
  if (row.throughput_ci) row.work_per_price_ci = scaled(*row.throughput_ci, work_for_one);
  return purchase;
}

std::string work_of(const CostRow& row) { return row.size_name + '\n' + row.work; }

std::vector<BaselineCandidate> baseline_candidates(const Rows& rows) {
  std::vector<BaselineCandidate> candidates;
  for (const MeasuredRow& measured : rows) {
    const CostRow& row = measured.row;
    const bool is_alone = row.devices == 1 && row.device_names.size() == 1;
    candidates.push_back(
        {is_alone, work_of(row), row.size, "", is_alone ? row.device_names.front() : "", row.throughput});
  }
  return candidates;
}

Payoff payoff_of(const CostGain& gain) {
  if (!gain.break_even_speedup || !gain.speedup_ci) return Payoff::unclear;
  if (gain.speedup_ci->low >= *gain.break_even_speedup) return Payoff::pays;
  if (gain.speedup_ci->high < *gain.break_even_speedup) return Payoff::does_not_pay;
  return Payoff::unclear;
}

/// Months until the additional work, valued at the one-device cost of work, pays for the additional hardware.
void add_payback(const PriceTable& prices, const CostRow& one, const CostRow& several, double invest, CostGain& gain) {
  gain.further_invest = invest;
  const double benefit =
      (gain.speedup - 1) * *one.hourly_price - (electricity(prices, several) - electricity(prices, one));
  const double monthly = benefit * kHoursPerMonth * prices.utilisation;
  gain.never_paid_back = !(monthly > 0);
  if (!gain.never_paid_back) gain.payback_months = invest / monthly;
}

/// What the study itself says, where both are cells of one study; otherwise by the two throughputs.
CostGain speedup_of(const MeasuredRow& one, const MeasuredRow& several) {
  CostGain gain;
  if (several.study && several.study == one.study)
    for (const StudyComparison& c : several.study->comparisons)
      if (c.multi == several.cell->key && c.single == one.cell->key) {
        gain.speedup = c.test.ratio, gain.speedup_ci = c.test.ci, gain.recommendation = c.recommendation;
        return gain;
      }
  const Estimate speedup =
      ratio_of({several.row.throughput, several.row.throughput_ci}, {one.row.throughput, one.row.throughput_ci});
  gain.speedup = speedup.value, gain.speedup_ci = speedup.ci, gain.recommendation = recommend(speedup.ci);
  return gain;
}

CostGain gain_of(const MeasuredRow& one, const MeasuredRow& several) {
  CostGain gain = speedup_of(one, several);
  if (!one.row.hourly_price || !several.row.hourly_price) return gain;
  const double price = *one.row.hourly_price;
  gain.break_even_speedup = *several.row.hourly_price / price;
  gain.further_price = *several.row.hourly_price - price;
  gain.break_even_price = (gain.speedup - 1) * price;
  if (const auto& ci = gain.speedup_ci)
    gain.break_even_price_ci = Interval{(ci->low - 1) * price, (ci->high - 1) * price};
  gain.payoff = payoff_of(gain);
  return gain;
}

void add_gains(const PriceTable& prices, const std::vector<Purchase>& purchases, Rows& rows, Notes& notes) {
  const std::vector<BaselineCandidate> candidates = baseline_candidates(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    CostRow& row = rows[i].row;
    if (row.devices < 2) continue;
    std::optional<size_t> baseline;
    if (!row.device_names.empty())  // unknown devices cannot be matched to a kind
      baseline = find_baseline(candidates, {work_of(row), rows[i].baseline_size, "", row.device_names});
    if (!baseline) {
      add_note(notes, fmt::format("{}: {} on {} has no result of one device to be compared with", row.run, row.work,
                                  row.configuration));
      continue;
    }
    const CostRow& one = rows[*baseline].row;
    row.gain = gain_of(rows[*baseline], rows[i]);
    row.gain->baseline = *baseline;
    if (row.owned && one.owned && purchases[i].price && purchases[*baseline].price)
      add_payback(prices, one, row, *purchases[i].price - *purchases[*baseline].price, *row.gain);
  }
}

/// One curve: the common fields, and its rows by size.
struct Curve {
  std::string size_name, work, configuration;
  int64_t devices = 2;
  std::map<int64_t, const CostRow*> rows;
};

void add_point(std::map<std::string, Curve>& curves, const Curve& head, int64_t size, const CostRow& row,
               Notes& notes) {
  Curve& curve = curves.emplace(head.size_name + '\n' + head.work + '\n' + head.configuration, head).first->second;
  const auto [there, is_new] = curve.rows.emplace(size, &row);
  if (is_new) return;
  if (row.n > there->second->n) there->second = &row;
  add_note(notes, fmt::format("{} {} of {} on {} was measured more than once: the break-even takes {}", head.size_name,
                              with_thousands(size), head.work, head.configuration, there->second->run));
}

std::map<std::string, Curve> curves_of(const Rows& rows, Notes& notes) {
  std::map<std::string, Curve> curves;
  for (const MeasuredRow& measured : rows) {
    const CostRow& row = measured.row;
    if (!row.gain) continue;
    add_point(curves, {row.size_name, row.work, row.configuration, row.devices, {}}, row.size, row, notes);
    if (measured.family.empty()) continue;
    const std::string work =
        fmt::format("{} {}, {}", format_axis(row.size_name), with_thousands(row.size), measured.family);
    add_point(curves, {"num_parameters", work, row.configuration, row.devices, {}}, row.num_parameters, row, notes);
  }
  std::erase_if(curves, [](const auto& curve) { return curve.second.rows.size() < 2; });
  return curves;
}

/// Where the speedup reaches the ratio of prices; nullopt without prices.
std::optional<BreakEven> break_even_by_price(const Rows& rows, const Curve& curve) {
  const CostGain& gain = *curve.rows.begin()->second->gain;  // same devices, and so the same prices, at every size
  if (!gain.break_even_speedup) return std::nullopt;
  std::vector<SpeedupPoint> points;
  for (const auto& [size, row] : curve.rows) {
    const MeasuredRow& one = rows[row->gain->baseline];
    const double one_us = one.row.size == size ? one.time_us : 0;  // not under weak scaling, nor over parameters
    points.push_back({static_cast<double>(size), row->gain->speedup, row->gain->speedup_ci, one_us});
  }
  return find_break_even(std::move(points), *gain.break_even_speedup);
}

void add_break_evens(const Rows& rows, CostReport& report) {
  for (const auto& [name, curve] : curves_of(rows, report.notes)) {
    std::map<int64_t, bool> recommended;
    for (const auto& [size, row] : curve.rows)
      recommended[size] = row->gain->recommendation == Recommendation::multi_device;
    report.break_evens.push_back({curve.size_name, curve.work, curve.configuration, curve.devices,
                                  curve.rows.rbegin()->first, recommended_from(recommended),
                                  break_even_by_price(rows, curve)});
  }
}

/// The part of the assumed gain that reaches the whole step; nullopt, and the reason, when it cannot be determined.
std::optional<Interval> gain_of_step(const AlternativePrice& alternative, double input_share, std::string& why) {
  if (!alternative.gain_low) {
    why = "the table gives no gain";
    return std::nullopt;
  }
  if (alternative.part == "all") return Interval{*alternative.gain_low, *alternative.gain_high};
  if (input_share < 0) {
    why = "what share of a step its input takes was not measured, or not of the measured step";
    return std::nullopt;
  }
  const auto whole = [&](double gain) { return 1 / (1 - input_share + input_share / (1 + gain)) - 1; };
  return Interval{whole(*alternative.gain_low), whole(*alternative.gain_high)};
}

/// Price per hour with the alternative in addition to, or instead of, the baseline's device.
std::optional<double> price_with(const PriceTable& prices, const AlternativePrice& alternative, const CostRow& one) {
  const double hours = paid_hours(prices);
  if (!(hours > 0) || !one.hourly_price) return std::nullopt;
  const double power = alternative.watts.value_or(0) / kWattsPerKilowatt * prices.electricity_per_kwh.value_or(0);
  const double own = alternative.purchase_price / hours + power;
  if (!alternative.replaces_device) return *one.hourly_price + own;
  const MachinePrice* machine = machine_for(prices, 1);
  return own + (machine ? machine->purchase_price / hours : 0);
}

/// Why an alternative that replaces a device has no numbers; empty if it has.
std::string why_not_replaced(const AlternativePrice& alternative, const MeasuredRow& one) {
  constexpr double kBytesOfGb = 1e9;
  if (!alternative.replaces_device) return {};
  if (alternative.memory_gb && one.memory_bytes.value_or(0) > *alternative.memory_gb * kBytesOfGb)
    return fmt::format("it has {} of memory, and the work takes {}", format_bytes(*alternative.memory_gb * kBytesOfGb),
                       format_bytes(*one.memory_bytes));
  return one.row.owned ? std::string() : "it replaces a bought device, and this one has an hourly price";
}

void add_alternatives(const PriceTable& prices, const Rows& rows, CostReport& report) {
  for (const CostWork& work : works_of(report)) {
    std::optional<size_t> best;  // one-device row with the most work per unit of money, or the most work
    for (const size_t i : work.rows) {
      const CostRow& row = report.rows[i];
      if (row.devices == 1 && !row.device_names.empty() && (!best || row.throughput > report.rows[*best].throughput))
        best = i;
    }
    if (!best) continue;
    const CostRow& one = report.rows[*best];
    for (const AlternativePrice& alternative : prices.alternatives) {
      if (alternative.replaces_device && !is_in_name(alternative.instead_of, one.device_names.front())) {
        add_note(report.notes,
                 fmt::format("no comparison with {}: {} has it instead of {}, and this is {}",
                             printable(alternative.name, 80), prices.source, printable(alternative.instead_of, 60),
                             printable(one.device_names.front(), 60)));
        continue;
      }
      CostAlternative found{alternative.name, *best, alternative.purchase_price, {}, {}, {}, {}, "", alternative.note};
      found.why_absent = why_not_replaced(alternative, rows[*best]);
      if (!found.why_absent.empty()) {
        report.alternatives.push_back(std::move(found));
        continue;
      }
      found.gain = gain_of_step(alternative, rows[*best].input_share, found.why_absent);
      found.hourly_price = price_with(prices, alternative, one);
      if (!found.hourly_price && found.why_absent.empty()) found.why_absent = "an hour of it has no price";
      if (found.gain)
        found.work_per_hour =
            Interval{one.work_per_hour * (1 + found.gain->low), one.work_per_hour * (1 + found.gain->high)};
      if (found.work_per_hour && found.hourly_price)
        found.work_per_price = scaled(*found.work_per_hour, 1 / *found.hourly_price);
      report.alternatives.push_back(std::move(found));
    }
  }
}

}  // namespace

std::vector<CostWork> works_of(const CostReport& report) {
  std::vector<CostWork> works;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    auto same = std::find_if(works.begin(), works.end(),
                             [&](const CostWork& work) { return work.work == report.rows[i].work; });
    if (same == works.end()) same = works.insert(works.end(), CostWork{report.rows[i].work, {}});
    same->rows.push_back(i);
  }
  return works;
}

CostReport summarise_cost(const std::vector<CostRun>& runs, const PriceTable& prices) {
  CostReport report;
  report.prices = prices.source;
  report.currency = prices.currency;
  report.as_of = prices.as_of;
  Rows rows = measured_rows(runs, report.notes);
  std::stable_sort(rows.begin(), rows.end(), [](const MeasuredRow& a, const MeasuredRow& b) {
    return std::tie(a.row.work, a.row.size, a.row.devices) < std::tie(b.row.work, b.row.size, b.row.devices);
  });
  std::vector<Purchase> purchases;
  for (MeasuredRow& measured : rows) {
    measured.row.work_per_hour = measured.row.throughput * kSecondsPerHour;
    if (measured.row.origin != Origin::measured) measured.row.joule_per_work.reset();
    purchases.push_back(add_prices(prices, measured.row, report.notes));
  }
  add_gains(prices, purchases, rows, report.notes);
  for (const MeasuredRow& measured : rows) report.rows.push_back(measured.row);
  add_break_evens(rows, report);
  add_alternatives(prices, rows, report);
  return report;
}

}  // namespace amdahl
