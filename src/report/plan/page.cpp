#include "report/plan/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/bar_chart.h"
#include "report/page/page_parts.h"

namespace amdahl {
namespace {

int64_t count_of(const Calibration& calibration, ConstantOrigin origin) {
  return std::count_if(calibration.constants.begin(), calibration.constants.end(),
                       [&](const CalibrationConstant& constant) { return constant.origin == origin; });
}

struct AccountPart {
  const char *name, *head;  // in the chart, and above the column of its share
  double PlanAccount::*us;
};

constexpr AccountPart kAccountParts[] = {{"compute", "compute", &PlanAccount::compute_us},
                                         {"optimizer", "optimizer", &PlanAccount::optimizer_us},
                                         {"exposed communication", "dp", &PlanAccount::exposed_dp_us},
                                         {"tp communication", "tp", &PlanAccount::exposed_tp_us},
                                         {"pp communication", "pp", &PlanAccount::exposed_pp_us},
                                         {"waiting", "bubble", &PlanAccount::bubble_us},
                                         {"launch gaps and input", "host", &PlanAccount::gaps_us}};

/// The ranking is sorted by time.
std::optional<Chart> ranking_chart(const PlanOutcome& outcome) {
  BarPlot plot;
  plot.id = "ranking";
  plot.title = "Predicted time of a step by plan (us)";
  plot.name = {"plan", "Plan"};
  plot.value = {"time_us", "Time (us)"};
  plot.part_title = "Part of the step";
  plot.step_parts = true;
  for (const RankedPlan& plan : outcome.ranking)
    for (const AccountPart& part : kAccountParts) {
      Bar bar;
      bar.name = fmt::format("{} ({})", plan.text, time_text(plan.step.step_us));
      bar.part = part.name, bar.value = plan.step.account.*part.us, bar.origin = Origin::modelled;
      plot.bars.push_back(std::move(bar));
    }
  const RankedPlan &first = outcome.ranking.front(), &last = outcome.ranking.back();
  plot.summary =
      fmt::format("Fastest: {} with {}. Slowest of the {} shown: {} with {}.", first.text,
                  time_text(first.step.step_us), outcome.ranking.size(), last.text, time_text(last.step.step_us));
  return bar_chart(plot);
}

PageTable ranking_table(const PlanOutcome& outcome) {
  const bool priced = std::any_of(outcome.ranking.begin(), outcome.ranking.end(),
                                  [](const RankedPlan& plan) { return plan.hourly_price > 0; });
  std::vector<std::string> head{"plan", "devices", "step", range_title(outcome.calibration), "memory"};
  if (priced) head.push_back(fmt::format("{} per 1M rows", outcome.currency));
  std::vector<std::vector<std::string>> rows;
  for (const RankedPlan& plan : outcome.ranking) {
    rows.push_back({plan.text, std::to_string(plan.step.plan.num_devices()), time_text(plan.step.step_us),
                    interval_text(plan.step.interval), format_bytes(static_cast<double>(plan.step.memory.total()))});
    if (priced) rows.back().push_back(fmt::format("{:.4g}", plan.price_per_million_rows));
  }
  return table_of_texts("", head, rows);
}

PageTable shares_table(const PlanOutcome& outcome) {
  std::vector<std::string> head{"plan"};
  for (const AccountPart& part : kAccountParts) head.emplace_back(part.head);
  std::vector<std::vector<std::string>> rows;
  for (const RankedPlan& plan : outcome.ranking) {
    rows.push_back({plan.text});
    for (const AccountPart& part : kAccountParts)
      rows.back().push_back(fmt::format("{:.1f}", 100 * plan.step.account.*part.us / plan.step.step_us));
  }
  return table_of_texts("Parts in percent of the step", head, rows);
}

PageTable devices_table(const PlanOutcome& outcome) {
  const bool priced = std::any_of(outcome.by_devices.begin(), outcome.by_devices.end(),
                                  [](const DevicesAnswer& answer) { return answer.price_ratio > 0; });
  std::vector<std::string> head{"devices", "best plan", "step", "speedup", range_title(outcome.calibration), "verdict"};
  if (priced) head.emplace_back("price of a row");
  std::vector<std::vector<std::string>> rows;
  for (const DevicesAnswer& answer : outcome.by_devices) {
    rows.push_back(
        {std::to_string(answer.devices), answer.best, time_text(answer.step_us), fmt::format("{:.2f}x", answer.speedup),
         fmt::format("{:.2f} to {:.2f}", answer.speedup_interval.low, answer.speedup_interval.high), answer.verdict});
    if (priced) rows.back().push_back(fmt::format("{:.2f}x", answer.price_ratio));
  }
  return table_of_texts("", head, rows);
}

PageSection terms_section(const PlanOutcome& outcome) {
  const RankedPlan& plan = outcome.explained;
  PageSection section{
      "terms",
      fmt::format("The terms of {}", plan.text),
      {fmt::format("{}: {} [{}], {} of memory", plan.text, time_text(plan.step.step_us),
                   interval_text(plan.step.interval), format_bytes(static_cast<double>(plan.step.memory.total())))},
      {},
      {}};
  std::vector<std::vector<std::string>> rows;
  for (const ExplainedTerm& term : outcome.terms) {
    const std::string share = fmt::format("{:.1f}", 100 * term.us / plan.step.step_us);
    rows.push_back({term.name, time_text(term.us), share, term.formula, term.inputs, term.source});
    std::string words = fmt::format("{}: {} ({} %) = {}", term.name, time_text(term.us), share, term.formula);
    if (!term.inputs.empty()) words += fmt::format(", with {}", term.inputs);
    if (!term.source.empty()) words += fmt::format(", from {}", term.source);
    section.short_form.push_back(std::move(words));
  }
  section.tables.push_back(
      table_of_texts("Terms, which add up to the step", {"term", "time", "%", "formula", "with", "source"}, rows));
  return section;
}

}  // namespace

std::string range_title(const Calibration& calibration) {
  return calibration.is_assumed() ? "range (assumed)" : "95 % interval";
}

std::string time_text(double us) {
  return us >= 1e6   ? fmt::format("{:.3g} s", us / 1e6)
         : us >= 1e3 ? fmt::format("{:.4g} ms", us / 1e3)
                     : fmt::format("{:.4g} us", us);
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{} to {}", time_text(interval.low), time_text(interval.high));
}

std::string calibration_text(const Calibration& calibration) {
  return fmt::format("{}, {}{}: {} constants measured, {} fitted, {} assumed", printable(calibration.device_name),
                     calibration.math, calibration.host.empty() ? "" : ", " + printable(calibration.host),
                     count_of(calibration, ConstantOrigin::measured), count_of(calibration, ConstantOrigin::fitted),
                     count_of(calibration, ConstantOrigin::assumed));
}

Page plan_page(const PlanOutcome& outcome, const std::string& json) {
  const std::string model = printable(outcome.model.name);
  Page page;
  page.title = fmt::format("Plans of {}, {} parameters, global batch {}, up to {} device{}", model,
                           with_thousands(outcome.model.num_parameters()), with_thousands(outcome.global_batch),
                           outcome.most_devices, outcome.most_devices == 1 ? "" : "s");
  if (outcome.calibration.is_unmeasured())
    page.warnings.emplace_back("Nothing was measured: every constant is assumed.");
  else
    page.qualifier = "modelled from a calibration";
  if (!outcome.ranking.empty()) {
    page.verdict = fmt::format("Best: {}, {} a step", outcome.ranking.front().text,
                               time_text(outcome.ranking.front().step.step_us));
    page.facts.push_back(fmt::format("{} plans predicted in {:.2f} s, {} of them too large",
                                     with_thousands(outcome.num_plans), outcome.seconds,
                                     with_thousands(outcome.num_too_large)));
    if (!outcome.why.empty()) page.facts.push_back(outcome.why);
  }
  page.facts.push_back(calibration_text(outcome.calibration));
  if (!outcome.terms.empty()) page.sections.push_back(terms_section(outcome));
  if (!outcome.ranking.empty()) {
    PageSection ranking{
        "plans", "Plans by their predicted time", {}, {}, {ranking_table(outcome), shares_table(outcome)}};
    add_chart(ranking, ranking_chart(outcome));
    page.sections.push_back(std::move(ranking));
    page.sections.push_back({"devices", fmt::format("Several devices against one"), {}, {}, {devices_table(outcome)}});
  }
  page.notes = outcome.notes;
  page.embedded_json = json;
  return page;
}

}  // namespace amdahl
