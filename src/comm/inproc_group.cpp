#include "comm/inproc_group.h"

#include <thread>
#include <utility>

namespace amdahl {

InprocGroup::InprocGroup(int world_size, double timeout_seconds)
    : InprocGroup(RankGroup::first(world_size, 0).members, timeout_seconds) {}

InprocGroup::InprocGroup(std::vector<int> job_ranks, double timeout_seconds)
    : job_ranks_(std::move(job_ranks)),
      world_size_(static_cast<int>(job_ranks_.size())),
      timeout_seconds_(timeout_seconds) {
  const int world_size = world_size_;
  for (PlaneState& plane : planes_) plane.ranks = std::make_unique<Rank[]>(static_cast<size_t>(world_size));
  for (int pair = 0; pair < world_size * world_size; ++pair) mailboxes_.push_back(std::make_unique<InprocMailbox>());
}

bool InprocGroup::all_arrived(const PlaneState& plane, uint64_t arrivals) const {
  for (int rank = 0; rank < world_size_; ++rank)
    if (plane.ranks[static_cast<size_t>(rank)].arrivals.load(std::memory_order_seq_cst) < arrivals) return false;
  return true;
}

void InprocGroup::meet(Plane plane, int rank, const CollectiveCall& call, Deadline deadline, double timeout_seconds) {
  PlaneState& state = planes_[index(plane)];
  if (failed()) leave();
  const uint64_t goal = state.ranks[static_cast<size_t>(rank)].arrivals.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (all_arrived(state, goal)) {  // only the last arrival needs to wake others
    state.all_here.notify();
  } else if (!state.all_here.wait([&] { return failed() || all_arrived(state, goal); }, deadline)) {
    std::vector<int> missing;
    for (int other = 0; other < world_size_; ++other)
      if (state.ranks[static_cast<size_t>(other)].arrivals.load(std::memory_order_seq_cst) < goal)
        missing.push_back(job_rank(other));
    if (!missing.empty()) fail(hung_error(missing, call, timeout_seconds));
  }
  // All ranks arrived before the failure: continue; the next wait throws.
  if (failed() && !all_arrived(state, goal)) leave();
}

void InprocGroup::fail(const Error& error) noexcept {
  std::vector<std::weak_ptr<InprocGroup>> parts;
  {
    std::lock_guard lock(mutex_);
    if (first_failure_) return;
    first_failure_ = std::make_unique<Error>(error);
    parts = parts_;
  }
  failed_.store(true, std::memory_order_seq_cst);
  for (PlaneState& plane : planes_) plane.all_here.notify();
  for (auto& mailbox : mailboxes_) mailbox->changed.notify();
  for (const auto& each : parts)
    if (const auto part = each.lock()) part->fail(error);
}

std::shared_ptr<InprocGroup> InprocGroup::subgroup(const RankGroup& members, const std::string& name) {
  std::lock_guard lock(mutex_);
  if (first_failure_) throw Error(*first_failure_);
  Asked& asked = asked_[name];
  if (!asked.group) {
    std::vector<int> ranks;
    for (const int member : members.members) ranks.push_back(job_rank(member));
    asked.group = std::make_shared<InprocGroup>(std::move(ranks), timeout_seconds());
    std::erase_if(parts_, [](const auto& part) { return part.expired(); });
    parts_.push_back(asked.group);
  }
  std::shared_ptr<InprocGroup> group = asked.group;
  if (++asked.times == members.size()) asked_.erase(name);
  return group;
}

void InprocGroup::leave() {
  while (touching_.load(std::memory_order_seq_cst) > 0) std::this_thread::yield();
  std::lock_guard lock(mutex_);
  throw Error(*first_failure_);
}

}  // namespace amdahl
