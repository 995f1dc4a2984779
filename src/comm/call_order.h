// Keeps a rank's collectives in call order when they run on several streams. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/wait_point.h"

namespace amdahl {

class CallOrder {
 public:
  /// True once call number seq - 1 has finished. Reads atomics only.
  bool turn_of(uint64_t seq) const { return finished_.load() + 1 >= seq; }
  void finish(uint64_t seq) {
    finished_.store(seq);
    changed_.notify();
  }
  WaitPoint& changed() { return changed_; }

 private:
  std::atomic<uint64_t> finished_{0};
  WaitPoint changed_;
};

}  // namespace amdahl
