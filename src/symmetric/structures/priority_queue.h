// A bounded priority queue in one rank's symmetric memory: a binary heap with a lock.
#pragma once

#include <optional>

#include "symmetric/structures/words.h"

namespace amdahl {

/// An element; the smallest priority comes first, equal priorities in the order of their values.
struct PrioritizedValue {
  uint64_t priority = 0, value = 0;
  bool operator<(const PrioritizedValue& other) const {
    return priority != other.priority ? priority < other.priority : value < other.value;
  }
  bool operator==(const PrioritizedValue&) const = default;
};

/// One rank's access; not thread-safe, one per thread. All zero memory is an empty queue. Waits for a rank that stopped
/// in the middle of an operation throw Error{rank_hung} with it.
class SymmetricPriorityQueue {
 public:
  static size_t bytes(size_t capacity) { return sizeof(Header) + capacity * sizeof(PrioritizedValue); }
  /// `offset`: of bytes(capacity) in every region, of which those of rank `home` are used.
  SymmetricPriorityQueue(CpuTeam& team, size_t offset, size_t capacity, int home)
      : team_(team),
        capacity_(capacity),
        header_(object_of<Header>(team, offset, home)),
        heap_(object_of<PrioritizedValue>(team, offset + sizeof(Header), home)) {}

  /// False when the queue is full.
  bool try_push(const PrioritizedValue& element) {
    const SymmetricLock lock(team_, header_->lock);
    size_t at = header_->size;
    if (at == capacity_) return false;
    ++header_->size;
    for (; at > 0 && element < heap_[(at - 1) / 2]; at = (at - 1) / 2) heap_[at] = heap_[(at - 1) / 2];
    heap_[at] = element;
    return true;
  }
  /// The smallest element; absent when the queue is empty.
  std::optional<PrioritizedValue> try_pop() {
    const SymmetricLock lock(team_, header_->lock);
    if (header_->size == 0) return std::nullopt;
    const PrioritizedValue first = heap_[0], last = heap_[--header_->size];
    const size_t size = header_->size;
    size_t at = 0;
    for (size_t child = 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < last)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = last;
    return first;
  }

 private:
  struct Header {
    alignas(64) uint64_t lock;
    alignas(64) uint64_t size;
  };

  CpuTeam& team_;
  const size_t capacity_;
  Header* header_;
  PrioritizedValue* heap_;
};

}  // namespace amdahl
