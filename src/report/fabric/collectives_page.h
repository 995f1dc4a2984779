// The page of a sweep over collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

Page collectives_page(const std::vector<Record>& records);

/// What a line chart shows of collective Records over their sizes.
enum class CollectiveQuantity { bus_bandwidth, call_time };
/// A line a collective, transport and placement; failed records are left out. Bus bandwidth has the physical limit
/// where records know it, the time of a single call its 5th and 95th percentiles.
std::optional<Chart> collective_chart(const std::vector<Record>& records, CollectiveQuantity quantity);

/// "all_reduce of 8 B over 4 GPUs, nccl, in place": a record in notes.
std::string collective_record_text(const Record& record);

}  // namespace amdahl
