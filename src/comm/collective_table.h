// Table of collectives for measurements: buffer sizes, bus bandwidth, calls, and the source of each received element
// for verification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace amdahl {

/// Numbers of elements of one rank. `call`: the count argument of the collective.
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

/// Rank and world of a call.
struct CollectiveWorld {
  int rank = 0, size = 1, root = 0;
  size_t count = 0;  // count argument of the call
};

/// Source of a received element: element `index` of rank `source`'s send buffer, or reduced over all ranks.
struct ElementSource {
  static constexpr int kAll = -1;
  int source = kAll;
  size_t index = 0;
};

struct CollectiveRow {
  std::string_view name;          // "all_reduce"
  std::string_view peer_program;  // program of nccl-tests: "all_reduce_perf"
  bool reduces = false, rooted = false;
  bool in_place = true;  // send and receive buffer may overlap, at in_place_offset
  /// Shape for a message of at most `elements`. The reported size is that of the larger buffer.
  CollectiveShape (*shape)(size_t elements, int world_size);
  /// Bus bandwidth = size / time x factor: the rate of the busiest link, independent of the number of ranks
  /// (nccl-tests, doc/PERFORMANCE.md).
  double (*bus_factor)(int world_size);
  void (*run)(Communicator& communicator, const CollectiveArguments& arguments, Stream& stream);
  bool (*receives)(const CollectiveWorld& world);  // whether this rank's receive buffer gets a result
  /// Source of a received element. Those in [k count, (k + 1) count), of the call's count, have one source and
  /// consecutive indices.
  ElementSource (*source_of)(const CollectiveWorld& world, size_t index);
  /// In place: offset in elements of the send buffer in the receive buffer; negative: of the receive buffer in the send
  /// buffer.
  int64_t (*in_place_offset)(const CollectiveWorld& world);
};

const std::vector<CollectiveRow>& collective_table();
/// Row by name, or by the name of its nccl-tests program; Error{usage} with the nearest name.
const CollectiveRow& find_collective(std::string_view name);

/// Parses a name; also those of nccl-tests ("float", "half", "uint8"). Error{usage} for unknown names.
DType parse_dtype(std::string_view name);
ReduceOp parse_reduce_op(std::string_view name);

/// Parse lists of names, where "all" stands for every one. Results are unique and in the order of the names.
/// Error{usage} for unknown names.
std::vector<const CollectiveRow*> find_collectives(const std::vector<std::string>& names);
std::vector<DType> parse_dtypes(const std::vector<std::string>& names);
std::vector<ReduceOp> parse_reduce_ops(const std::vector<std::string>& names);

}  // namespace amdahl
