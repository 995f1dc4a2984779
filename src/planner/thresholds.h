// From which model size on several devices pay, by the calibration of this machine.
#pragma once

#include <vector>

#include "amdahl/planner.h"

namespace amdahl {

/// For every batch and device count: the smallest number of parameters of a family of models of dense layers (three
/// hidden layers of w, w and w / 2 units, w from 16 to 16,384) from which on data parallelism (ddp) pays: `recommend`
/// of the predicted speedup's interval, as for plans. Sizes are tried in steps of 2^(1/4) in w.
std::vector<SizeThreshold> find_thresholds(const Calibration& calibration, const std::vector<int>& devices,
                                           const std::vector<int64_t>& batches);

}  // namespace amdahl
