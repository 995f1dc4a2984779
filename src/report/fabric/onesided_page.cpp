#include "report/fabric/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "report/fabric/onesided_choice.h"
#include "report/fabric/onesided_contests.h"
#include "report/page/page_parts.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

std::string who_text(const std::string& ranks, int64_t devices, bool emulated) {
  return fmt::format("{} {}{}", devices, ranks, emulated ? ", emulated" : "");
}

std::string decision_text(const std::string& decision) {
  return decision == "all_reduce" ? "all-reduce" : "one message";
}

PageTable contest_table(const OneSidedContest& contest) {
  PageTable table{fmt::format("Median latency of {} between {} (us)", decision_text(contest.decision),
                              who_text(contest.ranks, contest.devices, contest.emulated)),
                  {{{"bytes", "Bytes"}}, {}}};
  const auto& methods = contest.latency_us.begin()->second;
  for (const auto& [method, us] : methods) table.table.columns.push_back({slug(method) + "_us", method + " (us)"});
  table.table.columns.insert(table.table.columns.end(), {{"fastest", "Fastest"}, {"lead", "Before the next (x)"}});
  for (const auto& [bytes, times] : contest.latency_us) {
    std::vector<TableValue> row{bytes};
    const std::string& winner = contest.winner(bytes);
    double next = 0;
    for (const auto& [method, us] : times) {
      row.emplace_back(us);
      if (method != winner) next = next == 0 ? us : std::min(next, us);
    }
    row.insert(row.end(), {winner, next / times.at(winner)});
    table.table.rows.push_back(std::move(row));
  }
  return table;
}

PageTable rule_table(const OneSidedChoice& choice) {
  PageTable table{fmt::format("Time of fixed rules over the fastest method of each size, {}",
                              who_text(choice.ranks, choice.devices, choice.emulated)),
                  {{{"decision", "Decision"},
                    {"rule", "Rule"},
                    {"mean_ratio", "Geometric mean (x)"},
                    {"worst_ratio", "Worst (x)"},
                    {"worst_bytes", "At bytes"}},
                   {}}};
  for (const OneSidedChoice::Rule& rule : choice.rules)
    table.table.rows.push_back(
        {decision_text(rule.decision), rule.rule, rule.mean_ratio, rule.worst_ratio, rule.worst_bytes});
  return table;
}

PageTable measurement_table(const std::vector<Record>& records) {
  PageTable table{"Every operation",
                  {{{"operation", "Operation"},
                    {"transport", "By"},
                    {"ranks", "Ranks"},
                    {"shape", "Blocks x threads"},
                    {"bytes", "Bytes"},
                    {"latency_us", "Latency, median (us)"},
                    {"latency_p95_us", "95th percentile (us)"},
                    {"bandwidth_gbps", "Bandwidth (GB/s)"},
                    {"wrong", "Wrong"}},
                   {}}};
  for (const Record& record : records) {
    const std::vector<double>& latency = samples_of(record, "latency");
    if (record.kind != "onesided" || latency.empty()) continue;
    table.table.rows.push_back(
        {text_axis(record, "operation"), text_axis(record, "transport"), onesided_title(record),
         record.axes.contains("threads") ? TableValue(fmt::format("{} x {}", axis<int64_t>(record, "blocks", 1),
                                                                  axis<int64_t>(record, "threads", 1)))
                                         : TableValue(),
         axis<int64_t>(record, "bytes", 0), percentile(latency, 50), percentile(latency, 95),
         rate_at_median(record, "bandwidth", "latency"), static_cast<int64_t>(record.value("wrong").value_or(0))});
  }
  return table;
}

PageTable pattern_table(const std::vector<Record>& records) {
  PageTable table{"Time per step of each pattern",
                  {{{"pattern", "Pattern"},
                    {"transport", "By"},
                    {"ranks", "Ranks"},
                    {"step", "A step"},
                    {"time_us", "Time, median (us)"},
                    {"p95_us", "95th percentile (us)"},
                    {"speedup", "Speedup over the first"},
                    {"loss", "Last loss"}},
                   {}}};
  std::map<std::string, double> baseline_us;
  for (const Record& record : records) {
    const std::vector<double>&us = samples_of(record, "time"), &loss = samples_of(record, "loss");
    if (record.kind != "onesided-pattern" || us.empty()) continue;
    const std::string ranks = onesided_title(record), pattern = text_axis(record, "pattern");
    const double median = percentile(us, 50), first = baseline_us.try_emplace(ranks + pattern, median).first->second;
    table.table.rows.push_back({pattern, text_axis(record, "transport"), ranks, text_axis(record, "step"), median,
                                percentile(us, 95), first / median,
                                loss.empty() ? TableValue() : TableValue(loss.back())});
  }
  return table;
}

/// The losses at a few steps of a training.
std::string loss_text(const Record& record) {
  const std::vector<double>& loss = samples_of(record, "loss");
  std::string text = fmt::format("loss of {} by {} ({}):", text_axis(record, "pattern"), text_axis(record, "transport"),
                                 onesided_title(record));
  for (size_t step = 1; step <= loss.size(); step *= 2) text += fmt::format(" step {} {:.4g},", step, loss[step - 1]);
  return text + fmt::format(" last {:.4g}", loss.back());
}

void add_table(PageSection& section, PageTable table) {
  if (!table.table.rows.empty()) section.tables.push_back(std::move(table));
}

/// The method that one-sided messages are compared with in that choice.
std::string messages_by(const OneSidedChoice& choice, const std::vector<OneSidedContest>& contests) {
  for (const OneSidedContest& contest : contests)
    if (contest.decision == "point_to_point" && contest.device_kind == choice.device_kind &&
        contest.ranks == choice.ranks && contest.devices == choice.devices && contest.emulated == choice.emulated)
      return two_sided_of(contest);
  return {};
}

std::string onesided_verdict(const std::vector<OneSidedChoice>& choices, const std::vector<OneSidedContest>& contests,
                             bool patterns) {
  std::string text;
  for (const OneSidedChoice& choice : choices) {
    if (choice.one_sided_bytes >= 0)
      text += fmt::format("{}Between {}, put with a signal sends a message of up to {} bytes faster than {}.",
                          text.empty() ? "" : " ", who_text(choice.ranks, choice.devices, choice.emulated),
                          with_thousands(choice.one_sided_bytes), messages_by(choice, contests));
  }
  if (!text.empty()) return text;
  return patterns ? "Patterns of programs by collectives or messages, and by one-sided communication."
                  : "Operations of one-sided communication were measured; nothing was compared.";
}

std::string onesided_record_text(const Record& record) {
  if (record.kind == "onesided-gemm")
    return fmt::format("{} by {}", text_axis(record, "gemm"), text_axis(record, "transport"));
  if (record.kind == "onesided-norm")
    return fmt::format("all-reduce and normalisation of {} x {} by {}", axis<int64_t>(record, "rows", 0),
                       axis<int64_t>(record, "width", 0), text_axis(record, "transport"));
  if (record.kind == "onesided-locality")
    return fmt::format("data in {} memory, {}", text_axis(record, "placement"), text_axis(record, "method"));
  return record.kind == "onesided"
             ? fmt::format("{} of {} bytes by {}", text_axis(record, "operation"), axis<int64_t>(record, "bytes", 0),
                           text_axis(record, "transport"))
             : fmt::format("pattern {} by {}", text_axis(record, "pattern"), text_axis(record, "transport"));
}

}  // namespace

Page onesided_page(const std::vector<Record>& records) {
  const std::vector<OneSidedChoice> choices = onesided_choices(records);
  Page page;
  page.subject = {"measurement of one-sided communication", "measurements of one-sided communication", "",
                  page_devices(records)};
  page.title =
      records.empty() ? "One-sided communication" : fmt::format("One-sided communication on {}", page_host(records));
  page.qualifier = page_qualifier(records);
  page.verdict = gemm_verdict(records) + norm_verdict(records) + locality_verdict(records);  // a run has one of them
  const std::vector<OneSidedContest> contests = onesided_contests(records);
  if (page.verdict.empty())
    page.verdict = onesided_verdict(choices, contests, !pattern_table(records).table.rows.empty());
  PageSection winners{"winners", "Which method at which size", {}, {}, {}};
  for (const OneSidedContest& contest : contests) {
    if (contest.latency_us.empty() || contest.latency_us.begin()->second.size() < 2) continue;
    add_table(winners, contest_table(contest));
    for (const OneSidedCrossover& crossover : crossovers_of(contest))
      winners.paragraphs.push_back(
          fmt::format("{}, {}: {} overtakes {} at about {} bytes.", decision_text(contest.decision),
                      who_text(contest.ranks, contest.devices, contest.emulated), crossover.second, crossover.first,
                      with_thousands(static_cast<int64_t>(crossover.bytes))));
  }
  add_section(page, std::move(winners));
  PageSection rules{"rules", "What fixed rules lose", {}, {}, {}};
  for (const OneSidedChoice& choice : choices) add_table(rules, rule_table(choice));
  add_section(page, std::move(rules));
  PageSection patterns{"patterns", "Patterns of programs", {}, {}, {}};
  add_table(patterns, pattern_table(records));
  for (const Record& record : records)
    if (record.kind == "onesided-pattern" && !samples_of(record, "loss").empty())
      patterns.paragraphs.push_back(loss_text(record));
  add_section(page, std::move(patterns));
  PageSection gemms{"gemms", "GEMM and communication", {}, {}, {}};
  add_table(gemms, gemm_contest_table(records));
  add_section(page, std::move(gemms));
  PageSection norms{"norms", "All-reduce and normalisation", {}, {}, {}};
  add_table(norms, norm_table(records));
  add_section(page, std::move(norms));
  PageSection places{"locality", "Where a kernel's data is", {}, {}, {}};
  add_table(places, locality_table(records));
  add_section(page, std::move(places));
  PageSection all{"measurements", "All measurements", {}, {}, {}};
  add_table(all, measurement_table(records));
  if (!all.tables.empty())
    all.paragraphs.emplace_back(
        "Latency: of one transfer, a mean over back-to-back repetitions on the slowest rank per sample; of put_signal, "
        "signal and send_recv half a round trip. Bandwidth: bytes over latency. Tools that report the whole round trip "
        "show twice the latency, tools that count GiB 0.93 of the rate.");
  add_section(page, std::move(all));
  page.provenance = page_provenance(records);
  add_status_notes(page, records, onesided_record_text);
  return page;
}

}  // namespace amdahl
