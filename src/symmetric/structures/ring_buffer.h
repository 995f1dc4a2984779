// A bounded queue in one rank's symmetric memory, for any number of producers and consumers on all ranks.
//
// Each cell has a turn number: a producer of position p may write the cell at turn 2 * (p / capacity), a consumer may
// read it one turn later (Vyukov's bounded queue). Positions are taken by compare and swap; the turn publishes the
// data.
#pragma once

#include <type_traits>

#include "symmetric/structures/words.h"

namespace amdahl {

/// One rank's access; not thread-safe, one per thread. All zero memory is an empty queue.
template <class T>
class SymmetricRing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static size_t bytes(size_t capacity) { return sizeof(Positions) + capacity * sizeof(Cell); }
  /// `offset`: of bytes(capacity) in every region, of which those of rank `home` are used.
  SymmetricRing(CpuTeam& team, size_t offset, size_t capacity, int home)
      : team_(team),
        capacity_(capacity),
        home_(home),
        positions_(object_of<Positions>(team, offset, home)),
        cells_(object_of<Cell>(team, offset + sizeof(Positions), home)) {}

  /// False when the queue is full. Like try_pop it waits for a rank that is in the middle of an operation, at the
  /// deadline Error{rank_hung} with the home rank: the answers are then those of a queue with one operation at a time.
  bool try_push(const T& value) {
    return move(positions_->push, positions_->pop, 0, [&](Cell& cell) { store_words(cell.value, &value, sizeof(T)); });
  }
  /// False when the queue is empty.
  bool try_pop(T& value) {
    return move(positions_->pop, positions_->push, 1, [&](Cell& cell) { load_words(&value, cell.value, sizeof(T)); });
  }
  /// Wait for room, or for an element. Error{rank_hung} with the home rank at the deadline.
  void push(const T& value) {
    if (!symmetric_cpu::wait_for(team_.view, home_, [&] { return try_push(value); })) team_.fail("room in a queue");
  }
  T pop() {
    T value{};
    if (!symmetric_cpu::wait_for(team_.view, home_, [&] { return try_pop(value); }))
      team_.fail("an element of a queue");
    return value;
  }

 private:
  struct Positions {
    alignas(64) uint64_t push;
    alignas(64) uint64_t pop;
  };
  struct alignas(16) Cell {
    uint64_t turn;
    uint64_t value[words_for(sizeof(T))];
  };

  /// Phase 0 pushes, phase 1 pops.
  template <class Action>
  bool move(uint64_t& position, const uint64_t& opposite, uint64_t phase, const Action& action) {
    bool moved = false;
    const auto settled = [&] {
      const uint64_t at = load_word(position);
      Cell& cell = cells_[at % capacity_];
      const uint64_t wanted = 2 * (at / capacity_) + phase;
      if (load_word(cell.turn) == wanted) {
        if (!exchange_word(position, at, at + 1)) return false;
        action(cell);
        store_word(cell.turn, wanted + 1);
        return moved = true;
      }
      // Positions only grow and a pop never passes a push: at the time of this load the queue is full, or empty.
      const auto ahead = static_cast<int64_t>(at - load_word(opposite));
      return phase == 0 ? ahead >= static_cast<int64_t>(capacity_) : ahead == 0;
    };
    if (!symmetric_cpu::wait_for(team_.view, home_, settled)) team_.fail("the end of an operation on a queue");
    return moved;
  }

  CpuTeam& team_;
  const size_t capacity_;
  const int home_;
  Positions* positions_;
  Cell* cells_;
};

}  // namespace amdahl
