#include "report/compare/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/error.h"
#include "chart/compare_chart.h"
#include "report/common/process_spread.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "stats/processes.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr const char* kPlaceAxis = "place";  // of the command in the list that the user gave
constexpr double kShortUs = 5e3;             // below it, starting a process is a large part of the time

const std::string& command_of(const Record& record) {
  const auto found = record.axes.find(kCommandAxis);
  if (found == record.axes.end() || !std::holds_alternative<std::string>(found->second))
    throw damaged_record(record, fmt::format("has no axis '{}'", kCommandAxis));
  return std::get<std::string>(found->second);
}

/// By round, which is the number of the process.
ProcessSamples samples_of(const std::vector<const Record*>& runs, const char* series) {
  ProcessSamples samples;
  for (const Record* run : runs)
    if (const auto value = run->value(series)) samples[process_of(*run)].push_back(*value);
  return samples;
}

double median_over(const std::vector<const Record*>& runs, const char* series) {
  const std::vector<double> values = process_medians(samples_of(runs, series));
  return values.empty() ? 0 : median_of(values);
}

std::string short_name(const std::string& name) { return printable(name, 60); }

std::optional<Chart> speed_chart(const std::vector<BenchedCommand>& commands) {
  SpeedPlot plot;
  plot.id = "speed";
  plot.baseline = "the first";
  plot.title = fmt::format("Speed over {}", short_name(commands.front().name));
  for (const BenchedCommand& command : commands)
    if (command.against_first)
      plot.dots.push_back({short_name(command.name), "command", command.against_first->ratio, command.against_first->ci,
                           std::string(to_string(command.against_first->verdict)), command.against_first->n_second,
                           command.against_first->n_first});
  plot.summary = bench_verdict(commands);
  return compare_chart(plot);
}

PageTable table_of_commands(const std::vector<BenchedCommand>& commands) {
  PageTable page_table{"Every command", {}};
  DataTable& table = page_table.table;
  table.columns = {{"command", "command"},
                   {"time_ms", "time (ms)"},
                   {"time_low", "from"},
                   {"time_high", "to"},
                   {"runs", "runs"},
                   {"least_ms", "least"},
                   {"most_ms", "most"},
                   {"user_ms", "user (ms)"},
                   {"system_ms", "system (ms)"},
                   {"peak_mb", "peak memory (MB)"},
                   {"speed", "speed over the first"},
                   {"speed_low", "from"},
                   {"speed_high", "to"},
                   {"verdict", "verdict"}};
  for (const BenchedCommand& command : commands) {
    const auto [time, ci] = command.time.estimate();
    std::vector<TableValue> row{command.name, time / 1e3};
    row.push_back(ci ? TableValue(ci->low / 1e3) : TableValue());
    row.push_back(ci ? TableValue(ci->high / 1e3) : TableValue());
    row.insert(row.end(), {command.time.n, command.time.minimum / 1e3, command.time.maximum / 1e3,
                           command.user_us / 1e3, command.system_us / 1e3, command.peak_bytes / 1e6});
    if (const auto& test = command.against_first)
      row.insert(row.end(), {test->ratio, end_of(test->ci, true), end_of(test->ci, false), verdict_text(*test)});
    else
      row.insert(row.end(), {std::string("-"), TableValue(), TableValue(), std::string("baseline")});
    table.rows.push_back(std::move(row));
  }
  if (commands.size() == 1) remove_columns(page_table, {"speed", "speed_low", "speed_high", "verdict"});
  return page_table;
}

}  // namespace

std::vector<std::string> bench_names(const std::vector<Record>& records) {
  std::map<int64_t, std::string> names;
  for (const Record& record : records) {
    const auto place = record.value(kPlaceAxis);
    if (!place) throw damaged_record(record, fmt::format("has no series '{}'", kPlaceAxis));
    names[static_cast<int64_t>(*place)] = command_of(record);
  }
  std::vector<std::string> ordered;
  for (const auto& [place, name] : names) ordered.push_back(name);
  return ordered;
}

std::vector<BenchedCommand> bench_commands(const std::vector<Record>& records, const std::vector<std::string>& names) {
  std::vector<BenchedCommand> commands;
  std::vector<ProcessSamples> times;
  for (const std::string& name : names) {
    std::vector<const Record*> runs;
    for (const Record& record : records)
      if (record.status.kind == Status::Kind::ok && command_of(record) == name) runs.push_back(&record);
    times.push_back(samples_of(runs, "time"));
    BenchedCommand command;
    command.name = name, command.time = summarise_processes(times.back());
    command.user_us = median_over(runs, "user_time"), command.system_us = median_over(runs, "system_time");
    command.peak_bytes = median_over(runs, "peak_memory");
    command.failed =
        std::count_if(runs.begin(), runs.end(), [](const Record* run) { return run->value("exit_code") != 0.0; });
    commands.push_back(std::move(command));
  }
  std::vector<TestedPair> judged;
  for (size_t i = 1; i < commands.size(); ++i) {
    if (times[0].empty() || times[i].empty()) continue;
    commands[i].against_first = test_processes({.first = times[i], .second = times[0], .paired = true});
    judged.push_back({&*commands[i].against_first, process_moments(times[i]), process_moments(times[0])});
  }
  judge_together(judged);
  return commands;
}

std::string bench_verdict(const std::vector<BenchedCommand>& commands) {
  if (commands.size() == 1) {
    const auto [time, ci] = commands.front().time.estimate();
    return fmt::format("{} takes {} ms{}.", short_name(commands.front().name), format_number(time / 1e3),
                       ci ? fmt::format(" [{}, {}]", format_number(ci->low / 1e3), format_number(ci->high / 1e3)) : "");
  }
  std::string text;
  for (const BenchedCommand& command : commands) {
    if (!command.against_first) continue;
    const PairTest& test = *command.against_first;
    const std::string first = short_name(commands.front().name), name = short_name(command.name);
    if (!text.empty()) text += " ";
    if (test.verdict == Verdict::same)
      text += fmt::format("{} is as fast as {} within 1 %.", name, first);
    else if (test.verdict == Verdict::unclear)
      text += fmt::format("{} against {} is {}: {}.", name, first,
                          has_too_few_runs(test) ? "not tested, with too few runs" : "unclear",
                          format_speedup(test.ratio, test.ci));
    else
      text += fmt::format("{} is {} than {}: {}.", name, test.verdict == Verdict::faster ? "faster" : "slower", first,
                          format_speedup(test.ratio, test.ci));
  }
  return text;
}

Page bench_page(const std::vector<Record>& records) {
  const std::vector<BenchedCommand> commands = bench_commands(records, bench_names(records));
  Page page;
  page.subject = {"comparison of commands", "comparisons of commands", "", page_host(records)};
  page.title = fmt::format("{} command{} on {}", commands.size(), commands.size() == 1 ? "" : "s", page_host(records));
  page.verdict = bench_verdict(commands);
  PageSection section{"commands", "Commands", {}, {}, {}};
  section.details = {
      "Time: from the start of a process to its end, the geometric mean of the runs. Every run is a fresh process; in "
      "each round every command runs once, in random order, and the commands of one round are compared with each other "
      "(Student's test on the logarithms, Holm's adjustment over the commands). SAME: within 1 %."};
  if (commands.size() > 1)
    if (auto chart = speed_chart(commands)) section.charts.push_back(std::move(*chart));
  section.tables.push_back(table_of_commands(commands));
  page.sections.push_back(std::move(section));
  page.provenance = page_provenance(records);
  for (const BenchedCommand& command : commands) {
    if (command.failed > 0)
      page.notes.push_back(fmt::format("{}: {} of {} runs ended with another code than 0", short_name(command.name),
                                       command.failed, command.time.n));
    if (command.time.n > 0 && command.time.estimate().value < kShortUs)
      page.notes.push_back(fmt::format("{} takes less than {:.0f} ms, of which starting a process is a large part",
                                       short_name(command.name), kShortUs / 1e3));
    if (command.time.num_outliers > 0)
      page.notes.push_back(
          fmt::format("{}: {} of {} runs are outliers, none was dropped: caches that fill, or other "
                      "programs at work",
                      short_name(command.name), command.time.num_outliers, command.time.n));
  }
  add_status_notes(page, records, [](const Record& record) { return short_name(command_of(record)); });
  return page;
}

}  // namespace amdahl
