// Modelled memory of a plan's fullest device.
#pragma once

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "amdahl/model_spec.h"
#include "amdahl/plan.h"
#include "amdahl/plans.h"
#include "base/layer_kinds.h"
#include "base/pipeline_kinds.h"
#include "base/zero_units.h"

namespace amdahl {

/// What a plan's memory depends on besides the plan and its model.
struct MemorySetting {
  int optimizer_arrays = 2;  // floats of state per parameter: 2 for Adam, 1 for SGD
  MathMode math = MathMode::fp32;
  bool gpu = false;  // with what operations on GPUs take while they run
};
/// What the memory of the plan's layers depends on.
MemoryChoice memory_choice(const ParallelPlan& plan, const MemorySetting& setting);

/// Memory of plans of one model, which share what does not change from plan to plan: parameters and activations of each
/// rank, by the fields that divide the model. Keeps a reference to the model. Not thread-safe.
///
/// Example:
///   PlanMemories memories(model, {});
///   for (const ParallelPlan& plan : plans) std::printf("%lld bytes\n", (long long)memories.of(plan).total());
class PlanMemories {
 public:
  PlanMemories(const ModelSpec& model, const MemorySetting& setting);

  /// For a feasible plan with a batch. Bytes.
  PlanMemory of(const ParallelPlan& plan);

 private:
  /// The fields of a plan that say which layers, and which parts of them, a rank has, and what it keeps of them.
  struct Division {
    int tp, pp, stages;
    ScheduleKind schedule;
    int64_t split, recompute;
    bool sequence_parallel, gathers;
    auto operator<=>(const Division&) const = default;
  };
  /// A layer's arguments of LayerKindRow::cpu_scratch.
  struct ScratchLayer {
    LayerSpec layer;  // the units that the rank has
    Shape input;
    int64_t shards;
    bool first;
  };
  /// What the stages of a pipeline rank take on tensor-parallel rank 0, which has the largest shards.
  struct RankBytes {
    std::vector<UnitSize> units;  // of gathering and reducing (ZeRO stages 2 and 3), the last layer first
    bool has_dense_layers = false;
    int num_stages = 0;
    int64_t per_row = 0;  // of every micro-batch in flight
    int64_t shared_per_row = 0, fixed = 0;
    std::vector<ScratchLayer> scratch_layers;             // on a CPU
    std::map<std::pair<int64_t, bool>, int64_t> scratch;  // by rows, and whether gradients accumulate
  };

  std::vector<RankBytes>& ranks_of(const ParallelPlan& plan);
  std::vector<RankBytes> make_ranks(const ParallelPlan& plan) const;
  static int64_t scratch_of(RankBytes& rank, int64_t rows, bool accumulates);

  const ModelSpec& model_;
  const MemorySetting setting_;
  const int64_t attention_row_bytes_;
  std::map<Division, std::vector<RankBytes>> ranks_;
};

/// Of one plan, as PlanMemories::of.
PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, const MemorySetting& setting = {});

}  // namespace amdahl
