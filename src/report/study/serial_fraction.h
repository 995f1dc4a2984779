// The serial fraction of Amdahl's law, for batches measured on three or more device counts.
#pragma once

#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// One per batch and configuration with strong scaling measured on at least two multi-device counts against the same
/// one-device cell.
std::vector<SerialFraction> serial_fractions(const StudySummary& summary);

/// "e grows from 0.35 on 2 to 0.41 on 4 GPUs: overhead that grows with the devices, such as communication".
std::string serial_text(const SerialFraction& fraction, std::string_view device_kind);

/// One row per device count, with the fit of its batch; without tables when the summary has no serial fraction.
PageSection serial_section(const StudySummary& summary);

}  // namespace amdahl
