#include "comm/collective_call.h"

#include <fmt/format.h>

#include "amdahl/error.h"
#include "comm/rank_list.h"

namespace amdahl {

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::avg:
      return "avg";
  }
  return "?";
}

std::string_view to_string(Registration how) {
  switch (how) {
    case Registration::none:
      return "plain";
    case Registration::buffer:
      return "registered";
    case Registration::window:
      return "symmetric";
  }
  return "?";
}

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::scatter:
      return "scatter";
    case CollectiveKind::gather:
      return "gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::send:
      return "send";
    case CollectiveKind::recv:
      return "recv";
    case CollectiveKind::exchange:
      return "exchange";
  }
  return "?";
}

std::string CollectiveCall::describe() const {
  std::string text = fmt::format("{} #{}", to_string(kind), seq);
  if (kind == CollectiveKind::exchange) return text;
  text += fmt::format(" ({} x {}, {} bytes", with_thousands(static_cast<int64_t>(count)), to_string(type),
                      with_thousands(static_cast<int64_t>(bytes())));
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce || kind == CollectiveKind::reduce_scatter)
    text += fmt::format(", {}", to_string(op));
  if (kind == CollectiveKind::send)
    text += fmt::format(", to rank {}", root);
  else if (kind == CollectiveKind::recv)
    text += fmt::format(", from rank {}", root);
  else if (root >= 0)
    text += fmt::format(", root {}", root);
  return text + ")";
}

bool matches(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.seq != b.seq || a.count != b.count || a.type != b.type) return false;
  if (is_paired(a)) return a.kind != b.kind && is_paired(b);
  return a.kind == b.kind && a.op == b.op && a.root == b.root;
}

Error mismatch_error(int rank_a, const CollectiveCall& a, int rank_b, const CollectiveCall& b) {
  return Error(Cause::collective_mismatch,
               fmt::format("rank {} called {} but rank {} called {}", rank_a, a.describe(), rank_b, b.describe()),
               "make every rank call the same collectives with the same sizes in the same order", rank_a);
}

Error hung_error(const std::vector<int>& missing, const CollectiveCall& call, double timeout_seconds) {
  return Error(Cause::rank_hung,
               fmt::format("{} did not reach {} within {:g} s", rank_list(missing), call.describe(), timeout_seconds),
               "look at what that rank is doing, or raise `timeout_seconds` if it is only slow",
               missing.empty() ? -1 : missing[0]);
}

void check_rank(int rank, int world_size, const char* what) {
  if (rank < 0 || rank >= world_size)
    throw Error(Cause::usage, fmt::format("{} {} is not a rank of a world of {}", what, rank, world_size));
}

}  // namespace amdahl
