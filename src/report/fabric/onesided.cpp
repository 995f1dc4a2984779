#include "report/fabric/onesided.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "amdahl/units.h"
#include "base/record_values.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/fabric/onesided_choice.h"
#include "report/fabric/onesided_contests.h"
#include "report/fabric/onesided_norms.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

using TextRows = std::vector<std::vector<std::string>>;

std::string kernel_shape_text(const Record& record) {
  if (!record.axes.contains("threads")) return "";
  return fmt::format("{} x {}", axis<int64_t>(record, "blocks", 1), axis<int64_t>(record, "threads", 1));
}

void add_onesided_row(TextRows& rows, const Record& record, bool shapes) {
  const std::vector<double>&latency = samples_of(record, "latency"), &rate = samples_of(record, "bandwidth");
  std::vector<std::string> row{text_axis(record, "operation"), text_axis(record, "transport")};
  if (shapes) row.push_back(kernel_shape_text(record));
  row.push_back(rate.empty() ? "-" : with_thousands(axis<int64_t>(record, "bytes", 0)));
  if (latency.empty()) {
    row.push_back("FAILED: " + record.status.reason);
  } else {
    for (const double percent : {50.0, 95.0}) row.push_back(fmt::format("{:.3f}", percentile(latency, percent)));
    row.push_back(rate.empty() ? "-" : fmt::format("{:.3f}", percentile(rate, 50)));
    row.push_back(fmt::format("{:.0f}", record.value("wrong").value_or(0)));
  }
  rows.push_back(std::move(row));
}

std::string measurements_text(const std::vector<Record>& records) {
  std::map<std::string, std::vector<const Record*>> tables;
  for (const Record& record : records)
    if (record.kind == "onesided") tables[onesided_title(record)].push_back(&record);
  std::string text;
  for (const auto& [title, members] : tables) {
    const bool shapes = std::any_of(members.begin(), members.end(),
                                    [](const Record* record) { return record->axes.contains("threads"); });
    TextRows rows{{"operation", "by"}};
    if (shapes) rows.front().emplace_back("blocks x threads");
    for (const char* column : {"bytes", "p50 us", "p95 us", "GB/s", "wrong"}) rows.front().emplace_back(column);
    for (const Record* record : members) add_onesided_row(rows, *record, shapes);
    text += fmt::format("\n{}\n{}", title, aligned_table(rows));
  }
  return text;
}

std::string contest_text(const OneSidedContest& contest) {
  const auto& methods = contest.latency_us.begin()->second;
  if (methods.size() < 2) return {};
  TextRows rows{{"bytes"}};
  for (const auto& [method, us] : methods) rows.front().push_back(method + " us");
  rows.front().insert(rows.front().end(), {"fastest", "before the next"});
  for (const auto& [bytes, times] : contest.latency_us) {
    const std::string& winner = contest.winner(bytes);
    double next = 0;
    rows.push_back({with_thousands(bytes)});
    for (const auto& [method, us] : times) {
      rows.back().push_back(fmt::format("{:.2f}", us));
      if (method != winner) next = next == 0 ? us : std::min(next, us);
    }
    rows.back().insert(rows.back().end(), {winner, fmt::format("{:.2f}x", next / times.at(winner))});
  }
  std::string text = fmt::format(
      "\n{}, {}\n{}", contest.decision == "all_reduce" ? "all_reduce" : "one message",
      onesided_ranks_text(contest.device_kind, contest.ranks, contest.devices, contest.emulated), aligned_table(rows));
  for (const OneSidedCrossover& crossover : crossovers_of(contest))
    text += fmt::format("{} overtakes {} at about {} bytes\n", crossover.second, crossover.first,
                        with_thousands(static_cast<int64_t>(crossover.bytes)));
  return text;
}

std::string rules_text(const OneSidedChoice& choice) {
  TextRows rows{{"decision", "rule", "mean", "worst", "at bytes"}};
  for (const OneSidedChoice::Rule& rule : choice.rules)
    rows.push_back({rule.decision, rule.rule, fmt::format("{:.3f}x", rule.mean_ratio),
                    fmt::format("{:.2f}x", rule.worst_ratio), with_thousands(rule.worst_bytes)});
  return fmt::format("\ntime of fixed rules over the fastest method of each size, {}\n{}",
                     onesided_ranks_text(choice.device_kind, choice.ranks, choice.devices, choice.emulated),
                     aligned_table(rows));
}

/// The losses at a few steps of a training.
std::string loss_text(const Record& record) {
  const std::vector<double>& loss = samples_of(record, "loss");
  if (loss.empty()) return {};
  std::string text = fmt::format("  loss of {} by {}:", text_axis(record, "pattern"), text_axis(record, "transport"));
  for (size_t step = 1; step <= loss.size(); step *= 2) text += fmt::format(" step {} {:.4g},", step, loss[step - 1]);
  return text + fmt::format(" last {:.4g}\n", loss.back());
}

std::string patterns_text(const std::vector<Record>& records) {
  std::map<std::string, std::pair<TextRows, std::string>> tables;
  std::map<std::string, double> baseline_us;
  for (const Record& record : records) {
    const std::vector<double>& us = samples_of(record, "time");
    if (record.kind != "onesided-pattern" || us.empty()) continue;
    const std::string title = onesided_title(record), pattern = text_axis(record, "pattern");
    auto& [rows, losses] = tables[title];
    if (rows.empty()) rows.push_back({"pattern", "by", "us per step", "p95 us", "speedup", "a step"});
    const double median = percentile(us, 50);
    double& baseline = baseline_us[title + pattern];
    if (baseline == 0) baseline = median;
    rows.push_back(
        {pattern, text_axis(record, "transport"), fmt::format("{:.2f}", median),
         fmt::format("{:.2f}", percentile(us, 95)), fmt::format("{:.2f}x", baseline / median),
         record.status.kind == Status::Kind::ok ? text_axis(record, "step") : "FAILED: " + record.status.reason});
    losses += loss_text(record);
  }
  std::string text;
  for (const auto& [title, table] : tables)
    text += fmt::format("\npatterns, {}\n{}{}", title, aligned_table(table.first), table.second);
  return text;
}

constexpr const char* kOneSidedLegend =
    "\nlatency: of one transfer, a mean over back-to-back repetitions on the slowest rank per sample; of put_signal,\n"
    "signal and send_recv half a round trip. GB/s: bytes over latency, 10^9 bytes. Tools that report the whole round\n"
    "trip show twice the latency, tools that count GiB 0.93 of the rate.\n";

}  // namespace

std::string onesided_text(const std::vector<Record>& records, const std::vector<OneSidedChoice>& choices) {
  std::string text;
  if (std::any_of(records.begin(), records.end(),
                  [](const Record& record) { return record.provenance.device_kind != "cuda"; }))
    text += "Measured on CPU ranks, not GPUs.\n";
  text += measurements_text(records);
  text += patterns_text(records);
  text += gemm_contest_text(records);
  text += norm_text(records);
  text += locality_text(records);
  if (std::none_of(records.begin(), records.end(), [](const Record& record) { return record.kind == "onesided"; }))
    return text;
  text += kOneSidedLegend;
  for (const OneSidedContest& contest : onesided_contests(records))
    if (!contest.latency_us.empty()) text += contest_text(contest);
  for (const OneSidedChoice& choice : choices) text += rules_text(choice);
  return text;
}

}  // namespace amdahl
