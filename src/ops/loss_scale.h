// Dynamic loss scaling of fp16 (Micikevicius et al. 2018): the gradient of the loss is multiplied by a scale, so that
// small gradients are not rounded to zero, and the optimizer divides by it. Where a gradient is not finite the step
// changes nothing and the scale is halved; after many good steps it is doubled.
//
// One sum of squares serves clipping and this check. A pass that looks for non-finite values would read all gradients
// again and need a collective of its own; a decision on the host would wait in every step and exclude graphs.
#pragma once

#include <cmath>

#include "base/philox.h"

namespace amdahl {

inline constexpr float kFirstLossScale = 65536, kMostLossScale = 16777216, kGoodSteps = 2000;

/// In device memory, equal on all ranks.
struct LossScale {
  float scale = kFirstLossScale;  // of the next step
  float good_steps = 0;           // since the scale was changed
  float skipped_steps = 0;        // since the first step
  float skip = 0;                 // 1: the updates of this step change nothing
};

/// What the optimizer multiplies the gradients by, from the sum of their squares; brings `state` to the next step.
/// `limit`: of the norm of the unscaled gradient; 0: none. A sum beyond the range of a float counts as not finite.
AMDAHL_HOST_DEVICE float advance_loss_scale(LossScale& state, float sum_of_squares, float limit, float epsilon) {
  const float inverse = 1.0f / state.scale;
  if (!(sum_of_squares < INFINITY)) {  // false for NaN too
    state.skip = 1.0f;
    state.skipped_steps += 1.0f;
    state.good_steps = 0.0f;
    state.scale = state.scale > 2.0f ? state.scale * 0.5f : 1.0f;
    return 0.0f;
  }
  state.skip = 0.0f;
  state.good_steps += 1.0f;
  if (state.good_steps >= kGoodSteps) {
    state.good_steps = 0.0f;
    if (state.scale < kMostLossScale) state.scale *= 2.0f;
  }
  if (limit <= 0.0f) return inverse;
  const float clipped = limit / (sqrtf(sum_of_squares) * inverse + epsilon);
  return inverse * (clipped < 1.0f ? clipped : 1.0f);
}

}  // namespace amdahl
