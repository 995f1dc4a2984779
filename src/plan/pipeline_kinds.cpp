#include "plan/pipeline_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "amdahl/error.h"

namespace amdahl {
namespace {

constexpr int64_t kMostForwards = int64_t{1} << 24;

struct KindRow {
  ScheduleKind kind;
  std::string_view name;
  int least_chunks, most_chunks;  // 0: no limit
  bool whole_rounds;              // micro-batches must be a multiple of the ranks
  bool in_v;                      // stages go down the ranks and back up
};

constexpr std::array<KindRow, 5> kKinds{{
    {ScheduleKind::gpipe, "gpipe", 1, 1, false, false},
    {ScheduleKind::one_f_one_b, "1f1b", 1, 1, false, false},
    {ScheduleKind::interleaved, "interleaved", 2, 0, true, false},
    {ScheduleKind::zb_h1, "zb-h1", 1, 1, false, false},
    {ScheduleKind::zb_v, "zb-v", 2, 2, false, true},
}};

const KindRow& row_of(ScheduleKind kind) {
  for (const KindRow& row : kKinds)
    if (row.kind == kind) return row;
  throw Error(Cause::internal, "a kind of pipeline schedule is not in its table");
}

}  // namespace

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind> kinds = [] {
    std::vector<ScheduleKind> all;
    for (const KindRow& row : kKinds) all.push_back(row.kind);
    return all;
  }();
  return kinds;
}

std::string_view to_string(ScheduleKind kind) { return row_of(kind).name; }

Feasibility schedule_feasible(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks) {
  const KindRow& row = row_of(kind);
  if (num_ranks < 1) return {false, fmt::format("{} ranks are no pipeline; the fewest are 1", num_ranks)};
  if (num_micro_batches < 1)
    return {false, fmt::format("{} micro-batches are no step; the fewest are {}", num_micro_batches,
                               row.whole_rounds ? num_ranks : 1)};
  if (chunks < row.least_chunks || (row.most_chunks > 0 && chunks > row.most_chunks))
    return {false, fmt::format("{} needs {}{} model {} per rank, {} {} asked for", row.name,
                               row.most_chunks == 0 ? "at least " : "", row.least_chunks,
                               row.least_chunks == 1 ? "chunk" : "chunks", chunks, chunks == 1 ? "was" : "were")};
  if (const int rest = num_micro_batches % num_ranks; row.whole_rounds && rest != 0) {
    const int below = num_micro_batches - rest;
    const int64_t above = int64_t{below} + num_ranks;
    return {false, fmt::format("{} needs micro-batches in multiples of the {} ranks, not {}: {}{}", row.name, num_ranks,
                               num_micro_batches, below > 0 ? fmt::format("{} or ", below) : "", above)};
  }
  const int64_t most = kMostForwards / num_ranks / chunks;
  if (num_micro_batches > most)
    return {false, fmt::format("{} micro-batches in {} chunks on each of {} ranks are more than {} forwards{}",
                               num_micro_batches, chunks, num_ranks, kMostForwards,
                               most > 0 ? fmt::format("; the most micro-batches are {}", most) : "")};
  return {};
}

void require_schedule_feasible(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks) {
  const Feasibility feasible = schedule_feasible(kind, num_ranks, num_micro_batches, chunks);
  if (!feasible.ok)
    throw Error(Cause::usage, "pipeline schedule: " + feasible.reason, "numbers that the schedule exists for");
}

int least_chunks(ScheduleKind kind) { return row_of(kind).least_chunks; }

bool splits_backward(ScheduleKind kind) { return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v; }

int rank_of_stage(ScheduleKind kind, int num_ranks, int stage) {
  return row_of(kind).in_v ? std::min(stage, 2 * num_ranks - 1 - stage) : stage % num_ranks;
}

int peak_activations_formula(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks, int rank) {
  require_schedule_feasible(kind, num_ranks, num_micro_batches, chunks);
  if (rank < 0 || rank >= num_ranks)
    throw Error(Cause::usage, fmt::format("rank {} is not one of {} ranks", rank, num_ranks),
                fmt::format("0 to {}", num_ranks - 1));
  const int behind = num_ranks - 1 - rank;
  switch (kind) {
    case ScheduleKind::gpipe:
      return num_micro_batches;
    case ScheduleKind::one_f_one_b:
      return std::min(num_micro_batches, behind + 1);
    case ScheduleKind::interleaved:
      return std::min(chunks * num_micro_batches, 2 * behind + (chunks - 1) * num_ranks + 1);
    case ScheduleKind::zb_h1:
      return std::min(num_micro_batches, num_ranks);
    case ScheduleKind::zb_v:
      return std::min({2 * num_micro_batches, 2 * num_ranks, num_micro_batches + 1 + rank});
  }
  throw Error(Cause::internal, "a kind of pipeline schedule has no formula");
}

}  // namespace amdahl
