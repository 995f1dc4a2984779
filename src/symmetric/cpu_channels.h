// Messages between two ranks in symmetric memory on CPUs: a channel of a few slots for every ordered pair.
#pragma once

#include <atomic>
#include <vector>

#include "symmetric/cpu_rounds.h"

namespace amdahl {

/// One rank's ends of its channels. The methods block; at most one send and one receive per peer run at a time. Errors
/// as CpuRounds::wait, and Error{collective_mismatch} for messages of different sizes.
class CpuChannels {
 public:
  explicit CpuChannels(CpuRounds& rounds);
  void send(const CollectiveCall& call, const void* data);
  void receive(const CollectiveCall& call, void* data);
  /// Both at once, so that a ring of ranks does not deadlock.
  void send_receive(const CollectiveCall& out, const void* data, const CollectiveCall& in, void* received);

 private:
  struct Transfer;
  struct alignas(64) Counters {
    std::atomic<uint64_t> messages{0};  // completed, so that calls on several streams keep their order
    uint64_t slots = 0;
  };

  void advance(const std::vector<Transfer*>& transfers);
  bool try_send(Transfer& transfer);
  bool try_receive(Transfer& transfer);

  CpuRounds& rounds_;
  std::vector<Counters> sent_, taken_;  // by peer
};

}  // namespace amdahl
