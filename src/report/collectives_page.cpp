#include "report/collectives_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/units.h"
#include "chart/document.h"
#include "chart/line_chart.h"
#include "report/collective_groups.h"
#include "report/page_parts.h"
#include "report/record_axes.h"
#include "report/words.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

bool is_ok(const Record& record) { return record.status.kind == Status::Kind::ok; }

int64_t bytes_of(const Record& record) { return axis<int64_t>(record, "bytes", 0); }

/// A name for each line: the words in which lines of its panel differ, and the collective where there are no panels.
std::vector<std::string> line_names(const CollectiveGroups& groups, bool in_panels) {
  std::map<std::string, CollectiveWordFlags> chosen;  // by panel
  std::map<std::string, const CollectiveWords*> first;
  const auto panel_of = [&](const CollectiveWords& words) { return in_panels ? words[kCollectiveWord] : ""; };
  for (const auto& [words, members] : groups.lines) {
    const CollectiveWords& reference = *first.emplace(panel_of(words), &words).first->second;
    CollectiveWordFlags& flags = chosen[panel_of(words)];
    for (size_t i = 0; i < words.size(); ++i) flags[i] = flags[i] || words[i] != reference[i];
    flags[kCollectiveWord] = !in_panels;
    flags[kPlacementWord] = flags[kPlacementWord] || in_panels;
  }
  std::vector<std::string> names;
  for (const auto& [words, members] : groups.lines) names.push_back(joined_words(words, chosen[panel_of(words)]));
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

void add_limits(LinePlot& plot, const std::vector<Record>& records, bool in_panels) {
  std::set<std::pair<std::string, double>> peaks;
  for (const Record& record : records)
    if (const double peak = record.value("peak").value_or(0); peak > 0 && is_drawable(record))
      peaks.insert({in_panels ? axis<std::string>(record, "collective", "") : "", peak});
  for (const auto& [panel, peak] : peaks)
    plot.limits.push_back({panel, fmt::format("physical limit, {} GB/s", format_number(peak)), peak});
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
                     format_number(best_value), bandwidth ? "GB/s" : "us", collective_record_words(*best));
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

/// How many measurements were verified, how many of them were wrong.
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
    return fmt::format("{} of {} verified measurements brought wrong results: this way to exchange must not be used.",
                       verified.wrong, verified.checked);
  const Record *fastest = extreme_record(records, false), *small = extreme_record(records, true);
  if (!fastest) return "Nothing could be measured: see the notes.";
  const double peak = fastest->value("peak").value_or(0), busbw = fastest->value("busbw").value_or(0);
  return fmt::format("{} exchange data at up to {} GB/s of bus bandwidth{}; the smallest messages take {} us a call.",
                     devices_words(fastest->provenance), format_number(busbw),
                     peak > 0 ? fmt::format(", {} of what is physically possible", format_percent(busbw / peak)) : "",
                     format_number(percentile(samples_of(*small, "call_time"), 50)));
}

std::vector<std::string> facts_of(const std::vector<Record>& records) {
  std::vector<std::string> facts;
  if (const Record* fastest = extreme_record(records, false)) {
    const std::vector<double>& calls = samples_of(*fastest, "call_time");
    facts.push_back(fmt::format(
        "{} GB/s: the highest bus bandwidth, {} ({} us on average; single calls {} to {} us from the 5th to the 95th "
        "percentile, n = {})",
        format_number(fastest->value("busbw").value_or(0)), collective_record_words(*fastest),
        format_number(fastest->value("time").value_or(0)), format_number(percentile(calls, 5)),
        format_number(percentile(calls, 95)), calls.size()));
  }
  if (const Record* small = extreme_record(records, true)) {
    const Figure figure = median_figure(samples_of(*small, "call_time"), "us");
    facts.push_back(fmt::format("{}: a single call of the smallest size, {} ({})", figure.number,
                                collective_record_words(*small), figure.basis));
  }
  const Verified verified = verified_of(records);
  facts.push_back(verified.checked == 0
                      ? std::string("0 results verified: checking was switched off")
                      : fmt::format("{} wrong results: every element of n = {} measurements was compared",
                                    verified.wrong, verified.checked));
  return facts;
}

TableValue known(const std::optional<double>& value) {
  if (value) return *value;
  return {};
}

PageTable measurements_table(const std::vector<Record>& records) {
  PageTable table;
  table.caption = "Every measurement: time a call (mean over calls one behind the other), and of single calls";
  table.table.columns = {{"what", "Collective"},
                         {"transport", "Transport"},
                         {"launch", "Launch"},
                         {"bytes", "Size (bytes)"},
                         {"placement", "Buffers"},
                         {"time_us", "Time (us)"},
                         {"p50_us", "p50 (us)"},
                         {"p95_us", "p95 (us)"},
                         {"p99_us", "p99 (us)"},
                         {"samples", "n"},
                         {"algbw_gbps", "Algorithm (GB/s)"},
                         {"busbw_gbps", "Bus (GB/s)"},
                         {"wrong", "Wrong elements"},
                         {"origin", "origin"}};
  for (const Record& record : records) {
    if (record.kind != "collective" || !is_ok(record)) continue;
    const std::vector<double>& calls = samples_of(record, "call_time");
    const auto part = [&](double percent) {
      return calls.empty() ? TableValue{} : TableValue{percentile(calls, percent)};
    };
    table.table.rows.push_back(
        {sweep_words(record), axis<std::string>(record, "transport", ""), axis<std::string>(record, "launch", ""),
         bytes_of(record), std::string(axis<bool>(record, "in_place", false) ? "in place" : "out of place"),
         known(record.value("time")), part(50), part(95), part(99), static_cast<int64_t>(calls.size()),
         known(record.value("algbw")), known(record.value("busbw")), known(record.value("wrong")),
         std::string(origin_words(record.origin))});
  }
  return table;
}

}  // namespace

std::string collective_record_words(const Record& record) {
  return fmt::format("{} of {}, {}, {}", sweep_words(record), binary_bytes(bytes_of(record)),
                     axis<std::string>(record, "transport", "?"),
                     axis<bool>(record, "in_place", false) ? "in place" : "out of place");
}

std::optional<Chart> collective_chart(const std::vector<Record>& records, CollectiveQuantity quantity) {
  const CollectiveGroups groups = collective_groups(records);
  const bool bandwidth = quantity == CollectiveQuantity::bus_bandwidth;
  const bool in_panels = groups.lines.size() > kMostSeriesOfAPicture && groups.differ[kCollectiveWord];
  LinePlot plot;
  plot.id = bandwidth ? "bus-bandwidth" : "call-time";
  plot.title = bandwidth ? "Bus bandwidth against size (GB/s)" : "Time of a single call against size (us)";
  plot.x = {"bytes", "Size: bytes of the larger buffer of a rank"};
  plot.y =
      bandwidth ? TableColumn{"busbw_gbps", "Bus bandwidth (GB/s)"} : TableColumn{"call_us", "Time of a call (us)"};
  plot.series_title = "Line";
  plot.interval_title = bandwidth ? "interval" : "5th to 95th percentile";
  const std::vector<std::string> names = line_names(groups, in_panels);
  for (size_t line = 0; line < groups.lines.size(); ++line) {
    const auto& [words, members] = groups.lines[line];
    LineSeries series{names[line], in_panels ? words[kCollectiveWord] : "", members.front()->origin, {}};
    for (const Record* record : members)
      if (is_ok(*record))
        if (const std::optional<LinePoint> point = point_of(*record, quantity)) series.points.push_back(*point);
    plot.series.push_back(std::move(series));
  }
  plot.summary = summary_of(records, quantity, plot.series.size());
  if (bandwidth) add_limits(plot, records, in_panels);
  return line_chart(plot);
}

Page collectives_page(const std::vector<Record>& records) {
  Page page;
  page.title = records.empty() ? "Collectives"
                               : fmt::format("Collectives over {} on {}", devices_words(records.front().provenance),
                                             records.front().provenance.host);
  page.qualifier = page_qualifier(records);
  page.verdict = verdict_of(records);
  page.facts = facts_of(records);
  PageSection curves{"curves", "Against size", {}, {}, {}};
  add_chart(curves, collective_chart(records, CollectiveQuantity::bus_bandwidth));
  add_chart(curves, collective_chart(records, CollectiveQuantity::call_time));
  if (!curves.charts.empty())
    curves.paragraphs.emplace_back(
        "Bus bandwidth counts what a link carries: data over time, times the collective's factor (2 (n - 1) / n of "
        "all-reduce), so that it can be compared with the rate of the hardware.");
  add_section(page, std::move(curves));
  PageSection table{"measurements", "Every measurement", {}, {}, {}};
  table.tables.push_back(measurements_table(records));
  if (!table.tables.front().table.rows.empty()) add_section(page, std::move(table));
  page.provenance = page_provenance(records);
  add_status_notes(page, records, collective_record_words);
  return page;
}

}  // namespace amdahl
