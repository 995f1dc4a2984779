#include "report/fabric/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "chart/document.h"
#include "chart/line_chart.h"
#include "report/common/words.h"
#include "report/fabric/collective_groups.h"
#include "report/fabric/collective_limit.h"
#include "report/fabric/collectives.h"
#include "report/page/page_parts.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

bool is_ok(const Record& record) { return record.status.kind == Status::Kind::ok; }

std::string placement_text(const Record& record) {
  return axis<bool>(record, "in_place", false) ? "in place" : "out of place";
}

int64_t bytes_of(const Record& record) { return axis<int64_t>(record, "bytes", 0); }

/// A name per line: the fields in which the lines of its panel differ, without that which defines the panels; of a line
/// without a difference the collective.
std::vector<std::string> line_names(const CollectiveGroups& groups, std::optional<size_t> panel_word) {
  std::map<std::string, CollectiveWordFlags> chosen;  // by panel
  std::map<std::string, const CollectiveWords*> first;
  const auto panel_of = [&](const CollectiveWords& words) { return panel_word ? words[*panel_word] : ""; };
  // Of fields that vary together, such as launch and transport, only one is named.
  const auto says_more = [&](size_t word, const CollectiveWordFlags& flags) {
    std::map<std::string, std::string> told;
    for (const auto& [words, members] : groups.lines)
      if (const auto [found, added] = told.emplace(joined_text(words, flags), words[word]);
          !added && found->second != words[word])
        return true;
    return false;
  };
  for (const auto& [words, members] : groups.lines) {
    const CollectiveWords& reference = *first.emplace(panel_of(words), &words).first->second;
    CollectiveWordFlags& flags = chosen[panel_of(words)];
    for (size_t i = 0; i < words.size(); ++i) flags[i] = flags[i] || words[i] != reference[i];
    if (groups.lines.size() == 1) flags[kCollectiveWord] = true;
    if (panel_word == kCollectiveWord) flags[kPlacementWord] = true;
    if (panel_word) flags[*panel_word] = false;
  }
  for (auto& [panel, flags] : chosen)
    if (flags[kLaunchWord]) {
      flags[kLaunchWord] = false;
      flags[kLaunchWord] = says_more(kLaunchWord, flags);
    }
  std::vector<std::string> names;
  for (const auto& [words, members] : groups.lines) names.push_back(joined_text(words, chosen[panel_of(words)]));
  return names;
}

std::optional<LinePoint> point_of(const Record& record, CollectiveQuantity quantity) {
  const std::vector<double>& calls = samples_of(record, "call_time");
  LinePoint point;
  point.x = static_cast<double>(bytes_of(record));
  point.samples = static_cast<int64_t>(calls.size());
  if (quantity == CollectiveQuantity::bus_bandwidth) {
    point.y = record.value("busbw").value_or(0);
    return point;
  }
  if (calls.empty()) return std::nullopt;
  point.y = percentile(calls, 50);
  if (calls.size() > 1) point.interval = Interval{percentile(calls, 5), percentile(calls, 95)};
  return point;
}

void add_limits(LinePlot& plot, const std::vector<Record>& records, std::optional<size_t> panel_word) {
  std::set<std::pair<std::string, CollectiveLimit>> limits;
  for (const Record& record : records)
    if (const auto limit = collective_limit(record); limit && is_drawable(record))
      limits.insert({panel_word == kCollectiveWord ? axis<std::string>(record, "collective", "")
                     : panel_word                  ? placement_text(record)
                                                   : std::string(),
                     *limit});
  for (const auto& [panel, limit] : limits) plot.limits.push_back({panel, limit_text(limit), limit.gbps});
}

std::string summary_of(const std::vector<Record>& records, CollectiveQuantity quantity, size_t lines) {
  const bool bandwidth = quantity == CollectiveQuantity::bus_bandwidth;
  const Record* best = nullptr;
  double best_value = 0;
  for (const Record& record : records) {
    if (!is_drawable(record) || !is_ok(record)) continue;
    const std::optional<LinePoint> point = point_of(record, quantity);
    if (!point || (best && (bandwidth ? point->y <= best_value : point->y >= best_value))) continue;
    best = &record, best_value = point->y;
  }
  if (!best) return {};
  return fmt::format("{} line{}. {}: {} {}, {}.", lines, lines == 1 ? "" : "s", bandwidth ? "Highest" : "Shortest",
                     format_number(best_value), bandwidth ? "GB/s" : "us", collective_record_text(*best));
}

const Record* extreme_record(const std::vector<Record>& records, bool smallest) {
  const Record* found = nullptr;
  for (const Record& record : records) {
    if (!is_drawable(record) || !is_ok(record) || samples_of(record, "call_time").empty()) continue;
    if (!found || (smallest ? bytes_of(record) < bytes_of(*found)
                            : record.value("busbw").value_or(0) > found->value("busbw").value_or(0)))
      found = &record;
  }
  return found;
}

/// Number of verified measurements, and of wrong ones.
struct Verified {
  int64_t checked = 0, wrong = 0, failed = 0;
};

Verified verified_of(const std::vector<Record>& records) {
  Verified verified;
  for (const Record& record : records) {
    if (record.kind != "collective") continue;
    verified.failed += !is_ok(record);
    const std::optional<double> wrong = record.value("wrong");
    verified.checked += wrong.has_value();
    verified.wrong += wrong.value_or(0) > 0;
  }
  return verified;
}

std::string verdict_of(const std::vector<Record>& records) {
  const Verified verified = verified_of(records);
  if (verified.wrong > 0)
    return fmt::format("{} of {} verified measurements brought wrong results: this transport must not be used.",
                       verified.wrong, verified.checked);
  const Record *fastest = extreme_record(records, false), *small = extreme_record(records, true);
  if (!fastest) return "Nothing could be measured: see the notes.";
  const double busbw = fastest->value("busbw").value_or(0);
  const auto limit = collective_limit(*fastest);
  return fmt::format(
      "{} exchange data at up to {} GB/s of bus bandwidth{}; a single call of the smallest messages takes {} us.",
      devices_text(fastest->provenance), format_number(busbw),
      limit ? fmt::format(", {} of the {}", format_percent(busbw / limit->gbps), limit_text(*limit)) : "",
      format_number(percentile(samples_of(*small, "call_time"), 50)));
}

std::vector<std::string> facts_of(const std::vector<Record>& records) {
  std::vector<std::string> facts;
  if (const Record* fastest = extreme_record(records, false)) {
    const std::vector<double>& calls = samples_of(*fastest, "call_time");
    facts.push_back(
        fmt::format("{} GB/s: the highest bus bandwidth, {} ({} us per call back to back; single calls, timed in a "
                    "second loop, {} to "
                    "{} us from the 5th to the 95th percentile, n = {})",
                    format_number(fastest->value("busbw").value_or(0)), collective_record_text(*fastest),
                    format_number(fastest->value("time").value_or(0)), format_number(percentile(calls, 5)),
                    format_number(percentile(calls, 95)), calls.size()));
  }
  if (const Record* small = extreme_record(records, true)) {
    const Figure figure = median_figure(samples_of(*small, "call_time"), "us");
    facts.push_back(fmt::format("{}: a single call of the smallest size, {} ({})", figure.number,
                                collective_record_text(*small), figure.basis));
  }
  const Verified verified = verified_of(records);
  facts.push_back(verified.checked == 0
                      ? std::string("0 results verified: checking was switched off")
                      : fmt::format("{} wrong results: every element of n = {} measurements was compared",
                                    verified.wrong, verified.checked));
  return facts;
}

/// Adds notes on records whose limit is not drawn, by reason.
void add_limit_notes(Page& page, const std::vector<Record>& records) {
  std::map<std::string, int64_t> refused;
  for (const Record& record : records)
    if (const std::string why = limit_refusal(record); !why.empty()) ++refused[why];
  for (const auto& [why, count] : refused)
    page.notes.push_back(
        printable(fmt::format("no limit for {} measurement{} of all_reduce: {}", count, count == 1 ? "" : "s", why)));
}

/// "all_reduce, all_gather"; the number of collectives if there are many.
std::string collective_names(const std::vector<Record>& records) {
  constexpr size_t kMostNames = 3;
  std::vector<std::string> names;
  for (const Record& record : records)
    if (const auto name = axis<std::string>(record, "collective", "");
        !name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names.size() > kMostNames ? fmt::format("{} collectives", names.size())
                                   : fmt::format("{}", fmt::join(names, ", "));
}

/// One table per sweep; records without a result are in the notes.
std::vector<PageTable> measurement_tables(const std::vector<Record>& records) {
  std::vector<PageTable> tables;
  for (const auto& [title, members] : collective_tables(records)) {
    PageTable table;
    table.caption = title;
    table.table.columns = {{"bytes", "Size (bytes)"},
                           {"count", "Count"},
                           {"placement", "Buffers"},
                           {"time_us", "Time (us)"},
                           {"p50_us", "p50 (us)"},
                           {"p95_us", "p95 (us)"},
                           {"p99_us", "p99 (us)"},
                           {"samples", "n (single calls)"},
                           {"algbw_gbps", "Algorithm (GB/s)"},
                           {"busbw_gbps", "Bus (GB/s)"},
                           {"wrong", "Wrong"},
                           {"origin", "Origin"}};
    for (const Record* record : members) {
      const std::vector<double>& calls = samples_of(*record, "call_time");
      if (calls.empty() && !is_ok(*record)) continue;
      const auto part = [&](double percent) {
        return calls.empty() ? TableValue{} : TableValue{percentile(calls, percent)};
      };
      table.table.rows.push_back({bytes_of(*record), axis<int64_t>(*record, "count", 0), placement_text(*record),
                                  optional_value(record->value("time")), part(50), part(95), part(99),
                                  static_cast<int64_t>(calls.size()), optional_value(record->value("algbw")),
                                  optional_value(record->value("busbw")), optional_value(record->value("wrong")),
                                  std::string(origin_text(record->origin))});
    }
    if (!table.table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

std::string collective_record_text(const Record& record) {
  return fmt::format("{} of {}, {}, {}", sweep_text(record), binary_bytes(bytes_of(record)),
                     axis<std::string>(record, "transport", "?"), placement_text(record));
}

std::optional<Chart> collective_chart(const std::vector<Record>& records, CollectiveQuantity quantity) {
  const CollectiveGroups groups = collective_groups(records);
  const bool bandwidth = quantity == CollectiveQuantity::bus_bandwidth;
  std::optional<size_t> panel_word;
  if (groups.lines.size() > kMostSeriesOfAPicture)
    for (const size_t word : {kPlacementWord, kCollectiveWord})
      if (groups.differ[word]) panel_word = word;
  LinePlot plot;
  plot.id = bandwidth ? "bus-bandwidth" : "call-time";
  plot.title = bandwidth ? "Bus bandwidth against size (GB/s)" : "Time of a single call against size (us)";
  plot.title_at_one = bandwidth ? "Bus bandwidth at {} (GB/s)" : "Time of a single call of {} (us)";
  plot.x = {"bytes", "Size: bytes of the larger buffer of a rank"};
  plot.y = bandwidth ? TableColumn{"busbw_gbps", "Bus bandwidth (GB/s)"}
                     : TableColumn{"call_us", "Time of a single call (us)"};
  plot.series_title = "Line";
  plot.interval_title = bandwidth ? "interval" : "5th to 95th percentile";
  const std::vector<std::string> names = line_names(groups, panel_word);
  for (size_t line = 0; line < groups.lines.size(); ++line) {
    const auto& [words, members] = groups.lines[line];
    LineSeries series{names[line], panel_word ? words[*panel_word] : "", members.front()->origin, {}};
    for (const Record* record : members)
      if (is_ok(*record))
        if (const std::optional<LinePoint> point = point_of(*record, quantity)) series.points.push_back(*point);
    plot.series.push_back(std::move(series));
  }
  plot.summary = summary_of(records, quantity, plot.series.size());
  if (bandwidth) add_limits(plot, records, panel_word);
  return line_chart(plot);
}

Page collectives_page(const std::vector<Record>& records) {
  Page page;
  page.subject = {"collective sweep", "collective sweeps", collective_names(records), page_devices(records)};
  page.title = fmt::format("{} over {} on {}", page.subject.what.empty() ? "Collectives" : page.subject.what,
                           page.subject.where, page_host(records));
  page.qualifier = page_qualifier(records);
  page.verdict = verdict_of(records);
  page.facts = facts_of(records);
  PageSection curves{"curves", "Against size", {}, {}, {}};
  add_chart(curves, collective_chart(records, CollectiveQuantity::bus_bandwidth));
  add_chart(curves, collective_chart(records, CollectiveQuantity::call_time));
  if (!curves.charts.empty())
    curves.details.emplace_back(
        "Bus bandwidth counts what a link transfers: data over time, times the collective's factor (2(n-1)/n of "
        "all-reduce), so that it can be compared with the rate of the hardware.");
  add_section(page, std::move(curves));
  PageSection all{"measurements", "Every measurement", {}, {}, measurement_tables(records)};
  if (!all.tables.empty())
    all.paragraphs.emplace_back(
        "Time: mean per call of a loop of calls back to back; bandwidths are of it. p50, p95, p99: of n single calls, "
        "timed in a second loop with an event after every call, which they contain: no percentiles of the time.");
  add_section(page, std::move(all));
  page.provenance = page_provenance(records);
  add_status_notes(page, records, collective_record_text);
  add_limit_notes(page, records);
  return page;
}

}  // namespace amdahl
