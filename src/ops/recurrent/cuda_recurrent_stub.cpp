// Built when no architecture from 9.0 on is compiled for: recurrent layers run step by step.
#include "ops/recurrent/cuda_recurrent.h"

namespace amdahl {

PersistentPlan plan_persistent_forward(const KernelLaunch&, MathMode, const RecurrentShape&) { return {}; }
PersistentPlan plan_persistent_backward(const KernelLaunch&, MathMode, const RecurrentShape&) { return {}; }
void launch_persistent_forward(const KernelLaunch&, MathMode, const PersistentPlan&, const PersistentForwardArrays&) {
  throw Error(Cause::internal, "no persistent kernels in this build");
}
int persistent_bias_parts(MathMode, const PersistentPlan&) { return 0; }
void launch_persistent_backward(const KernelLaunch&, MathMode, const PersistentPlan&, const PersistentBackwardArrays&,
                                float*) {
  throw Error(Cause::internal, "no persistent kernels in this build");
}

}  // namespace amdahl
