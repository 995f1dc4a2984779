#include "report/study/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/error.h"
#include "report/common/break_even.h"
#include "report/common/words.h"
#include "report/study/summary.h"

namespace amdahl {
std::string break_even_configuration(const CellKey& key) {
  return configuration_text(key) + (key.scaling == "weak" ? ", weak scaling" : "");
}

std::vector<StudyBreakEven> study_break_evens(const StudySummary& summary, const StudyGroup& group) {
  using Curve = std::map<int64_t, SpeedupPoint>;  // points by global batch
  std::map<std::pair<int64_t, std::string>, Curve> curves;
  for (const StudyComparison& c : summary.comparisons) {
    if (group_of(c.multi) != group) continue;
    const StudyCell* one = find_cell(summary, c.single);
    const double one_us = one && c.multi.scaling != "weak" ? one->step_time_us.estimate().value : 0;
    curves[{c.multi.devices, break_even_configuration(c.multi)}].emplace(
        c.multi.global_batch, SpeedupPoint{static_cast<double>(c.multi.global_batch), c.test.ratio, c.test.ci, one_us});
  }
  std::vector<StudyBreakEven> found;
  for (const auto& [line, curve] : curves) {
    if (curve.size() < 2) continue;
    std::vector<SpeedupPoint> points;
    for (const auto& [batch, point] : curve) points.push_back(point);
    found.push_back({line.first, line.second, find_break_even(std::move(points), 1)});
  }
  return found;
}

std::vector<std::string> break_even_lines(const StudySummary& summary, const StudyGroup& group) {
  const DeviceWords words = device_text(summary.device_kind);
  std::vector<std::string> lines;
  for (const StudyBreakEven& found : study_break_evens(summary, group))
    lines.push_back(fmt::format("{} {} against one, {}: break-even (speedup 1) over the global batch: {}.",
                                found.devices, words.many, printable(found.configuration, 80),
                                break_even_text(found.at_batch)));
  return lines;
}

}  // namespace amdahl
