// Ranks in messages.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

/// "rank 2", "ranks 0, 2, 3"; of many the first eight and how many more there are.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace amdahl
