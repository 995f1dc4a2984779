// The page of a links run.
#pragma once

#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

/// `machine` carries what the records say of its links; pairs below `min_gbps` (0: none was asked for) are slow too.
Page links_page(const std::vector<Record>& records, const MachineSpec& machine, double min_gbps);

/// Sections that other pages show as well; each without charts when nothing of it was measured.
PageSection pairs_section(const std::vector<Record>& records, const MachineSpec& machine, double min_gbps);
PageSection machine_section(const MachineSpec& machine);

}  // namespace amdahl
