// A hash map from 64-bit keys to 64-bit values, divided over the symmetric memory of all ranks.
//
// The map consists of stripes, small tables with a lock and a version. Changes take the lock; lookups do not: they
// repeat when the version has changed meanwhile.
#pragma once

#include <optional>

#include "symmetric/structures/words.h"

namespace amdahl {

/// One rank's access; not thread-safe, one per thread. All zero memory is an empty map. Waits for a rank that stopped
/// in the middle of a change throw Error{rank_hung} with it.
class SymmetricMap {
 public:
  static constexpr size_t kSlots = 32;  // of a stripe

  /// What an insertion did.
  enum class Inserted { fresh, replaced, full };

  static size_t bytes(size_t stripes_per_rank) { return stripes_per_rank * sizeof(Stripe); }
  /// `offset`: of bytes(stripes_per_rank) in every region.
  SymmetricMap(CpuTeam& team, size_t offset, size_t stripes_per_rank)
      : team_(team), offset_(offset), stripes_(stripes_per_rank) {}

  /// Sets the value of a key. `full`: the stripe of the key has no free slot, and nothing changed.
  Inserted insert(uint64_t key, uint64_t value) {
    Stripe& stripe = stripe_of(key);
    const SymmetricLock lock(team_, stripe.lock);
    const std::optional<size_t> found = slot_of(stripe, key);
    const uint64_t used = load_word(stripe.used);
    const size_t slot = found ? *found : free_slot(used);
    if (slot == kSlots) return Inserted::full;
    begin_change(stripe);
    store_word(stripe.keys[slot], key);
    store_word(stripe.values[slot], value);
    store_word(stripe.used, used | uint64_t{1} << slot);
    end_change(stripe);
    return found ? Inserted::replaced : Inserted::fresh;
  }
  /// The erased value; absent when the key was.
  std::optional<uint64_t> erase(uint64_t key) {
    Stripe& stripe = stripe_of(key);
    const SymmetricLock lock(team_, stripe.lock);
    const std::optional<size_t> slot = slot_of(stripe, key);
    if (!slot) return std::nullopt;
    const uint64_t value = load_word(stripe.values[*slot]);
    begin_change(stripe);
    store_word(stripe.used, load_word(stripe.used) & ~(uint64_t{1} << *slot));
    end_change(stripe);
    return value;
  }
  std::optional<uint64_t> find(uint64_t key) {
    Stripe& stripe = stripe_of(key);
    std::optional<uint64_t> value;
    const auto changer = [&] {
      const uint64_t holder = load_word(stripe.lock);
      return holder == 0 ? team_.view.rank : static_cast<int>(holder) - 1;
    };
    const auto unchanged = [&] {
      const uint64_t version = load_word(stripe.version);
      if (version % 2 != 0) return false;
      const std::optional<size_t> slot = slot_of(stripe, key);
      value = slot ? std::optional(load_word(stripe.values[*slot])) : std::nullopt;
      return load_word(stripe.version) == version;
    };
    if (!symmetric_cpu::wait_on(team_.view, changer, unchanged)) team_.fail("the end of a change of a map");
    return value;
  }

  /// The rank whose memory has the key.
  int home_of(uint64_t key) const { return static_cast<int>(mixed(key) % static_cast<uint64_t>(team_.view.size)); }

 private:
  struct alignas(64) Stripe {
    uint64_t lock, version, used;  // used: a bit per slot; version: odd during a change
    uint64_t keys[kSlots], values[kSlots];
  };

  static uint64_t mixed(uint64_t key) {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
  }
  Stripe& stripe_of(uint64_t key) const {
    const uint64_t within = mixed(key) / static_cast<uint64_t>(team_.view.size) % stripes_;
    return object_of<Stripe>(team_, offset_, home_of(key))[within];
  }
  static std::optional<size_t> slot_of(const Stripe& stripe, uint64_t key) {
    const uint64_t used = load_word(stripe.used);
    for (size_t slot = 0; slot < kSlots; ++slot)
      if ((used >> slot & 1) != 0 && load_word(stripe.keys[slot]) == key) return slot;
    return std::nullopt;
  }
  static size_t free_slot(uint64_t used) {
    size_t slot = 0;
    while (slot < kSlots && (used >> slot & 1) != 0) ++slot;
    return slot;
  }
  static void begin_change(Stripe& stripe) { store_word(stripe.version, load_word(stripe.version) + 1); }
  static void end_change(Stripe& stripe) { store_word(stripe.version, load_word(stripe.version) + 1); }

  CpuTeam& team_;
  const size_t offset_, stripes_;
};

}  // namespace amdahl
