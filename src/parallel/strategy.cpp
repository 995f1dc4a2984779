#include "parallel/strategy.h"

#include <fmt/format.h>

#include "amdahl/units.h"

namespace amdahl {
namespace {

int64_t no_traffic(const ParallelPlan&, const ModelSpec&, int) { return 0; }

Feasibility one_device(const ParallelPlan& plan) {
  if (plan.num_devices == 1) return {};
  return {false, fmt::format("strategy single uses one device, {} were asked for", plan.num_devices)};
}

Feasibility any_devices(const ParallelPlan& plan) {
  if (plan.global_batch / plan.accumulate >= 1) return {};
  return {false, fmt::format("batch {} is smaller than {} micro-batches", plan.global_batch, plan.accumulate)};
}

Feasibility a_row_for_every_device(const ParallelPlan& plan) {
  if (plan.global_batch >= static_cast<int64_t>(plan.num_devices) * plan.accumulate) return {};
  return {false, fmt::format("batch {} is smaller than {} devices x {} micro-batches", plan.global_batch, plan.num_devices,
                             plan.accumulate)};
}

}  // namespace

const std::vector<StrategyRow>& strategy_table() {
  static const std::vector<StrategyRow> rows{
      {"single", "one device", true, false, false, one_device, no_traffic, make_single},
      {"replicated", "every device steps the full batch, no communication", true, false, false, any_devices, no_traffic,
       make_single},
      {"ddp", "batch split, gradients all-reduced in buckets while backward goes on", false, false, true,
       a_row_for_every_device, data_parallel_traffic, make_data_parallel},
      {"dp", "naive baseline: device 0 hands out batch and weights, gathers gradients and steps alone", false, true, false,
       a_row_for_every_device, naive_data_parallel_traffic, make_naive_data_parallel},
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

}  // namespace amdahl
