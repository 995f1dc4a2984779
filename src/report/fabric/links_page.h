// The page of a links run.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

/// `machine` includes the measured values of its links; `slow` has a line per slow pair. Pairs below `min_gbps` (0: no
/// limit) are outlined in the chart too.
Page links_page(const std::vector<Record>& records, const MachineSpec& machine, const std::vector<std::string>& slow,
                double min_gbps);

/// Sections shared with other pages; each has no charts when nothing for it was measured.
PageSection pairs_section(const std::vector<Record>& records, const MachineSpec& machine, double min_gbps);
PageSection machine_section(const MachineSpec& machine);

}  // namespace amdahl
