// Groups collective records into the lines of a chart.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Fields that distinguish lines, as text; the collective first, the placement last.
using CollectiveWords = std::array<std::string, 8>;
using CollectiveWordFlags = std::array<bool, 8>;
inline constexpr size_t kCollectiveWord = 0, kLaunchWord = 6, kPlacementWord = 7;

struct CollectiveGroups {
  std::vector<std::pair<CollectiveWords, std::vector<const Record*>>> lines;  // in record order
  CollectiveWordFlags differ{};                                               // which fields differ between lines
  int undrawn = 0;                                                            // records in no line
};

/// Whether a record can be drawn on logarithmic axes.
bool is_drawable(const Record& record);
CollectiveGroups collective_groups(const std::vector<Record>& records);
/// Joins the chosen non-empty fields: "all_reduce, nccl, in place".
std::string joined_text(const CollectiveWords& words, const CollectiveWordFlags& chosen);

}  // namespace amdahl
