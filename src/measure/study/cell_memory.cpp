#include "measure/study/cell_memory.h"

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

TrainerOptions options_of(const StudySettings& settings, const StudyCellSpec& cell) {
  TrainerOptions options = settings.trainer;
  options.launch = cell.launch;
  options.plan = plan_of(settings, cell);
  return options;
}

MemoryParts cell_memory(const StudySettings& settings, const StudyCellSpec& cell, BackendKind backend,
                        int64_t data_rows) {
  const TrainerOptions options = options_of(settings, cell);
  const StrategyRow& row = find_strategy(options.plan.strategy);
  MemoryParts parts = trainer_memory(options, backend, cell.math);
  const int64_t pool_rows =
      row.full_batch_everywhere || row.data_on_root ? cell.global_batch : most_data_rows(options.plan);
  const bool prefetches = options.plan.input == static_cast<int64_t>(InputMode::prefetch);
  const int64_t batches = prefetches ? 2 : pool_batches(data_rows, cell.global_batch, settings.pool_batches);
  parts.data += batches * pool_rows * (settings.model.input_width + settings.model.target_width()) *
                static_cast<int64_t>(sizeof(float));
  return parts;
}

}  // namespace amdahl
