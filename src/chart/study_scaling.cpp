#include "chart/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/bar_chart.h"
#include "chart/spec_text.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

std::vector<const StudyComparison*> comparisons_of(const StudySummary& summary, const StudyGroup& group) {
  std::vector<const StudyComparison*> found;
  for (const StudyComparison& c : summary.comparisons)
    if (group_of(c.multi) == group) found.push_back(&c);
  return found;
}

Origin origin_of(const StudySummary& summary, const StudyGroup& group) {
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && cell.step_time_us.n > 0) return cell.origin;
  return Origin::measured;
}

// Common structure of both charts: lines over devices, intervals, and the ideal line.
struct ScalingChart {
  const char *field, *title, *format;
  bool efficiency;
};

ordered_json devices_axis(const DataTable& table) {
  std::set<int64_t> counts;
  for (const auto& row : table.rows) counts.insert(std::get<int64_t>(row[2]));
  ordered_json scale = {{"type", "linear"}, {"nice", false}, {"padding", 14}};
  if (*counts.rbegin() > 16) scale = {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", 14}};
  return {{"field", "devices"},
          {"type", "quantitative"},
          {"title", "Devices"},
          {"scale", scale},
          {"axis", {{"values", counts}, {"format", "d"}, {"grid", false}}}};
}

constexpr std::string_view kScalingSpec = R"json({
  "width": 460, "height": 300,
  "layer": [
    {"mark": {"type": "line", "style": "limit"},
     "transform": [{"aggregate": [{"op": "max", "field": "ideal", "as": "ideal"}], "groupby": ["devices"]}],
     "encoding": {"x": "$x", "y": "$ideal"}},
    {"mark": {"type": "text", "style": "limit-label", "align": "right", "dx": -8, "dy": -6, "text": "ideal"},
     "transform": [{"aggregate": [{"op": "max", "field": "ideal", "as": "ideal"},
                                  {"op": "max", "field": "devices", "as": "devices"}]}],
     "encoding": {"x": "$x", "y": "$ideal"}},
    {"mark": {"type": "rule", "style": "interval"}, "transform": [{"filter": "isValid(datum.low)"
}],
     "encoding": {
  "x" : "$x",
        "y" : {"field" : "low", "type" : "quantitative", "title" : "$title"},
              "y2" : {"field" : "high"},
                     "color" : "$colour"
}
},
    {"mark": "line", "encoding": {"x": "$x", "y": "$y", "color": "$colour"}},
    {"mark": "point",
     "encoding": {"x": "$x", "y": "$y", "color": "$colour",
                  "shape": "$shape",
                  "tooltip": [{"field": "batch", "title": "Batch"}, {"field": "devices", "title": "Devices"},
                              {"field": "$field", "title": "$title", "format": "$format"},
                              {"field": "low", "title": "95 % CI from", "format": "$format"},
                              {"field": "high", "title": "95 % CI to", "format": "$format"},
                              {"field": "num_runs", "title": "n (runs)"}]}}
  ]
})json";

std::string spec_of(const ScalingChart& chart, const DataTable& table, const std::vector<std::string>& order,
                    bool weak) {
  const ordered_json y_axis = {{"format", chart.efficiency ? ".0%" : "~g"}};
  const ordered_json scale = {{"zero", true}};
  const ordered_json legend = {{"title", weak ? "Batch per device" : "Global batch"}};
  ordered_json spec = filled(
      kScalingSpec,
      {{"x", devices_axis(table)},
       {"y",
        {{"field", chart.field}, {"type", "quantitative"}, {"title", chart.title}, {"scale", scale}, {"axis", y_axis}}},
       {"ideal", {{"field", "ideal"}, {"type", "quantitative"}, {"title", chart.title}}},
       {"colour",
        {{"field", "batch"},
         {"type", "nominal"},
         {"sort", order},
         {"scale", {{"domain", order}, {"range", "ordinal"}}},
         {"legend", legend}}},
       {"shape",
        {{"field", "batch"}, {"type", "nominal"}, {"sort", order}, {"scale", {{"domain", order}}}, {"legend", legend}}},
       {"field", chart.field},
       {"title", chart.title},
       {"format", chart.format}});
  drop_empty_layers(spec, table);
  return spec.dump();
}

DataTable table_of(const std::vector<const StudyComparison*>& comparisons, const ConfigurationNames& names,
                   const ScalingChart& chart, std::vector<std::string>& order) {
  DataTable table;
  table.columns = {{"batch", "Batch"},
                   {"global_batch", "Global batch (samples)"},
                   {"devices", "Devices"},
                   {chart.field, chart.title},
                   {"low", "95 % CI from"},
                   {"high", "95 % CI to"},
                   {"num_runs", "n (runs on several devices)"},
                   {"num_runs_single", "n (runs on one device)"},
                   {"verdict", "Verdict"},
                   {"ideal", "Ideal"}};
  std::set<std::string> begun;
  for (const StudyComparison* c : comparisons) {
    const std::string series = names.series(c->multi);
    if (begun.insert(series).second) {
      order.push_back(series);
      table.rows.push_back({series,
                            c->single.global_batch,
                            int64_t{1},
                            1.0,
                            {},
                            {},
                            c->test.n_second,
                            c->test.n_second,
                            std::string("1 by definition"),
                            1.0});
    }
    const auto& ci = chart.efficiency ? c->efficiency_ci : c->test.ci;
    table.rows.push_back({series, c->multi.global_batch, c->multi.devices,
                          chart.efficiency ? c->efficiency : c->test.ratio, ci ? TableValue(ci->low) : TableValue(),
                          ci ? TableValue(ci->high) : TableValue(), c->test.n_first, c->test.n_second,
                          std::string(to_string(c->test.verdict)),
                          chart.efficiency ? 1.0 : static_cast<double>(c->multi.devices)});
  }
  return table;
}

// Whether lines over the number of devices would be one stroke per plan.
bool are_plans(const std::vector<const StudyComparison*>& comparisons) {
  std::set<int64_t> devices;
  std::set<std::pair<int64_t, int64_t>> places;  // devices, batch
  for (const StudyComparison* c : comparisons) {
    devices.insert(c->multi.devices);
    places.emplace(c->multi.devices, fixed_batch(c->multi));
  }
  return devices.size() == 1 && places.size() < comparisons.size();
}

std::optional<Chart> scaling_chart(const StudySummary& summary, const StudyGroup& group, const ScalingChart& kind) {
  std::vector<const StudyComparison*> comparisons = comparisons_of(summary, group);
  if (comparisons.empty() || are_plans(comparisons)) return std::nullopt;
  std::stable_sort(comparisons.begin(), comparisons.end(), [](const StudyComparison* a, const StudyComparison* b) {
    return fixed_batch(a->multi) < fixed_batch(b->multi);
  });
  const ConfigurationNames names(summary, group);
  const DeviceWords words = device_text(summary.device_kind);
  Chart chart;
  chart.origin = origin_of(summary, group);
  std::vector<std::string> order;
  chart.table = table_of(comparisons, names, kind, order);
  chart.spec = spec_of(kind, chart.table, order, group.scaling == "weak");
  const auto [least, most] =
      std::minmax_element(comparisons.begin(), comparisons.end(), [&](const auto* a, const auto* b) {
        return kind.efficiency ? a->efficiency < b->efficiency : a->test.ratio < b->test.ratio;
      });
  const auto one = [&](const StudyComparison& c) {
    const std::string value = kind.efficiency ? format_percent(c.efficiency) : format_speedup(c.test.ratio, c.test.ci);
    return fmt::format("{} on {} {} at batch {}", value, c.multi.devices, words.many, names.series(c.multi));
  };
  chart.id = fmt::format("{}-{}", kind.efficiency ? "efficiency" : "speedup", group_slug(group));
  chart.title = kind.efficiency ? fmt::format("Efficiency: speedup over the number of {}", words.many)
                                : fmt::format("Speedup over one {}, 95 % intervals", words.one);
  chart.summary = comparisons.size() == 1
                      ? fmt::format("The one comparison: {}.", one(**most))
                      : fmt::format("Highest: {}. Lowest: {}. {} comparisons; the dashed line is the ideal.",
                                    one(**most), one(**least), comparisons.size());
  return chart;
}

const StudyComparison* comparison_of(const std::vector<const StudyComparison*>& comparisons, const CellKey& key) {
  for (const StudyComparison* c : comparisons)
    if (c->multi == key) return c;
  return nullptr;
}

std::optional<Chart> plan_chart(const StudySummary& summary, const StudyGroup& group, int64_t batch) {
  const std::vector<const StudyComparison*> comparisons = comparisons_of(summary, group);
  const ConfigurationNames names(summary, group);
  const DeviceWords words = device_text(summary.device_kind);
  std::vector<const StudyCell*> cells;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && fixed_batch(cell.key) == batch && cell.step_time_us.n > 0)
      cells.push_back(&cell);
  std::map<int64_t, int> plans;  // by device count
  for (const StudyCell* cell : cells)
    if (cell->key.devices > 1) ++plans[cell->key.devices];
  if (std::none_of(plans.begin(), plans.end(), [](const auto& count) { return count.second > 1; })) return std::nullopt;
  std::stable_sort(cells.begin(), cells.end(), [](const auto* a, const auto* b) {
    return a->step_time_us.estimate().value < b->step_time_us.estimate().value;
  });
  BarPlot plot;
  plot.id = fmt::format("plans-{}-{}", batch, group_slug(group));
  plot.title = fmt::format("Plans by step time (us), {} {}",
                           group.scaling == "weak" ? "batch per device" : "global batch", with_thousands(batch));
  plot.name = {"plan", "Plan"};
  plot.value = {"step_time_us", "Step time (us)"};
  plot.interval_title = "95 % interval";
  for (const StudyCell* cell : cells) {
    const std::string more = names.of(cell->key);
    Bar bar;
    bar.name = fmt::format("{} {}{}", cell->key.devices, cell->key.devices == 1 ? words.one : words.many,
                           more.empty() ? "" : ", " + more);
    if (const StudyComparison* c = comparison_of(comparisons, cell->key))
      bar.name += fmt::format(" ({:.2f}x)", c->test.ratio);
    const Estimate time = cell->step_time_us.estimate();
    bar.value = time.value, bar.interval = time.ci, bar.samples = cell->step_time_us.n;
    bar.origin = cell->origin;
    plot.bars.push_back(std::move(bar));
  }
  plot.summary = fmt::format("Fastest: {}, {} us. Slowest: {}, {} us. In brackets the speedup over one {}.",
                             plot.bars.front().name, format_number(plot.bars.front().value), plot.bars.back().name,
                             format_number(plot.bars.back().value), words.one);
  return bar_chart(plot);
}

}  // namespace

std::vector<Chart> plan_charts(const StudySummary& summary, const StudyGroup& group) {
  std::set<int64_t> batches;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group) batches.insert(fixed_batch(cell.key));
  std::vector<Chart> charts;
  for (const int64_t batch : batches)
    if (std::optional<Chart> chart = plan_chart(summary, group, batch)) charts.push_back(std::move(*chart));
  return charts;
}

std::optional<Chart> speedup_chart(const StudySummary& summary, const StudyGroup& group) {
  return scaling_chart(summary, group, {"speedup", "Speedup (ratio)", ".3~f", false});
}

std::optional<Chart> efficiency_chart(const StudySummary& summary, const StudyGroup& group) {
  return scaling_chart(summary, group, {"efficiency", "Efficiency (1 = 100 %)", ".1%", true});
}

}  // namespace amdahl
