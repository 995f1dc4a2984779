#include "chart/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/spec_text.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

// The colour encodes the logarithm of the speedup, so that factors 2 and 1/2 are equally far from 1.
constexpr std::string_view kMapSpec = R"json({
  "width": 460, "height": "$height",
  "transform": [{"calculate": "log(datum.speedup) / log(2)", "as": "doublings"},
                {"calculate": "format(datum.speedup, '.2f') + 'x'", "as": "label"}],
  "encoding": {
    "x": {"field": "batch", "type": "ordinal", "title": "$batch", "axis": {"format": ",", "labelAngle": 0}},
    "y": {"field": "model", "type": "ordinal", "sort": "$models", "title": null}},
  "layer": [
    {"mark": {"type": "rect", "stroke": null},
     "encoding": {"color": {"field": "doublings", "type": "quantitative",
                            "scale": {"domain": ["$low", "$high"], "domainMid": 0,
                                      "range": ["#b45309", "#f3e9dc", "#1d5bb4"], "interpolate": "lab"},
                            "legend": null},
                  "tooltip": [{"field": "model", "title": "Model"}, {"field": "batch", "title": "Batch"},
                              {"field": "speedup", "title": "Speedup", "format": ".3~f"},
                              {"field": "low", "title": "95 % CI from", "format": ".3~f"},
                              {"field": "high", "title": "95 % CI to", "format": ".3~f"},
                              {"field": "num_runs", "title": "n (runs)"},
                              {"field": "recommendation", "title": "Recommendation"}]}},
    {"mark": {"type": "text", "fontSize": 12, "fontWeight": 600, "dy": -6},
     "encoding": {"text": {"field": "label"}, "color": "$ink"}},
    {"mark": {"type": "text", "fontSize": 10, "dy": 9},
     "encoding": {"text": {"field": "short"}, "color": "$ink"}}
  ]
})json";

struct MapKey {
  int64_t devices;
  std::string scaling, math;
  auto operator<=>(const MapKey&) const = default;
};

using ModelKey = std::pair<int64_t, std::string>;  // parameters, name: sorted by size

std::string model_label(const ModelKey& model) {
  const double millions = static_cast<double>(model.first) / 1e6;
  return fmt::format(
      "{} ({})", model.second,
      model.first >= 1000000 ? fmt::format("{:.1f}M", millions) : fmt::format("{:.0f}k", 1000 * millions));
}

const char* short_text(Recommendation recommendation) {
  switch (recommendation) {
    case Recommendation::multi_device:
      return "faster";
    case Recommendation::single_device:
      return "single";
    case Recommendation::marginal:
      return "marginal";
    case Recommendation::unclear:
      break;
  }
  return "unclear";
}

using Best = std::map<std::pair<ModelKey, int64_t>, const StudyComparison*>;  // best comparison by model and batch

Chart map_of(const MapKey& key, const Best& best, const DeviceWords& words) {
  Chart chart;
  chart.table.columns = {{"model", "Model (parameters)"},
                         {"num_parameters", "Parameters"},
                         {"batch", "Batch (samples)"},
                         {"speedup", "Speedup (ratio)"},
                         {"low", "95 % CI from"},
                         {"high", "95 % CI to"},
                         {"num_runs", "n (runs)"},
                         {"recommendation", "Recommendation"},
                         {"short", "In short"}};
  std::vector<std::string> models;
  std::set<int64_t> batches;
  double most = 1;
  size_t paying = 0;
  for (const auto& [place, c] : best) {
    const std::string label = model_label(place.first);
    if (std::find(models.begin(), models.end(), label) == models.end()) models.insert(models.begin(), label);
    const auto& ci = c->test.ci;
    batches.insert(place.second);
    most = std::max({most, c->test.ratio, c->test.ratio > 0 ? 1 / c->test.ratio : 1});
    paying += c->recommendation == Recommendation::multi_device;
    chart.table.rows.push_back({label, place.first.first, place.second, c->test.ratio,
                                ci ? TableValue(ci->low) : TableValue(), ci ? TableValue(ci->high) : TableValue(),
                                c->test.n_first, std::string(to_string(c->recommendation)),
                                std::string(short_text(c->recommendation))});
  }
  const double reach = std::max(0.25, std::log2(most));
  ordered_json ink = {{"value", "#1b2430"}};
  ink["condition"] = {{"test", fmt::format("abs(datum.doublings) > {}", 0.75 * reach)}, {"value", "#ffffff"}};
  chart.spec =
      filled(kMapSpec, {{"batch", key.scaling == "weak" ? "Batch per device (samples)" : "Global batch (samples)"},
                        {"models", models},
                        {"height", 46 * models.size()},
                        {"low", -reach},
                        {"high", reach},
                        {"ink", ink}})
          .dump();
  chart.least_width = 140 + 46 * static_cast<int>(batches.size());
  chart.id = fmt::format("map-{}-{}-{}", key.devices, key.scaling, key.math);
  chart.title = fmt::format("Where {} {} are faster: speedup over model size and batch ({} scaling, {})", key.devices,
                            words.many, key.scaling, key.math);
  chart.summary = fmt::format(
      "{} {} are recommended in {} of {} combinations of model and batch. Blue is faster than one {}, brown slower; "
      "every field has its ratio and recommendation (single: use one).",
      key.devices, words.many, paying, best.size(), words.one);
  return chart;
}

}  // namespace

std::vector<Chart> crossover_maps(const StudySummary& summary) {
  std::map<MapKey, Best> maps;
  std::map<MapKey, std::set<ModelKey>> models;
  for (const StudyComparison& c : summary.comparisons) {
    const MapKey key{c.multi.devices, c.multi.scaling, c.multi.math};
    const ModelKey model{c.multi.num_parameters, c.multi.model};
    const StudyComparison*& best = maps[key][{model, fixed_batch(c.multi)}];
    if (!best || c.test.ratio > best->test.ratio) best = &c;
    models[key].insert(model);
  }
  std::vector<Chart> charts;
  for (const auto& [key, best] : maps)
    if (models[key].size() > 1) charts.push_back(map_of(key, best, device_text(summary.device_kind)));
  return charts;
}

}  // namespace amdahl
