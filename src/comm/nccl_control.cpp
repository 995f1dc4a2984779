#include "comm/nccl_control.h"

#include <fmt/format.h>

#include <chrono>

namespace amdahl {

std::vector<std::string> ThreadPlane::exchange(int rank, const std::string& message, Deadline deadline) {
  constexpr auto kPlane = InprocGroup::Plane::control;
  const CollectiveCall call{
      CollectiveKind::exchange, ++exchanges_[static_cast<size_t>(rank)], 0, DType::u8, ReduceOp::sum, -1};
  const double seconds = std::chrono::duration<double>(deadline.time() - Deadline::Clock::now()).count();
  if (group_->failed()) group_->leave();
  group_->slot(kPlane, rank).message = message;
  group_->meet(kPlane, rank, call, deadline, seconds);
  std::vector<std::string> messages;
  for (int from = 0; from < group_->world_size(); ++from) messages.push_back(group_->slot(kPlane, from).message);
  group_->meet(kPlane, rank, call, deadline, seconds);
  return messages;
}

void ThreadPlane::abort(const Error& cause) noexcept {
  group_->fail(cause);  // also fails its subgroups
  for (const auto& rank : ranks) rank->abort(cause);
  std::vector<std::weak_ptr<ThreadPlane>> parts;
  {
    std::lock_guard lock(mutex_);
    parts = parts_;
  }
  for (const auto& each : parts)
    if (const auto part = each.lock()) part->abort(cause);
}

NcclPart ThreadPlane::part(const RankGroup& group, const std::string& name, Deadline deadline) {
  std::shared_ptr<ThreadPlane> plane;
  const std::shared_ptr<InprocGroup> members = group_->subgroup(group, name);
  {
    std::lock_guard lock(mutex_);
    Asked& asked = asked_[name];
    if (!asked.plane) {
      asked.plane = std::make_shared<ThreadPlane>(members);
      for (const int member : group.members)
        asked.plane->ranks.push_back(ranks[static_cast<size_t>(member)]->sibling());
      parts_.push_back(asked.plane);
    }
    plane = asked.plane;
    if (++asked.times == group.size()) asked_.erase(name);
  }
  std::shared_ptr<NcclRank> rank = plane->ranks[static_cast<size_t>(group.rank)];
  start_nccl(*rank, *plane, group, deadline);
  return {std::move(rank), std::move(plane)};
}

NcclPart ProcessPlane::part(const RankGroup& group, const std::string& name, Deadline deadline) {
  std::shared_ptr<NcclRank> rank = rank_->sibling();
  auto plane = std::make_shared<ProcessPlane>(store_, fmt::format("{}/{}", name_, name), group.within(group_), rank);
  start_nccl(*rank, *plane, group, deadline);
  return {std::move(rank), std::move(plane)};
}

std::vector<std::string> ProcessPlane::exchange(int rank, const std::string& message, Deadline deadline) {
  const uint64_t seq = ++exchanges_;
  store_.set(key(seq, rank), message);
  std::vector<std::string> messages;
  for (int from = 0; from < group_.size(); ++from)
    messages.push_back(store_.get(key(seq, from), group_.job_rank(from), deadline));
  return messages;
}

void ProcessPlane::abort(const Error& cause) noexcept {
  store_.report_failure(cause);
  rank_->abort(cause);
}

std::string ProcessPlane::key(uint64_t seq, int rank) const {
  return fmt::format("nccl/{}/exchange/{}/{}", name_, seq, rank);
}

void start_nccl(NcclRank& rank, ControlPlane& plane, const RankGroup& group, Deadline deadline) {
  ncclUniqueId id{};
  if (group.rank == 0) rank.api().check(rank.api().get_unique_id(&id), "ncclGetUniqueId", nullptr);
  const std::string text = plane.exchange(group.rank, {id.internal, sizeof id.internal}, deadline).front();
  if (text.size() != sizeof id.internal) throw Error(Cause::internal, "the NCCL id of a group has a wrong size");
  text.copy(id.internal, sizeof id.internal);
  std::future<ncclResult_t> started = rank.start(id, group.rank, group.size());
  finish_start(rank.api(), started, group.rank, deadline);
}

void finish_start(const NcclApi& api, std::future<ncclResult_t>& started, int rank, Deadline deadline) {
  if (started.wait_until(deadline.time()) != std::future_status::ready)
    throw Error(Cause::rank_hung, "NCCL did not start before the deadline: not every rank came to it",
                "look for the rank that is missing; NCCL_DEBUG=INFO shows who came", rank);
  api.check(started.get(), "ncclCommInitRankConfig", nullptr);
}

}  // namespace amdahl
