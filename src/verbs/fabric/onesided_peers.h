// Other libraries' one-sided operations, measured by programs of their own beside ours.
#pragma once

#include <functional>

#include "amdahl/fabric.h"

namespace amdahl {

/// Error{usage} for an unknown peer, and for a peer beside anything but the operations.
void check_onesided_peers(const OneSidedConfig& config);

/// Starts the program of each of config.peers on as many GPUs as there are ranks, and hands a Record per operation and
/// size to `sink`. Axes as those of kind "onesided", with the transport "nvshmem" and the ranks and provenance of
/// `like`; each rank of NVSHMEM is a process of its own. Error{environment_missing} when the program is not there, or
/// its library does not load.
void measure_onesided_peers(const OneSidedConfig& config, const Record& like,
                            const std::function<void(const Record&)>& sink, Observer& observer);

}  // namespace amdahl
