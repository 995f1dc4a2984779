// What the structures in symmetric memory have in common: words with acquire and release order, and a lock.
#pragma once

#include <cstring>

#include "symmetric/cpu_team.h"

namespace amdahl {

/// Words of 8 bytes. Acquire loads keep their order, as do release stores: a reader that finds the version of a block
/// unchanged after it has loaded the words has loaded them of that version.
inline uint64_t load_word(const uint64_t& word) {
  return std::atomic_ref(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}
inline void store_word(uint64_t& word, uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}
/// True when `word` was `expected` and is now `wanted`.
inline bool exchange_word(uint64_t& word, uint64_t expected, uint64_t wanted) {
  return std::atomic_ref(word).compare_exchange_strong(expected, wanted, std::memory_order_acq_rel);
}

constexpr size_t words_for(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

inline void store_words(uint64_t* to, const void* from, size_t bytes) {
  const auto* source = static_cast<const char*>(from);
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t), ++to) {
    uint64_t word = 0;
    std::memcpy(&word, source + done, std::min(sizeof word, bytes - done));
    store_word(*to, word);
  }
}
inline void load_words(void* to, const uint64_t* from, size_t bytes) {
  auto* target = static_cast<char*>(to);
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t), ++from) {
    const uint64_t word = load_word(*from);
    std::memcpy(target + done, &word, std::min(sizeof word, bytes - done));
  }
}

/// Address in `home`'s region of the object at `offset`.
template <class T>
T* object_of(const CpuTeam& team, size_t offset, int home) {
  return reinterpret_cast<T*>(team.view.base[home] + offset);
}

/// A lock in symmetric memory, initially zero: the rank that holds it, plus 1. A wait for a rank that holds it until
/// the deadline throws Error{rank_hung} with that rank.
class SymmetricLock {
 public:
  SymmetricLock(CpuTeam& team, uint64_t& word) : word_(word) {
    uint64_t holder = 0;
    const auto taken = [&] {
      holder = load_word(word);
      return holder == 0 && exchange_word(word, 0, static_cast<uint64_t>(team.view.rank) + 1);
    };
    if (!symmetric_cpu::wait_on(
            team.view, [&] { return holder == 0 ? team.view.rank : static_cast<int>(holder) - 1; }, taken))
      team.fail("the release of a lock");
  }
  ~SymmetricLock() { store_word(word_, 0); }
  SymmetricLock(const SymmetricLock&) = delete;
  SymmetricLock& operator=(const SymmetricLock&) = delete;

 private:
  uint64_t& word_;
};

}  // namespace amdahl
