// The bus bandwidth that no measurement of a collective can exceed.
#pragma once

#include <optional>
#include <string>

#include "amdahl/record.h"

namespace amdahl {

struct CollectiveLimit {
  double gbps = 0;
  bool in_switch = false;  // with reduction in the switches (NVLS): above what the links carry

  auto operator<=>(const CollectiveLimit&) const = default;
};

/// Series `peak` of a record. Nothing without it, and where it may be that of reduction in the switches although NCCL
/// was kept from that: Records without series `link_limit` do not say.
std::optional<CollectiveLimit> collective_limit(const Record& record);

/// "physical limit, 450 GB/s" or "physical limit with NVLS, 675 GB/s".
std::string limit_text(const CollectiveLimit& limit);

/// Why a record's `peak` is not used: "its limit is that of reduction in the switches (NVLS), which was off:
/// NCCL_NVLS_ENABLE=0"; empty where it is used, or not there.
std::string limit_refusal(const Record& record);

}  // namespace amdahl
