#include "chart/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/spec_parts.h"
#include "chart/spec_text.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kThroughputSpec = R"json({
  "width": 460, "height": 300,
  "layer": [
    {"mark": {"type": "rule", "style": "marker"}, "transform": [{"filter": "isValid(datum.crossover)"}],
     "encoding": {"x": "$x"}},
    {"mark": {"type": "text", "style": "mark-label", "align": "right", "baseline": "bottom", "dx": -6, "y": "height",
              "dy": -8},
     "transform": [{"filter": "isValid(datum.crossover)"}],
     "encoding": {"x": "$x", "text": {"field": "crossover"}}},
    {"mark": {"type": "rule", "style": "interval"}, "transform": [{"filter": "isValid(datum.low)"}],
     "encoding": {"x": "$x", "y": {"field": "low", "type": "quantitative", "title": "$title", "scale": "$log"},
                  "y2": {"field": "high"}, "color": "$colour"}},
    {"mark": "line", "encoding": {"x": "$x", "y": "$y", "color": "$colour"}},
    {"mark": "point",
     "encoding": {"x": "$x", "y": "$y", "color": "$colour", "shape": "$colour",
                  "tooltip": [{"field": "series", "title": "On"}, {"field": "batch", "title": "Batch"},
                              {"field": "throughput", "title": "$title", "format": ",.4~r"},
                              {"field": "low", "title": "95 % CI from", "format": ",.4~r"},
                              {"field": "high", "title": "95 % CI to", "format": ",.4~r"},
                              {"field": "num_runs", "title": "n (runs)"}]}}
  ]
})json";

std::string series_of(const CellKey& key, const ConfigurationNames& names, const DeviceWords& words) {
  const std::string configuration = names.of(key);
  return fmt::format("{} {}{}", key.devices, key.devices == 1 ? words.one : words.many,
                     configuration.empty() ? "" : ", " + configuration);
}

std::string brief_crossover(const SizeCrossover& crossover) {
  return fmt::format("batch {}{}", crossover.from == crossover.largest ? "" : ">= ", with_thousands(crossover.from));
}

// "2 and 4 GPUs faster at batch >= 1,024, not at 256"; at the dotted rule, with less room, "2 and 4 GPUs faster at
// batch >= 1,024".
std::map<int64_t, std::string> format_crossover(const StudySummary& summary, const StudyGroup& group,
                                                const DeviceWords& words, bool brief) {
  std::map<SizeCrossover, std::vector<int64_t>> devices_at;
  std::set<int64_t> counts;
  for (const StudyComparison& c : summary.comparisons)
    if (group_of(c.multi) == group) counts.insert(c.multi.devices);
  for (const int64_t devices : counts)
    if (const auto crossover = crossover_batch(summary, group, devices)) devices_at[*crossover].push_back(devices);
  std::map<int64_t, std::string> text;
  for (const auto& [crossover, devices] : devices_at) {
    std::string& words_there = text[crossover.from];
    words_there += fmt::format("{}{} {} faster at {}", words_there.empty() ? "" : "; ", fmt::join(devices, " and "),
                               words.many, brief ? brief_crossover(crossover) : crossover_text(crossover, "batch"));
  }
  return text;
}

DataTable table_of(const std::vector<const StudyCell*>& cells, const ConfigurationNames& names,
                   const DeviceWords& words, std::map<int64_t, std::string> crossovers,
                   std::vector<std::string>& order) {
  DataTable table;
  table.columns = {{"series", "On"},         {"batch", "Batch (samples)"},
                   {"devices", "Devices"},   {"throughput", "Throughput (samples/s)"},
                   {"low", "95 % CI from"},  {"high", "95 % CI to"},
                   {"num_runs", "n (runs)"}, {"crossover", "Crossing"}};
  for (const StudyCell* cell : cells) {
    const std::string series = series_of(cell->key, names, words);
    if (std::find(order.begin(), order.end(), series) == order.end()) order.push_back(series);
    const auto [rate, ci] = cell->throughput();
    const int64_t batch = fixed_batch(cell->key);
    TableValue crossing;
    if (const auto found = crossovers.find(batch); cell->key.devices > 1 && found != crossovers.end()) {
      crossing = found->second;  // one label per batch
      crossovers.erase(found);
    }
    table.rows.push_back({series, batch, cell->key.devices, rate,
                          ci && ci->low > 0 ? TableValue(ci->low) : TableValue(),
                          ci ? TableValue(ci->high) : TableValue(), cell->step_time_us.n, crossing});
  }
  return table;
}

std::string spec_of(const StudyGroup& group, const std::set<int64_t>& batches, const std::vector<std::string>& order,
                    const DataTable& table) {
  const char* title = "Throughput (samples/s)";
  nlohmann::json y = {
      {"field", "throughput"}, {"type", "quantitative"}, {"title", title}, {"axis", {{"format", "~s"}}}};
  Interval extent{INFINITY, 0};
  for (const char* column : {"throughput", "low", "high"}) include_positive(extent, table, column_index(table, column));
  set_log_scale(y, extent);
  const ordered_json log2 = {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", 18}};
  const ordered_json x_axis = {
      {"values", batches}, {"format", ","}, {"grid", false}, {"labelOverlap", "greedy"}, {"labelSeparation", 6}};
  ordered_json spec = filled(
      kThroughputSpec, {{"x",
                         {{"field", "batch"},
                          {"type", "quantitative"},
                          {"title", group.scaling == "weak" ? "Batch per device (samples)" : "Global batch (samples)"},
                          {"scale", log2},
                          {"axis", x_axis}}},
                        {"y", y},
                        {"log", y.value("scale", nlohmann::json::object())},
                        {"title", title},
                        {"order", order},
                        {"colour",
                         {{"field", "series"},
                          {"type", "nominal"},
                          {"sort", order},
                          {"scale", {{"domain", order}}},
                          {"legend", {{"title", nullptr}}}}}});
  drop_empty_layers(spec, table);
  return spec.dump();
}

}  // namespace

std::string crossover_text(const SizeCrossover& crossover, std::string_view batch_name) {
  const bool last = crossover.from == crossover.largest;
  return fmt::format("{}{} {}{}, not at {}", batch_name, last ? "" : " >=", with_thousands(crossover.from),
                     last ? ", the largest measured" : "", with_thousands(crossover.below));
}

std::optional<SizeCrossover> crossover_batch(const StudySummary& summary, const StudyGroup& group, int64_t devices) {
  std::map<int64_t, bool> pays;  // by batch, in any configuration
  for (const StudyComparison& c : summary.comparisons)
    if (group_of(c.multi) == group && c.multi.devices == devices)
      pays[fixed_batch(c.multi)] |= c.recommendation == Recommendation::multi_device;
  const std::optional<SizeCrossover> crossover = recommended_from(pays);
  return crossover && crossover->below > 0 ? crossover : std::nullopt;
}

std::optional<Chart> throughput_chart(const StudySummary& summary, const StudyGroup& group) {
  std::vector<const StudyCell*> cells;
  std::set<int64_t> batches;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && cell.step_time_us.n > 0) {
      cells.push_back(&cell);
      batches.insert(fixed_batch(cell.key));
    }
  if (batches.size() < 2) return std::nullopt;
  std::stable_sort(cells.begin(), cells.end(), [](const StudyCell* a, const StudyCell* b) {
    return std::pair(a->key.devices, fixed_batch(a->key)) < std::pair(b->key.devices, fixed_batch(b->key));
  });
  const DeviceWords words = device_text(summary.device_kind);
  std::vector<std::string> order, crossing_texts;
  for (const auto& [batch, text] : format_crossover(summary, group, words, false)) crossing_texts.push_back(text);
  const StudyCell& best = **std::max_element(cells.begin(), cells.end(), [](const StudyCell* a, const StudyCell* b) {
    return a->throughput().value < b->throughput().value;
  });
  const Estimate highest = best.throughput();
  Chart chart;
  chart.id = "throughput-" + group_slug(group);
  chart.title = "Throughput against the batch (samples/s, logarithmic)";
  chart.origin = best.origin;
  chart.table =
      table_of(cells, ConfigurationNames(summary, group), words, format_crossover(summary, group, words, true), order);
  chart.spec = spec_of(group, batches, order, chart.table);
  chart.summary = fmt::format("Highest: {} samples/s on {} {} at batch {} (n = {} runs).",
                              format_plus_minus(highest.value, highest.ci), best.key.devices,
                              best.key.devices == 1 ? words.one : words.many, with_thousands(fixed_batch(best.key)),
                              best.step_time_us.n);
  if (cells.back()->key.devices > 1)
    chart.summary += fmt::format(" {}.", crossing_texts.empty() ? "No measured batch from which on several are faster"
                                                                : fmt::format("{}", fmt::join(crossing_texts, "; ")));
  return chart;
}

}  // namespace amdahl
