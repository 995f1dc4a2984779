#include "measure/onesided/operations.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"

namespace amdahl {

const std::vector<OneSidedOperation>& one_sided_operations() {
  using Method = OneSidedOperation::Method;
  static const std::vector<OneSidedOperation> rows{
      {.name = "put", .summary = "rank 0 to rank 1, each complete before the next", .to_rank_one = true},
      {.name = "get", .summary = "rank 0 from rank 1", .loop = LoopKind::get, .to_rank_zero = true},
      {.name = "put_signal",
       .summary = "data and a signal until the other rank sees both",
       .loop = LoopKind::put_signal,
       .transfers = 2,
       .to_rank_zero = true,
       .to_rank_one = true},
      {.name = "put_packets",
       .summary = "put_signal in packets that carry their flags",
       .loop = LoopKind::put_packets,
       .transfers = 2,
       .to_rank_zero = true,
       .to_rank_one = true,
       .most_bytes = static_cast<int64_t>(kMostPacketBytes)},
      {.name = "put_fence", .summary = "put, then fence", .loop = LoopKind::put_fence, .to_rank_one = true},
      {.name = "put_quiet",
       .summary = "8 puts of an eighth each, then quiet",
       .loop = LoopKind::put_quiet,
       .to_rank_one = true},
      {.name = "send_recv",
       .summary = "a message of the communicator until the other rank has it",
       .method = Method::messages,
       .transfers = 2,
       .to_rank_zero = true,
       .to_rank_one = true},
      {.name = "all_reduce", .summary = "sum of f32 over all ranks", .method = Method::all_reduce},
      {.name = "signal",
       .summary = "a signal until the other rank sees it",
       .loop = LoopKind::signal,
       .sized = false,
       .transfers = 2},
      {.name = "fetch_add", .summary = "rank 0 on rank 1's counter", .loop = LoopKind::fetch_add, .sized = false},
      {.name = "contended_add",
       .summary = "all ranks on rank 0's counter",
       .loop = LoopKind::contended_add,
       .sized = false},
      {.name = "barrier", .summary = "all ranks", .loop = LoopKind::barrier, .sized = false},
  };
  return rows;
}

std::vector<const OneSidedOperation*> find_one_sided_operations(const std::vector<std::string>& names) {
  std::vector<std::string> known{"all"};
  for (const OneSidedOperation& row : one_sided_operations()) known.emplace_back(row.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(Cause::usage, fmt::format("unknown operation '{}'", name), choices_hint(name, known));
  const bool all = std::find(names.begin(), names.end(), "all") != names.end();
  std::vector<const OneSidedOperation*> found;
  for (const OneSidedOperation& row : one_sided_operations())
    if (all || std::find(names.begin(), names.end(), row.name) != names.end()) found.push_back(&row);
  return found;
}

}  // namespace amdahl
