// The parallel plans of a model that can be executed on a number of devices, with their modelled memory.
//
// Example:
//   amdahl::PlansConfig config;
//   config.model = "gpt2", config.devices = 8;
//   std::puts(amdahl::to_text(amdahl::run_plans(config)).c_str());
#pragma once

#include <string>
#include <vector>

#include "amdahl/model_spec.h"
#include "amdahl/plan.h"

namespace amdahl {

/// Modelled bytes of the device that holds most.
struct PlanMemory {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0;  // of all micro-batches in flight, with their gradients and shared scratch
  int64_t workspace = 0;    // of operations: GEMM workspaces of a GPU, copies with padded rows on a CPU
  int64_t total() const { return parameters + gradients + optimizer + activations + workspace; }
};

struct PlansConfig {
  std::string model = "medium";  // name of a preset, or path of a JSON file
  int devices = 8;
  int64_t batch_size = 64;         // global
  bool all_schedules = false;      // false: pipelines by 1f1b alone
  std::string optimizer = "adam";  // adam, adamw, sgd: arrays of state per parameter
  int64_t recompute = 0;           // a Recompute
};

struct ListedPlan {
  ParallelPlan plan;
  std::string text;  // format_plan
  PlanMemory memory;
  double bubble = -1;  // idle share of a pipeline's devices if all stages take equal times; negative: unknown
};

struct PlansOutcome {
  ModelSpec model;
  int devices = 0;
  int64_t global_batch = 0;
  std::vector<ListedPlan> plans;
};

/// Error{usage} for an unknown model or optimizer and for numbers out of range.
AMDAHL_API PlansOutcome run_plans(const PlansConfig& config);
/// A table for a terminal.
AMDAHL_API std::string to_text(const PlansOutcome& outcome);
/// Schema docs/schema/plans.schema.json.
AMDAHL_API std::string to_json(const PlansOutcome& outcome);

}  // namespace amdahl
