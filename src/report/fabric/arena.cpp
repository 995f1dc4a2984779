#include "report/fabric/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "report/common/words.h"
#include "report/fabric/arena_matches.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

std::string quoted(const std::string& value) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/-";
  if (!value.empty() && value.find_first_not_of(kPlain) == std::string::npos) return value;
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Effect of forcing one transport on the default's times.
struct Bid {
  std::string transport;
  int better = 0;
  std::vector<double> saved;  // percent of the default's time, at every size that both have
};

std::optional<Bid> best_bid(const std::vector<ArenaMatch>& matches,
                            const std::map<std::string, std::map<std::string, std::string>>& settings) {
  std::vector<Bid> bids;
  for (const auto& [name, variables] : settings) bids.push_back({name, 0, {}});
  for (const ArenaMatch& match : matches) {
    const ArenaEntry* standard = match.find("nccl");
    if (!standard) continue;
    Bid* winner = nullptr;
    double least = *standard->time_us * (1 - kSweepNoise);
    for (Bid& bid : bids) {
      const ArenaEntry* entry = match.find(bid.transport);
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

std::string arena_environment(const std::vector<Record>& records,
                              const std::map<std::string, std::map<std::string, std::string>>& settings) {
  const std::vector<ArenaMatch> matches = arena_matches(records);
  const auto compared =
      std::count_if(matches.begin(), matches.end(), [](const ArenaMatch& m) { return m.find("nccl"); });
  if (compared == 0) return "# NCCL was not measured: there is nothing to set\n";
  std::string text = fmt::format("# {} sizes and placements, the first: {}\n", compared, matches.front().title);
  for (const auto& [name, count] : arena_wins(matches, "cuda"))
    if (!settings.contains(name))
      text +=
          fmt::format("# {} is the fastest at {} of them; a program chooses it, not its environment\n", name, count);
  const std::optional<Bid> best = best_bid(matches, settings);
  if (!best || 2 * best->better <= compared)
    return text + "# no setting beats NCCL's default at most of them: nothing to set\n";
  text += fmt::format(
      "# {} is at least {:.0f} % faster than the default, and the fastest, at {} of them; time saved: {:.1f} % in the "
      "median, {:.1f} % at the worst size\n",
      best->transport, kSweepNoise * 100, best->better, percentile(best->saved, 50), percentile(best->saved, 0));
  for (const auto& [name, value] : settings.at(best->transport))
    text += fmt::format("export {}={}\n", name, quoted(value));
  return text;
}

}  // namespace amdahl
