// The page of a sweep over collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

Page collectives_page(const std::vector<Record>& records);

/// The quantity that a chart shows over the sizes of collective records.
enum class CollectiveQuantity { bus_bandwidth, call_time };
/// One line per collective, transport and placement; failed records are left out. Bus bandwidth includes the physical
/// limit if records have it; call time includes the 5th and 95th percentiles of single calls.
std::optional<Chart> collective_chart(const std::vector<Record>& records, CollectiveQuantity quantity);

/// "all_reduce of 8 B over 4 GPUs, nccl, in place": how notes name a record.
std::string collective_record_text(const Record& record);

}  // namespace amdahl
