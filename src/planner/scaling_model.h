// Steps on several devices, predicted from those on one.
#pragma once

#include "amdahl/machine.h"
#include "amdahl/scaling.h"
#include "amdahl/summary.h"

namespace amdahl {

/// The slowest pair of a machine that was measured by `amdahl links`, or, where none was, that its links should carry.
/// Error{usage} when the machine has no pair of devices with a rate.
LinkModel link_of_machine(const MachineSpec& machine, const std::string& name);

/// Tn(B) = T1(B/n) + exposed communication for every batch measured on one device, of the fastest configuration of each
/// batch. T1 between two measured batches lies on the line between them; below the smallest it is that of the smallest,
/// which can only be too long. Error{usage} when `summary` has no one-device cell that answers.
ScalingOutlook predict_scaling(const StudySummary& summary, const LinkModel& link, const ScalingQuestion& question);

}  // namespace amdahl
