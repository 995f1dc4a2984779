#include "parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace amdahl {
namespace {

/// The parameters of a rank's action order.
struct Sizes {
  int ranks, micro_batches, chunks;
};

using Actions = std::vector<Action>;

Actions gpipe_actions(const Sizes& sizes, int rank) {
  Actions actions;
  for (int i = 0; i < sizes.micro_batches; ++i) actions.push_back({ActionKind::forward, rank, i});
  for (int i = 0; i < sizes.micro_batches; ++i) actions.push_back({ActionKind::backward, rank, i});
  return actions;
}

/// The warm-up of a rank has as many forwards as there are ranks after it.
Actions one_f_one_b_actions(const Sizes& sizes, int rank) {
  const int warm_up = std::min(sizes.ranks - 1 - rank, sizes.micro_batches);
  Actions actions;
  for (int i = 0; i < warm_up; ++i) actions.push_back({ActionKind::forward, rank, i});
  for (int i = 0; i < sizes.micro_batches; ++i) {
    if (warm_up + i < sizes.micro_batches) actions.push_back({ActionKind::forward, rank, warm_up + i});
    actions.push_back({ActionKind::backward, rank, i});
  }
  return actions;
}

/// The order of 1F1B, except that rank r delays each weight gradient by r micro-batches: all ranks then hold as many
/// activations as rank 0, and the last ranks have work while backward propagates to the first.
Actions zb_h1_actions(const Sizes& sizes, int rank) {
  const int warm_up = std::min(sizes.ranks - 1 - rank, sizes.micro_batches);
  Actions actions;
  for (int i = 0; i < warm_up; ++i) actions.push_back({ActionKind::forward, rank, i});
  for (int i = 0; i < sizes.micro_batches; ++i) {
    if (warm_up + i < sizes.micro_batches) actions.push_back({ActionKind::forward, rank, warm_up + i});
    actions.push_back({ActionKind::backward_input, rank, i});
    if (i >= rank) actions.push_back({ActionKind::backward_weight, rank, i - rank});
  }
  for (int i = std::max(0, sizes.micro_batches - rank); i < sizes.micro_batches; ++i)
    actions.push_back({ActionKind::backward_weight, rank, i});
  return actions;
}

/// Groups of as many micro-batches as ranks pass through one chunk, then through the next; backward takes the chunks in
/// reverse order.
Actions interleaved_actions(const Sizes& sizes, int rank) {
  const int group = sizes.ranks * sizes.chunks;
  const int total = sizes.micro_batches * sizes.chunks;
  const auto nth = [&](ActionKind kind, int n) {
    const int chunk = n % group / sizes.ranks;
    const int stage = (kind == ActionKind::forward ? chunk : sizes.chunks - 1 - chunk) * sizes.ranks + rank;
    return Action{kind, stage, n / group * sizes.ranks + n % sizes.ranks};
  };
  const int warm_up = std::min(2 * (sizes.ranks - 1 - rank) + (sizes.chunks - 1) * sizes.ranks, total);
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
Actions zb_v_actions(const Sizes& sizes, int rank) {
  constexpr PatternWriter::Part kF0{ActionKind::forward, 0}, kF1{ActionKind::forward, 1};
  constexpr PatternWriter::Part kB0{ActionKind::backward_input, 0}, kB1{ActionKind::backward_input, 1};
  constexpr PatternWriter::Part kW0{ActionKind::backward_weight, 0}, kW1{ActionKind::backward_weight, 1};
  const int behind = sizes.ranks - rank;  // number of ranks from this one to the last
  const int total = std::max(sizes.micro_batches, 2 * sizes.ranks - 1);
  PatternWriter writer(sizes.micro_batches, {rank, 2 * sizes.ranks - 1 - rank});
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

Actions actions_of(ScheduleKind kind, const Sizes& sizes, int rank) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return gpipe_actions(sizes, rank);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b_actions(sizes, rank);
    case ScheduleKind::interleaved:
      return interleaved_actions(sizes, rank);
    case ScheduleKind::zb_h1:
      return zb_h1_actions(sizes, rank);
    case ScheduleKind::zb_v:
      return zb_v_actions(sizes, rank);
  }
  throw Error(Cause::internal, "a kind of pipeline schedule has no actions");
}

}  // namespace

std::string_view to_string(ActionKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"forward", "backward", "backward-input", "backward-weight"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string describe(const Action& action) {
  return fmt::format("{} of stage {}, micro-batch {}", to_string(action.kind), action.stage, action.micro_batch);
}

PipelineSchedule make_schedule(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks) {
  require_schedule_feasible(kind, num_ranks, num_micro_batches, chunks);
  const Sizes sizes{num_ranks, num_micro_batches, chunks};
  PipelineSchedule schedule{kind, num_ranks, num_ranks * chunks, num_micro_batches, {}, {}};
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    schedule.rank_of_stage.push_back(rank_of_stage(kind, num_ranks, stage));
  for (int rank = 0; rank < num_ranks; ++rank) schedule.actions.push_back(actions_of(kind, sizes, rank));
  return schedule;
}

int peak_activations(const PipelineSchedule& schedule, int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= schedule.actions.size())
    throw Error(Cause::usage, fmt::format("rank {} is not one of the schedule's {} ranks", rank, schedule.num_ranks),
                fmt::format("0 to {}", schedule.num_ranks - 1));
  int held = 0, most = 0;
  for (const Action& action : schedule.actions[static_cast<size_t>(rank)]) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (ends_backward(action.kind)) --held;
  }
  return most;
}

StageSlots assign_slots(const PipelineSchedule& schedule, int stage) {
  StageSlots slots{std::vector<int>(static_cast<size_t>(schedule.num_micro_batches), -1), 0};
  std::vector<int> free;
  const auto rank = static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(stage)]);
  for (const Action& action : schedule.actions[rank]) {
    if (action.stage != stage) continue;
    int& slot = slots.of_micro_batch[static_cast<size_t>(action.micro_batch)];
    if (action.kind == ActionKind::forward) {
      if (free.empty()) free.push_back(slots.count++);
      slot = free.back();
      free.pop_back();
    } else if (ends_backward(action.kind)) {
      free.push_back(slot);
    }
  }
  return slots;
}

std::vector<int> slots_of_stages(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks) {
  std::vector<int> slots;
  if (chunks == 1) {  // a slot for each activation that the rank holds
    for (int rank = 0; rank < num_ranks; ++rank)
      slots.push_back(peak_activations_formula(kind, num_ranks, num_micro_batches, 1, rank));
    return slots;
  }
  // From the steady state on, a micro-batch more takes no slot.
  constexpr int kSteady = 4;  // micro-batches per rank
  const PipelineSchedule schedule =
      make_schedule(kind, num_ranks, std::min(num_micro_batches, kSteady * num_ranks), chunks);
  for (int stage = 0; stage < schedule.num_stages; ++stage) slots.push_back(assign_slots(schedule, stage).count);
  return slots;
}

}  // namespace amdahl
