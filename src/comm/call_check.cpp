#include "comm/call_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/start_thread.h"
#include "comm/wire.h"

namespace amdahl {
namespace {

constexpr double kPatienceSeconds = 0.1;  // longer than usual calls, short for a user
constexpr double kAnswerSeconds = 1;

std::string encode(const CollectiveCall& call) {
  return fmt::format("{} {} {} {} {} {}", static_cast<int>(call.kind), call.seq, call.count,
                     static_cast<int>(call.type), static_cast<int>(call.op), call.root);
}

CollectiveCall decode(const std::string& text) {
  CollectiveCall call;
  int kind = 0, type = 0, op = 0;
  std::istringstream(text) >> kind >> call.seq >> call.count >> type >> op >> call.root;
  call.kind = static_cast<CollectiveKind>(kind);
  call.type = static_cast<DType>(type);
  call.op = static_cast<ReduceOp>(op);
  return call;
}

/// Whether the calls must match, because they have the same number in the group's order or in the order of the pair.
bool meet(int rank, const CollectiveCall& mine, int peer, const CollectiveCall& theirs) {
  if (mine.seq != theirs.seq) return false;
  if (!is_paired(mine) && !is_paired(theirs)) return true;
  return is_paired(mine) && is_paired(theirs) && mine.kind != theirs.kind && mine.root == peer && theirs.root == rank;
}

}  // namespace

CallCheck::CallCheck(RendezvousStore& store, const std::string& name, const RankGroup& group, double timeout_seconds)
    : store_(store),
      name_(name),
      group_(group),
      rank_(group.rank),
      patience_(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(std::min(kPatienceSeconds, timeout_seconds / 4)))) {
  store_.set(key_of(rank_), {});  // so that no rank waits for the key of a rank without overdue calls
  thread_ = start_thread("the check of a group's calls", [this] { watch(); });
}

CallCheck::~CallCheck() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

uint64_t CallCheck::begin(const CollectiveCall& call) {
  std::lock_guard lock(mutex_);
  entries_.push_back({++next_id_, call, Clock::now()});
  return next_id_;
}

void CallCheck::end(uint64_t id) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [id](const Entry& entry) { return entry.id == id; });
}

// Polls, because a call must not pay for a notification.
void CallCheck::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_changed_.wait_for(lock, std::max<Clock::duration>(patience_, std::chrono::milliseconds(1)),
                                   [&] { return ending_; })) {
    const std::vector<CollectiveCall> mine = overdue();
    if (mine.empty()) continue;
    lock.unlock();
    try {
      compare(mine);
    } catch (const Error&) {  // the world has failed or does not answer: other code reports the cause
    }
    lock.lock();
  }
}

/// All overdue calls; empty when none of them is new.
std::vector<CollectiveCall> CallCheck::overdue() {
  const auto now = Clock::now();
  bool news = false;
  std::vector<CollectiveCall> calls;
  for (Entry& entry : entries_) {
    if (now - entry.since < patience_) continue;
    news = news || !entry.said;
    entry.said = true;
    calls.push_back(entry.call);
  }
  return news ? calls : std::vector<CollectiveCall>{};
}

// A published call stays in the store after its end. Comparing it is valid, because the rank did make that call.
void CallCheck::compare(const std::vector<CollectiveCall>& mine) {
  std::vector<std::string> said;
  for (const CollectiveCall& call : mine) said.push_back(encode(call));
  store_.set(key_of(rank_), wire::pack(said));
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == rank_) continue;
    for (const std::string& text :
         wire::unpack(store_.get(key_of(peer), group_.job_rank(peer), Deadline::after_seconds(kAnswerSeconds)))) {
      const CollectiveCall theirs = decode(text);
      for (const CollectiveCall& call : mine) {
        if (!meet(rank_, call, peer, theirs) || matches(call, theirs)) continue;
        return store_.report_failure(peer > rank_
                                         ? mismatch_error(group_.job_rank(peer), theirs, group_.own_job_rank(), call)
                                         : mismatch_error(group_.own_job_rank(), call, group_.job_rank(peer), theirs));
      }
    }
  }
}

}  // namespace amdahl
