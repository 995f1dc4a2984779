#include "report/plan/measured_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "base/record_values.h"
#include "chart/bar_chart.h"
#include "chart/line_chart.h"
#include "report/page/page_parts.h"
#include "report/plan/page.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::string sign_percent(double predicted, double measured) {
  return fmt::format("{:+.1f} %", 100 * (predicted / measured - 1));
}

std::string error_text(const ErrorSummary& errors) {
  return fmt::format("{:.1f} % on average and {:.1f} % at most, over {} steps", 100 * errors.mean, 100 * errors.worst,
                     errors.rows);
}

/// The part of a step, by which it has its colour, of a part of a prediction.
const char* step_part_of(const std::string& part) {
  constexpr std::pair<std::string_view, const char*> kParts[] = {
      {"compute", "compute"},         {"sums of tp", "tp communication"},     {"transfers of pp", "pp communication"},
      {"pipeline bubble", "waiting"}, {"gradients", "exposed communication"}, {"optimizer", "optimizer"}};
  for (const auto& [begin, step_part] : kParts)
    if (part.starts_with(begin)) return step_part;
  return "unexplained";
}

/// Two bars for each plan; the plans by their measured time.
std::optional<Chart> parts_chart(std::vector<VerifiedPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const VerifiedPlan& a, const VerifiedPlan& b) { return a.measured_us < b.measured_us; });
  BarPlot plot;
  plot.id = "parts";
  plot.title = "Measured and predicted time of a step by plan (us)";
  plot.name = {"plan", "Plan"};
  plot.value = {"time_us", "Time (us)"};
  plot.part_title = "Part of the step";
  plot.step_parts = true;
  for (const VerifiedPlan& plan : plans)
    for (const bool measured : {true, false})
      for (const PlanPart& part : plan.parts) {
        Bar bar;
        bar.name = fmt::format("{}, {} ({})", plan.plan.text, measured ? "measured" : "predicted",
                               time_text(measured ? plan.measured_us : plan.plan.step.step_us));
        bar.part = step_part_of(part.name), bar.value = measured ? part.measured_us : part.predicted_us;
        bar.samples = measured ? plan.runs : 0, bar.origin = measured ? Origin::measured : Origin::modelled;
        plot.bars.push_back(std::move(bar));
      }
  if (plans.empty()) return std::nullopt;
  plot.summary = fmt::format("Fastest: {} with {}, predicted {}.", plans.front().plan.text,
                             time_text(plans.front().measured_us), time_text(plans.front().plan.step.step_us));
  return bar_chart(plot);
}

PageTable plans_table(const VerifyOutcome& outcome) {
  std::vector<std::vector<std::string>> rows;
  for (const VerifiedPlan& plan : outcome.plans)
    rows.push_back({plan.plan.text, plan.random ? "random" : "best", time_text(plan.plan.step.step_us),
                    interval_text(plan.plan.step.interval), time_text(plan.measured_us), std::to_string(plan.runs),
                    sign_percent(plan.plan.step.step_us, plan.measured_us), plan.inside ? "yes" : "no"});
  return table_of_texts("Plans, predicted and measured (median over runs)",
                        {"plan", "chosen", "predicted", range_title(outcome.prediction.calibration), "measured",
                         "n (runs)", "error", "inside"},
                        rows);
}

PageTable pair_parts_table(const std::vector<VerifiedPlan>& plans) {
  std::vector<std::vector<std::string>> rows;
  for (const VerifiedPlan& plan : plans)
    for (const PlanPart& part : plan.parts)
      rows.push_back({plan.plan.text, part.name, time_text(part.predicted_us), time_text(part.measured_us)});
  return table_of_texts("Parts of a step, which add up to it", {"plan", "part", "predicted", "measured"}, rows);
}

PageTable terms_table(const std::vector<TermError>& terms) {
  std::vector<std::vector<std::string>> rows;
  for (const TermError& term : terms)
    rows.push_back({term.name, fmt::format("{:.1f} %", 100 * term.mean), fmt::format("{:+.1f} %", 100 * term.bias)});
  return table_of_texts("Errors of the parts over all plans, as part of the measured step",
                        {"part", "mean error", "bias"}, rows);
}

/// A point on the line is predicted exactly.
std::optional<Chart> steps_chart(const std::vector<ProbedStep>& steps) {
  LinePlot plot;
  plot.id = "steps";
  plot.title = "Predicted against measured time of a step (us)";
  plot.x = {"measured_us", "Measured (us)"}, plot.y = {"predicted_us", "Predicted without the model (us)"};
  plot.series_title = "Model", plot.interval_title = "95 % interval of the prediction";
  plot.x_scale = LinePlot::XScale::counts, plot.joined = false;
  double least = steps.empty() ? 0 : steps.front().measured_us, most = least;
  for (const ProbedStep& step : steps) {
    least = std::min(least, step.measured_us), most = std::max(most, step.measured_us);
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const LineSeries& one) { return one.name == step.model; });
    if (series == plot.series.end())
      series = plot.series.insert(plot.series.end(), LineSeries{step.model, {}, Origin::measured, {}});
    series->points.push_back({step.measured_us, step.predicted_us, step.interval, 1});
  }
  plot.series.push_back({"predicted = measured", {}, Origin::modelled, {{least, least, {}, 0}, {most, most, {}, 0}}});
  plot.summary = fmt::format("{} steps from {} to {}; on the dashed line predicted = measured.", steps.size(),
                             time_text(least), time_text(most));
  return line_chart(plot);
}

PageTable steps_table(const std::vector<ProbedStep>& steps) {
  std::vector<std::vector<std::string>> rows;
  for (const ProbedStep& step : steps)
    rows.push_back({step.model, with_thousands(step.global_batch), step.plan, time_text(step.measured_us),
                    time_text(step.predicted_us), sign_percent(step.predicted_us, step.measured_us)});
  return table_of_texts("Measured steps, each predicted by a fit to the other models",
                        {"model", "batch", "plan", "measured", "predicted without it", "error"}, rows);
}

PageTable constants_table(const Calibration& calibration) {
  std::vector<std::vector<std::string>> rows;
  for (const CalibrationConstant& c : calibration.constants)
    rows.push_back({c.name, format_number(c.value), c.unit, std::string(to_string(c.origin))});
  return table_of_texts("", {"name in the machine file", "value", "unit", "origin"}, rows);
}

}  // namespace

Page calibration_page(const CalibrationOutcome& outcome, const std::string& json) {
  Page page;
  page.title =
      fmt::format("Calibration of {}, {}", printable(outcome.calibration.device_name), outcome.calibration.math);
  page.verdict = fmt::format("Errors of predicted steps of models that the fit does not know: {}.",
                             error_text(outcome.left_out_model));
  page.facts = {
      fmt::format("{}, {:.0f} s", calibration_text(outcome.calibration), outcome.calibration.seconds),
      fmt::format("{:.0f} % of the steps lie in the 95 % interval of a fit without their model; the error of a "
                  "fit to all is {}",
                  100 * outcome.coverage, error_text(outcome.in_sample))};
  if (!outcome.machine_file.empty()) page.facts.push_back(fmt::format("machine file: {}", outcome.machine_file));
  PageSection steps{"predictions", "Steps", {}, {}, {steps_table(outcome.steps)}};
  add_chart(steps, steps_chart(outcome.steps));
  page.sections.push_back(std::move(steps));
  page.sections.push_back({"constants", "Constants", {}, {}, {constants_table(outcome.calibration)}});
  page.embedded_json = json;
  return page;
}

void judge_plans(VerifyOutcome& outcome) {
  if (outcome.plans.empty()) return;
  const double count = static_cast<double>(outcome.plans.size());
  std::vector<double> errors;
  const VerifiedPlan *best = &outcome.plans.front(), *chosen = best;
  for (VerifiedPlan& plan : outcome.plans) {
    const double predicted = plan.plan.step.step_us;
    const Interval& interval = plan.plan.step.interval;
    plan.inside = plan.measured_us >= interval.low && plan.measured_us <= interval.high;
    errors.push_back(std::abs(predicted / plan.measured_us - 1));
    if (plan.measured_us < best->measured_us) best = &plan;
    if (predicted < chosen->plan.step.step_us) chosen = &plan;
    for (const PlanPart& part : plan.parts) {
      auto term = std::find_if(outcome.terms.begin(), outcome.terms.end(),
                               [&](const TermError& t) { return t.name == part.name; });
      if (term == outcome.terms.end()) term = outcome.terms.insert(outcome.terms.end(), {part.name, 0, 0});
      const double error = (part.predicted_us - part.measured_us) / plan.measured_us;
      term->mean += std::abs(error) / count, term->bias += error / count;
    }
  }
  outcome.median_error = median_of(errors);
  outcome.loss_of_choice = chosen->measured_us / best->measured_us - 1;
}

VerifyOutcome verification_in(const std::vector<Record>& records) {
  constexpr std::string_view kPredicted = "predicted ";
  VerifyOutcome outcome;
  for (const Record& record : records) {
    const std::optional<double> predicted = record.value("predicted_step"), low = record.value("predicted_low"),
                                high = record.value("predicted_high");
    VerifiedPlan plan;
    for (const Series& series : record.series) {
      if (series.name == "step_time" && !series.samples.empty())
        plan.measured_us = median_of(series.samples), plan.runs = static_cast<int64_t>(series.samples.size());
      if (!series.name.starts_with(kPredicted) || series.samples.empty()) continue;
      const std::string part = series.name.substr(kPredicted.size());
      if (const std::optional<double> measured = record.value(part))
        plan.parts.push_back({part, series.samples.front(), *measured});
    }
    if (!predicted || !low || !high || !(plan.measured_us > 0)) continue;
    plan.plan.text = printable(text_axis(record, "plan"));
    plan.plan.step.step_us = *predicted, plan.plan.step.interval = {*low, *high};
    plan.random = axis<bool>(record, "random", false);
    outcome.prediction.model.name = text_axis(record, "model");
    outcome.prediction.global_batch = axis<int64_t>(record, "global_batch", 0);
    outcome.plans.push_back(std::move(plan));
  }
  judge_plans(outcome);
  return outcome;
}

Page verification_page(const VerifyOutcome& outcome) {
  const std::string model = printable(outcome.prediction.model.name);
  Page page;
  page.subject = {"verification", "verifications", model, {}};
  page.title = fmt::format("Plans of {} at global batch {}, predicted and measured", model,
                           with_thousands(outcome.prediction.global_batch));
  if (outcome.plans.empty()) {
    page.verdict = "No plan has a predicted and a measured step.";
    return page;
  }
  const auto inside =
      std::count_if(outcome.plans.begin(), outcome.plans.end(), [](const VerifiedPlan& plan) { return plan.inside; });
  page.verdict = fmt::format("{} plans: median error {:.1f} %, {} inside the {}.", outcome.plans.size(),
                             100 * outcome.median_error, inside, range_title(outcome.prediction.calibration));
  page.facts.push_back(
      fmt::format("global batch {}: the predicted best {}", with_thousands(outcome.prediction.global_batch),
                  outcome.loss_of_choice == 0
                      ? "is the best measured"
                      : fmt::format("is {:.1f} % slower than the best measured", 100 * outcome.loss_of_choice)));
  if (outcome.refitted_error > 0)
    page.facts.push_back(fmt::format("median error after a refit {:.1f} %: the machine file {}",
                                     100 * outcome.refitted_error,
                                     outcome.corrected ? "was corrected" : "is as before"));
  PageSection plans{"plans", "Predicted and measured steps", {}, {}, {plans_table(outcome)}};
  add_chart(plans, parts_chart(outcome.plans));
  page.sections.push_back(std::move(plans));
  if (!outcome.terms.empty())
    page.sections.push_back(
        {"part-errors", "Parts of a step", {}, {}, {pair_parts_table(outcome.plans), terms_table(outcome.terms)}});
  page.notes = outcome.notes;
  return page;
}

Page verification_page(const std::vector<Record>& records) {
  Page page = verification_page(verification_in(records));
  page.subject.where = page_devices(records);
  page.title += " on " + page.subject.where;
  page.qualifier = page_qualifier(records);
  page.provenance = page_provenance(records);
  return page;
}

}  // namespace amdahl
