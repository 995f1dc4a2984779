// The serial fraction of Amdahl's law where three or more device counts were measured at a batch.
#pragma once

#include <string>
#include <vector>

#include "report/study/one_device.h"

namespace amdahl {

/// One per batch and configuration whose strong scaling was measured on at least two counts of several devices against
/// the same one-device cell.
std::vector<SerialFraction> serial_fractions(const std::vector<StudyComparison>& comparisons, const StudyCells& runs,
                                             const BootstrapOptions& options = {});

/// "e grows from 0.35 on 2 to 0.41 on 4 GPUs: overhead that grows with the devices, such as communication".
std::string serial_text(const SerialFraction& fraction, std::string_view device_kind);

/// One row per device count, with the fit of its batch. Empty without a fraction.
TextTable serial_table(const StudySummary& summary);
/// Nothing to show when the summary has no fraction: then it has no tables.
PageSection serial_section(const StudySummary& summary);

}  // namespace amdahl
