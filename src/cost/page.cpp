#include "cost/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/cost_chart.h"
#include "cost/tables.h"
#include "report/common/break_even.h"
#include "report/page/page_parts.h"

namespace amdahl {
namespace {

std::string payoff_text(const CostReport& report) {
  std::map<Payoff, int> counts;
  int total = 0;
  for (const CostRow& row : report.rows) {
    if (!row.gain || !row.gain->break_even_speedup) continue;
    ++counts[row.gain->payoff];
    ++total;
  }
  if (total == 0) return "Nothing says whether several devices pay: no result of several with a baseline and prices.";
  std::vector<std::string> parts;
  for (const auto& [payoff, words] :
       {std::pair{Payoff::pays, "pay"}, {Payoff::does_not_pay, "do not pay"}, {Payoff::unclear, "are unclear"}})
    if (counts[payoff] > 0) parts.push_back(fmt::format("{} in {}", words, counts[payoff]));
  return fmt::format("Several devices {} of {} measured case{}.", fmt::join(parts, ", "), total, total == 1 ? "" : "s");
}

std::string best_text(const CostReport& report) {
  const CostRow *cheapest = nullptr, *fastest = nullptr;
  const std::vector<CostWork> works = works_of(report);
  if (works.size() != 1) return {};  // different kinds of work are not comparable
  for (const CostRow& row : report.rows) {
    if (row.origin != Origin::measured) continue;  // emulated devices are not recommended
    if (!fastest || row.throughput > fastest->throughput) fastest = &row;
    if (row.work_per_price && (!cheapest || *row.work_per_price > *cheapest->work_per_price)) cheapest = &row;
  }
  if (!fastest) return {};
  const auto place = [](const CostRow& row) {
    return fmt::format("{}, {} {}", row.configuration, format_axis(row.size_name), with_thousands(row.size));
  };
  std::string text = fmt::format(" Most work per hour: {} ({} {}).", place(*fastest),
                                 short_number(fastest->work_per_hour), fastest->unit);
  if (cheapest)
    text += fmt::format(" Most work per {}: {} ({} {}).", report.currency, place(*cheapest),
                        short_number(*cheapest->work_per_price), cheapest->unit);
  return text;
}

std::string size_title(const std::string& size_name) {
  return size_name == "global_batch" ? "Global batch" : "Items of a call";
}

/// The first word of a work, "large" of "large, 2,021,379 parameters, tf32"; the whole text if the word is ambiguous.
std::string work_title(const CostWork& work, const std::vector<CostWork>& all) {
  const auto format_first = [](const CostWork& one) { return one.work.substr(0, one.work.find(", ")); };
  const auto same = std::count_if(all.begin(), all.end(),
                                  [&](const CostWork& other) { return format_first(other) == format_first(work); });
  return same == 1 ? format_first(work) : work.work;
}

void add_table_section(Page& page, const char* anchor, const char* title, PageTable table) {
  if (!table.table.rows.empty()) page.sections.push_back({anchor, title, {}, {}, {std::move(table)}});
}

/// The three multi-device cases that pay best or come closest to it.
std::vector<std::string> facts_of(const CostReport& report) {
  struct Fact {
    double ratio;
    std::string words;
  };
  std::vector<Fact> facts;
  for (const CostRow& row : report.rows) {
    if (!row.gain || !row.gain->break_even_speedup || row.gain->payoff == Payoff::unclear) continue;
    const CostGain& gain = *row.gain;
    facts.push_back(
        {gain.speedup / *gain.break_even_speedup,
         fmt::format("{:.2f}x of {:.2f}x: {} {}: its speedup {} (n={}) against the break-even speedup ({} {}, {})",
                     gain.speedup, *gain.break_even_speedup, row.configuration, to_string(gain.payoff),
                     format_speedup(gain.speedup, gain.speedup_ci), row.n, format_axis(row.size_name),
                     with_thousands(row.size), row.work)});
  }
  std::stable_sort(facts.begin(), facts.end(), [](const Fact& a, const Fact& b) { return a.ratio > b.ratio; });
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min<size_t>(3, facts.size()); ++i) words.push_back(facts[i].words);
  return words;
}

}  // namespace

std::string cost_verdict(const CostReport& report) { return payoff_text(report) + best_text(report); }

Page cost_page(const CostReport& report, const std::string& json) {
  Page page;
  page.title = "What the work costs";
  page.qualifier = prices_text(report);
  if (report.rows.front().device_kind == "cpu-virtual") page.qualifier += "; measured on CPU virtual devices, not GPUs";
  if (std::any_of(report.rows.begin(), report.rows.end(),
                  [](const CostRow& row) { return row.origin == Origin::emulated; }))
    page.qualifier += "; some numbers are emulated";
  page.verdict = cost_verdict(report);
  page.facts = facts_of(report);
  size_t number = 0;
  for (const CostWork& work : works_of(report)) {
    PageSection section;
    section.anchor = fmt::format("work-{}", ++number);
    section.title = work_title(work, works_of(report));
    const std::string title = size_title(report.rows[work.rows.front()].size_name);
    if (auto chart = cost_chart(report, {fmt::format("cost-{}", number), work.work, title}))
      section.charts.push_back(std::move(*chart));
    section.tables.push_back(cost_table(report, work));
    page.sections.push_back(std::move(section));
  }
  add_table_section(page, "break-even", "Break-even", break_even_table(report));
  add_table_section(page, "alternatives", "Alternatives for the same money (modelled)", alternatives_table(report));
  PageSection method;
  method.anchor = "method";
  method.title = "How it was computed";
  method.paragraphs = cost_method();
  page.sections.push_back(std::move(method));
  page.provenance = {{"Prices", report.prices}, {"Currency", report.currency}};
  if (!report.as_of.empty()) page.provenance.emplace_back("Prices as of", report.as_of);
  for (const CostRow& row : report.rows) {
    const std::pair<std::string, std::string> run{"Run", row.run};
    if (std::find(page.provenance.begin(), page.provenance.end(), run) == page.provenance.end())
      page.provenance.push_back(run);
  }
  page.notes = report.notes;
  page.embedded_json = json;
  return page;
}

}  // namespace amdahl
