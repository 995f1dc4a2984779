// Rotary positions of a transformer block (Su et al., 2021), as transformers computes them: frequencies, scaled for
// more steps than they were made for, and the table by which attention's operations turn queries and keys.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl {

/// Radians per step of each pair of features, head_dim / 2.
std::vector<double> rotary_frequencies(const LayerSpec& layer);
/// What cosines and sines are multiplied by: 1, but for yarn.
double rotary_factor(const LayerSpec& layer);

/// [steps, 2, head_dim / 2]: of each step the cosines, then the sines. The blocks of a model have one table, which is
/// kept until another is asked for. Thread-safe.
std::shared_ptr<const std::vector<float>> rotary_table(const LayerSpec& layer, int64_t steps);

}  // namespace amdahl
