// Arguments of an Adam step, shared by the single-device update and the update across devices.
#pragma once

#include <cstdint>

namespace amdahl {

/// Adam (Kingma and Ba 2015) over n contiguous parameters: step count t = *step + 1 (device counter).
struct AdamStep {
  float* params;
  const float* grads;
  float* m;
  float* v;
  int64_t n;
  const uint64_t* step;
  float lr, beta1, beta2, epsilon;
};

}  // namespace amdahl
