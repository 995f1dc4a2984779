#include "parallel/data/peer_connection.h"

#include <algorithm>
#include <charconv>

namespace amdahl {
namespace {

struct Offer {
  Device* device;
  PeerMemory memory;
};

std::string address_of(const Offer& offer) { return std::to_string(reinterpret_cast<uintptr_t>(&offer)); }

const Offer& offer_at(const std::string& address) {
  uintptr_t value = 0;
  std::from_chars(address.data(), address.data() + address.size(), value);
  return *reinterpret_cast<const Offer*>(value);
}

}  // namespace

std::unique_ptr<PeerUpdater> connect_peers(const SyncContext& context) {
  Communicator& communicator = context.communicator;
  const size_t flag_bytes = context.ops.optimizer().peer_flag_bytes();
  const int world = communicator.world_size();
  if (!communicator.shares_address_space() || flag_bytes == 0 || world < 2 || world > kMaxPeers) return nullptr;
  const Deadline deadline = Deadline::after_seconds(context.timeout_seconds);
  const auto mine = std::make_shared<Offer>(
      Offer{&context.device,
            {context.model.shared_params(), context.model.shared_grads(), context.device.allocate(flag_bytes)}});
  communicator.keep(mine);  // a rank that fails below leaves while others still read its offer
  context.device.fill_zero(context.comm, mine->memory.flags->data(), flag_bytes);
  context.comm.synchronize(deadline);

  PeerGroup group{communicator.rank(), {}, context.timeout_seconds};
  bool reaches_all = true;
  for (const std::string& address : communicator.exchange(address_of(*mine), deadline)) {
    const Offer& offer = offer_at(address);
    group.ranks.push_back(offer.memory);
    reaches_all = reaches_all && (offer.device == &context.device || context.device.reach(*offer.device).ok);
  }
  std::unique_ptr<PeerUpdater> updater = reaches_all ? context.ops.optimizer().join_peers(group) : nullptr;
  // Every rank has copied every offer, and allocated what it needs, before any goes on.
  const std::vector<std::string> verdicts = communicator.exchange(updater ? "yes" : "no", deadline);
  communicator.release_kept();
  const bool all =
      std::all_of(verdicts.begin(), verdicts.end(), [](const std::string& verdict) { return verdict == "yes"; });
  return all ? std::move(updater) : nullptr;
}

}  // namespace amdahl
