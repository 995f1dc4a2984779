// The pages of runs of the fabric.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/fabric.h"
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

Page collectives_page(const std::vector<Record>& records);

/// The quantity that a chart shows over the sizes of collective records.
enum class CollectiveQuantity { bus_bandwidth, call_time };
/// One line per collective, transport and placement; failed records are left out. Bus bandwidth includes the physical
/// limit if records have it; call time includes the 5th and 95th percentiles of single calls.
std::optional<Chart> collective_chart(const std::vector<Record>& records, CollectiveQuantity quantity);

/// "all_reduce of 8 B over 4 GPUs, nccl, in place": how notes name a record.
std::string collective_record_text(const Record& record);

/// The page of an arena run, which compares transports.
Page arena_page(const std::vector<Record>& records);

/// Uses machine, findings, checked, unseen and records of `outcome`. `judged` is false when a run has only
/// measurements; findings are then not mentioned.
Page doctor_page(const DoctorOutcome& outcome, bool judged = true);

/// The page of a run of `onesided`: which method wins at which size, what fixed rules lose, patterns, all measurements.
Page onesided_page(const std::vector<Record>& records);

}  // namespace amdahl
