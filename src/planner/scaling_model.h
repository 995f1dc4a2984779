// Predicts the step time on several devices from the step times on one.
#pragma once

#include "amdahl/comparison.h"
#include "amdahl/machine.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Model of the slowest device pair, from rates measured by `amdahl links` or, without measurements, from the expected
/// rates of the links. Error{usage} when no pair of devices has a rate.
LinkModel link_of_machine(const MachineSpec& machine, const std::string& name);

/// Tn(B) = T1(B/n) + exposed communication, for every batch measured on one device, with the fastest configuration of
/// each batch. T1 is interpolated linearly between measured batches; below the smallest it is T1 of the smallest, an
/// upper bound. Error{usage} when `summary` has no usable one-device cell.
ScalingOutlook predict_scaling(const StudySummary& summary, const LinkModel& link, const ScalingQuestion& question);

}  // namespace amdahl
