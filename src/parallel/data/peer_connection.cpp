#include "parallel/data/peer_connection.h"

namespace amdahl {

std::unique_ptr<PeerUpdater> connect_peers(const SyncContext& context) {
  Communicator& communicator = context.communicator;
  if (!context.ops.optimizer().has_peer_updates() || communicator.world_size() < 2) return nullptr;
  const Deadline deadline = Deadline::after_seconds(context.timeout_seconds);
  if (!reach_team(context.device, communicator, deadline).ok) return nullptr;
  const auto share = [&](const std::shared_ptr<Buffer>& own) {
    return share_buffer(context.device, communicator, own, context.timeout_seconds);
  };
  std::unique_ptr<PeerUpdater> updater =
      context.ops.optimizer().join_peers({share(context.model.shared_params()), share(context.model.shared_grads()),
                                          share(allocate_zeroed(context.device, kTeamFlagBytes, deadline))});
  communicator.barrier(deadline);  // every rank has allocated its memory before any rank continues
  return updater;
}

}  // namespace amdahl
