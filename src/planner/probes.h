// Small models whose steps `calibrate` measures: one of each kind that presets have, so that each term of a step is
// large in some of them.
//
//   for (const Probe& probe : cpu_probes()) measure(probe.model, probe.batches, probe.plans);
#pragma once

#include <cstdint>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl {

struct Probe {
  ModelSpec model;  // its name is unique within a list
  std::vector<int64_t> batches;
  std::vector<const char*> plans;  // besides one device
};

/// The most different first: the time may end before all were measured.
std::vector<Probe> cpu_probes();
std::vector<Probe> gpu_probes();

}  // namespace amdahl
