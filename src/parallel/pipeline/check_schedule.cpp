// Checks that a pipeline schedule is complete and that each rank's order respects the dependences within the rank.
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "parallel/pipeline/schedule.h"

namespace amdahl {
namespace {

class Checker {
 public:
  explicit Checker(const PipelineSchedule& schedule) : schedule_(schedule) {}

  void run() {
    require_shape();
    done_.resize(static_cast<size_t>(pairs()));
    for (rank_ = 0; rank_ < schedule_.num_ranks; ++rank_) {
      index_ = 0;
      for (const Action& action : actions_of(rank_)) {
        require_place(action);
        require_once(action);
        require_inputs(action);
        mark(action);
        ++index_;
      }
    }
    require_complete();
  }

 private:
  /// The passes of one micro-batch in one stage seen so far.
  struct Done {
    bool forward = false, gradient = false, weight = false;
  };

  int64_t pairs() const { return int64_t{schedule_.num_stages} * schedule_.num_micro_batches; }
  const std::vector<Action>& actions_of(int rank) const { return schedule_.actions[static_cast<size_t>(rank)]; }
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }
  Done& done(int stage, int micro_batch) {
    return done_[static_cast<size_t>(stage) * static_cast<size_t>(schedule_.num_micro_batches) +
                 static_cast<size_t>(micro_batch)];
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Cause::check_failed, fmt::format("pipeline schedule {}: {}", to_string(schedule_.kind), what),
                "make_schedule, or a table of actions in which this is corrected");
  }
  [[noreturn]] void fail_at(const Action& action, const std::string& what) const {
    fail(fmt::format("rank {}, action {}: {} {}", rank_, index_, describe(action), what));
  }

  void require_shape() const {
    if (schedule_.num_ranks < 1 || schedule_.num_stages < 1 || schedule_.num_micro_batches < 1)
      fail(fmt::format("{} ranks, {} stages and {} micro-batches, where each is at least 1", schedule_.num_ranks,
                       schedule_.num_stages, schedule_.num_micro_batches));
    if (schedule_.actions.size() != static_cast<size_t>(schedule_.num_ranks))
      fail(fmt::format("actions of {} ranks, where there are {} ranks", schedule_.actions.size(), schedule_.num_ranks));
    if (schedule_.rank_of_stage.size() != static_cast<size_t>(schedule_.num_stages))
      fail(fmt::format("{} stages have a rank, where there are {} stages", schedule_.rank_of_stage.size(),
                       schedule_.num_stages));
    for (int stage = 0; stage < schedule_.num_stages; ++stage)
      if (rank_of(stage) < 0 || rank_of(stage) >= schedule_.num_ranks)
        fail(fmt::format("stage {} is on rank {}, which does not exist", stage, rank_of(stage)));
    int64_t num_actions = 0;
    for (const std::vector<Action>& actions : schedule_.actions) num_actions += static_cast<int64_t>(actions.size());
    if (num_actions < pairs())  // checked before memory is allocated for every pair
      fail(fmt::format("{} actions are fewer than one forward for each of {} stages and {} micro-batches", num_actions,
                       schedule_.num_stages, schedule_.num_micro_batches));
  }

  void require_place(const Action& action) const {
    if (action.stage < 0 || action.stage >= schedule_.num_stages)
      fail_at(action, fmt::format("is of a stage outside 0 to {}", schedule_.num_stages - 1));
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.num_micro_batches)
      fail_at(action, fmt::format("is of a micro-batch outside 0 to {}", schedule_.num_micro_batches - 1));
    if (rank_of(action.stage) != rank_)
      fail_at(action, fmt::format("is of a stage that rank {} holds", rank_of(action.stage)));
  }

  void require_once(const Action& action) {
    const Done& own = done(action.stage, action.micro_batch);
    const bool repeated = action.kind == ActionKind::forward           ? own.forward
                          : action.kind == ActionKind::backward_weight ? own.weight
                                                                       : own.gradient;
    if (repeated) fail_at(action, "has already been computed");
  }

  void require_inputs(const Action& action) {
    const auto require = [&](bool is_done, ActionKind kind, int stage) {
      if (!is_done)
        fail_at(action, fmt::format("comes before {} on the same rank", describe({kind, stage, action.micro_batch})));
    };
    const Done& own = done(action.stage, action.micro_batch);
    if (action.kind == ActionKind::backward_weight)
      return require(own.gradient, ActionKind::backward_input, action.stage);
    if (action.kind == ActionKind::forward) {
      const int before = action.stage - 1;
      if (before >= 0 && rank_of(before) == rank_)
        require(done(before, action.micro_batch).forward, ActionKind::forward, before);
      return;
    }
    require(own.forward, ActionKind::forward, action.stage);
    const int after = action.stage + 1;
    if (after < schedule_.num_stages && rank_of(after) == rank_)
      require(done(after, action.micro_batch).gradient, action.kind, after);
  }

  void mark(const Action& action) {
    Done& own = done(action.stage, action.micro_batch);
    if (action.kind == ActionKind::forward) own.forward = true;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input) own.gradient = true;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) own.weight = true;
  }

  void require_complete() {
    for (int stage = 0; stage < schedule_.num_stages; ++stage)
      for (int micro_batch = 0; micro_batch < schedule_.num_micro_batches; ++micro_batch) {
        const Done& own = done(stage, micro_batch);
        if (own.forward && own.gradient && own.weight) continue;
        const ActionKind missing = !own.forward    ? ActionKind::forward
                                   : !own.gradient ? ActionKind::backward
                                                   : ActionKind::backward_weight;
        fail(fmt::format("{} is missing on rank {}", describe({missing, stage, micro_batch}), rank_of(stage)));
      }
  }

  const PipelineSchedule& schedule_;
  std::vector<Done> done_;  // by stage, then micro-batch
  int rank_ = 0, index_ = 0;
};

}  // namespace

void check_schedule(const PipelineSchedule& schedule) { Checker(schedule).run(); }

}  // namespace amdahl
