// Collective Records by the line of a picture that they belong to.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// What tells one line from another, in words; the collective first, the placement last.
using CollectiveWords = std::array<std::string, 8>;
using CollectiveWordFlags = std::array<bool, 8>;
inline constexpr size_t kCollectiveWord = 0, kLaunchWord = 6, kPlacementWord = 7;

struct CollectiveGroups {
  std::vector<std::pair<CollectiveWords, std::vector<const Record*>>> lines;  // in the order of the records
  CollectiveWordFlags differ{};                                               // which words do
  int undrawn = 0;                                                            // records that no line has
};

/// Whether a record has a place in a logarithmic picture.
bool is_drawable(const Record& record);
CollectiveGroups collective_groups(const std::vector<Record>& records);
/// The chosen words, without empty ones: "all_reduce, nccl, in place".
std::string joined_text(const CollectiveWords& words, const CollectiveWordFlags& chosen);

}  // namespace amdahl
