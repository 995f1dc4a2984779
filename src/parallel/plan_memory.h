// Modelled memory of a plan's fullest device.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "amdahl/plan.h"
#include "amdahl/planner.h"

namespace amdahl {

/// What a plan's memory depends on besides the plan and its model.
struct MemorySetting {
  int optimizer_arrays = 2;  // floats of state per parameter: 2 for Adam, 1 for SGD
  MathMode math = MathMode::fp32;
  bool gpu = false;  // with what operations on GPUs take while they run
};

/// Memory of plans of one model. Plans share what does not change from one to the next: the parameters of each rank,
/// and the recordings of equal stages. Keeps a reference to the model. Not thread-safe.
///
/// Example:
///   PlanMemories memories(model, {});
///   for (const ParallelPlan& plan : plans) std::printf("%lld bytes\n", (long long)memories.of(plan).total());
class PlanMemories {
 public:
  PlanMemories(const ModelSpec& model, const MemorySetting& setting);
  ~PlanMemories();

  /// For a feasible plan with a batch. Bytes.
  PlanMemory of(const ParallelPlan& plan);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Of one plan, as PlanMemories::of.
PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, const MemorySetting& setting = {});

}  // namespace amdahl
