#include "report/fabric/arena_matches.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "report/fabric/collectives.h"

namespace amdahl {
namespace {

std::string title_of(const Record& record) {
  return fmt::format("{}: {} bytes, {}", sweep_text(record), with_thousands(axis<int64_t>(record, "bytes", 0)),
                     axis<bool>(record, "in_place", false) ? "in place" : "out of place");
}

}  // namespace

std::string_view default_transport(std::string_view device_kind) { return device_kind == "cuda" ? "nccl" : "threads"; }

const ArenaEntry* ArenaMatch::fastest() const {
  const ArenaEntry* best = nullptr;
  for (const ArenaEntry& entry : entries)
    if (entry.time_us && (!best || *entry.time_us < *best->time_us)) best = &entry;
  return best;
}

const ArenaEntry* ArenaMatch::find(std::string_view transport) const {
  for (const ArenaEntry& entry : entries)
    if (entry.transport == transport && entry.time_us) return &entry;
  return nullptr;
}

std::vector<ArenaMatch> arena_matches(const std::vector<Record>& records) {
  std::vector<ArenaMatch> matches;
  for (const Record& record : records) {
    if (record.kind != "collective") continue;
    const std::string title = title_of(record);
    auto found =
        std::find_if(matches.begin(), matches.end(), [&](const ArenaMatch& match) { return match.title == title; });
    if (found == matches.end()) found = matches.insert(matches.end(), {title, record.provenance.device_kind, {}});
    const bool ok = record.status.kind == Status::Kind::ok;
    found->entries.push_back(
        {&record, axis<std::string>(record, "transport", "?"), ok ? record.value("time") : std::nullopt});
  }
  return matches;
}

double percent_above(double value, double reference) { return (value / reference - 1) * 100; }

std::vector<std::pair<std::string, int>> arena_wins(const std::vector<ArenaMatch>& matches, std::string_view kind) {
  std::vector<std::pair<std::string, int>> wins;
  for (const ArenaMatch& match : matches) {
    const ArenaEntry* best = match.device_kind == kind ? match.fastest() : nullptr;
    if (!best) continue;
    auto found = std::find_if(wins.begin(), wins.end(), [&](const auto& win) { return win.first == best->transport; });
    if (found == wins.end()) found = wins.insert(wins.end(), {best->transport, 0});
    ++found->second;
  }
  std::stable_sort(wins.begin(), wins.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return wins;
}

std::vector<double> default_losses(const std::vector<ArenaMatch>& matches, std::string_view kind) {
  std::vector<double> losses;
  for (const ArenaMatch& match : matches)
    if (match.device_kind == kind && match.standard())
      losses.push_back(percent_above(*match.standard()->time_us, *match.fastest()->time_us));
  return losses;
}

}  // namespace amdahl
