// The plans of a model that can be executed on a number of devices.
#include "amdahl/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "parallel/pipeline/simulate.h"
#include "parallel/plan_memory.h"
#include "plan/plan_rules.h"
#include "report/common/aligned_table.h"
#include "setup/training_setup.h"
#include "spec/json.h"

namespace amdahl {
namespace {

constexpr int kMostListed = 1 << 12;  // devices: their meshes are tried one by one
constexpr int64_t kMostRows = 1 << 30;

void check_range(int64_t value, int64_t most, const char* field) {
  if (value < 1 || value > most)
    throw Error(Cause::usage, fmt::format("`{}` is {}", field, value), fmt::format("1 to {}", with_thousands(most)));
}

double bubble_of(const ParallelPlan& plan) {
  if (plan.mesh.pp == 1) return 0;
  return bubble_formula(schedule_of(plan), plan.mesh.pp, static_cast<int>(plan.accumulate), chunks_of(plan), {1, 1, 1})
      .value_or(-1);
}

std::string bytes_cell(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

}  // namespace

PlansOutcome run_plans(const PlansConfig& config) {
  check_range(config.devices, kMostListed, "devices");
  check_range(config.batch_size, kMostRows, "batch_size");
  if (config.optimizer != "adam" && config.optimizer != "adamw" && config.optimizer != "sgd")
    throw Error(Cause::usage, fmt::format("unknown optimizer '{}'", config.optimizer),
                choices_hint(config.optimizer, {"adam", "adamw", "sgd"}));
  PlansOutcome outcome{resolve_model(config.model), config.devices, config.batch_size, {}};
  outcome.model.validate();
  PlanQuery query{.num_devices = config.devices, .global_batch = config.batch_size};
  query.micro_batches_per_rank = {1, 2, 4};
  query.all_schedules = config.all_schedules;
  query.all_zero_stages = query.with_sequence = true;
  query.options.recompute = config.recompute;
  check_plan_options(query.options);
  PlanMemories memories(outcome.model, {.optimizer_arrays = config.optimizer == "sgd" ? 1 : 2});
  for (const ParallelPlan& plan : enumerate_plans(outcome.model, query))
    outcome.plans.push_back({plan, format_plan(plan), memories.of(plan), bubble_of(plan)});
  return outcome;
}

std::string to_text(const PlansOutcome& outcome, int width) {
  const std::string text = fmt::format(
      "{} ({} parameters), {} device{}, batch {}: {} plan{}; modelled memory of the fullest "
      "device\n",
      outcome.model.name, with_thousands(outcome.model.num_parameters()), outcome.devices,
      outcome.devices == 1 ? "" : "s", outcome.global_batch, outcome.plans.size(),
      outcome.plans.size() == 1 ? "" : "s");
  std::vector<std::vector<std::string>> rows{
      {"plan", "memory", "parameters", "gradients", "optimizer", "activations", "workspace", "bubble"}};
  for (const ListedPlan& plan : outcome.plans) {
    const PlanMemory& memory = plan.memory;
    rows.push_back({plan.text, bytes_cell(memory.total()), bytes_cell(memory.parameters), bytes_cell(memory.gradients),
                    bytes_cell(memory.optimizer), bytes_cell(memory.activations), bytes_cell(memory.workspace),
                    plan.plan.mesh.pp == 1 ? "-"
                    : plan.bubble < 0      ? "?"
                                           : fmt::format("{:.1f} %", 100 * plan.bubble)});
  }
  return text + aligned_table(rows, {}, static_cast<size_t>(width));
}

std::string to_json(const PlansOutcome& outcome) { return plans_to_json(outcome); }

}  // namespace amdahl
