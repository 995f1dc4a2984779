// Charts of link records.
#pragma once

#include <optional>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "chart/chart.h"

namespace amdahl {

/// Copy-engine bandwidth between devices as a heat map; links below the expected bandwidth are outlined.
std::optional<Chart> pair_bandwidth_chart(const std::vector<Record>& records, const MachineSpec& machine,
                                          double min_gbps);
/// Latency of loads from another device's memory.
std::optional<Chart> pair_latency_chart(const std::vector<Record>& records, const MachineSpec& machine);
/// Bandwidth over size for the pairs of a sweep, each with its fitted line; `mover` names what moves the data.
std::optional<Chart> link_sweep_chart(const std::vector<Record>& records, const std::string& test,
                                      const std::string& mover);
/// Copies between host memory and each device, both directions.
std::optional<Chart> host_chart(const std::vector<Record>& records);

}  // namespace amdahl
