// The plan of a study's cell.
#include "base/plan_rules.h"
#include "measure/study/runner.h"
#include "measure/training/batch_pool.h"

namespace amdahl {

ParallelPlan plan_of(const StudySettings& settings, const StudyCellSpec& cell) {
  ParallelPlan plan = settings.trainer.plan;
  plan.strategy = cell.strategy;
  plan.mesh.dp = cell.devices;
  if (cell.plan) plan = *cell.plan;
  plan.global_batch = cell.global_batch;
  return plan;
}

int64_t divided_memory_bytes(const StudySettings& settings, const TrainerOptions& options, int64_t data_rows) {
  const ParallelPlan& plan = options.plan;
  const int64_t row_floats = settings.model.input_width + settings.model.target_width();
  const int64_t batches = pool_batches(data_rows, plan.global_batch, settings.pool_batches);
  return plan_memory(plan, settings.model, num_state_arrays(options.hyper)).total() +
         batches * even_share(plan.global_batch, plan.mesh.dp, 0).rows() * row_floats *
             static_cast<int64_t>(sizeof(float));
}

}  // namespace amdahl
