#include "report/plan/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/units.h"
#include "base/number_text.h"
#include "report/common/aligned_table.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::string time_text(double us) {
  return us >= 1e6   ? fmt::format("{:.3g} s", us / 1e6)
         : us >= 1e3 ? fmt::format("{:.4g} ms", us / 1e3)
                     : fmt::format("{:.4g} us", us);
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{} to {}", time_text(interval.low), time_text(interval.high));
}

std::string percent(double part, double whole) { return fmt::format("{:.1f}", 100 * part / whole); }

std::string ranking_text(const PlanOutcome& outcome, size_t width) {
  const bool priced = std::any_of(outcome.ranking.begin(), outcome.ranking.end(),
                                  [](const RankedPlan& plan) { return plan.hourly_price > 0; });
  std::vector<std::vector<std::string>> rows{{"plan", "devices", "step", "95 % interval", "memory", "compute %", "tp %",
                                              "pp %", "dp %", "bubble %", "optimizer %", "host %"}};
  if (priced) rows[0].push_back(fmt::format("{} per 1M rows", outcome.currency));
  for (const RankedPlan& plan : outcome.ranking) {
    const PlanAccount& a = plan.step.account;
    const double step = plan.step.step_us;
    rows.push_back({plan.text, std::to_string(plan.step.plan.num_devices()), time_text(step),
                    interval_text(plan.step.interval), format_bytes(static_cast<double>(plan.step.memory.total())),
                    percent(a.compute_us, step), percent(a.exposed_tp_us, step), percent(a.exposed_pp_us, step),
                    percent(a.exposed_dp_us, step), percent(a.bubble_us, step), percent(a.optimizer_us, step),
                    percent(a.gaps_us, step)});
    if (priced) rows.back().push_back(fmt::format("{:.4g}", plan.price_per_million_rows));
  }
  return aligned_table(rows, {}, width);
}

std::string devices_text(const PlanOutcome& outcome, size_t width) {
  std::vector<std::vector<std::string>> rows{{"devices", "best plan", "step", "speedup", "95 % interval", "verdict"}};
  const bool priced = std::any_of(outcome.by_devices.begin(), outcome.by_devices.end(),
                                  [](const DevicesAnswer& answer) { return answer.price_ratio > 0; });
  if (priced) rows[0].emplace_back("price of a row");
  for (const DevicesAnswer& answer : outcome.by_devices) {
    rows.push_back(
        {std::to_string(answer.devices), answer.best, time_text(answer.step_us), fmt::format("{:.2f}x", answer.speedup),
         fmt::format("{:.2f} to {:.2f}", answer.speedup_interval.low, answer.speedup_interval.high), answer.verdict});
    if (priced) rows.back().push_back(fmt::format("{:.2f}x", answer.price_ratio));
  }
  return aligned_table(rows, {}, width);
}

std::string terms_text(const PlanOutcome& outcome) {
  const RankedPlan& plan = outcome.explained;
  std::string text =
      fmt::format("{}: {} [{}], {} of memory\n", plan.text, time_text(plan.step.step_us),
                  interval_text(plan.step.interval), format_bytes(static_cast<double>(plan.step.memory.total())));
  for (const ExplainedTerm& term : outcome.terms) {
    text += fmt::format("\n{}: {} ({} %)\n  = {}\n", term.name, time_text(term.us), percent(term.us, plan.step.step_us),
                        term.formula);
    if (!term.inputs.empty()) text += fmt::format("  with {}\n", term.inputs);
    if (!term.source.empty()) text += fmt::format("  from {}\n", term.source);
  }
  return text;
}

std::string calibration_text(const Calibration& calibration) {
  int counts[3] = {};
  for (const CalibrationConstant& constant : calibration.constants) ++counts[static_cast<int>(constant.origin)];
  return fmt::format("{}, {}{}: {} constants measured, {} fitted, {} assumed", printable(calibration.device_name),
                     calibration.math, calibration.host.empty() ? "" : ", " + printable(calibration.host), counts[0],
                     counts[1], counts[2]);
}

std::string error_text(const ErrorSummary& errors) {
  return fmt::format("{}: {:.1f} % mean, {:.1f} % at most over {} steps\n", errors.name, 100 * errors.mean,
                     100 * errors.worst, errors.rows);
}

std::string sign_percent(double predicted, double measured) {
  return fmt::format("{:+.1f} %", 100 * (predicted / measured - 1));
}

}  // namespace

std::string calibration_outcome_text(const CalibrationOutcome& outcome, size_t width) {
  std::vector<std::vector<std::string>> rows{{"model", "batch", "plan", "measured", "predicted without it", "error"}};
  for (const ProbedStep& step : outcome.steps)
    rows.push_back({step.model, with_thousands(step.global_batch), step.plan, time_text(step.measured_us),
                    time_text(step.predicted_us), sign_percent(step.predicted_us, step.measured_us)});
  std::string text = calibration_text(outcome.calibration) +
                     fmt::format(", {:.0f} s\n\n", outcome.calibration.seconds) + aligned_table(rows, {}, width) + "\n";
  text += error_text(outcome.in_sample) + error_text(outcome.left_out_model);
  text += fmt::format("{:.0f} % of the steps lie in the 95 % interval of a fit without their model\n\n",
                      100 * outcome.coverage);
  std::vector<std::vector<std::string>> constants{{"constant", "value", "unit", "origin"}};
  for (const CalibrationConstant& c : outcome.calibration.constants)
    constants.push_back({c.name, format_number(c.value), c.unit, std::string(to_string(c.origin))});
  text += aligned_table(constants, {}, width);
  if (!outcome.machine_file.empty()) text += fmt::format("machine file: {}\n", outcome.machine_file);
  return text;
}

std::string thresholds_text(const ThresholdsOutcome& outcome, size_t width) {
  const auto size = [](int64_t parameters) {
    return parameters > 0 ? with_thousands(parameters) : std::string("none");
  };
  std::vector<std::vector<std::string>> rows{
      {"global batch", "devices", "parameters from which on they pay", "certainly"}};
  for (const SizeThreshold& one : outcome.thresholds)
    rows.push_back({with_thousands(one.global_batch), std::to_string(one.devices), size(one.parameters),
                    size(one.certain_parameters)});
  return fmt::format("from which size on several devices pay (speedup of 1.10, dense layers, ddp; modelled)\n{}\n\n",
                     calibration_text(outcome.calibration)) +
         aligned_table(rows, {}, width) +
         "\nthe published study, for two RTX 4070 Ti SUPER without peer access, says in different places: never below "
         "500,000 or 1,000,000; from 10,000,000 at a batch of 64; break-even at 15,000,000 to 20,000,000\n";
}

std::string verification_text(const VerifyOutcome& outcome, size_t width) {
  std::vector<std::vector<std::string>> rows{
      {"plan", "chosen", "predicted", "95 % interval", "measured", "error", "inside"}};
  for (const VerifiedPlan& plan : outcome.plans)
    rows.push_back({plan.plan.text, plan.random ? "random" : "best", time_text(plan.plan.step.step_us),
                    interval_text(plan.plan.step.interval), time_text(plan.measured_us),
                    sign_percent(plan.plan.step.step_us, plan.measured_us), plan.inside ? "yes" : "no"});
  std::string text = aligned_table(rows, {}, width);
  std::vector<std::vector<std::string>> parts{{"plan", "part", "predicted", "measured"}};
  for (const VerifiedPlan& plan : outcome.plans)
    for (const PlanPart& part : plan.parts)
      parts.push_back({plan.plan.text, part.name, time_text(part.predicted_us), time_text(part.measured_us)});
  if (parts.size() > 1) text += "\n" + aligned_table(parts, {}, width);
  std::vector<std::vector<std::string>> terms{{"term, as part of the step", "mean error", "bias"}};
  for (const TermError& term : outcome.terms)
    terms.push_back({term.name, fmt::format("{:.1f} %", 100 * term.mean), fmt::format("{:+.1f} %", 100 * term.bias)});
  text += "\n" + aligned_table(terms);
  text += fmt::format(
      "\nglobal batch {}, {:.0f} s; median error {:.1f} %; the predicted best is {:.1f} % slower than "
      "the best measured\n",
      with_thousands(outcome.prediction.global_batch), outcome.seconds, 100 * outcome.median_error,
      100 * outcome.loss_of_choice);
  if (outcome.refitted_error > 0)
    text += fmt::format("median error of these plans after a refit {:.1f} %: the machine file {}\n",
                        100 * outcome.refitted_error, outcome.corrected ? "was corrected" : "is as before");
  if (!outcome.run_dir.empty()) text += fmt::format("records: {}\n", outcome.run_dir);
  for (const std::string& note : outcome.notes) text += note + "\n";
  return text;
}

std::string thresholds_line_text(const std::vector<SizeThreshold>& thresholds, const Calibration& calibration) {
  std::string text;
  int64_t batch = 0;
  for (const SizeThreshold& one : thresholds) {
    if (one.global_batch != batch) text += fmt::format("; at batch {}:", with_thousands(one.global_batch));
    text += fmt::format("{} {} {}", one.global_batch != batch ? "" : ",", one.devices,
                        one.parameters > 0 ? fmt::format("from {}", with_thousands(one.parameters)) : "at no size");
    batch = one.global_batch;
  }
  const CalibrationConstant* rate = calibration.find("dp_gbps");
  const bool assumed = rate && rate->origin == ConstantOrigin::assumed;
  return fmt::format(
      "parameters from which on 2, 4 and 8 devices pay (dense layers, ddp; modelled from the "
      "calibration{}){}",
      assumed ? fmt::format(", with an assumed link of {} GB/s", format_number(rate->value)) : "", text);
}

std::string verification_records_text(const std::vector<Record>& records) {
  std::vector<std::vector<std::string>> rows{
      {"model", "batch", "plan", "predicted", "95 % interval", "measured", "error", "inside"}};
  std::vector<double> errors;
  int inside = 0;
  for (const Record& record : records) {
    const auto text_of = [&](const char* axis) {
      const auto found = record.axes.find(axis);
      const auto* text = found == record.axes.end() ? nullptr : std::get_if<std::string>(&found->second);
      return text ? printable(*text) : "?";
    };
    const auto batch = record.axes.find("global_batch");
    const auto* rows_of_step = batch == record.axes.end() ? nullptr : std::get_if<int64_t>(&batch->second);
    const std::optional<double> predicted = record.value("predicted_step"), low = record.value("predicted_low"),
                                high = record.value("predicted_high");
    const auto times = std::find_if(record.series.begin(), record.series.end(),
                                    [](const Series& series) { return series.name == "step_time"; });
    if (!predicted || !low || !high || times == record.series.end() || times->samples.empty()) continue;
    const double measured = median_of(times->samples);
    const bool in = measured >= *low && measured <= *high;
    errors.push_back(std::abs(*predicted / measured - 1)), inside += in;
    rows.push_back({text_of("model"), rows_of_step ? with_thousands(*rows_of_step) : "?", text_of("plan"),
                    time_text(*predicted), interval_text({*low, *high}), time_text(measured),
                    sign_percent(*predicted, measured), in ? "yes" : "no"});
  }
  if (errors.empty()) return "no pairs of predicted and measured steps\n";
  return aligned_table(rows) + fmt::format("\n{} plans: median error {:.1f} %, {:.0f} % inside the 95 % interval\n",
                                           errors.size(), 100 * median_of(errors),
                                           100.0 * inside / static_cast<double>(errors.size()));
}

std::string plan_outcome_text(const PlanOutcome& outcome, size_t width) {
  std::string text = fmt::format("{}, {} parameters, global batch {}, up to {} devices\n",
                                 printable(outcome.model.name), with_thousands(outcome.model.num_parameters()),
                                 with_thousands(outcome.global_batch), outcome.most_devices) +
                     calibration_text(outcome.calibration) + "\n\n";
  if (!outcome.terms.empty()) text += terms_text(outcome) + "\n";
  if (!outcome.ranking.empty()) {
    text += fmt::format("{} plans predicted in {:.2f} s, {} of them too large\n", with_thousands(outcome.num_plans),
                        outcome.seconds, with_thousands(outcome.num_too_large));
    text += ranking_text(outcome, width) + "\nbest: " + outcome.ranking.front().text + "\n";
    if (!outcome.why.empty()) text += outcome.why + "\n";
    text += "\n" + devices_text(outcome, width);
  }
  for (const std::string& note : outcome.notes) text += note + "\n";
  return text;
}

}  // namespace amdahl
