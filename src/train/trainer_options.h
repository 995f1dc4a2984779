// Options of a training.
#pragma once

#include <string>

#include "amdahl/plan.h"
#include "ops/optimizer/learning_rate.h"

namespace amdahl {

struct Hyper {
  std::string optimizer = "adam";  // "adam", "adamw" or "sgd"
  float learning_rate = 1e-3f;
  RatePlan rate_plan;                                   // of the learning rate over the steps
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  // adam, adamw
  float weight_decay = 0;                               // adamw: of the weights, see decaying_ranges
  float momentum = 0.9f;                                // sgd
  float clip_norm = 0;  // the largest norm of the whole gradient, which is scaled down to it; 0: unlimited
};

/// The optimizer as an axis of Records: "adam", or "adamw, clipped", whose steps take longer.
inline std::string optimizer_text(const Hyper& hyper) {
  return hyper.clip_norm > 0 ? hyper.optimizer + ", clipped" : hyper.optimizer;
}

struct TrainerOptions {
  ModelSpec model;
  ParallelPlan plan;
  Hyper hyper;
  LaunchMode launch = LaunchMode::eager;
  uint64_t seed = 42;
  double timeout_seconds = 60;  // for host waits on the device
  bool auto_timeout = false;    // the caller applies auto_timeouts() after the warm-up
  bool keep_gradients = false;  // excludes updates that do not write the gradients
};

}  // namespace amdahl
