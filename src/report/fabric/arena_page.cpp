#include "report/fabric/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "chart/document.h"
#include "chart/heat_map.h"
#include "chart/line_chart.h"
#include "report/common/words.h"
#include "report/fabric/arena.h"
#include "report/fabric/arena_matches.h"
#include "report/fabric/collectives.h"
#include "report/page/page_parts.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr const char* kKinds[] = {"cuda", "cpu-virtual"};

/// Matches of one sweep and placement, one per size.
struct Ladder {
  std::string what, placement, device_kind;
  std::vector<const ArenaMatch*> sizes;
};

std::vector<Ladder> ladders_of(const std::vector<ArenaMatch>& matches) {
  std::vector<Ladder> ladders;
  for (const ArenaMatch& match : matches) {
    const Record& record = *match.entries.front().record;
    const std::string what = sweep_text(record);
    const std::string placement = axis<bool>(record, "in_place", false) ? "in place" : "out of place";
    auto found = std::find_if(ladders.begin(), ladders.end(), [&](const Ladder& ladder) {
      return ladder.what == what && ladder.placement == placement && ladder.device_kind == match.device_kind;
    });
    if (found == ladders.end()) found = ladders.insert(ladders.end(), {what, placement, match.device_kind, {}});
    found->sizes.push_back(&match);
  }
  return ladders;
}

HeatCell cell_of(const HeatMap& map, const ArenaEntry& entry, const ArenaEntry& fastest) {
  const double behind = percent_above(*entry.time_us, *fastest.time_us);
  const bool is_fastest = &entry == &fastest;
  const std::vector<double>& calls = samples_of(*entry.record, "call_time");
  HeatCell cell;
  cell.row = entry.transport;
  cell.column = axis<int64_t>(*entry.record, "bytes", 0);
  cell.value = behind;
  constexpr double kTimesFrom = 1000;  // percent: from here on "59x" reads better than "+5,824 %"
  cell.words = is_fastest             ? "fastest"
               : behind >= kTimesFrom ? fmt::format("{:.0f}x", 1 + behind / 100)
                                      : fmt::format("+{:.{}f} %", behind, behind < 10 ? 1 : 0);
  cell.judgement = is_fastest ? map.outlined : map.plain;
  cell.further = {*entry.time_us, static_cast<int64_t>(calls.size()),
                  axis<std::string>(*entry.record, "nccl_chose", ""), std::string(origin_text(entry.record->origin))};
  return cell;
}

/// Time of each transport above the fastest, per size.
std::optional<Chart> ladder_chart(const Ladder& ladder) {
  HeatMap map;
  map.id = slug("behind " + ladder.what + " " + ladder.placement);
  const std::string collective = ladder.what.substr(0, ladder.what.find(','));
  map.title = fmt::format("{}, {}: time above the fastest transport (%)", collective, ladder.placement);
  map.row = {"transport", "Transport"};
  map.column = {"bytes", "Size: bytes of the larger buffer of a rank"};
  map.value = {"behind_percent", "Behind the fastest (%)"};
  map.further = {
      {"time_us", "Time (us)"}, {"samples", "n (calls)"}, {"nccl_chose", "NCCL chose"}, {"origin", "origin"}};
  map.judgement_title = "Judgement";
  map.outlined = "fastest", map.plain = "behind";
  map.full = 100, map.high_is_dark = false;
  std::vector<std::pair<std::string, int>> wins;
  for (const ArenaMatch* match : ladder.sizes) {
    const ArenaEntry* fastest = match->fastest();
    for (const ArenaEntry& entry : match->entries) {
      if (!entry.time_us) continue;
      if (std::find(map.rows.begin(), map.rows.end(), entry.transport) == map.rows.end())
        map.rows.push_back(entry.transport);
      map.cells.push_back(cell_of(map, entry, *fastest));
    }
    if (fastest)
      map.summary += fmt::format("{}{}: {}", map.summary.empty() ? "Fastest at " : "; ",
                                 binary_bytes(axis<int64_t>(*fastest->record, "bytes", 0)), fastest->transport);
  }
  map.summary += fmt::format(". {}.", ladder.what);
  return heat_map_chart(map);
}

/// The numbers of that chart, one row per size and transport.
PageTable ladder_table(const Ladder& ladder) {
  PageTable table{fmt::format("{}, {}", ladder.what, ladder.placement),
                  {{{"bytes", "Size (bytes)"},
                    {"transport", "Transport"},
                    {"time_us", "Time (us)"},
                    {"busbw_gbps", "Bus (GB/s)"},
                    {"behind", "Behind the fastest"},
                    {"nccl_chose", "NCCL chose"}},
                   {}}};
  table.in_pages = false;
  for (const ArenaMatch* match : ladder.sizes)
    for (const ArenaEntry& entry : match->entries) {
      const ArenaEntry* fastest = match->fastest();
      const std::string behind = !entry.time_us ? "FAILED"
                                 : &entry == fastest
                                     ? "fastest"
                                     : fmt::format("+{:.1f} %", percent_above(*entry.time_us, *fastest->time_us));
      table.table.rows.push_back({axis<int64_t>(*entry.record, "bytes", 0), entry.transport,
                                  optional_value(entry.time_us), optional_value(entry.record->value("busbw")), behind,
                                  axis<std::string>(*entry.record, "nccl_chose", "")});
    }
  return table;
}

/// "nccl-tree at 5 of 14"
std::string wins_text(const std::vector<std::pair<std::string, int>>& wins) {
  int all = 0;
  std::string text;
  for (const auto& [name, count] : wins) all += count;
  for (const auto& [name, count] : wins)
    text += fmt::format("{}{} at {} of {}", text.empty() ? "" : ", ", name, count, all);
  return text;
}

std::string verdict_of(const std::vector<ArenaMatch>& matches) {
  std::string text;
  for (const char* kind : kKinds) {
    const std::vector<std::pair<std::string, int>> wins = arena_wins(matches, kind);
    if (wins.empty()) continue;
    const std::vector<double> losses = default_losses(matches, kind);
    text += text.empty() ? "" : " ";
    if (losses.empty()) {
      text += fmt::format("Over {}, {} is the fastest transport most often; the default was not measured.",
                          device_text(kind).many, wins.front().first);
      continue;
    }
    const double median = percentile(losses, 50);
    if (median < 100 * kSweepNoise)
      text += fmt::format("Over {}, the default, {}, is as good as any transport at most sizes.",
                          device_text(kind).many, default_transport(kind));
    else
      text += fmt::format(
          "Over {}, the default, {}, takes {:.2f}x as long as the fastest in the median; {} is the fastest most often.",
          device_text(kind).many, default_transport(kind), 1 + median / 100, wins.front().first);
  }
  return text.empty() ? "No transport gave a result: see the notes." : text;
}

std::vector<std::string> facts_of(const std::vector<Record>& records, const std::vector<ArenaMatch>& matches) {
  std::vector<std::string> facts;
  for (const char* kind : kKinds) {
    const std::vector<std::pair<std::string, int>> wins = arena_wins(matches, kind);
    if (wins.empty()) continue;
    const std::vector<double> losses = default_losses(matches, kind);
    if (!losses.empty())
      facts.push_back(fmt::format(
          "{:.2f}x: time of the default, {}, over that of the fastest, at most; {:.2f}x in the median (n = "
          "{} sizes and buffer placements)",
          1 + percentile(losses, 100) / 100, default_transport(kind), 1 + percentile(losses, 50) / 100, losses.size()));
    facts.push_back(fmt::format("{} time{} the fastest: {} (sizes and placements over {})", wins.front().second,
                                wins.front().second == 1 ? "" : "s", wins_text(wins), device_text(kind).many));
  }
  const auto absent =
      std::count_if(records.begin(), records.end(), [](const Record& r) { return r.kind == "transport"; });
  if (absent > 0) facts.push_back(fmt::format("{} transports skipped or failed: see the notes", absent));
  if (facts.size() > 3) facts.resize(3);
  return facts;
}

/// The records of the default and of the transports that are the fastest at some size, most often first: as many as one
/// chart tells apart.
std::vector<Record> leading_records(const std::vector<Record>& records, const std::vector<ArenaMatch>& matches) {
  std::vector<std::string> leaders;
  for (const char* kind : kKinds) {
    const std::vector<std::pair<std::string, int>> wins = arena_wins(matches, kind);
    if (wins.empty()) continue;
    leaders.emplace_back(default_transport(kind));
    for (const auto& [name, count] : wins)
      if (name != leaders.front() && leaders.size() < kMostSeriesOfAPicture) leaders.push_back(name);
  }
  std::vector<Record> found;
  for (const std::string& leader : leaders)
    std::copy_if(records.begin(), records.end(), std::back_inserter(found),
                 [&](const Record& record) { return axis<std::string>(record, "transport", "") == leader; });
  return found;
}

std::string format_row(const Record& record) {
  return record.kind == "transport" ? axis<std::string>(record, "transport", "?") : collective_record_text(record);
}

}  // namespace

Page arena_page(const std::vector<Record>& records) {
  const std::vector<ArenaMatch> matches = arena_matches(records);
  Page page;
  page.subject = {"transport comparison", "transport comparisons", "", page_devices(records)};
  page.title = records.empty() ? "Transports" : fmt::format("Transports of collectives on {}", page_host(records));
  page.qualifier = page_qualifier(records);
  page.verdict = verdict_of(matches);
  page.facts = facts_of(records, matches);
  PageSection best{"best", "Which transport is the fastest", {}, {}, {}};
  for (const Ladder& ladder : ladders_of(matches)) {
    add_chart(best, ladder_chart(ladder));
    best.tables.push_back(ladder_table(ladder));
  }
  add_section(page, std::move(best));
  PageSection curves{"curves", "The default and the fastest transports against size", {}, {}, {}};
  const std::vector<Record> leaders = leading_records(records, matches);
  add_chart(curves, collective_chart(leaders, CollectiveQuantity::bus_bandwidth));
  add_chart(curves, collective_chart(leaders, CollectiveQuantity::call_time));
  add_section(page, std::move(curves));
  page.provenance = page_provenance(records);
  add_status_notes(page, records, format_row);
  return page;
}

}  // namespace amdahl
