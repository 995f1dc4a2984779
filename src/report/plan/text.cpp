#include "report/plan/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "report/common/aligned_table.h"
#include "report/plan/page.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

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
  std::vector<std::vector<std::string>> rows{{"global batch", "devices",
                                              outcome.calibration.is_assumed()
                                                  ? "parameters from which on they would pay"
                                                  : "parameters from which on they pay"}};
  for (const SizeThreshold& one : outcome.thresholds)
    rows.push_back({with_thousands(one.global_batch), std::to_string(one.devices), size(one.parameters)});
  const std::string first =
      outcome.calibration.is_unmeasured() ? "Nothing was measured: every constant is assumed.\n" : std::string();
  return first +
         fmt::format(
             "from which size on several devices pay (the {} of the speedup at 1.10 or above, dense layers, "
             "ddp; modelled)\n{}\n\n",
             range_title(outcome.calibration), calibration_text(outcome.calibration)) +
         aligned_table(rows, {}, width) +
         "\nthe published study, for two RTX 4070 Ti SUPER without peer access, says in different places: never below "
         "500,000 or 1,000,000; from 10,000,000 at a batch of 64; break-even at 15,000,000 to 20,000,000\n";
}

std::string verification_text(const VerifyOutcome& outcome, size_t width) {
  std::vector<std::vector<std::string>> rows{
      {"plan", "chosen", "predicted", range_title(outcome.prediction.calibration), "measured", "error", "inside"}};
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
      "parameters from which on 2, 4 and 8 devices {} (dense layers, ddp; modelled from the "
      "calibration{}){}",
      calibration.is_assumed() ? "would pay" : "pay",
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

}  // namespace amdahl
