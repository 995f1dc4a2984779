#include "symmetric/cpu_channels.h"

#include <algorithm>
#include <cstring>

namespace amdahl {
namespace {

uint64_t load(char* place) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(place)).load(std::memory_order_acquire);
}
void store(char* place, uint64_t value) {
  std::atomic_ref(*reinterpret_cast<uint64_t*>(place)).store(value, std::memory_order_release);
}

void move_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

CpuChannels::CpuChannels(CpuRounds& rounds)
    : rounds_(rounds), sent_(static_cast<size_t>(rounds.size())), taken_(static_cast<size_t>(rounds.size())) {}

/// A message is a sequence of slots of the channel between two ranks. The receiver says how many it has read.
struct CpuChannels::Transfer {
  const CollectiveCall& call;
  const char* data = nullptr;  // to send
  char* received = nullptr;
  size_t done = 0;
  bool begun = false, complete = false;
};

bool CpuChannels::try_send(Transfer& transfer) {
  const int to = transfer.call.root;
  Counters& counters = sent_[static_cast<size_t>(to)];
  if (counters.messages.load(std::memory_order_acquire) + 1 != transfer.call.seq) return false;
  if (counters.slots - load(rounds_.own(rounds_.layout().channel_read(to))) >= CollectiveLayout::kChannelSlots)
    return false;
  const size_t bytes = std::min(CollectiveLayout::kChannelBytes, transfer.call.bytes() - transfer.done);
  move_bytes(rounds_.at(to, rounds_.layout().channel_data(rounds_.rank(), counters.slots)),
             transfer.data + transfer.done, bytes);
  ArrivalLine* header =
      CpuRounds::line(rounds_.at(to, rounds_.layout().channel_header(rounds_.rank(), counters.slots)));
  header->write(transfer.call, bytes, ++counters.slots);
  transfer.done += bytes;
  transfer.complete = transfer.done == transfer.call.bytes();
  if (transfer.complete) counters.messages.store(transfer.call.seq, std::memory_order_release);
  return true;
}

bool CpuChannels::try_receive(Transfer& transfer) {
  const int from = transfer.call.root;
  Counters& counters = taken_[static_cast<size_t>(from)];
  if (counters.messages.load(std::memory_order_acquire) + 1 != transfer.call.seq) return false;
  ArrivalLine* header = CpuRounds::line(rounds_.own(rounds_.layout().channel_header(from, counters.slots)));
  if (header->current() != counters.slots + 1) return false;
  if (const CollectiveCall theirs = header->call(); !matches(transfer.call, theirs))
    rounds_.fail(mismatch_error(rounds_.job().own_job_rank(), transfer.call, rounds_.job().job_rank(from), theirs));
  move_bytes(transfer.received + transfer.done, rounds_.own(rounds_.layout().channel_data(from, counters.slots)),
             header->bytes);
  transfer.done += header->bytes;
  store(rounds_.at(from, rounds_.layout().channel_read(rounds_.rank())), ++counters.slots);
  transfer.complete = transfer.done == transfer.call.bytes();
  if (transfer.complete) counters.messages.store(transfer.call.seq, std::memory_order_release);
  return true;
}

void CpuChannels::advance(const std::vector<Transfer*>& transfers) {
  const auto open = [](const Transfer* transfer) { return !transfer->complete; };
  const auto step = [&] {
    bool moved = false;
    for (Transfer* transfer : transfers)
      if (open(transfer)) moved = (transfer->data ? try_send(*transfer) : try_receive(*transfer)) || moved;
    return moved;
  };
  const auto missing = [&] {
    std::vector<int> late;
    for (const Transfer* transfer : transfers)
      if (open(transfer)) late.push_back(transfer->call.root);
    return late;
  };
  rounds_.throw_if_failed();
  while (std::any_of(transfers.begin(), transfers.end(), open)) {
    const auto waiting = std::find_if(transfers.begin(), transfers.end(), open);
    rounds_.wait((*waiting)->call, step, missing, [] {});
  }
}

void CpuChannels::send(const CollectiveCall& call, const void* data) {
  static constexpr char kNothing = 0;
  Transfer transfer{.call = call, .data = data ? static_cast<const char*>(data) : &kNothing};
  advance({&transfer});
}

void CpuChannels::receive(const CollectiveCall& call, void* data) {
  Transfer transfer{.call = call, .received = static_cast<char*>(data)};
  advance({&transfer});
}

void CpuChannels::send_receive(const CollectiveCall& out, const void* data, const CollectiveCall& in, void* received) {
  static constexpr char kNothing = 0;
  Transfer sending{.call = out, .data = data ? static_cast<const char*>(data) : &kNothing};
  Transfer receiving{.call = in, .received = static_cast<char*>(received)};
  advance({&sending, &receiving});
}

}  // namespace amdahl
