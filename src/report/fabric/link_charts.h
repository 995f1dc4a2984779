// Charts of link Records.
#pragma once

#include <optional>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "chart/chart.h"

namespace amdahl {

/// Copy engines between devices as a heat map, ways outlined that carry less than they should.
std::optional<Chart> pair_bandwidth_chart(const std::vector<Record>& records, const MachineSpec& machine,
                                          double min_gbps);
/// Loads from another device's memory.
std::optional<Chart> pair_latency_chart(const std::vector<Record>& records, const MachineSpec& machine);
/// Bandwidth over size of a sweep's pairs, each with its fitted line; `mover` says what moves the data.
std::optional<Chart> link_sweep_chart(const std::vector<Record>& records, const std::string& test,
                                      const std::string& mover);
/// Copies between host memory and each device, both directions.
std::optional<Chart> host_chart(const std::vector<Record>& records);

}  // namespace amdahl
