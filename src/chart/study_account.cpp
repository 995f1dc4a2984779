#include "chart/study_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "chart/spec_text.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kAccountSpec = R"json({
  "spec": {
    "width": 380, "height": {"step": 24},
    "layer": [
      {"mark": {"type": "bar", "height": {"band": 0.76}},
       "encoding": {
         "y": {"field": "configuration", "type": "nominal", "sort": "$configurations", "title": null},
         "x": {"field": "time_us", "type": "quantitative", "stack": "zero", "title": null, "scale": {"nice": true},
               "axis": {"format": ",~r", "tickCount": 5}},
         "color": {"field": "part", "type": "nominal", "sort": "$parts", "legend": {"title": null, "columns": 2},
                   "scale": {"domain": "$parts"}},
         "order": {"field": "part_number"},
         "tooltip": [{"field": "configuration", "title": "On"}, {"field": "part", "title": "Part"},
                     {"field": "time_us", "title": "Time (us)", "format": ",.4~r"},
                     {"field": "share", "title": "Of the step"},
                     {"field": "step_us", "title": "Accounted step (us)", "format": ",.4~r"},
                     {"field": "measured_us", "title": "Measured step (us)", "format": ",.4~r"},
                     {"field": "ratio", "title": "Accounted / measured", "format": ".3f"},
                     {"field": "num_runs", "title": "n (runs)"}]}},
      {"mark": {"type": "tick", "style": "total", "size": 20},
       "encoding": {"y": {"field": "configuration", "type": "nominal", "sort": "$configurations", "title": null},
                    "x": {"field": "measured_us", "type": "quantitative"}}}
    ]
  },
  "facet": {"row": {"field": "batch", "type": "ordinal", "sort": "$batches", "title": "$batch_title",
                    "header": {"labelAngle": 0, "labelAlign": "left", "labelFontSize": 12, "titlePadding": 4}}},
  "resolve": {"scale": {"x": "independent"}},
  "spacing": 14
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

std::vector<const StudyCell*> accounted_cells(const StudySummary& summary, const StudyGroup& group) {
  std::vector<const StudyCell*> cells;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && cell.account && cell.account->step_us > 0) cells.push_back(&cell);
  std::stable_sort(cells.begin(), cells.end(), [](const StudyCell* a, const StudyCell* b) {
    return std::pair(fixed_batch(a->key), a->key.devices) < std::pair(fixed_batch(b->key), b->key.devices);
  });
  return cells;
}

double measured_step(const StepAccount& a) { return a.measured_us > 0 ? a.measured_us : a.step_us; }

// States for how many accounts the shares are withheld.
std::string refused_text(const std::vector<const StudyCell*>& cells) {
  const auto refused =
      std::count_if(cells.begin(), cells.end(), [](const StudyCell* cell) { return !cell->account->trusted(); });
  if (refused == 0) return {};
  return fmt::format(
      " No percentages for {} of {} cells, whose account differs from the measured step by more than "
      "{:.0f} %.",
      refused, cells.size(), 100 * kAccountTolerance);
}

// "exposed communication 31 % on 4 at batch 64"
std::string largest_loss(const std::vector<const StudyCell*>& cells) {
  const StudyCell* worst = nullptr;
  double most = 0;
  for (const StudyCell* cell : cells) {
    const StepAccount& a = *cell->account;
    if (!a.trusted()) continue;
    const double lost = (a.exposed_communication_us + a.waiting_us) / a.step_us;
    if (cell->key.devices > 1 && lost >= most) {
      most = lost;
      worst = cell;
    }
  }
  if (!worst) {
    const bool alone = std::all_of(cells.begin(), cells.end(), [](const StudyCell* c) { return c->key.devices == 1; });
    return alone ? "All cells are of one device" : "No account of several devices is of the measured step";
  }
  return fmt::format(
      "Most is lost on {} devices at batch {}: {} of the step of {} us is exposed communication or waiting "
      "(n = {} runs)",
      worst->key.devices, with_thousands(worst->key.global_batch), format_percent(most),
      format_number(worst->account->step_us), worst->account->n);
}

// Whether a part is above zero in some cell; others are left out of columns and legend.
bool is_drawn(const Part& part, const std::vector<const StudyCell*>& cells) {
  return std::any_of(cells.begin(), cells.end(), [&](const StudyCell* cell) {
    return part.time_us(*cell->account) > 1e-3 * cell->account->step_us;
  });
}

}  // namespace

std::optional<Chart> account_chart(const StudySummary& summary, const StudyGroup& group) {
  const std::vector<const StudyCell*> cells = accounted_cells(summary, group);
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
  std::vector<std::string> parts, configurations, batches;
  for (const StudyCell* cell : cells) {
    const std::string more = names.of(cell->key);
    const std::string configuration = fmt::format(
        "{} {}{}", cell->key.devices, cell->key.devices == 1 ? words.one : words.many, more.empty() ? "" : ", " + more);
    const std::string batch = with_thousands(fixed_batch(cell->key));
    if (std::find(configurations.begin(), configurations.end(), configuration) == configurations.end())
      configurations.push_back(configuration);
    if (batches.empty() || batches.back() != batch) batches.push_back(batch);
    int64_t number = 0;
    for (const Part& part : kParts) {
      if (number > 0 && !is_drawn(part, cells)) continue;
      if (cell == cells.front()) parts.emplace_back(part.name);
      const double time = part.time_us(*cell->account);
      const StepAccount& a = *cell->account;
      chart.table.rows.push_back({batch, configuration, std::string(part.name), time,
                                  a.trusted() ? format_percent(time / measured_step(a)) : "not given", a.step_us,
                                  measured_step(a), a.ratio(), a.n, number});
      ++number;
    }
  }
  chart.spec = filled(kAccountSpec, {{"parts", parts},
                                     {"configurations", configurations},
                                     {"batches", batches},
                                     {"batch_title", group.scaling == "weak" ? "Batch per device" : "Global batch"}})
                   .dump();
  chart.id = "account-" + group_slug(group);
  chart.wide = true;
  chart.title = "Where a step's time goes (us; the tick is the measured step)";
  chart.origin = cells.front()->origin;
  chart.summary = largest_loss(cells) + "." + refused_text(cells) + " Each panel has a time axis of its own.";
  return chart;
}

}  // namespace amdahl
