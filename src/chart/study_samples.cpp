#include "chart/study_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/units.h"
#include "base/number_words.h"
#include "chart/spec_text.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kSpec = R"json({
  "width": 460, "height": "$height",
  "encoding": {
    "y": {"field": "cell", "type": "nominal", "sort": "$cells", "title": null},
    "x": {"field": "deviation_percent", "type": "quantitative", "title": "Step time against the cell's median (%)",
          "axis": {"format": "+.3~r"}}},
  "layer": [
    {"mark": {"type": "tick", "opacity": 0.45, "thickness": 1.5, "size": 13},
     "transform": [{"filter": "datum.outlier == 'no'"}]},
    {"mark": {"type": "point", "shape": "cross", "angle": 45, "filled": false, "size": 45, "style": "outlier"},
     "transform": [{"filter": "datum.outlier == 'yes'"}],
     "encoding": {"tooltip": [{"field": "cell", "title": "Cell"}, {"field": "run", "title": "Run"},
                              {"field": "step_time_us", "title": "Step time (us)", "format": ",.4~r"},
                              {"field": "deviation_percent", "title": "From the median (%)", "format": "+.2f"}]}}
  ]
})json";

}  // namespace

std::optional<Chart> samples_chart(const StudySummary& summary, const StudyGroup& group,
                                   const std::vector<CellSamples>& cells) {
  const ConfigurationNames names(summary, group);
  const DeviceWords words = device_words(summary.device_kind);
  Chart chart;
  chart.table.columns = {{"cell", "Cell"},
                         {"run", "Run"},
                         {"step_time_us", "Step time (us)"},
                         {"deviation_percent", "Against the median (%)"},
                         {"outlier", "Outlier"}};
  std::vector<std::string> order;
  int64_t outliers = 0;
  double widest = 0;
  for (const CellSamples& cell : cells) {
    if (group_of(cell.key) != group || cell.median_us <= 0) continue;
    order.push_back(names.cell(cell.key));
    chart.origin = cell.origin;
    for (size_t i = 0; i < cell.step_time_us.size(); ++i) {
      const double deviation = 100 * (cell.step_time_us[i] / cell.median_us - 1);
      widest = std::max(widest, std::abs(deviation));
      outliers += cell.outlier[i];
      chart.table.rows.push_back({order.back(), static_cast<int64_t>(i), cell.step_time_us[i], deviation,
                                  std::string(cell.outlier[i] ? "yes" : "no")});
    }
  }
  if (chart.table.rows.empty()) return std::nullopt;
  chart.id = "samples-" + group_slug(group);
  chart.title = "Every run: step time against the median of its cell (%)";
  ordered_json spec = filled(kSpec, {{"cells", order}, {"height", 20 * order.size()}});
  drop_empty_layers(spec, chart.table);
  chart.spec = spec.dump();
  const auto total = static_cast<int64_t>(chart.table.rows.size());
  chart.summary = fmt::format(
      "{} run{} in {} cell{}; a cell is a batch on a number of {}. {} flagged as outliers (modified z above 3.5), "
      "drawn as "
      "crosses and kept in every number. Farthest from its median: {} %.",
      with_thousands(total), total == 1 ? "" : "s", order.size(), order.size() == 1 ? "" : "s", words.many,
      outliers == 0 ? "None is" : fmt::format("{} {}", outliers, outliers == 1 ? "is" : "are"), format_number(widest));
  return chart;
}

}  // namespace amdahl
