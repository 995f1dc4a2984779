// Communicators whose splits are kept: a later split into the same ranks gets a communicator of theirs that is no
// longer in use. For tests that run many models on the same devices, where the communicators of each would take longer
// than its steps.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "forwarding_communicator.h"
#include "small_job.h"

namespace amdahl::test {

class ReusedCommunicator final : public ForwardingCommunicator {
 public:
  explicit ReusedCommunicator(std::unique_ptr<Communicator> inner)
      : ReusedCommunicator(std::make_shared<State>(State{std::move(inner), {}, false})) {}
  ~ReusedCommunicator() override { state_->in_use = false; }

 private:
  struct State {
    std::unique_ptr<Communicator> inner;
    std::map<std::vector<int>, std::vector<std::shared_ptr<State>>> parts;  // by members; destroyed before `inner`
    bool in_use;
  };

  explicit ReusedCommunicator(std::shared_ptr<State> state) : state_(std::move(state)) { state_->in_use = true; }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string&, Deadline deadline) override {
    // All members split and destroy in one order, and choose the same one.
    std::vector<std::shared_ptr<State>>& parts = state_->parts[group.members];
    auto part = std::find_if(parts.begin(), parts.end(), [](const auto& each) { return !each->in_use; });
    if (part == parts.end()) {
      const std::string name = fmt::format("reused {}, {}", fmt::join(group.members, " "), parts.size());
      part = parts.insert(part, std::make_shared<State>(State{inner().subgroup(group, name, deadline), {}, false}));
    }
    return std::unique_ptr<Communicator>(new ReusedCommunicator(*part));
  }

  Communicator& inner() const override { return *state_->inner; }

  const std::shared_ptr<State> state_;
};

/// The job with communicators whose splits are kept.
inline JobDevices with_reused_communicators(JobDevices job) {
  for (auto& communicator : job.communicators)
    communicator = std::make_unique<ReusedCommunicator>(std::move(communicator));
  return job;
}

}  // namespace amdahl::test
