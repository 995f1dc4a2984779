// Cost on the terminal and in Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/units.h"
#include "base/number_text.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/cost/cost.h"
#include "report/cost/tables.h"

namespace amdahl {
namespace {

constexpr const char* kVirtual = "Measured on CPU virtual devices, not GPUs.";

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

std::string markdown_table(const CostTable& table) {
  if (table.rows.empty()) return {};
  std::string text = fmt::format("\n## {}\n\n|", escape_markdown(table.title));
  for (const std::string& name : table.head) text += fmt::format(" {} |", escape_markdown(name));
  text += "\n|";
  for (size_t i = 0; i < table.head.size(); ++i) text += "---|";
  for (const auto& row : table.rows) {
    text += "\n|";
    for (const std::string& value : row) text += fmt::format(" {} |", escape_markdown(value));
  }
  return text + "\n";
}

std::string text_table(const CostTable& table) {
  if (table.rows.empty()) return {};
  std::vector<std::vector<std::string>> rows{table.head};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  return fmt::format("\n{}\n{}", table.title, aligned_table(rows));
}

std::vector<CostTable> tables_of(const CostReport& report) {
  std::vector<CostTable> tables;
  for (const CostWork& work : works_of(report)) tables.push_back(cost_table(report, work));
  tables.push_back(break_even_table(report));
  tables.push_back(alternatives_table(report));
  return tables;
}

bool is_virtual(const CostReport& report) { return report.rows.front().device_kind == "cpu-virtual"; }

}  // namespace

std::string cost_verdict(const CostReport& report) { return payoff_text(report) + best_text(report); }

std::string cost_text(const CostReport& report) {
  std::string text = cost_verdict(report) + "\n";
  if (is_virtual(report)) text += fmt::format("{}\n", kVirtual);
  text += prices_text(report) + "\n";
  for (const CostTable& table : tables_of(report)) text += text_table(table);
  text += "\n";
  for (const std::string& line : cost_method()) text += line + "\n";
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string cost_markdown(const CostReport& report) {
  std::string text = fmt::format("**{}**\n\n", escape_markdown(cost_verdict(report)));
  if (is_virtual(report)) text += fmt::format("{}\n\n", kVirtual);
  text += escape_markdown(prices_text(report)) + "\n";
  for (const CostTable& table : tables_of(report)) text += markdown_table(table);
  text += "\n## How it was computed\n\n";
  for (const std::string& line : cost_method()) text += fmt::format("- {}\n", escape_markdown(line));
  if (!report.notes.empty()) text += "\n## Notes\n\n";
  for (const std::string& note : report.notes) text += fmt::format("- {}\n", escape_markdown(note));
  return text;
}

}  // namespace amdahl
