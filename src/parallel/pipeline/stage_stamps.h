// Time stamps of one rank's actions in a step over pipeline stages.
#pragma once

#include <memory>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "parallel/step_stamps.h"

namespace amdahl {

/// Events are created on first use and reused by later steps.
class StageStamps {
 public:
  explicit StageStamps(Device& device) : device_(device) {}

  struct StampedAction {
    Action action;
    Span span;
  };

  void begin_step() { num_actions_ = num_waits_ = 0; }
  void action(bool begins, const Action& action, Stream& stream) {
    if (num_actions_ == actions_.size()) actions_.emplace_back();
    actions_[num_actions_].action = action;
    stamp(begins, actions_[num_actions_].span, stream, num_actions_);
  }
  void wait(bool begins, Stream& stream) { stamp(begins, StepStamps::at(waits_, num_waits_), stream, num_waits_); }

  const std::vector<StampedAction>& actions() const { return actions_; }
  const std::vector<Span>& waits() const { return waits_; }

 private:
  void stamp(bool begins, Span& span, Stream& stream, size_t& count) {
    std::unique_ptr<Event>& event = begins ? span.start : span.end;
    if (!event) event = device_.make_event();
    stream.stamp(*event);
    if (!begins) ++count;
  }

  Device& device_;
  std::vector<StampedAction> actions_;
  std::vector<Span> waits_;
  size_t num_actions_ = 0, num_waits_ = 0;  // of the step that is being enqueued
};

/// Times of one stamped step on one rank, in us.
struct StampedStages {
  struct StageTime {
    int stage = 0;
    ActionKind kind = ActionKind::forward;
    double us = 0;
  };
  double step = 0, waits = 0;      // `waits`: of the compute stream, for what other stages send
  double stalls = 0, updates = 0;  // waiting for data-parallel communication; optimizer
  std::vector<StageTime> actions;
};

}  // namespace amdahl
