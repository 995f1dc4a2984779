// Cost of work on devices: work per hour and per price of every measured configuration, and the size from which several
// devices pay. Prices come from a file; docs/cost.md has the formulas. Plain data; amounts are in the price table's
// currency.
//
// Example:
//   amdahl::CostConfig config;  // of amdahl/amdahl.h
//   config.runs = {"runs/study"};
//   config.prices = "prices.toml";
//   std::puts(to_text(amdahl::run_cost(config)).c_str());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Whether several devices do more work per price than one.
enum class Payoff { unclear, pays, does_not_pay };

/// "pays", "does not pay", "unclear".
constexpr std::string_view to_string(Payoff payoff) {
  switch (payoff) {
    case Payoff::pays:
      return "pays";
    case Payoff::does_not_pay:
      return "does not pay";
    case Payoff::unclear:
      break;
  }
  return "unclear";
}

/// Several devices against the best single device of their kind at the same work and size.
struct CostGain {
  size_t baseline = 0;  // index in CostReport::rows
  double speedup = 1;
  std::optional<Interval> speedup_ci;
  std::optional<double> break_even_speedup;  // hourly price of these devices / hourly price of one
  Payoff payoff = Payoff::unclear;           // by the interval of the speedup; unclear without prices
  std::optional<double> break_even_price;    // highest hourly price of the additional hardware: (speedup - 1) x one's
  std::optional<Interval> break_even_price_ci;
  std::optional<double> further_price;   // hourly price of the additional hardware
  std::optional<double> further_invest;  // purchase price of the additional hardware, when all of it is bought
  std::optional<double> payback_months;  // until it is paid back; absent when it never is, or when nothing was bought
  bool never_paid_back = false;
};

/// One configuration of one run.
struct CostRow {
  std::string run;
  std::string work;           // rows with equal work are compared: "large, 2,021,379 parameters, fp32, ..."
  std::string configuration;  // "2x NVIDIA H200, ddp, graph"
  std::string size_name;      // "global_batch", or "items" for a sensor call
  int64_t size = 0;
  int64_t num_parameters = 0;  // 0: no model
  int64_t devices = 1;
  std::vector<std::string> device_names;
  std::string device_kind;
  Origin origin = Origin::measured;
  std::string unit;       // of work: "samples", "batches", "points"
  int64_t n = 0;          // runs or samples
  double throughput = 0;  // unit/s: work / time, the median over runs
  std::optional<Interval> throughput_ci;
  double work_per_hour = 0;
  std::optional<double> hourly_price;  // of devices and machine
  bool owned = false;                  // true: purchase and electricity divided by the hours of use
  std::optional<double> work_per_price;
  std::optional<Interval> work_per_price_ci;
  std::optional<double> joule_per_work;  // median over runs; absent: energy was not measured
  std::optional<CostGain> gain;          // only for several devices with a baseline
};

/// Size from which several devices pay, between measured sizes only.
struct BreakEven {
  enum class Answer { never, always, at };  // within the measured range
  std::string size_name;                    // "global_batch", "items", "num_parameters"
  std::string work;                         // common to all sizes
  std::string configuration;
  int64_t devices = 2;
  bool by_price = false;  // false: by time alone
  double at_speedup = 1;  // threshold: 1 by time, the ratio of prices by price
  Answer answer = Answer::never;
  std::optional<double> value;  // interpolated between `below` and `above`; a measured size when they are equal
  double below = 0, above = 0;  // measured neighbours of `value`; 0 without it
  bool at_jump = false;         // `value` is `above`: the time of one device jumps in between, nothing is interpolated
  std::optional<double> until;  // size above which several devices no longer pay
  std::optional<double> low;    // size at which the upper ends of the speedups' intervals reach the threshold
  std::optional<double> high;   // size at which the lower ends reach it
  bool has_interval = false;    // every speedup has an interval; then an absent low or high is outside the range
  double measured_low = 0, measured_high = 0;
  int64_t num_sizes = 0;
};

/// An alternative purchase: computed from an assumption, never measured.
struct CostAlternative {
  std::string name;
  size_t baseline = 0;  // index in CostReport::rows
  double purchase_price = 0;
  std::optional<Interval> gain;  // share that it adds to the throughput of the whole step; absent: no figure
  std::optional<Interval> work_per_hour;
  std::optional<double> hourly_price;
  std::optional<Interval> work_per_price;
  std::string why_absent;  // why figures are absent
  std::string note;
};

struct CostReport {
  std::string prices;  // price file
  std::string currency;
  std::string as_of;
  std::vector<CostRow> rows;
  std::vector<BreakEven> break_evens;
  std::vector<CostAlternative> alternatives;
  std::vector<std::string> notes;
};

}  // namespace amdahl
