#include "report/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "amdahl/units.h"
#include "report/record_axes.h"
#include "report/words.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr double kNoise = 0.03;

std::string_view default_of(std::string_view device_kind) { return device_kind == "cuda" ? "nccl" : "threads"; }

/// One transport at one size.
struct Entry {
  const Record* record;
  std::string transport;
  std::optional<double> time_us;  // absent: it failed
};

/// All transports at one size of one sweep, on devices of one kind.
struct Match {
  std::string title, device_kind;
  std::vector<Entry> entries;

  const Entry* fastest() const {
    const Entry* best = nullptr;
    for (const Entry& entry : entries)
      if (entry.time_us && (!best || *entry.time_us < *best->time_us)) best = &entry;
    return best;
  }
  const Entry* find(std::string_view transport) const {
    for (const Entry& entry : entries)
      if (entry.transport == transport && entry.time_us) return &entry;
    return nullptr;
  }
  const Entry* standard() const { return find(default_of(device_kind)); }
};

std::string title_of(const Record& record) {
  return fmt::format("{}: {} bytes, {}", sweep_words(record), with_thousands(axis<int64_t>(record, "bytes", 0)),
                     axis<bool>(record, "in_place", false) ? "in place" : "out of place");
}

std::vector<Match> matches_of(const std::vector<Record>& records) {
  std::vector<Match> matches;
  for (const Record& record : records) {
    if (record.kind != "collective") continue;
    const std::string title = title_of(record);
    auto found = std::find_if(matches.begin(), matches.end(), [&](const Match& match) { return match.title == title; });
    if (found == matches.end()) found = matches.insert(matches.end(), {title, record.provenance.device_kind, {}});
    const bool ok = record.status.kind == Status::Kind::ok;
    found->entries.push_back(
        {&record, axis<std::string>(record, "transport", "?"), ok ? record.value("time") : std::nullopt});
  }
  return matches;
}

double percent_above(double value, double reference) { return (value / reference - 1) * 100; }

std::string entry_text(const Entry& entry, const Entry* fastest) {
  if (!entry.time_us) return fmt::format("  {:<22} FAILED: {}\n", entry.transport, entry.record->status.reason);
  const double behind = percent_above(*entry.time_us, *fastest->time_us);
  const std::string chose = axis<std::string>(*entry.record, "nccl_chose", "");
  std::string text = fmt::format("{} {:<22} {:>11.2f} {:>10.3f} {:>12}", &entry == fastest ? '*' : ' ', entry.transport,
                                 *entry.time_us, entry.record->value("busbw").value_or(0),
                                 &entry == fastest ? "fastest" : fmt::format("+{:.1f} %", behind));
  if (!chose.empty()) text += "  " + chose;
  return text + '\n';
}

std::string default_text(const Match& match) {
  const Entry *best = match.fastest(), *standard = match.standard();
  if (!best || !standard) return {};
  if (best == standard) return fmt::format("  the default, {}, is the fastest\n", standard->transport);
  return fmt::format("  the default, {}, loses {:.1f} % against {}\n", standard->transport,
                     percent_above(*standard->time_us, *best->time_us), best->transport);
}

std::string match_text(const Match& match) {
  std::string text = fmt::format("\n{}\n  {:<22} {:>11} {:>10} {:>12}{}\n", match.title, "transport", "time us",
                                 "bus GB/s", "behind", match.device_kind == "cuda" ? "  nccl chose" : "");
  for (const Entry& entry : match.entries) text += entry_text(entry, match.fastest());
  return text + default_text(match);
}

/// Names with how often each was the fastest on devices of that kind, the most often first.
std::vector<std::pair<std::string, int>> wins_of(const std::vector<Match>& matches, std::string_view kind) {
  std::vector<std::pair<std::string, int>> wins;
  for (const Match& match : matches) {
    const Entry* best = match.device_kind == kind ? match.fastest() : nullptr;
    if (!best) continue;
    auto found = std::find_if(wins.begin(), wins.end(), [&](const auto& win) { return win.first == best->transport; });
    if (found == wins.end()) found = wins.insert(wins.end(), {best->transport, 0});
    ++found->second;
  }
  std::stable_sort(wins.begin(), wins.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return wins;
}

/// How often each transport was the fastest of its kind, and what the default lost over all sizes.
std::string tally_text(const std::vector<Match>& matches, std::string_view kind) {
  const std::vector<std::pair<std::string, int>> wins = wins_of(matches, kind);
  if (wins.empty()) return {};
  std::string text = fmt::format("\nfastest over {}:", device_words(kind).many);
  for (const auto& [name, count] : wins)
    text += fmt::format(" {} at {}{}", name, count, name == wins.back().first ? "" : ",");
  text += " sizes and placements\n";
  std::vector<double> losses;
  for (const Match& match : matches)
    if (match.device_kind == kind && match.standard())
      losses.push_back(percent_above(*match.standard()->time_us, *match.fastest()->time_us));
  if (losses.empty()) return text;
  return text + fmt::format("the default, {}, loses {:.1f} % in the median, {:.1f} % at most\n", default_of(kind),
                            percentile(losses, 50), percentile(losses, 100));
}

std::string absent_text(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records)
    if (record.kind == "transport")
      text += fmt::format("  {:<22} {}: {}\n", axis<std::string>(record, "transport", "?"),
                          record.status.kind == Status::Kind::waived ? "not here" : "FAILED", record.status.reason);
  return text.empty() ? text : "\nnot measured, or not to the end:\n" + text;
}

std::string quoted(const std::string& value) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/-";
  if (!value.empty() && value.find_first_not_of(kPlain) == std::string::npos) return value;
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// What forcing one transport does to the default's times.
struct Bid {
  std::string transport;
  int better = 0;
  std::vector<double> saved;  // percent of the default's time, at every size of both
};

std::optional<Bid> best_bid(const std::vector<Match>& matches,
                            const std::map<std::string, std::map<std::string, std::string>>& settings) {
  std::vector<Bid> bids;
  for (const auto& [name, variables] : settings) bids.push_back({name, 0, {}});
  for (const Match& match : matches) {
    const Entry* standard = match.find("nccl");
    if (!standard) continue;
    Bid* winner = nullptr;
    double least = *standard->time_us * (1 - kNoise);
    for (Bid& bid : bids) {
      const Entry* entry = match.find(bid.transport);
      if (!entry || entry == standard) continue;
      bid.saved.push_back((1 - *entry->time_us / *standard->time_us) * 100);
      if (*entry->time_us < least) winner = &bid, least = *entry->time_us;
    }
    if (winner) ++winner->better;
  }
  const auto best =
      std::max_element(bids.begin(), bids.end(), [](const Bid& a, const Bid& b) { return a.better < b.better; });
  if (best == bids.end()) return std::nullopt;
  return *best;
}

}  // namespace

std::string arena_text(const std::vector<Record>& records) {
  const std::vector<Match> matches = matches_of(records);
  const bool gpus =
      std::any_of(matches.begin(), matches.end(), [](const Match& match) { return match.device_kind == "cuda"; });
  std::string text = gpus ? "" : "Measured on CPU virtual devices, not GPUs.\n";
  for (const Match& match : matches) text += match_text(match);
  for (const char* kind : {"cuda", "cpu-virtual"}) text += tally_text(matches, kind);
  return text + absent_text(records);
}

std::string arena_environment(const std::vector<Record>& records,
                              const std::map<std::string, std::map<std::string, std::string>>& settings) {
  const std::vector<Match> matches = matches_of(records);
  const auto compared = std::count_if(matches.begin(), matches.end(), [](const Match& m) { return m.find("nccl"); });
  if (compared == 0) return "# NCCL was not measured: there is nothing to set\n";
  std::string text = fmt::format("# {} sizes and placements, the first: {}\n", compared, matches.front().title);
  for (const auto& [name, count] : wins_of(matches, "cuda"))
    if (!settings.contains(name))
      text +=
          fmt::format("# {} is the fastest at {} of them; a program chooses it, not its environment\n", name, count);
  const std::optional<Bid> best = best_bid(matches, settings);
  if (!best || 2 * best->better <= compared)
    return text + "# no setting beats NCCL's default at most of them: nothing to set\n";
  text += fmt::format(
      "# {} is at least {:.0f} % faster than the default, and the fastest, at {} of them; time saved: {:.1f} % in the "
      "median, {:.1f} % at the worst size\n",
      best->transport, kNoise * 100, best->better, percentile(best->saved, 50), percentile(best->saved, 0));
  for (const auto& [name, value] : settings.at(best->transport))
    text += fmt::format("export {}={}\n", name, quoted(value));
  return text;
}

}  // namespace amdahl
