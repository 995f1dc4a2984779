#include "report/collectives_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "report/record_axes.h"
#include "report/size_chart.h"
#include "report/words.h"

namespace amdahl {
namespace {

constexpr size_t kCollective = 0, kPlacement = 7;

/// What tells one line from another, in words; the collective first, the placement last.
using LineWords = std::array<std::string, 8>;

LineWords words_of(const Record& record) {
  const auto word = [&](const char* name) { return axis<std::string>(record, name, ""); };
  const int64_t devices = axis<int64_t>(record, "devices", 0), root = axis<int64_t>(record, "root", -1);
  const DeviceWords kind = device_words(record.provenance.device_kind);
  return {word("collective"),
          word("dtype"),
          word("op"),
          root < 0 ? std::string() : fmt::format("root {}", root),
          fmt::format("{} {}", devices, devices == 1 ? kind.one : kind.many),
          word("transport"),
          word("launch"),
          axis<bool>(record, "in_place", false) ? "in place" : "out of place"};
}

/// Whether a record has a place in a logarithmic picture.
bool drawable(const Record& record) {
  constexpr int64_t kMostBytes = int64_t{1} << 60;
  const auto bytes = axis<int64_t>(record, "bytes", 0);
  return record.kind == "collective" && record.value("busbw").value_or(0) > 0 && bytes > 0 && bytes <= kMostBytes;
}

std::string joined(const LineWords& words, const std::array<bool, 8>& chosen) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    if (chosen[i] && !words[i].empty()) text += (text.empty() ? "" : ", ") + words[i];
  return text;
}

struct Groups {
  std::vector<std::pair<LineWords, std::vector<const Record*>>> lines;  // in the order of the records
  std::array<bool, 8> differ{};                                         // which words do
  int undrawn = 0;
};

Groups groups_of(const std::vector<Record>& records) {
  Groups groups;
  for (const Record& record : records) {
    if (record.kind == "collective" && !drawable(record)) ++groups.undrawn;
    if (!drawable(record)) continue;
    const LineWords words = words_of(record);
    auto found =
        std::find_if(groups.lines.begin(), groups.lines.end(), [&](const auto& l) { return l.first == words; });
    if (found == groups.lines.end()) found = groups.lines.insert(groups.lines.end(), {words, {}});
    found->second.push_back(&record);
    for (size_t i = 0; i < words.size(); ++i)
      groups.differ[i] = groups.differ[i] || words[i] != groups.lines.front().first[i];
  }
  return groups;
}

ChartPoint point_of(const Record& record) {
  ChartPoint point;
  const auto bytes = axis<int64_t>(record, "bytes", 0);
  point.bytes = static_cast<double>(bytes);
  point.value = *record.value("busbw");
  point.failed = record.status.kind != Status::Kind::ok;
  point.title = fmt::format("{}, {}: {:.4g} GB/s, {:.4g} us", axis<std::string>(record, "collective", ""),
                            binary_bytes(bytes), point.value, record.value("time").value_or(0));
  if (point.failed) point.title += "; " + record.status.reason;
  return point;
}

std::vector<ChartLine> lines_of(const Groups& groups) {
  std::vector<ChartLine> lines;
  std::map<LineWords, int> styles;  // both placements have the same
  std::array<bool, 8> labelled = groups.differ;
  labelled[kCollective] = true;
  for (const auto& [words, records] : groups.lines) {
    LineWords without_placement = words;
    without_placement[kPlacement].clear();
    ChartLine line;
    line.label = joined(words, labelled);
    line.style = styles.emplace(without_placement, static_cast<int>(styles.size())).first->second;
    line.hollow = words[kPlacement] == "in place";
    for (const Record* record : records) line.points.push_back(point_of(*record));
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.bytes < b.bytes; });
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<ChartLimit> limits_of(const std::vector<Record>& records) {
  std::set<double> peaks;
  for (const Record& record : records)
    if (const double peak = record.value("peak").value_or(0); peak > 0 && drawable(record)) peaks.insert(peak);
  std::vector<ChartLimit> limits;
  for (const double peak : peaks) limits.push_back({fmt::format("physical limit, {:.4g} GB/s", peak), peak});
  return limits;
}

std::string calls_words(const Groups& groups) {
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

/// Where the numbers come from.
std::vector<std::string> captions_of(const Groups& groups) {
  const Provenance& from = groups.lines.front().second.front()->provenance;
  const auto fact = [&](const char* name) {
    const auto found = from.facts.find(name);
    return found == from.facts.end() ? std::string() : found->second;
  };
  std::string machine = from.host;
  const auto device = from.facts.lower_bound("device.");  // the first one's name
  if (from.device_kind != "cuda")
    machine += ", " + fact("cpu");
  else if (device != from.facts.end() && device->first.starts_with("device."))
    machine += ", " + device->second;
  if (!fact("nccl").empty()) machine += ", NCCL " + fact("nccl");
  std::vector<std::string> captions{fmt::format("{}measured on {}, {}, amdahl {} ({})", calls_words(groups), machine,
                                                from.start_time, from.tool_version, from.commit)};
  if (from.device_kind != "cuda") captions.push_back("CPU virtual devices, not GPUs: threads share the host's memory");
  if (groups.undrawn > 0)
    captions.push_back(
        fmt::format("{} record{} without a bandwidth, not drawn", groups.undrawn, groups.undrawn == 1 ? "" : "s"));
  return captions;
}

}  // namespace

std::string collectives_curves(const std::vector<Record>& records) {
  const Groups groups = groups_of(records);
  if (groups.lines.empty()) return {};
  std::array<bool, 8> shared{};
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = !groups.differ[i] && i != kCollective;
  SizeChart chart;
  chart.title = "Bus bandwidth of collectives over size";
  chart.subtitle = joined(groups.lines.front().first, shared);
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
