#include "comm/rank_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

namespace amdahl {
namespace {

std::pair<int, int> color_and_key(const std::string& message) {
  std::pair<int, int> said{-1, 0};
  std::istringstream(message) >> said.first >> said.second;
  return said;
}

}  // namespace

std::vector<int> RankGroup::job_ranks(const std::vector<int>& ranks_in_group) const {
  std::vector<int> ranks;
  for (const int each : ranks_in_group) ranks.push_back(job_rank(each));
  return ranks;
}

bool RankGroup::is_first() const {
  for (int i = 0; i < size(); ++i)
    if (job_rank(i) != i) return false;
  return true;
}

RankGroup RankGroup::first(int size, int rank) {
  RankGroup group{std::vector<int>(static_cast<size_t>(std::max(size, 0))), rank};
  std::iota(group.members.begin(), group.members.end(), 0);
  return group;
}

std::string split_message(int color, int key) { return fmt::format("{} {}", color, key); }

RankGroup group_of_split(const std::vector<std::string>& said, int rank) {
  const int color = color_and_key(said[static_cast<size_t>(rank)]).first;
  if (color < 0) return {};
  std::vector<std::pair<int, int>> chosen;  // key, rank
  for (size_t each = 0; each < said.size(); ++each)
    if (const auto [its_color, key] = color_and_key(said[each]); its_color == color)
      chosen.emplace_back(key, static_cast<int>(each));
  std::sort(chosen.begin(), chosen.end());
  RankGroup group;
  for (const auto& [key, member] : chosen) {
    if (member == rank) group.rank = group.size();
    group.members.push_back(member);
  }
  return group;
}

}  // namespace amdahl
