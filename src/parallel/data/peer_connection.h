// Finds out whether the ranks of a step can update each other's parameters directly, and makes the rank's end of that.
#pragma once

#include <memory>

#include "parallel/data/strategy.h"

namespace amdahl {

/// All ranks call it together, with their devices idle. Null, on every rank alike, where ranks are processes, the
/// backend has no peer updates, or some device does not reach another's memory.
std::unique_ptr<PeerUpdater> connect_peers(const SyncContext& context);

}  // namespace amdahl
