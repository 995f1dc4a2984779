// Which parallel plans can be executed, the nearest one that can, and all of them: pure functions of a model and a
// plan.
#pragma once

#include <optional>
#include <vector>

#include "amdahl/plan.h"
#include "plan/pipeline_kinds.h"
#include "plan/stages.h"

namespace amdahl {

ScheduleKind schedule_of(const PlanOptions& options);
/// Pipeline stages per rank: `chunks`, or the fewest of the schedule.
int chunks_of(const PlanOptions& options);
/// Pipeline stages of all ranks.
int num_stages(const ParallelPlan& plan);
/// Whether the plan has stages, and a schedule that computes gradients of inputs and of weights at different times.
bool divides_backward(const ParallelPlan& plan);

/// Whether the fields of pipeline stages, and those of single strategies, act in this plan: none is ignored.
Feasibility fields_act(const ParallelPlan& plan);
/// Whether the fields that say how data-parallel ranks share rows and gradients act in this plan and go together:
/// local_sgd, compress, keep_ppm, async_steps, shares.
Feasibility sync_fields_fit(const ParallelPlan& plan);
/// Whether ranks keep what compressed gradients left out (error feedback): compress=int8 and topk.
bool keeps_feedback(const PlanOptions& options);
/// Bytes that these fields, but for virtual_shards, need on a device beside a gradient of so many floats, which is sent
/// in buckets of at most `bucket_floats`.
int64_t sync_bytes(const ParallelPlan& plan, int64_t gradient_floats, int64_t bucket_floats);
/// The options with these fields at their defaults.
PlanOptions plain_sync(PlanOptions options);

/// Whether the engine executes this plan of the model. If not, the reason names the field. A plan without a batch
/// (global_batch 0) is checked for everything else.
Feasibility plan_feasible(const ParallelPlan& plan, const ModelSpec& model);
/// The feasible plan of as many devices that differs least: in its mesh, then in micro-batches, split, schedule and
/// strategy. nullopt when none has as many devices.
std::optional<ParallelPlan> nearest_plan(const ParallelPlan& plan, const ModelSpec& model);
/// The same among the plans of so many devices.
std::optional<ParallelPlan> nearest_plan(const ParallelPlan& plan, const ModelSpec& model, int devices);
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
  /// Every number of micro-batches of equal size that the batch of a data-parallel rank has; false: those above, and
  /// `options.accumulate` without stages.
  bool all_micro_batches = false;
  /// Also chunks, recomputation, overlap and buckets, and stages by FLOP where blocks do not divide evenly; false: the
  /// fields of `options`.
  bool all_options = false;
};
/// Every feasible plan of exactly that many devices, ordered by pp, then tp, then strategy and schedule.
std::vector<ParallelPlan> enumerate_plans(const ModelSpec& model, const PlanQuery& query);

}  // namespace amdahl
