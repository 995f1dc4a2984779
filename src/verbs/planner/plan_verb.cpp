// The planner's verbs that measure nothing.
#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/planner.h"
#include "amdahl/report.h"
#include "files/whole_file.h"
#include "planner/rank.h"
#include "planner/validate.h"
#include "planner/what_if.h"
#include "report/common/aligned_table.h"
#include "report/page/html_page.h"
#include "report/page/text_page.h"
#include "report/plan/measured_page.h"
#include "report/plan/page.h"
#include "report/plan/text.h"
#include "setup/training_setup.h"
#include "spec/json.h"
#include "spec/plan_json.h"
#include "verbs/planner/calibrated.h"

namespace amdahl {
namespace {

// Pairs of devices must have the same rate in both directions, within a factor that no link explains.
void check_links(const MachineSpec& machine, const std::string& path) {
  constexpr double kContradiction = 4;
  for (const LinkSpec& link : machine.links) {
    const LinkSpec* back = machine.link(link.destination, link.source);
    const auto refuse = [&](const std::string& what) {
      throw Error(Cause::usage,
                  fmt::format("{}: links of devices {} and {} contradict each other: {}", path, link.source,
                              link.destination, what),
                  named("`links machine=FILE` measures them again"));
    };
    if (!back) refuse("one direction only");
    if (back->path != link.path) refuse(fmt::format("{} and {}", to_string(link.path), to_string(back->path)));
    if (link.measured_gbps > 0 && back->measured_gbps > 0 && link.measured_gbps > kContradiction * back->measured_gbps)
      refuse(fmt::format("{:.1f} and {:.1f} GB/s", link.measured_gbps, back->measured_gbps));
  }
}

/// The assumptions, with the GPU of a file.
WhatIf read_what_if(const std::string& text, int node_gpus = 8) {
  WhatIf what_if = parse_what_if(text, node_gpus);
  if (what_if.gpu_file.empty()) return what_if;
  what_if.gpu = load_gpu_kind(what_if.gpu_file);
  try {
    find_link_kind(what_if.gpu->link);
  } catch (const Error& error) {
    throw Error(Cause::usage, fmt::format("{}: {}", what_if.gpu_file, error.what()), error.remedy());
  }
  return what_if;
}

const DevicePrice* price_of(const PriceTable& prices, const Calibration& calibration) {
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return text;
  };
  const std::string name = calibration.device_kind == "cpu-virtual" ? "cpu-virtual" : lower(calibration.device_name);
  const DevicePrice* best = nullptr;
  for (const DevicePrice& price : prices.devices)
    if (name.find(lower(price.match)) != std::string::npos && (!best || price.match.size() > best->match.size()))
      best = &price;
  return best;
}

void add_prices(const std::string& path, PlanOutcome& outcome) {
  const PriceTable prices = load_prices(path);
  const DevicePrice* price = price_of(prices, outcome.calibration);
  if (!price) {
    outcome.notes.push_back(fmt::format("{} has no price of {}", path, outcome.calibration.device_name));
    return;
  }
  constexpr double kHoursPerMonth = 730.5;
  double hourly = price->hourly_price.value_or(0);
  if (hourly == 0 && price->purchase_price && prices.amortisation_months)
    hourly = *price->purchase_price / (*prices.amortisation_months * kHoursPerMonth * prices.utilisation) +
             price->watts.value_or(0) / 1000 * prices.electricity_per_kwh.value_or(0);
  outcome.currency = prices.currency;
  const auto put = [&](RankedPlan& plan) {
    const double devices = plan.step.plan.num_devices(), rows = plan.step.rows_per_second;
    plan.hourly_price = hourly * devices;
    plan.price_per_million_rows = plan.hourly_price / 3600 / rows * 1e6;
    plan.joule_per_row = price->watts.value_or(0) * devices / rows;
  };
  for (RankedPlan& plan : outcome.ranking) put(plan);
  if (!outcome.terms.empty()) put(outcome.explained);
  for (DevicesAnswer& answer : outcome.by_devices)
    if (hourly > 0) answer.price_ratio = answer.devices / answer.speedup;
}

}  // namespace

namespace {

constexpr int kMostDevices = 4096;

}  // namespace

PlanOutcome run_plan(const PlanConfig& config) {
  constexpr int64_t kMostRows = 1 << 30;
  if (config.global_batch < 1 || config.global_batch > kMostRows)
    throw Error(Cause::usage, fmt::format("`global_batch` is {}", config.global_batch),
                fmt::format("1 to {}", with_thousands(kMostRows)));
  PlanOutcome outcome;
  outcome.model = resolve_model(config.model);
  outcome.global_batch = config.global_batch;
  WhatIf what_if;
  int devices = 0;
  if (config.machine.empty()) {
    what_if = read_what_if(config.what_if);
    outcome.calibration = assume(what_if, config.math.empty() ? "tf32" : config.math);
  } else {
    const CalibratedMachine found = load_calibrated(config.machine, config.math);
    check_links(found.machine, config.machine);
    devices = found.calibration.device_kind == "cpu-virtual" ? found.machine.num_cores
                                                             : static_cast<int>(found.machine.devices.size());
    what_if = read_what_if(config.what_if, std::max(1, devices));
    outcome.calibration = assume(found.calibration, what_if);
  }
  if (what_if.gpus > 0 && config.devices > what_if.gpus)
    throw Error(Cause::usage, fmt::format("`devices` is {} and what-if has {} GPUs", config.devices, what_if.gpus),
                "the same number, or one of the two");
  if (config.devices > kMostDevices)
    throw Error(Cause::usage,
                fmt::format("`devices` is {}, and the planner knows at most {}", config.devices, kMostDevices),
                "a smaller number");
  if (what_if.gpus > 0) devices = what_if.gpus;
  if (config.devices > 0) devices = config.devices;
  outcome.most_devices = std::max(1, devices);
  if (!config.explain.empty()) {
    ParallelPlan plan = parse_plan(config.explain);
    plan.global_batch = config.global_batch;
    explain_plan(outcome.model, outcome.calibration, plan, outcome);
  }
  RankRequest request;
  request.global_batch = config.global_batch;
  request.most_devices = outcome.most_devices;
  request.top = config.top;
  rank_plans(outcome.model, outcome.calibration, request, outcome);
  if (!config.prices.empty()) add_prices(config.prices, outcome);
  if (!config.html.empty()) save_text(config.html, html_page(plan_page(outcome, to_json(outcome)), html_assets()));
  return outcome;
}

ThresholdsOutcome run_thresholds(const ThresholdsConfig& config) {
  for (const int devices : config.devices)
    if (devices < 2 || devices > kMostDevices)
      throw Error(Cause::usage, fmt::format("`devices` {}: 2 to {} are assumed", devices, kMostDevices), "2,4,8");
  std::string assumptions = config.what_if;
  if (!config.link.empty()) assumptions += fmt::format("{}link={}", assumptions.empty() ? "" : ",", config.link);
  const WhatIf what_if = read_what_if(assumptions);
  ThresholdsOutcome outcome;
  outcome.calibration = config.machine.empty()
                            ? assume(what_if, config.math.empty() ? "tf32" : config.math)
                            : assume(load_calibrated(config.machine, config.math).calibration, what_if);
  outcome.thresholds = find_thresholds(outcome.calibration, config.devices, config.batches);
  return outcome;
}

std::string to_text(const ThresholdsOutcome& outcome, int width) {
  const auto columns = static_cast<size_t>(width);
  return fitted_lines(thresholds_text(outcome, columns), columns);
}
std::string to_json(const ThresholdsOutcome& outcome) { return thresholds_to_json(outcome); }
std::string to_text(const PlanOutcome& outcome, int width) { return text_page(plan_page(outcome, ""), {width}); }
std::string to_text(const CalibrationOutcome& outcome, int width) {
  return text_page(calibration_page(outcome, ""), {width});
}
std::string to_text(const VerifyOutcome& outcome, int width) { return text_page(verification_page(outcome), {width}); }
std::string to_json(const CalibrationOutcome& outcome) { return calibration_outcome_to_json(outcome); }
std::string to_json(const VerifyOutcome& outcome) { return verification_to_json(outcome); }
std::string to_json(const PlanOutcome& outcome) { return plan_outcome_to_json(outcome); }

PlanValidation run_planner_validation(const PlannerValidationConfig& config, Observer& observer) {
  const auto rows_in = [](const std::string& path) {
    return path.empty() ? std::vector<MeasuredIteration>{} : parse_iterations(read_file(path, Cause::usage), path);
  };
  if (config.iterations.empty()) throw Error(Cause::usage, "`iterations` is empty", "a CSV of measured iterations");
  const std::vector<MeasuredIteration> measured = rows_in(config.iterations);
  PlanValidation validation = validate_planner(
      measured, rows_in(config.also), config.sizes,
      [&](int done, int total, const std::string& left_out) { observer.progress(done, total, left_out); });
  if (!config.beside.empty())
    validation.baselines.push_back(errors_of_tool(config.beside, measured, rows_in(config.beside)));
  return validation;
}

std::string to_json(const PlanValidation& validation) { return plan_validation_to_json(validation); }

}  // namespace amdahl
