#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "amdahl/units.h"

namespace amdahl {
namespace {

constexpr int64_t kMostForwards = int64_t{1} << 24;

/// The parameters of a rank's action order.
struct Shape {
  int ranks, micro_batches, chunks;
};

using Actions = std::vector<Action>;

Actions gpipe_actions(const Shape& shape, int rank) {
  Actions actions;
  for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({ActionKind::forward, rank, i});
  for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({ActionKind::backward, rank, i});
  return actions;
}

/// The warm-up of a rank has as many forwards as there are ranks after it.
Actions one_f_one_b_actions(const Shape& shape, int rank) {
  const int warm_up = std::min(shape.ranks - 1 - rank, shape.micro_batches);
  Actions actions;
  for (int i = 0; i < warm_up; ++i) actions.push_back({ActionKind::forward, rank, i});
  for (int i = 0; i < shape.micro_batches; ++i) {
    if (warm_up + i < shape.micro_batches) actions.push_back({ActionKind::forward, rank, warm_up + i});
    actions.push_back({ActionKind::backward, rank, i});
  }
  return actions;
}

/// The order of 1F1B, except that rank r delays each weight gradient by r micro-batches: all ranks then hold as many
/// activations as rank 0, and the last ranks have work while backward propagates to the first.
Actions zb_h1_actions(const Shape& shape, int rank) {
  const int warm_up = std::min(shape.ranks - 1 - rank, shape.micro_batches);
  Actions actions;
  for (int i = 0; i < warm_up; ++i) actions.push_back({ActionKind::forward, rank, i});
  for (int i = 0; i < shape.micro_batches; ++i) {
    if (warm_up + i < shape.micro_batches) actions.push_back({ActionKind::forward, rank, warm_up + i});
    actions.push_back({ActionKind::backward_input, rank, i});
    if (i >= rank) actions.push_back({ActionKind::backward_weight, rank, i - rank});
  }
  for (int i = std::max(0, shape.micro_batches - rank); i < shape.micro_batches; ++i)
    actions.push_back({ActionKind::backward_weight, rank, i});
  return actions;
}

/// Groups of as many micro-batches as ranks pass through one chunk, then through the next; backward takes the chunks in
/// reverse order.
Actions interleaved_actions(const Shape& shape, int rank) {
  const int group = shape.ranks * shape.chunks;
  const int total = shape.micro_batches * shape.chunks;
  const auto nth = [&](ActionKind kind, int n) {
    const int chunk = n % group / shape.ranks;
    const int stage = (kind == ActionKind::forward ? chunk : shape.chunks - 1 - chunk) * shape.ranks + rank;
    return Action{kind, stage, n / group * shape.ranks + n % shape.ranks};
  };
  const int warm_up = std::min(2 * (shape.ranks - 1 - rank) + (shape.chunks - 1) * shape.ranks, total);
  Actions actions;
  for (int i = 0; i < warm_up; ++i) actions.push_back(nth(ActionKind::forward, i));
  for (int i = 0; i < total; ++i) {
    if (warm_up + i < total) actions.push_back(nth(ActionKind::forward, warm_up + i));
    actions.push_back(nth(ActionKind::backward, i));
  }
  return actions;
}

/// Concatenates repeated patterns of actions and numbers the micro-batches: the nth action of a kind in a chunk is of
/// micro-batch n. Actions of micro-batches beyond the schedule's number are dropped.
class PatternWriter {
 public:
  struct Part {
    ActionKind kind;
    int chunk;
  };

  PatternWriter(int micro_batches, std::array<int, 2> stages) : micro_batches_(micro_batches), stages_(stages) {}

  void repeat(int times, std::initializer_list<Part> pattern) {
    for (int i = 0; i < times; ++i)
      for (const Part& part : pattern) {
        const int micro_batch = count(part)++;
        if (micro_batch < micro_batches_)
          actions_.push_back({part.kind, stages_[static_cast<size_t>(part.chunk)], micro_batch});
      }
  }
  int& count(const Part& part) { return counts_[static_cast<size_t>(part.kind)][static_cast<size_t>(part.chunk)]; }
  Actions take() { return std::move(actions_); }

 private:
  int micro_batches_;
  std::array<int, 2> stages_;
  std::array<std::array<int, 2>, 4> counts_{};
  Actions actions_;
};

/// Chunk 0 goes down the ranks and chunk 1 back up, so that the last stage and the loss are on rank 0, which therefore
/// starts backward first. The patterns need at least 2p - 1 micro-batches; a schedule with fewer is the one for 2p - 1
/// without the actions of the others.
Actions zb_v_actions(const Shape& shape, int rank) {
  constexpr PatternWriter::Part kF0{ActionKind::forward, 0}, kF1{ActionKind::forward, 1};
  constexpr PatternWriter::Part kB0{ActionKind::backward_input, 0}, kB1{ActionKind::backward_input, 1};
  constexpr PatternWriter::Part kW0{ActionKind::backward_weight, 0}, kW1{ActionKind::backward_weight, 1};
  const int behind = shape.ranks - rank;  // number of ranks from this one to the last
  const int total = std::max(shape.micro_batches, 2 * shape.ranks - 1);
  PatternWriter writer(shape.micro_batches, {rank, 2 * shape.ranks - 1 - rank});
  writer.repeat(2 * behind - 1, {kF0});
  writer.repeat(rank, {kF1, kF0});
  writer.repeat(behind, {kF1, kB1, kW1});
  writer.repeat(total - writer.count(kF0), {kF0, kB0, kW0, kF1, kB1, kW1});
  writer.repeat(total - writer.count(kF1), {kB0, kW0, kF1, kB1, kW1});
  writer.repeat(rank, {kB0, kB1});
  writer.repeat(behind, {kB0, kW0});
  writer.repeat(total - writer.count(kW1), {kW1});
  writer.repeat(total - writer.count(kW0), {kW0});
  return writer.take();
}

int rank_by_turns(const Shape& shape, int stage) { return stage % shape.ranks; }
int rank_in_v(const Shape& shape, int stage) { return std::min(stage, 2 * shape.ranks - 1 - stage); }

struct KindRow {
  ScheduleKind kind;
  std::string_view name;
  int least_chunks, most_chunks;  // 0: no limit
  bool whole_rounds;              // micro-batches must be a multiple of the ranks
  int (*rank_of_stage)(const Shape&, int stage);
  Actions (*actions)(const Shape&, int rank);
};

constexpr std::array<KindRow, 5> kKinds{{
    {ScheduleKind::gpipe, "gpipe", 1, 1, false, rank_by_turns, gpipe_actions},
    {ScheduleKind::one_f_one_b, "1f1b", 1, 1, false, rank_by_turns, one_f_one_b_actions},
    {ScheduleKind::interleaved, "interleaved", 2, 0, true, rank_by_turns, interleaved_actions},
    {ScheduleKind::zb_h1, "zb-h1", 1, 1, false, rank_by_turns, zb_h1_actions},
    {ScheduleKind::zb_v, "zb-v", 2, 2, false, rank_in_v, zb_v_actions},
}};

const KindRow& row_of(ScheduleKind kind) {
  for (const KindRow& row : kKinds)
    if (row.kind == kind) return row;
  throw Error(Cause::internal, "a kind of pipeline schedule is not in its table");
}

}  // namespace

std::string_view to_string(ActionKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"forward", "backward", "backward-input", "backward-weight"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string describe(const Action& action) {
  return fmt::format("{} of stage {}, micro-batch {}", to_string(action.kind), action.stage, action.micro_batch);
}

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind> kinds = [] {
    std::vector<ScheduleKind> all;
    for (const KindRow& row : kKinds) all.push_back(row.kind);
    return all;
  }();
  return kinds;
}

std::string_view to_string(ScheduleKind kind) { return row_of(kind).name; }

ScheduleKind find_schedule_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const KindRow& row : kKinds) {
    if (row.name == name) return row.kind;
    names.emplace_back(row.name);
  }
  throw Error(Cause::usage, fmt::format("unknown pipeline schedule '{}'", printable(name, 40)),
              choices_hint(name, names));
}

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

PipelineSchedule make_schedule(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks) {
  require_schedule_feasible(kind, num_ranks, num_micro_batches, chunks);
  const KindRow& row = row_of(kind);
  const Shape shape{num_ranks, num_micro_batches, chunks};
  PipelineSchedule schedule{kind, num_ranks, num_ranks * chunks, num_micro_batches, {}, {}};
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    schedule.rank_of_stage.push_back(row.rank_of_stage(shape, stage));
  for (int rank = 0; rank < num_ranks; ++rank) schedule.actions.push_back(row.actions(shape, rank));
  return schedule;
}

int peak_activations(const PipelineSchedule& schedule, int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= schedule.actions.size())
    throw Error(Cause::usage, fmt::format("rank {} is not one of the schedule's {} ranks", rank, schedule.num_ranks),
                fmt::format("0 to {}", schedule.num_ranks - 1));
  int held = 0, most = 0;
  for (const Action& action : schedule.actions[static_cast<size_t>(rank)]) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) --held;
  }
  return most;
}

}  // namespace amdahl
