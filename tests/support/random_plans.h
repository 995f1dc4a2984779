// Plans of a mesh drawn at random, for tests on CPU virtual devices and on GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "amdahl/plan.h"
#include "plan/pipeline_kinds.h"

namespace amdahl::test {

/// The seed of the plans that are drawn; PLAN_SEED in the environment makes it another one.
inline uint64_t plan_seed() {
  const char* given = std::getenv("PLAN_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20261125;
}

/// A plan of at most `most_devices` devices; whether a model can be trained under it is for the caller to ask.
inline ParallelPlan draw_plan(std::mt19937_64& random, int most_devices, int64_t global_batch) {
  constexpr std::array kStrategies{"ddp", "zero1", "zero2", "zero3"};
  ParallelPlan plan;
  do {
    plan.mesh = {static_cast<int>(1 + random() % 4), static_cast<int>(1 + random() % 4),
                 static_cast<int>(1 + random() % 4)};
  } while (plan.num_devices() > most_devices);
  plan.accumulate = static_cast<int64_t>(1 + random() % 8);
  if (plan.mesh.pp > 1) {
    plan.schedule = static_cast<int64_t>(random() % schedule_kinds().size());
    plan.split = static_cast<int64_t>(random() % 2);
    plan.chunks = static_cast<int64_t>(random() % 3);
  }
  plan.recompute = static_cast<int64_t>(random() % 3);
  plan.sequence_parallel = plan.mesh.tp > 1 && random() % 2 == 0;
  plan.overlap = random() % 2 == 0;
  plan.strategy = plan.mesh.dp == 1 ? "single" : kStrategies[random() % kStrategies.size()];
  plan.global_batch = global_batch;
  return plan;
}

}  // namespace amdahl::test
