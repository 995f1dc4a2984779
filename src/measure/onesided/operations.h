// Table of the operations that `onesided` measures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symmetric/one_sided_loops.h"

namespace amdahl {

struct OneSidedOperation {
  enum class Method { loop, messages, all_reduce };  // a loop on the device, or calls of communicators

  std::string_view name;  // "put_signal"
  std::string_view summary;
  Method method = Method::loop;
  LoopKind loop = LoopKind::put;
  bool sized = true;          // moves data; otherwise measured once
  int transfers = 1;          // messages per repetition, one after another: the latency is the time of one
  bool to_rank_zero = false;  // rank 0 receives,
  bool to_rank_one = false;   // rank 1 receives
  int64_t most_bytes = INT64_MAX;
};
const std::vector<OneSidedOperation>& one_sided_operations();
/// Rows by name, in the order of the table; "all": every row. Error{usage} with the nearest name.
std::vector<const OneSidedOperation*> find_one_sided_operations(const std::vector<std::string>& names);

}  // namespace amdahl
