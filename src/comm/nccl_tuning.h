// NCCL's log of its algorithm choices (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=TUNING): one line per collective call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

struct NcclChoice {
  std::string collective;  // "allreduce"; empty: not logged by this version
  int64_t bytes = 0;
  std::string method;      // algorithm and protocol, "RING LL", or the name of a kernel on symmetric memory
  int channels = 0;        // 0: not logged by this version
  bool symmetric = false;  // true: `bytes` is what one rank sends (all-gather) or receives (reduce-scatter)
};

/// The choices in NCCL's output, in its order. Other lines are ignored.
std::vector<NcclChoice> parse_nccl_choices(std::string_view output);

/// A call as named in records: "all_reduce"; `bytes` is the size of the larger buffer of a rank.
struct NcclCall {
  std::string_view collective;
  int64_t bytes = 0;
  int ranks = 1;
};

/// NCCL's choice for such calls: "RING LL x2"; different choices are joined by " / "; empty when it was not logged.
std::string describe_nccl_choice(const std::vector<NcclChoice>& choices, const NcclCall& call);

}  // namespace amdahl
