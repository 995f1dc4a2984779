// Ranks in messages.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

/// "rank 2", "ranks 0, 2, 3"; for many ranks, the first eight and the number of others.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace amdahl
