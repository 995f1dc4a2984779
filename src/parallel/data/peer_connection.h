// Checks whether the ranks of a step can update each other's parameters directly, and makes this rank's updater.
#pragma once

#include <memory>

#include "parallel/data/strategy.h"

namespace amdahl {

/// Collective over the ranks, whose devices must be idle. Returns null on every rank when ranks are processes, when the
/// backend has no peer updates, or when some device cannot access another's memory.
std::unique_ptr<PeerUpdater> connect_peers(const SyncContext& context);

}  // namespace amdahl
