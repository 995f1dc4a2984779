// What a trainer refuses before its first step.
#include "train/trainer.h"

namespace amdahl {

/// Launch mode, math and shares that this plan's steps do not have.
void Trainer::check_plan() const {
  const ParallelPlan& plan = options_.plan;
  if (options_.launch == LaunchMode::graph && strategy_->period() > 1)
    throw Error(Cause::usage, "launch mode graph: the steps of this plan are not all alike", "`launch=eager`");
  if (plan.shares == kAutoShares && plan.mesh.dp > 1)
    throw Error(Cause::internal, "shares=auto reached a trainer before the speeds of the devices were measured");
  if (optimizer_->loss_scale() && plan.mesh.dp > 1 && (plan.compress > 0 || plan.local_sgd > 0 || plan.async_steps > 0))
    throw Error(Cause::usage, "math fp16 scales the loss, and this plan rounds, averages or delays gradients",
                "`math=bf16`, or a plan without compress, local-sgd and async");
}

}  // namespace amdahl
