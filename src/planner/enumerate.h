// Plans as text, and all plans of a model on a number of devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/model_spec.h"
#include "amdahl/plan.h"
#include "parallel/pipeline/schedule.h"

namespace amdahl {

/// A plan with its pipeline schedule.
struct PlanChoice {
  ParallelPlan plan;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
};

/// "dp2.tp2.pp2,1f1b,m8,zero1": the axes above 1, then what differs from the defaults.
std::string choice_text(const PlanChoice& choice);
/// Its inverse. Error{usage} for an unknown part.
PlanChoice parse_choice(std::string_view text, int64_t global_batch);

struct PlanSpace {
  int64_t global_batch = 0;
  int least_devices = 1, most_devices = 1;  // every number of devices between them that has a plan
  bool tensor = true, pipeline = true;      // whether these axes are tried
  int zero_stages = 3;                      // highest
};

/// Every plan of the space that divides model and batch: meshes, micro-batches, schedules, ZeRO stages, recomputation,
/// overlap and buckets.
std::vector<PlanChoice> enumerate_choices(const ModelSpec& model, const PlanSpace& space);

}  // namespace amdahl
