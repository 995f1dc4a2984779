#include "parallel/data/strategy.h"

#include <fmt/format.h>

#include "amdahl/error.h"
#include "plan/plan_rules.h"

namespace amdahl {

// Functions of the rows, in one file for each row.
using SyncMaker = std::unique_ptr<GradientSync>(const SyncContext& context);
SyncMaker make_single, make_data_parallel, make_sharded_data_parallel, make_unit_sync, make_naive_data_parallel;
using TrafficBytes = int64_t(const ParallelPlan& plan, const ModelSpec& model, int rank);
TrafficBytes data_parallel_traffic, sharded_data_parallel_traffic, unit_sync_traffic, naive_data_parallel_traffic;
using OwnedRanges = std::vector<FloatRange>(const ParallelPlan& plan, const ParameterLayout& layout, int rank);
OwnedRanges sharded_data_parallel_owned, unit_sync_owned;

namespace {

int64_t no_traffic(const ParallelPlan&, const ModelSpec&, int) { return 0; }

Feasibility any_devices(const ParallelPlan& plan) {
  if (plan.global_batch >= plan.accumulate) return sync_fields_fit(plan);
  return {false, fmt::format("batch {} is smaller than {} micro-batches", plan.global_batch, plan.accumulate)};
}

Feasibility one_device(const ParallelPlan& plan) {
  if (plan.mesh.dp == 1) return any_devices(plan);
  return {false, fmt::format("strategy single uses one device, {} were asked for", plan.mesh.dp)};
}

Feasibility a_row_for_every_device(const ParallelPlan& plan) {
  if (plan.global_batch >= static_cast<int64_t>(plan.mesh.dp) * plan.accumulate) return sync_fields_fit(plan);
  return {false, fmt::format("batch {} is smaller than {} devices x {} micro-batches", plan.global_batch, plan.mesh.dp,
                             plan.accumulate)};
}

std::vector<FloatRange> all_parameters(const ParallelPlan&, const ParameterLayout& layout, int) {
  return {{0, layout.num_floats}};
}

std::vector<FloatRange> all_parameters_on_root(const ParallelPlan& plan, const ParameterLayout& layout, int rank) {
  return rank == 0 ? all_parameters(plan, layout, rank) : std::vector<FloatRange>{};
}

}  // namespace

const std::vector<StrategyRow>& strategy_table() {
  static const std::vector<StrategyRow> rows{
      {.name = "single",
       .summary = "one device",
       .full_batch_everywhere = true,
       .feasible = one_device,
       .traffic_bytes = no_traffic,
       .owned = all_parameters,
       .build = make_single},
      {.name = "replicated",
       .summary = "every device steps the full batch, no communication",
       .replicas = true,
       .full_batch_everywhere = true,
       .feasible = any_devices,
       .traffic_bytes = no_traffic,
       .owned = all_parameters,
       .build = make_single},
      {.name = "ddp",
       .summary = "batch split, gradients all-reduced in buckets while backward goes on",
       .replicas = true,
       .overlaps = true,
       .feasible = a_row_for_every_device,
       .traffic_bytes = data_parallel_traffic,
       .owned = all_parameters,
       .build = make_data_parallel},
      {.name = "zero1",
       .summary = "batch split, each device keeps the optimizer state of its part and updates it for all",
       .replicas = true,
       .overlaps = true,
       .updates_early = true,
       .feasible = a_row_for_every_device,
       .traffic_bytes = sharded_data_parallel_traffic,
       .norm_bytes = sizeof(float),
       .owned = sharded_data_parallel_owned,
       .build = make_sharded_data_parallel},
      {.name = "zero2",
       .summary = "as zero1, and each device keeps the gradients of its part alone",
       .replicas = true,
       .overlaps = true,
       .is_layerwise = true,
       .feasible = a_row_for_every_device,
       .traffic_bytes = unit_sync_traffic,
       .norm_bytes = sizeof(float),
       .owned = unit_sync_owned,
       .build = make_unit_sync},
      {.name = "zero3",
       .summary = "as zero2, and each device keeps its part of the parameters: layers are gathered before they compute",
       .overlaps = true,
       .is_layerwise = true,
       .feasible = a_row_for_every_device,
       .traffic_bytes = unit_sync_traffic,
       .norm_bytes = sizeof(float),
       .owned = unit_sync_owned,
       .build = make_unit_sync},
      {.name = "dp",
       .summary = "naive baseline: device 0 sends batch and weights to the others, gathers gradients and steps alone",
       .data_on_root = true,
       .feasible = a_row_for_every_device,
       .traffic_bytes = naive_data_parallel_traffic,
       .owned = all_parameters_on_root,
       .build = make_naive_data_parallel},
  };
  return rows;
}

const StrategyRow& find_strategy(std::string_view name) {
  std::vector<std::string> names;
  for (const StrategyRow& row : strategy_table()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw Error(Cause::usage, fmt::format("unknown strategy '{}'", name), choices_hint(name, names));
}

GradientOrder gradient_order(const ModelSpec& model, const ParallelPlan& plan, const GemmOps& gemm,
                             bool has_second_stream) {
  const StrategyRow& row = find_strategy(plan.strategy);
  if (!model.is_mlp() || row.is_layerwise) return GradientOrder::layerwise;  // other layers make both in one pass
  if (gemm.fuses_backward(most_micro_batch_rows(plan, row.full_batch_everywhere))) return GradientOrder::layerwise;
  const bool sends = sends_during_backward(row, plan);
  if (sends && row.updates_early) return GradientOrder::dgrad_first;
  if (has_second_stream) return GradientOrder::two_streams;
  return sends ? GradientOrder::dgrad_first : GradientOrder::layerwise;
}

}  // namespace amdahl
