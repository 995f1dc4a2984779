// A communicator of one rank that transfers nothing and counts its payload, to tell what a rank of a group of that size
// passes to collectives.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace amdahl {

/// Rank `rank` of `size`. It cannot be split.
std::unique_ptr<Communicator> make_recording_communicator(int rank, int size);

}  // namespace amdahl
