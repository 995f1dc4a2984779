// The arguments of one collective call, to compare them between ranks and to describe them in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace amdahl {

enum class CollectiveKind {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  scatter,
  gather,
  all_to_all,
  send,
  recv,
  exchange
};

std::string_view to_string(CollectiveKind kind);

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::exchange;
  uint64_t seq = 0;    // number of this rank's collective (send and recv: of the pair's transfer), from 1
  uint64_t count = 0;  // elements; 0 and ignored for exchange
  DType type = DType::u8;
  ReduceOp op = ReduceOp::sum;  // for collectives that reduce
  int root = -1;                // reduce, broadcast, scatter: root; send and recv: the peer

  size_t bytes() const { return static_cast<size_t>(count) * size_of(type); }
  /// "all_reduce #12 (1,024 x f32, 4.1 kB, sum)".
  std::string describe() const;
};

/// A call between two ranks: send or recv.
inline bool is_paired(const CollectiveCall& call) {
  return call.kind == CollectiveKind::send || call.kind == CollectiveKind::recv;
}

/// Whether two ranks made the same call. A send matches a recv of the same size.
bool matches(const CollectiveCall& a, const CollectiveCall& b);

Error mismatch_error(int rank_a, const CollectiveCall& a, int rank_b, const CollectiveCall& b);
/// Error{rank_hung}: the ranks `missing` did not arrive at `call`.
Error hung_error(const std::vector<int>& missing, const CollectiveCall& call, double timeout_seconds);

/// Throws Error{usage} unless 0 <= rank < world_size; `what` is "root" or "peer".
void check_rank(int rank, int world_size, const char* what);

/// `data` plus an offset in bytes.
inline char* at(void* data, size_t bytes) { return static_cast<char*>(data) + bytes; }
/// For libraries whose calls take the data they only read without `const`.
inline void* unconst(const void* data) { return const_cast<void*>(data); }

}  // namespace amdahl
