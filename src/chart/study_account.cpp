#include "chart/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/spec_parts.h"
#include "chart/spec_text.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kAccountPanel = R"json({
  "title": {"text": "$batch", "anchor": "start", "fontSize": 12},
  "transform": [{"filter": {"field": "batch", "equal": "$batch"}}],
  "width": 380, "height": {"step": 24},
  "layer": [
      {"mark": {"type": "bar", "height": {"band": 0.76}},
       "encoding": {
         "y": {"field": "configuration", "type": "nominal", "sort": null, "title": null},
         "x": {"field": "time_us", "type": "quantitative", "stack": "zero", "title": null, "scale": {"nice": true},
               "axis": {"format": ",~r", "tickCount": 5}},
         "color": {"field": "part", "type": "nominal", "legend": {"title": null, "values": "$parts"},
                   "scale": "$part_colours"},
         "order": {"field": "part_number"},
         "tooltip": [{"field": "configuration", "title": "On"}, {"field": "part", "title": "Part"},
                     {"field": "time_us", "title": "Time (us)", "format": ",.4~r"},
                     {"field": "share", "title": "Of the step"},
                     {"field": "step_us", "title": "Accounted step (us)", "format": ",.4~r"},
                     {"field": "measured_us", "title": "Measured step (us)", "format": ",.4~r"},
                     {"field": "ratio", "title": "Accounted / measured", "format": ".3f"},
                     {"field": "num_runs", "title": "n (runs)"}]}},
      {"mark": {"type": "tick", "style": "total", "size": 20},
       "encoding": {"y": {"field": "configuration", "type": "nominal", "sort": null, "title": null},
                    "x": {"field": "measured_us", "type": "quantitative"}}}
  ]
})json";

struct Part {
  const char* name;
  double (*time_us)(const StepAccount&);
};

// Whether forward and backward divide the compute time. With timestamps they include launch gaps and do not.
bool divides(const StepAccount& a) { return a.forward_us + a.backward_us <= a.compute_us * (1 + 1e-9); }

// Parts in the order of the bar. Unexplained time is a part if it is positive; an account longer than the step extends
// beyond the tick.
constexpr std::array<Part, 8> kParts{{
    {"forward", [](const StepAccount& a) { return divides(a) ? a.forward_us : 0; }},
    {"backward", [](const StepAccount& a) { return divides(a) ? a.backward_us : 0; }},
    {"other compute",
     [](const StepAccount& a) {
       return divides(a) ? std::max(0.0, a.compute_us - a.forward_us - a.backward_us) : a.compute_us;
     }},
    {"optimizer", [](const StepAccount& a) { return a.optimizer_us; }},
    {"exposed communication", [](const StepAccount& a) { return a.exposed_communication_us; }},
    {"waiting", [](const StepAccount& a) { return a.waiting_us; }},
    {"launch gaps and input", [](const StepAccount& a) { return a.launch_gaps_us + a.input_us; }},
    {"unexplained", [](const StepAccount& a) { return std::max(0.0, a.unaccounted_us()); }},
}};

// The cells with an account, by batch; those of several devices by their time.
std::vector<const StudyCell*> accounted_cells(const StudySummary& summary, const StudyGroup& group) {
  std::vector<const StudyCell*> cells;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && cell.account && cell.account->step_us > 0) cells.push_back(&cell);
  const auto order = [](const StudyCell* cell) {
    return std::tuple(fixed_batch(cell->key), cell->key.devices, cell->account->whole_us());
  };
  std::stable_sort(cells.begin(), cells.end(), [&](const auto* a, const auto* b) { return order(a) < order(b); });
  return cells;
}

// "exposed communication 31 % on 4 at batch 64"
std::string largest_loss(const std::vector<const StudyCell*>& cells) {
  const StudyCell* worst = nullptr;
  double most = 0;
  for (const StudyCell* cell : cells) {
    const StepAccount& a = *cell->account;
    const double lost = (a.exposed_communication_us + a.waiting_us) / a.whole_us();
    if (cell->key.devices > 1 && lost >= most) {
      most = lost;
      worst = cell;
    }
  }
  if (!worst) {
    const bool alone = std::all_of(cells.begin(), cells.end(), [](const StudyCell* c) { return c->key.devices == 1; });
    return alone ? "All bars are of one device" : "No account of several devices is of the measured step";
  }
  return fmt::format(
      "Most is lost on {} devices at batch {}: {} of the step of {} us is exposed communication or waiting "
      "(n = {} runs)",
      worst->key.devices, with_thousands(worst->key.global_batch), format_percent(most),
      format_number(worst->account->whole_us()), worst->account->n);
}

// Whether a part is above zero in some cell; others are left out of columns and legend.
bool is_drawn(const Part& part, const std::vector<const StudyCell*>& cells) {
  return std::any_of(cells.begin(), cells.end(), [&](const StudyCell* cell) {
    return part.time_us(*cell->account) > 1e-3 * cell->account->step_us;
  });
}

}  // namespace

std::optional<Chart> account_chart(const StudySummary& summary, const StudyGroup& group) {
  std::vector<const StudyCell*> cells = accounted_cells(summary, group);
  const size_t refused = std::erase_if(cells, [](const StudyCell* cell) { return !cell->account->trusted(); });
  if (cells.empty()) return std::nullopt;
  const ConfigurationNames names(summary, group);
  const DeviceWords words = device_text(summary.device_kind);
  Chart chart;
  chart.table.columns = {{"batch", "Batch"},
                         {"configuration", "On"},
                         {"part", "Part of the step"},
                         {"time_us", "Time (us)"},
                         {"share", "Of the step"},
                         {"step_us", "Accounted step (us)"},
                         {"measured_us", "Measured step (us)"},
                         {"ratio", "Accounted / measured"},
                         {"num_runs", "n (runs)"},
                         {"part_number", "Order"}};
  std::vector<std::string> parts, batches;
  for (const StudyCell* cell : cells) {
    const std::string more = names.of(cell->key);
    const std::string configuration = fmt::format(
        "{} {}{}", cell->key.devices, cell->key.devices == 1 ? words.one : words.many, more.empty() ? "" : ", " + more);
    const std::string batch = fmt::format("{} {}", group.scaling == "weak" ? "Batch per device" : "Global batch",
                                          with_thousands(fixed_batch(cell->key)));
    if (batches.empty() || batches.back() != batch) batches.push_back(batch);
    int64_t number = 0;
    for (const Part& part : kParts) {
      if (number > 0 && !is_drawn(part, cells)) continue;
      if (cell == cells.front()) parts.emplace_back(part.name);
      const double time = part.time_us(*cell->account);
      const StepAccount& a = *cell->account;
      chart.table.rows.push_back({batch, configuration, std::string(part.name), time,
                                  format_percent(time / a.whole_us()), a.step_us, a.whole_us(), a.ratio(), a.n,
                                  number});
      ++number;
    }
  }
  ordered_json panels = ordered_json::array();
  for (const std::string& batch : batches)
    panels.push_back(filled(kAccountPanel, {{"parts", parts}, {"batch", batch}, {"part_colours", step_part_scale()}}));
  chart.spec = ordered_json{{"columns", 1}, {"spacing", 14}, {"concat", panels}}.dump();
  chart.id = "account-" + group_slug(group);
  chart.wide = true;
  chart.title = "Where a step's time goes (us; the tick is the measured step)";
  chart.origin = cells.front()->origin;
  chart.summary = largest_loss(cells) + ".";
  if (refused > 0)
    chart.summary +=
        fmt::format(" {} of {} cells have no bar: their account differs from the measured step by more than {:.0f} %.",
                    refused, refused + cells.size(), 100 * kAccountTolerance);
  if (batches.size() > 1) chart.summary += " Each panel has a time axis of its own.";
  return chart;
}

}  // namespace amdahl
