// Which parallel plans can be executed, the nearest one that can, and all of them: pure functions of a model and a
// plan.
#pragma once

#include <optional>
#include <vector>

#include "amdahl/model_spec.h"
#include "amdahl/plan.h"
#include "amdahl/plans.h"
#include "amdahl/tensor.h"
#include "base/pipeline_kinds.h"
#include "base/stages.h"

namespace amdahl {

ScheduleKind schedule_of(const PlanOptions& options);
/// Pipeline stages per rank: `chunks`, or the fewest of the schedule.
int chunks_of(const PlanOptions& options);
/// Pipeline stages of all ranks.
int num_stages(const ParallelPlan& plan);

/// Whether the fields of pipeline stages, and those of single strategies, act in this plan: none is ignored.
Feasibility fields_act(const ParallelPlan& plan);
/// Whether the engine executes this plan of the model. If not, the reason names the field. A plan without a batch
/// (global_batch 0) is checked for everything else.
Feasibility plan_feasible(const ParallelPlan& plan, const ModelSpec& model);
/// The feasible plan of as many devices that differs least: in its mesh, then in micro-batches, split, schedule and
/// strategy. nullopt when none has as many devices.
std::optional<ParallelPlan> nearest_plan(const ParallelPlan& plan, const ModelSpec& model);
/// Throws Error{usage} with the reason, and the nearest plan as remedy.
void require_plan_feasible(const ParallelPlan& plan, const ModelSpec& model);

/// What to enumerate.
struct PlanQuery {
  int num_devices = 1;
  int64_t global_batch = 0;                        // 0: any
  std::vector<int64_t> micro_batches_per_rank{2};  // of plans with stages, in units of pipeline ranks
  bool all_schedules = false;                      // false: 1f1b alone
  bool all_strategies = true;                      // ddp and zero1 where dp > 1; false: ddp alone
  bool all_zero_stages = false;                    // zero2 and zero3 too where dp > 1
  bool with_sequence = false;                      // sequence parallelism too where tp > 1
  PlanOptions options{};                           // the other fields
};
/// Every feasible plan of exactly that many devices, ordered by pp, then tp, then strategy and schedule.
std::vector<ParallelPlan> enumerate_plans(const ModelSpec& model, const PlanQuery& query);

/// For a feasible plan with a batch. `optimizer_arrays`: floats of state per parameter: 2 for Adam, 1 for SGD. `type`:
/// what layers convert to before a GEMM.
PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, int optimizer_arrays = 2,
                       DType type = DType::f32);

}  // namespace amdahl
