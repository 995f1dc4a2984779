// What work on devices costs: work per hour and for the money in every measured configuration, and where several
// devices start to pay. Prices come from a file; docs/cost.md has the formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Whether several devices do more work for the money than one.
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

/// Several devices against the best one of their kind at the same work and size.
struct CostGain {
  size_t baseline = 0;  // of CostReport::rows
  double speedup = 1;
  std::optional<Interval> speedup_ci;
  std::optional<double> break_even_speedup;  // price of an hour of these over that of one device
  Payoff payoff = Payoff::unclear;           // by the interval of the speedup; unclear without prices
  std::optional<double> break_even_price;    // what the further hardware may cost an hour: (speedup - 1) x one's
  std::optional<Interval> break_even_price_ci;
  std::optional<double> further_price;   // what it costs an hour
  std::optional<double> further_invest;  // purchase of the further hardware, when all of it is bought
  std::optional<double> payback_months;  // until it is paid back; absent when it never is, or nothing was bought
  bool never_paid_back = false;
};

/// One configuration of one run.
struct CostRow {
  std::string run;
  std::string work;           // rows of the same work are compared: "large, 2,021,379 parameters, fp32, ..."
  std::string configuration;  // "2x NVIDIA H200, ddp, graph"
  std::string size_name;      // "global_batch", or "items" of a sensor call
  int64_t size = 0;
  int64_t num_parameters = 0;  // 0: no model
  int64_t devices = 1;
  std::vector<std::string> device_names;
  std::string device_kind;
  Origin origin = Origin::measured;
  std::string unit;       // of work: "samples", "batches", "points"
  int64_t n = 0;          // runs or samples
  double throughput = 0;  // unit/s, mean
  std::optional<Interval> throughput_ci;
  double work_per_hour = 0;
  std::optional<double> hourly_price;  // of devices and machine, in the table's currency
  bool owned = false;                  // bought: purchase and electricity over the hours of use
  std::optional<double> work_per_price;
  std::optional<Interval> work_per_price_ci;
  std::optional<double> joule_per_work;  // absent: no energy was read
  std::optional<CostGain> gain;          // of several devices with a baseline
};

/// From which size on several devices are worth it, between measured sizes only.
struct BreakEven {
  enum class Answer { never, always, at };  // in the measured range
  std::string size_name;                    // "global_batch", "items", "num_parameters"
  std::string work;                         // what is the same for all sizes
  std::string configuration;
  int64_t devices = 2;
  bool by_price = false;  // else by time alone
  double at_speedup = 1;  // 1 by time, the ratio of prices by price
  Answer answer = Answer::never;
  std::optional<double> value;  // interpolated between the two below; a measured size where they are the same
  double below = 0, above = 0;  // measured neighbours of `value`; 0 without it
  std::optional<double> until;  // beyond it the measured sizes no longer are worth it
  std::optional<double> low;    // where the upper ends of the speedups' intervals cross
  std::optional<double> high;   // where the lower ends do
  bool has_interval = false;    // whether every speedup has one; then an absent low or high lies outside the range
  double measured_low = 0, measured_high = 0;
  int64_t num_sizes = 0;
};

/// What the money could buy instead: computed from an assumption, never measured.
struct CostAlternative {
  std::string name;
  size_t baseline = 0;  // of CostReport::rows
  double purchase_price = 0;
  std::optional<Interval> gain;  // share of the baseline's throughput, of the whole step; absent: no figure
  std::optional<Interval> work_per_hour;
  std::optional<double> hourly_price;
  std::optional<Interval> work_per_price;
  std::string why_absent;  // of the figures
  std::string note;
};

struct CostReport {
  std::string prices;  // file they are from
  std::string currency;
  std::string as_of;
  std::vector<CostRow> rows;
  std::vector<BreakEven> break_evens;
  std::vector<CostAlternative> alternatives;
  std::vector<std::string> notes;
};

}  // namespace amdahl
