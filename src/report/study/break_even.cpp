#include "report/study/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/error.h"
#include "report/common/break_even.h"
#include "report/common/words.h"
#include "report/study/summary.h"

namespace amdahl {
namespace {

using Curve = std::map<int64_t, const StudyComparison*>;  // by global batch
using Curves = std::map<std::pair<int64_t, std::string>, Curve>;

/// By devices and configuration.
Curves curves_of(const StudySummary& summary, const StudyGroup& group) {
  Curves curves;
  for (const StudyComparison& c : summary.comparisons)
    if (group_of(c.multi) == group)
      curves[{c.multi.devices, break_even_configuration(c.multi)}].emplace(c.multi.global_batch, &c);
  return curves;
}

std::vector<SpeedupPoint> points_of(const StudySummary& summary, const Curve& curve) {
  std::vector<SpeedupPoint> points;
  for (const auto& [batch, c] : curve) {
    const StudyCell* one = find_cell(summary, c->single);
    const double one_us = one && c->multi.scaling != "weak" ? one->step_time_us.estimate().value : 0;
    points.push_back({static_cast<double>(batch), c->test.ratio, c->test.ci, one_us});
  }
  return points;
}

}  // namespace

std::string break_even_configuration(const CellKey& key) {
  return configuration_text(key) + (key.scaling == "weak" ? ", weak scaling" : "");
}

std::vector<StudyBreakEven> study_break_evens(const StudySummary& summary, const StudyGroup& group) {
  std::vector<StudyBreakEven> found;
  for (const auto& [line, curve] : curves_of(summary, group))
    if (curve.size() >= 2) found.push_back({line.first, line.second, find_break_even(points_of(summary, curve), 1)});
  return found;
}

std::map<CellKey, std::string> jump_notes(const StudySummary& summary, const StudyGroup& group) {
  std::map<CellKey, std::string> notes;
  for (const auto& [line, curve] : curves_of(summary, group)) {
    const std::vector<SpeedupPoint> points = points_of(summary, curve);
    auto above = curve.begin();
    for (size_t i = 1; i + 1 < points.size(); ++i) {
      ++above;
      if (is_jump(points[i - 1], points[i], points[i + 1]))
        notes[above->second->multi] =
            fmt::format("one device jumps: {} us at batch {}, {} us at {}; nothing is interpolated between them",
                        format_number(points[i - 1].one_us), with_thousands(std::prev(above)->first),
                        format_number(points[i].one_us), with_thousands(above->first));
    }
  }
  return notes;
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
