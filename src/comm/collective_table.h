// The collectives as measurements see them: how large their buffers are, what bandwidth means for them, how they are
// called, and where each received element comes from, so that every one of them can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace amdahl {

/// Elements of one rank. `call` is the count that the collective takes.
struct CollectiveShape {
  size_t send = 0, recv = 0, call = 0;
};

/// A rank's buffers and the arguments of a call.
struct CollectiveArguments {
  const void* send;
  void* recv;
  size_t count;
  DType type;
  ReduceOp op;
  int root;
};

/// Who and how many take part.
struct CollectiveWorld {
  int rank = 0, size = 1, root = 0;
  size_t count = 0;  // of the call
};

/// Where a received element comes from: element `index` of rank `source`'s send buffer, or of all of them reduced.
struct ElementSource {
  static constexpr int kAll = -1;
  int source = kAll;
  size_t index = 0;
};

struct CollectiveRow {
  std::string_view name;          // "all_reduce"
  std::string_view peer_program;  // of nccl-tests: "all_reduce_perf"
  bool reduces = false, rooted = false;
  bool in_place = true;  // send and receive buffer may overlap, at in_place_offset
  /// Buffers of a message of at most `elements`: the size that is reported is that of the larger buffer.
  CollectiveShape (*shape)(size_t elements, int world_size);
  /// Bus bandwidth = size / time x factor: what the busiest link carries, whatever the number of ranks (nccl-tests,
  /// doc/PERFORMANCE.md).
  double (*bus_factor)(int world_size);
  void (*run)(Communicator& communicator, const CollectiveArguments& arguments, Stream& stream);
  bool (*receives)(const CollectiveWorld& world);  // whether this rank's receive buffer gets a result
  ElementSource (*source_of)(const CollectiveWorld& world, size_t index);
  /// In place: first element of the send buffer within the receive buffer (negative: the other way round).
  int64_t (*in_place_offset)(const CollectiveWorld& world);
};

const std::vector<CollectiveRow>& collective_table();
/// Row by name, or by nccl-tests' name for it; Error{usage} with the nearest name.
const CollectiveRow& find_collective(std::string_view name);

/// By name, nccl-tests' names too ("float", "half", "uint8"). Error{usage}.
DType parse_dtype(std::string_view name);
ReduceOp parse_reduce_op(std::string_view name);

/// Lists of the three, where "all" is every one of them. Each once, in the order they are named. Error{usage}.
std::vector<const CollectiveRow*> find_collectives(const std::vector<std::string>& names);
std::vector<DType> parse_dtypes(const std::vector<std::string>& names);
std::vector<ReduceOp> parse_reduce_ops(const std::vector<std::string>& names);

}  // namespace amdahl
