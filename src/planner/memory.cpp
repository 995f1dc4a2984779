// Memory of the fullest device of a plan. Unit: bytes. ZeRO divides the optimizer state (stage 1), the summed gradients
// (2) and the parameters (3) by dp: Rajbhandari et al., 2020, arXiv:1910.02054.
#include <algorithm>

#include "parallel/pipeline/simulate.h"
#include "planner/terms.h"

namespace amdahl {

MemoryParts memory_of(const Workload& work) {
  MemoryParts fullest;
  const int ranks = static_cast<int>(work.stages.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const StageWork& stage = work.stages[static_cast<size_t>(rank)];
    const auto divided = [&](int from) { return work.zero_stage >= from ? work.mesh.dp : 1; };
    const double weights = work.state_bytes - work.optimizer_state_bytes - work.sum_gradient_bytes;
    MemoryParts parts;
    parts.parameters = stage.parameters * weights / divided(3);
    parts.gradients = stage.parameters * work.sum_gradient_bytes / divided(2);
    parts.optimizer = stage.parameters * work.optimizer_state_bytes / divided(1);
    double saved = 0;
    for (const LayerWork& layer : stage.layers) saved += layer.repeats * layer.saved_bytes;
    const int held = ranks < 2 ? 1
                               : peak_activations_formula(work.schedule, ranks, static_cast<int>(work.micro_batches),
                                                          work.chunks, rank);
    parts.activations = saved * held / work.chunks;
    if (parts.total() > fullest.total()) fullest = parts;
  }
  return fullest;
}

}  // namespace amdahl
