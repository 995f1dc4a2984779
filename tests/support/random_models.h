// Models that nobody chose: drawn from a seed over all kinds, sizes and batches, with plans to try them under.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl::test {

struct RandomModel {
  std::string_view kind;  // mlp, recurrent, encoder, decoder, convolutional
  ModelSpec spec;         // its name has kind and seed
  int64_t batch = 1;
  std::vector<ParallelPlan> plans;  // feasible, the first of one device and one micro-batch
};

struct ModelLimits {
  double least_parameters = 1e4, most_parameters = 3e8;
  double most_flops = 2e13;  // of a step
  int64_t most_steps = 2048, most_batch = 4096;
  int most_devices = 1;
  size_t most_plans = 5;
};

/// Sizes are drawn on a log scale, most of them no multiple of 8. Heads have widths that attention on GPUs takes.
RandomModel draw_model(uint64_t seed, const ModelLimits& limits = {});

/// {"kind", "batch", "plans", "model"} on one line; "model" is a model file.
std::string line_of(const RandomModel& drawn);

}  // namespace amdahl::test
