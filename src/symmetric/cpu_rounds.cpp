#include "symmetric/cpu_rounds.h"

#include <cstring>
#include <thread>
#include <utility>

namespace amdahl {

CollectiveCall ArrivalLine::call() const {
  return {static_cast<CollectiveKind>(kind), seq, count, static_cast<DType>(type), static_cast<ReduceOp>(op), root};
}

void ArrivalLine::write(const CollectiveCall& call, uint64_t slot_bytes, uint64_t new_epoch) {
  count = call.count, seq = call.seq, bytes = slot_bytes;
  kind = static_cast<uint32_t>(call.kind), type = static_cast<uint32_t>(call.type);
  op = static_cast<uint32_t>(call.op), root = call.root;
  std::atomic_ref(epoch).store(new_epoch, std::memory_order_release);
}

CollectiveLayout::CollectiveLayout(int world) : world_(static_cast<size_t>(world)) {
  flagged_ = 2 * world_ * kLine;
  pushed_ = flagged_ + 2 * world_ * 2 * kFlaggedBytes;
  stage_ = pushed_ + 2 * world_ * kPushBytes;
  headers_ = stage_ + 2 * kStageBytes;
  read_ = headers_ + world_ * kChannelSlots * kLine;
  channels_ = read_ + world_ * kLine;
  bytes_ = channels_ + world_ * kChannelSlots * kChannelBytes;
}

size_t CollectiveLayout::arrived(uint64_t epoch, int from) const {
  return ((epoch & 1) * world_ + static_cast<size_t>(from)) * kLine;
}
size_t CollectiveLayout::flagged(uint64_t epoch, int from) const {
  return flagged_ + ((epoch & 1) * world_ + static_cast<size_t>(from)) * 2 * kFlaggedBytes;
}
size_t CollectiveLayout::pushed(uint64_t epoch, int from) const {
  return pushed_ + ((epoch & 1) * world_ + static_cast<size_t>(from)) * kPushBytes;
}
size_t CollectiveLayout::stage(uint64_t epoch) const { return stage_ + (epoch & 1) * kStageBytes; }
size_t CollectiveLayout::channel_header(int from, uint64_t slot) const {
  return headers_ + (static_cast<size_t>(from) * kChannelSlots + slot % kChannelSlots) * kLine;
}
size_t CollectiveLayout::channel_data(int from, uint64_t slot) const {
  return channels_ + (static_cast<size_t>(from) * kChannelSlots + slot % kChannelSlots) * kChannelBytes;
}
size_t CollectiveLayout::channel_read(int by) const { return read_ + static_cast<size_t>(by) * kLine; }

CpuRounds::CpuRounds(SymmetricMemory memory, std::shared_ptr<Communicator> control, RankGroup job, uint64_t first_epoch)
    : memory_(std::move(memory)),
      control_(std::move(control)),
      job_(std::move(job)),
      layout_(memory_.team.size()),
      timeout_seconds_(memory_.timeout_seconds),
      epoch_(first_epoch) {
  check_team(memory_.team);
  if (memory_.bytes < layout_.bytes()) throw Error(Cause::internal, "symmetric memory too small for collectives");
  for (const uint64_t set : {0, 1})
    for (int from = 0; from < size(); ++from) line(own(layout_.arrived(set, from)))->epoch = epoch_;
}

void CpuRounds::fail_late(const CollectiveCall& call, const std::vector<int>& late, double seconds) {
  fail(hung_error(job_.job_ranks(late), call, seconds));
}

void CpuRounds::fail(const Error& error) {
  control_->abort(error);
  throw Error(error);
}

void CpuRounds::throw_if_failed() {
  control_->throw_if_failed();
  if (aborted())
    throw Error(Cause::interrupted, "this process ended the communication", "look for the first error of the job");
}

void CpuRounds::check_line(const CollectiveCall& call, uint64_t epoch, int from) {
  ArrivalLine* theirs = line(own(layout_.arrived(epoch, from)));
  if (theirs->current() != epoch || matches(call, theirs->call())) return;
  const int me = job_.own_job_rank(), peer = job_.job_rank(from);
  fail(from > rank() ? mismatch_error(peer, theirs->call(), me, call) : mismatch_error(me, call, peer, theirs->call()));
}

void CpuRounds::announce(const CollectiveCall& call, uint64_t epoch, int to) {
  line(at(to, layout_.arrived(epoch, rank())))->write(call, 0, epoch);
}

void CpuRounds::arrive(const CollectiveCall& call, uint64_t epoch) {
  for (int step = 1; step < size(); ++step) announce(call, epoch, (rank() + step) % size());
  const auto missing = [&] {
    std::vector<int> late;
    for (int other = 0; other < size(); ++other)
      if (other != rank() && !here(epoch, other)) late.push_back(other);
    return late;
  };
  const auto check = [&] {
    for (int other = 0; other < size(); ++other)
      if (other != rank()) check_line(call, epoch, other);
  };
  for (int other = 0; other < size(); ++other)
    if (other != rank())
      wait(
          call, [&] { return here(epoch, other); }, missing, check);
  check();
}

uint64_t CpuRounds::begin(const CollectiveCall& call) {
  if (++epoch_ % kFlagPeriod != 0) return epoch_;
  // The flags of the new period could equal those of a message of the last one that was never overwritten.
  arrive(call, epoch_);
  std::memset(own(layout_.flagged(0, 0)), 0, layout_.pushed(0, 0) - layout_.flagged(0, 0));
  arrive(call, ++epoch_);
  return ++epoch_;
}

}  // namespace amdahl
