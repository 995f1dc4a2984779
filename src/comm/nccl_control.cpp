#include "comm/nccl_control.h"

#include <fmt/format.h>

#include <chrono>

namespace amdahl {

std::vector<std::string> ThreadPlane::exchange(int rank, const std::string& message, Deadline deadline) {
  constexpr auto kPlane = InprocGroup::Plane::control;
  const CollectiveCall call{
      CollectiveKind::exchange, ++exchanges_[static_cast<size_t>(rank)], 0, DType::u8, ReduceOp::sum, -1};
  const double seconds = std::chrono::duration<double>(deadline.time() - Deadline::Clock::now()).count();
  if (group_.failed()) group_.leave();
  group_.slot(kPlane, rank).message = message;
  group_.meet(kPlane, rank, call, deadline, seconds);
  std::vector<std::string> messages;
  for (int from = 0; from < group_.world_size(); ++from) messages.push_back(group_.slot(kPlane, from).message);
  group_.meet(kPlane, rank, call, deadline, seconds);
  return messages;
}

void ThreadPlane::abort(const Error& cause) noexcept {
  group_.fail(cause);
  for (const auto& rank : ranks) rank->abort(cause);
}

std::vector<std::string> ProcessPlane::exchange(int rank, const std::string& message, Deadline deadline) {
  const uint64_t seq = ++exchanges_;
  store_.set(key(seq, rank), message);
  std::vector<std::string> messages;
  for (int from = 0; from < world_size_; ++from) messages.push_back(store_.get(key(seq, from), deadline));
  return messages;
}

void ProcessPlane::abort(const Error& cause) noexcept {
  store_.report_failure(cause);
  rank_->abort(cause);
}

std::string ProcessPlane::key(uint64_t seq, int rank) const {
  return fmt::format("nccl/{}/exchange/{}/{}", name_, seq, rank);
}

}  // namespace amdahl
