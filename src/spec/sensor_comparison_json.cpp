// The JSON output of `compare` for sensor runs: docs/schema/sensor-comparison.schema.json.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

constexpr std::string_view kRoleNames[] = {"single", "multi", "hetero"};

json cost_json(const SensorCost& cost) {
  json object{{"hourly_price", finite(cost.hourly_price, "a price")},
              {"owned", cost.owned},
              {"work_per_price", finite(cost.work_per_price, "work per price")}};
  if (cost.purchase_price) object["purchase_price"] = finite(*cost.purchase_price, "a price");
  if (cost.purchase_per_throughput)
    object["purchase_per_throughput"] = finite(*cost.purchase_per_throughput, "purchase per throughput");
  return object;
}

json row_json(const SensorRow& row) {
  json throughput{{"n", row.n}, {"value", finite(row.throughput, "throughput")}};
  if (row.throughput_ci) throughput["ci"] = interval_json(*row.throughput_ci);
  json object{{"role", kRoleNames[static_cast<size_t>(row.role)]},
              {"run", row.run},
              {"axes", axes_json(row.axes)},
              {"devices", row.devices},
              {"device_kind", row.device_kind},
              {"origin", origin_name(row.origin)},
              {"throughput", throughput},
              {"work_per_hour", finite(row.work_per_hour, "work per hour")}};
  if (row.speedup) object["speedup"] = pair_test_json(*row.speedup);
  if (row.efficiency) {
    object["efficiency"] = finite(*row.efficiency, "efficiency");
    object["efficiency_against"] = row.efficiency_by_sum ? "each device's own single result" : "devices x baseline";
  }
  if (row.efficiency_ci) object["efficiency_ci"] = interval_json(*row.efficiency_ci);
  if (row.recommendation) object["recommendation"] = to_string(*row.recommendation);
  if (row.cost) object["cost"] = cost_json(*row.cost);
  return object;
}

json workload_json(const WorkloadComparison& workload) {
  json rows = json::array();
  for (const SensorRow& row : workload.rows) rows.push_back(row_json(row));
  const SensorRow& multi = workload.rows.at(workload.fastest_multi);
  json object{{"axes", axes_json(workload.axes)},
              {"unit", workload.unit},
              {"rows", rows},
              {"baseline", 0},
              {"best_throughput", workload.fastest},
              {"best_multi", workload.fastest_multi},
              {"recommendation", to_string(multi.recommendation.value_or(Recommendation::unclear))}};
  if (workload.cheapest) object["best_per_price"] = *workload.cheapest;
  return object;
}

}  // namespace

std::string sensor_comparison_to_json(const SensorComparison& comparison) {
  json workloads = json::array();
  for (const WorkloadComparison& workload : comparison.workloads) workloads.push_back(workload_json(workload));
  json object{{"version", kSchemaVersion}, {"workloads", workloads}, {"notes", comparison.notes}};
  if (!comparison.prices.empty()) {
    json prices{{"file", comparison.prices}, {"currency", comparison.currency}};
    if (!comparison.as_of.empty()) prices["as_of"] = comparison.as_of;
    object["prices"] = prices;
  }
  return dump(object, 2);
}

}  // namespace amdahl
