#include "report/study/methods.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "amdahl/error.h"
#include "plan/plan_rules.h"
#include "report/page/page_parts.h"

namespace amdahl {
namespace {

constexpr const char* kMethodsHow =
    "The exact method sums whole gradients of equal shares in every step. The loss is that of the training rows of the "
    "last step, after as many samples in every row. Sent: payload of a rank per step. Bound: the sum of the speeds "
    "that "
    "the devices have alone, in steps without communication.";

/// The key of the exact cell: the plan without the fields of the method, by the name that studies give it.
CellKey exact_key(CellKey key) {
  key.plan = plain_sync(key.plan);
  if (key.strategy.find(',') == std::string::npos) return key;  // options of the whole study
  ParallelPlan plan = parse_plan(key.strategy);
  static_cast<PlanOptions&>(plan) = plain_sync(plan);
  const bool is_usual = plan.mesh.tp == 1 && plan.mesh.pp == 1 && static_cast<PlanOptions>(plan) == PlanOptions{};
  key.strategy = is_usual ? plan.strategy : format_plan(plan);
  return key;
}

bool is_method(const StudyCell& cell) { return cell.key.devices > 1 && cell.key.plan != plain_sync(cell.key.plan); }

MethodRow row_of(const StudyCell& cell, const StudyCell* exact) {
  MethodRow row{&cell, exact, (1 + cell.warmup + cell.steps) * cell.key.global_batch, {}, {}};
  if (cell.step_time_us.n == 0) return row;
  if (exact && exact->step_time_us.n > 0) row.gain = cell.throughput().value / exact->throughput().value;
  if (cell.speed_bound) row.of_bound = cell.throughput().value / *cell.speed_bound;
  return row;
}

std::string rows_text(const StudyCell& cell) {
  return cell.share_rows.empty() ? "equal" : fmt::format("{}", fmt::join(cell.share_rows, ":"));
}

}  // namespace

std::vector<MethodRow> method_rows(const StudySummary& summary) {
  std::vector<MethodRow> rows;
  const auto has = [&](const StudyCell* cell) {
    return std::any_of(rows.begin(), rows.end(), [&](const MethodRow& row) { return row.cell == cell; });
  };
  for (const StudyCell& cell : summary.cells) {
    if (!is_method(cell)) continue;
    const CellKey key = exact_key(cell.key);
    const auto found = std::find_if(summary.cells.begin(), summary.cells.end(),
                                    [&](const StudyCell& other) { return other.key == key; });
    const StudyCell* exact = found == summary.cells.end() ? nullptr : &*found;
    if (exact && !has(exact)) rows.push_back(row_of(*exact, exact));
    rows.push_back(row_of(cell, exact));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const MethodRow& a, const MethodRow& b) {
    return a.cell->key.global_batch < b.cell->key.global_batch;
  });
  return rows;
}

PageSection methods_section(const StudySummary& summary) {
  PageSection section{"methods", "Speed and loss beside the exact method", {}, {}, {}};
  section.details = {kMethodsHow};
  const std::vector<MethodRow> rows = method_rows(summary);
  if (rows.empty()) return section;
  PageTable table;
  table.caption = "Medians over the runs; losses are means";
  table.table.columns = {{"batch", "Global batch"},
                         {"plan", "Plan"},
                         {"devices", "Devices"},
                         {"rows", "Rows of the devices"},
                         {"step", "Step time (us)"},
                         {"throughput", "Throughput (samples/s)"},
                         {"gain", "Against exact (ratio)"},
                         {"of_bound", "Of the bound (ratio)"},
                         {"sent", "Sent per step"},
                         {"samples", "Samples"},
                         {"loss_first", "Loss at first"},
                         {"loss_last", "Loss after the samples"}};
  for (const MethodRow& row : rows) {
    const StudyCell& cell = *row.cell;
    const bool measured = cell.step_time_us.n > 0;
    table.table.rows.push_back(
        {cell.key.global_batch, cell.key.strategy, static_cast<int64_t>(cell.key.devices), rows_text(cell),
         measured ? TableValue(cell.step_time_us.estimate().value) : TableValue(),
         measured ? TableValue(cell.throughput().value) : TableValue(), optional_value(row.gain),
         optional_value(row.of_bound), cell.account ? TableValue(format_bytes(cell.account->comm_bytes)) : TableValue(),
         row.samples, optional_value(cell.loss_first), optional_value(cell.loss_last)});
  }
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace amdahl
