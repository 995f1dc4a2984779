// A linearizability checker: whether recorded, overlapping operations have an order of one at a time that explains
// every result (Wing and Gong 1993; configurations that were seen are not searched again, Lowe 2017).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace amdahl::test {

/// The contents of an object, by which states are compared.
using ObjectState = std::vector<uint64_t>;

/// One operation as a rank saw it. Times are of a counter that orders all events.
struct RecordedOperation {
  int kind = 0;
  uint64_t argument = 0, second_argument = 0;
  bool succeeded = false;  // its result
  uint64_t result = 0;
  uint64_t invoked = 0, returned = 0;
};

/// Applies an operation to a state; false when its recorded result is another one.
using ObjectModel = std::function<bool(ObjectState& state, const RecordedOperation& operation)>;

/// The states in which the object can be after the operations, at most 64, from one of the states `before`; empty when
/// no order explains the results. Operations that overlap neither earlier nor later ones can be checked in pieces.
inline std::set<ObjectState> states_after(const std::set<ObjectState>& before,
                                          const std::vector<RecordedOperation>& operations, const ObjectModel& model) {
  const uint64_t all = operations.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << operations.size()) - 1;
  std::set<ObjectState> after;
  std::set<std::pair<uint64_t, ObjectState>> seen;
  std::vector<std::pair<uint64_t, ObjectState>> open;
  for (const ObjectState& state : before) open.emplace_back(0, state);
  while (!open.empty()) {
    const auto [done, state] = std::move(open.back());
    open.pop_back();
    if (done == all) {
      after.insert(state);
      continue;
    }
    uint64_t first_return = ~uint64_t{0};
    for (size_t i = 0; i < operations.size(); ++i)
      if ((done >> i & 1) == 0) first_return = std::min(first_return, operations[i].returned);
    for (size_t i = 0; i < operations.size(); ++i) {
      if ((done >> i & 1) != 0 || operations[i].invoked > first_return) continue;
      ObjectState next = state;
      if (!model(next, operations[i])) continue;
      std::pair<uint64_t, ObjectState> configuration{done | uint64_t{1} << i, std::move(next)};
      if (seen.insert(configuration).second) open.push_back(std::move(configuration));
    }
  }
  return after;
}

}  // namespace amdahl::test
