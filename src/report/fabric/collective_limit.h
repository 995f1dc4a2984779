// The physical upper bound of a collective's bus bandwidth.
#pragma once

#include <optional>
#include <string>

#include "amdahl/record.h"

namespace amdahl {

struct CollectiveLimit {
  double gbps = 0;
  bool in_switch = false;  // with in-switch reduction (NVLS): above the bandwidth of the links

  auto operator<=>(const CollectiveLimit&) const = default;
};

/// Reads series `peak` of a record. nullopt without it, and when it may assume in-switch reduction although NCCL was
/// configured not to use it: records without series `link_limit` do not tell.
std::optional<CollectiveLimit> collective_limit(const Record& record);

/// "physical limit, 450 GB/s" or "physical limit with NVLS, 675 GB/s".
std::string limit_text(const CollectiveLimit& limit);

/// Why a record's `peak` is not used: "its limit is that of reduction in the switches (NVLS), which was off:
/// NCCL_NVLS_ENABLE=0"; empty if it is used or missing.
std::string limit_refusal(const Record& record);

}  // namespace amdahl
