// The JSON output of `amdahl plan --list`; schema: docs/schema/plans.schema.json.
#include <nlohmann/json.hpp>

#include "amdahl/planner.h"
#include "plan/cell_axes.h"
#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

json listed_json(const ListedPlan& listed) {
  json fields = json::object();
  for (const PlanField& field : plan_fields()) fields[std::string(field.name)] = text_of(field, listed.plan);
  json object{{"plan", listed.text},
              {"mesh", {{"dp", listed.plan.mesh.dp}, {"tp", listed.plan.mesh.tp}, {"pp", listed.plan.mesh.pp}}},
              {"strategy", listed.plan.strategy},
              {"fields", fields},
              {"memory",
               {{"total", listed.memory.total()},
                {"parameters", listed.memory.parameters},
                {"gradients", listed.memory.gradients},
                {"optimizer", listed.memory.optimizer},
                {"activations", listed.memory.activations},
                {"workspace", listed.memory.workspace},
                {"origin", origin_name(Origin::modelled)}}}};
  if (listed.bubble >= 0) object["bubble"] = finite(listed.bubble, "a bubble");
  return object;
}

}  // namespace

std::string plans_to_json(const PlansOutcome& outcome) {
  json plans = json::array();
  for (const ListedPlan& plan : outcome.plans) plans.push_back(listed_json(plan));
  return dump({{"version", kSchemaVersion},
               {"model", outcome.model.name},
               {"num_parameters", outcome.model.num_parameters()},
               {"devices", outcome.devices},
               {"global_batch", outcome.global_batch},
               {"plans", plans}},
              2);
}

}  // namespace amdahl
