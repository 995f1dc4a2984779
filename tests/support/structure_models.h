// What the structures in symmetric memory are when operations run one at a time, for the linearizability checker.
#pragma once

#include <algorithm>

#include "linearizability.h"

namespace amdahl::test {

/// The number of the first history that has no explanation; -1: none.
inline int first_violation(const std::vector<std::vector<RecordedOperation>>& histories, const ObjectModel& model) {
  std::set<ObjectState> states{{}};
  for (size_t i = 0; i < histories.size(); ++i) {
    states = states_after(states, histories[i], model);
    if (states.empty()) return static_cast<int>(i);
  }
  return -1;
}

enum StructureOperation { kPush, kPop, kInsert, kFind, kErase };

/// A queue of at most `capacity`: pushes fail when it is full, pops when it is empty.
inline ObjectModel queue_model(size_t capacity) {
  return [capacity](ObjectState& queue, const RecordedOperation& op) {
    if (op.kind == kPush) {
      if (queue.size() == capacity) return !op.succeeded;
      queue.push_back(op.argument);
      return op.succeeded;
    }
    if (queue.empty()) return !op.succeeded;
    const bool same = op.succeeded && queue.front() == op.result;
    queue.erase(queue.begin());
    return same;
  };
}

inline ObjectModel priority_model(size_t capacity) {
  return [capacity](ObjectState& queue, const RecordedOperation& op) {
    if (op.kind == kPush) {
      if (queue.size() == capacity) return !op.succeeded;
      queue.insert(std::upper_bound(queue.begin(), queue.end(), op.argument), op.argument);
      return op.succeeded;
    }
    if (queue.empty()) return !op.succeeded;
    const bool same = op.succeeded && queue.front() == op.result;
    queue.erase(queue.begin());
    return same;
  };
}

/// A map as key, value, key, value in the order of the keys.
inline bool map_model(ObjectState& map, const RecordedOperation& op) {
  size_t at = 0;
  while (at < map.size() && map[at] < op.argument) at += 2;
  const auto place = map.begin() + static_cast<std::ptrdiff_t>(at);
  const bool found = at < map.size() && map[at] == op.argument;
  if (op.kind == kInsert) {
    if (op.succeeded == found) return false;  // succeeded: the key is new
    if (found)
      map[at + 1] = op.second_argument;
    else
      map.insert(place, {op.argument, op.second_argument});
    return true;
  }
  if (found != op.succeeded) return false;
  if (!found) return true;
  if (map[at + 1] != op.result) return false;
  if (op.kind == kErase) map.erase(place, place + 2);
  return true;
}

}  // namespace amdahl::test
