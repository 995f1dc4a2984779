#include "comm/rank_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace amdahl {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  const size_t named = std::min(ranks.size(), kMost);
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(named);
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks.begin(), end, ", "));
  if (named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

}  // namespace amdahl
