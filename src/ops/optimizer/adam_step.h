// Arguments of an Adam step, shared by the single-device update and the update across devices.
#pragma once

#include <cstdint>

namespace amdahl {

/// What an optimizer reads on the device in each step, so that a captured graph follows a schedule and the gradients.
struct StepFactors {
  const float* rate = nullptr;        // learning rate in place of `lr`; null: `lr`
  const float* grad_scale = nullptr;  // of every gradient (clipping, loss scaling); null: 1
  const float* skip = nullptr;        // not 0: the step changes nothing (LossScale); null: 0
};

/// Where an update adds, for the parameters and for each array of state, the sum of the bits (as 32-bit integers) that
/// it wrote minus that of the bits that it read. What the sums of the arrays changed by since, and this does not tell,
/// no update did: memory lost a bit.
struct ChangeSums {
  uint32_t* sums = nullptr;  // parameters, then arrays of state; null: not wanted
};

inline constexpr int64_t kDecayLine = 64;  // floats of the layout that share a flag in AdamStep::decays

/// Adam (Kingma and Ba 2015) over n contiguous parameters: step count t = *step + 1 (device counter). With a
/// `weight_decay` it is AdamW (Loshchilov and Hutter 2019): parameters that decay are first multiplied by
/// 1 - learning rate * weight_decay. The defaults change no bit of a step.
struct AdamStep {
  float* params;
  const float* grads;
  float* m;
  float* v;
  int64_t n;
  const uint64_t* step;
  float lr, beta1, beta2, epsilon;
  StepFactors factors{};
  float weight_decay = 0;
  const uint8_t* decays = nullptr;  // for each line of kDecayLine floats of the layout: whether it decays; null: all do
  int64_t first = 0;                // index in the layout of params[0]
  ChangeSums changes{};             // of params, m and v
};

}  // namespace amdahl
