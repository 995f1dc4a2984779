#include "report/fabric/collective_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/record_values.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

CollectiveWords words_of(const Record& record) {
  const auto text = [&](const char* name) { return text_axis(record, name); };
  const int64_t devices = axis<int64_t>(record, "devices", 0), root = axis<int64_t>(record, "root", -1);
  const DeviceWords kind = device_text(record.provenance.device_kind);
  return {text("collective"),
          text("dtype"),
          text("op"),
          root < 0 ? std::string() : fmt::format("root {}", root),
          fmt::format("{} {}", devices, devices == 1 ? kind.one : kind.many),
          text("transport"),
          text("launch"),
          axis<bool>(record, "in_place", false) ? "in place" : "out of place"};
}

}  // namespace

bool is_drawable(const Record& record) {
  constexpr int64_t kMostBytes = int64_t{1} << 60;
  const auto bytes = axis<int64_t>(record, "bytes", 0);
  return record.kind == "collective" && record.value("busbw").value_or(0) > 0 && bytes > 0 && bytes <= kMostBytes;
}

std::string joined_text(const CollectiveWords& words, const CollectiveWordFlags& chosen) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    if (chosen[i] && !words[i].empty()) text += (text.empty() ? "" : ", ") + words[i];
  return text;
}

CollectiveGroups collective_groups(const std::vector<Record>& records) {
  CollectiveGroups groups;
  for (const Record& record : records) {
    if (record.kind == "collective" && !is_drawable(record)) ++groups.undrawn;
    if (!is_drawable(record)) continue;
    const CollectiveWords words = words_of(record);
    auto found =
        std::find_if(groups.lines.begin(), groups.lines.end(), [&](const auto& l) { return l.first == words; });
    if (found == groups.lines.end()) found = groups.lines.insert(groups.lines.end(), {words, {}});
    found->second.push_back(&record);
    for (size_t i = 0; i < words.size(); ++i)
      groups.differ[i] = groups.differ[i] || words[i] != groups.lines.front().first[i];
  }
  return groups;
}

}  // namespace amdahl
