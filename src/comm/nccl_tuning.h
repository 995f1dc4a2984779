// What NCCL says about its own choices (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=TUNING): one line a collective call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

struct NcclChoice {
  std::string collective;  // "allreduce"; empty: this version does not say
  int64_t bytes = 0;
  std::string method;      // "RING LL", or the name of a kernel on symmetric memory
  int channels = 0;        // 0: this version does not say
  bool symmetric = false;  // `bytes` is then what one rank sends (all-gather) or receives (reduce-scatter)
};

/// The choices in NCCL's output, in its order. Other lines are passed over.
std::vector<NcclChoice> parse_nccl_choices(std::string_view output);

/// A call as records name it: "all_reduce" of so many bytes (the larger buffer of a rank).
struct NcclCall {
  std::string_view collective;
  int64_t bytes = 0;
  int ranks = 1;
};

/// What NCCL chose for such calls: "RING LL x2"; two ways with " / " when they differ, nothing when no line tells.
std::string describe_nccl_choice(const std::vector<NcclChoice>& choices, const NcclCall& call);

}  // namespace amdahl
