#include "report/fabric/drawings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/number_text.h"
#include "base/record_values.h"
#include "report/common/words.h"
#include "report/fabric/collective_groups.h"
#include "report/fabric/collective_limit.h"
#include "report/fabric/size_drawing.h"

namespace amdahl {
namespace {

ChartPoint point_of(const Record& record) {
  ChartPoint point;
  const auto bytes = axis<int64_t>(record, "bytes", 0);
  point.bytes = static_cast<double>(bytes);
  point.value = *record.value("busbw");
  point.failed = record.status.kind != Status::Kind::ok;
  constexpr int kDigits = 4;
  point.title =
      fmt::format("{}, {}: {} GB/s, {} us", axis<std::string>(record, "collective", ""), binary_bytes(bytes),
                  format_number(point.value, kDigits), format_number(record.value("time").value_or(0), kDigits));
  if (point.failed) point.title += "; " + record.status.reason;
  return point;
}

std::vector<ChartLine> lines_of(const CollectiveGroups& groups) {
  std::vector<ChartLine> lines;
  std::map<CollectiveWords, int> styles;  // both placements share a style
  CollectiveWordFlags labelled = groups.differ;
  labelled[kCollectiveWord] = true;
  for (const auto& [words, records] : groups.lines) {
    CollectiveWords without_placement = words;
    without_placement[kPlacementWord].clear();
    ChartLine line;
    line.label = joined_text(words, labelled);
    line.style = styles.emplace(without_placement, static_cast<int>(styles.size())).first->second;
    line.hollow = words[kPlacementWord] == "in place";
    for (const Record* record : records) line.points.push_back(point_of(*record));
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.bytes < b.bytes; });
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<ChartLimit> limits_of(const std::vector<Record>& records) {
  std::set<CollectiveLimit> found;
  for (const Record& record : records)
    if (const auto limit = collective_limit(record); limit && is_drawable(record)) found.insert(*limit);
  std::vector<ChartLimit> limits;
  for (const CollectiveLimit& limit : found) limits.push_back({limit_text(limit), limit.gbps});
  return limits;
}

std::string calls_text(const CollectiveGroups& groups) {
  size_t fewest = SIZE_MAX, most = 0;
  for (const auto& [words, records] : groups.lines)
    for (const Record* record : records)
      for (const Series& series : record->series)
        if (series.name == "call_time")
          fewest = std::min(fewest, series.samples.size()), most = std::max(most, series.samples.size());
  if (most == 0) return {};
  return fewest == most ? fmt::format("each mark: mean of {} calls, ", most)
                        : fmt::format("each mark: mean of {} to {} calls, ", fewest, most);
}

/// The provenance of the numbers.
std::vector<std::string> captions_of(const CollectiveGroups& groups) {
  const Provenance& from = groups.lines.front().second.front()->provenance;
  const auto fact = [&](const char* name) {
    const auto found = from.facts.find(name);
    return found == from.facts.end() ? std::string() : found->second;
  };
  std::string machine = from.host;
  const auto device = from.facts.lower_bound("device.");  // name of the first device
  if (from.device_kind != "cuda")
    machine += ", " + fact("cpu");
  else if (device != from.facts.end() && device->first.starts_with("device."))
    machine += ", " + device->second;
  if (!fact("nccl").empty()) machine += ", NCCL " + fact("nccl");
  std::vector<std::string> captions{fmt::format("{}measured on {}, {}, amdahl {} ({})", calls_text(groups), machine,
                                                from.start_time, from.tool_version, from.commit)};
  if (from.device_kind != "cuda") captions.push_back("CPU virtual devices, not GPUs: threads share the host's memory");
  if (groups.undrawn > 0)
    captions.push_back(
        fmt::format("{} record{} without a bandwidth, not drawn", groups.undrawn, groups.undrawn == 1 ? "" : "s"));
  return captions;
}

}  // namespace

std::string collectives_curves(const std::vector<Record>& records) {
  const CollectiveGroups groups = collective_groups(records);
  if (groups.lines.empty()) return {};
  CollectiveWordFlags shared{};
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = !groups.differ[i] && i != kCollectiveWord;
  SizeChart chart;
  chart.title = "Bus bandwidth of collectives over size";
  chart.subtitle = joined_text(groups.lines.front().first, shared);
  chart.size_title = "size: bytes of the larger buffer of a rank";
  chart.value_title = "bus bandwidth, GB/s";
  chart.lines = lines_of(groups);
  chart.limits = limits_of(records);
  chart.captions = captions_of(groups);
  for (const ChartLine& line : chart.lines)
    if (line.style == kChartStyles) chart.captions.push_back(fmt::format("styles repeat after {}", kChartStyles));
  return size_chart_svg(chart);
}

}  // namespace amdahl
