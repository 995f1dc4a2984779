// Functions common to the communicators of all backends: splits, and recording of calls.
#include "comm/communicator.h"

#include <fmt/format.h>

#include "comm/flight_recorder.h"

namespace amdahl {

std::unique_ptr<Communicator> Communicator::split(int color, int key, Deadline deadline) {
  const RankGroup group = group_of_split(exchange(split_message(color, key), deadline), rank());
  const std::string name = fmt::format("split{}.{}", ++splits_, color);
  if (group.members.empty()) return nullptr;
  std::unique_ptr<Communicator> part = make_subgroup(group, name, deadline);
  part->set_flight_recorder(flight_);
  return part;
}

FlightNote Communicator::note(const CollectiveCall& call) const {
  return flight_ ? FlightNote(flight_, flight_->issued(call, world_size())) : FlightNote();
}

FlightNote Communicator::count_call(const CollectiveCall& call) {
  count_traffic(call.bytes());
  return note(call);
}

}  // namespace amdahl
