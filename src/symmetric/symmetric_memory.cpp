#include "symmetric/symmetric_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>

namespace amdahl {
namespace {

constexpr int kHost = -1;
int gpu_of(Device& device) { return device.backend() == BackendKind::cpu ? kHost : device.spec().index; }

/// What a rank offers to the others, whose threads read it; the communicator keeps it alive.
struct Offer {
  int gpu;
  std::shared_ptr<Buffer> buffer;
};

SymmetricMemory memory_of_offers(const std::vector<Offer>& offers, int rank, double timeout_seconds) {
  SymmetricMemory memory;
  memory.team = Team::first(static_cast<int>(offers.size()), rank);
  check_team(memory.team);
  memory.bytes = offers.front().buffer->bytes();
  memory.timeout_seconds = timeout_seconds;
  memory.emulated = false;
  std::set<int> gpus;
  for (size_t r = 0; r < offers.size(); ++r) {
    Buffer& buffer = *offers[r].buffer;
    if (buffer.bytes() != memory.bytes)
      throw Error(Cause::collective_mismatch,
                  fmt::format("symmetric memory: rank 0 has {} bytes, rank {} {}", memory.bytes, r, buffer.bytes()),
                  "the same size on every rank");
    memory.base.push_back(buffer.as<char>());
    memory.owners.push_back(offers[r].buffer);
    if (offers[r].gpu == kHost || !gpus.insert(offers[r].gpu).second) memory.emulated = true;
  }
  return memory;
}

std::string address_of(const void* object) { return std::to_string(reinterpret_cast<uintptr_t>(object)); }
template <class T>
T* object_at(const std::string& address) {
  return reinterpret_cast<T*>(std::stoull(address));
}

/// A name that is unique on this host.
std::string new_segment_name() {
  std::random_device random;
  return fmt::format("/amdahl-{}-{:08x}{:08x}", getpid(), random(), random());
}

}  // namespace

TeamView SymmetricMemory::view(WaitReport* report) const {
  TeamView view{};
  std::copy(base.begin(), base.end(), view.base);
  view.rank = team.rank, view.size = team.size();
  view.report = report;
  view.timeout_ns = static_cast<uint64_t>(std::min(timeout_seconds, Deadline::kLongestSeconds) * 1e9);
  return view;
}

Feasibility reach_team(Device& device, Communicator& communicator, Deadline deadline) {
  if (!communicator.shares_address_space()) return {false, "the ranks do not see each other's device memory"};
  if (communicator.world_size() > kMaxTeamRanks)
    return {false, fmt::format("at most {} ranks reach each other's memory", kMaxTeamRanks)};
  std::string refusal;
  for (const std::string& address : communicator.exchange(address_of(&device), deadline)) {
    auto* other = object_at<Device>(address);
    const bool host = device.backend() == BackendKind::cpu && other->backend() == BackendKind::cpu;
    const Feasibility reach = other == &device || host ? Feasibility{} : device.reach(*other);
    if (!reach.ok) refusal = reach.reason;
  }
  // Every rank queries every device before any rank continues.
  for (const std::string& other : communicator.exchange(refusal, deadline))
    if (refusal.empty()) refusal = other;
  return {refusal.empty(), refusal};
}

SymmetricMemory memory_of_buffers(const std::vector<Device*>& devices,
                                  const std::vector<std::shared_ptr<Buffer>>& buffers, int rank,
                                  double timeout_seconds) {
  std::vector<Offer> offers;
  for (size_t r = 0; r < buffers.size(); ++r) offers.push_back({gpu_of(*devices[r]), buffers[r]});
  return memory_of_offers(offers, rank, timeout_seconds);
}

SymmetricMemory share_buffer(Device& device, Communicator& communicator, const std::shared_ptr<Buffer>& own,
                             double timeout_seconds) {
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const auto mine = std::make_shared<Offer>(Offer{gpu_of(device), own});
  communicator.keep(mine);  // a rank that fails below may leave while others still read its offer
  std::vector<Offer> offers;
  for (const std::string& address : communicator.exchange(address_of(mine.get()), deadline))
    offers.push_back(*object_at<const Offer>(address));
  communicator.barrier(deadline);  // now every rank has copied every offer
  communicator.release_kept();
  return memory_of_offers(offers, communicator.rank(), timeout_seconds);
}

std::shared_ptr<Buffer> allocate_zeroed(Device& device, size_t bytes, Deadline deadline) {
  std::shared_ptr<Buffer> buffer = device.allocate(std::max<size_t>(bytes, 1));
  const std::unique_ptr<Stream> stream = device.make_stream("symmetric");
  device.fill_zero(*stream, buffer->data(), buffer->bytes());
  stream->synchronize(deadline);
  return buffer;
}

SymmetricMemory make_symmetric_memory(Device& device, Communicator& communicator, size_t bytes,
                                      double timeout_seconds) {
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const Team team = Team::first(communicator.world_size(), communicator.rank());
  check_team(team);
  if (communicator.shares_address_space()) {
    if (const Feasibility reach = reach_team(device, communicator, deadline); !reach.ok)
      throw Error(Cause::environment_missing, "symmetric memory: " + reach.reason, "GPUs with peer access");
    return share_buffer(device, communicator, allocate_zeroed(device, bytes, deadline), timeout_seconds);
  }
  if (device.backend() != BackendKind::cpu) return make_cuda_ipc_memory(device, communicator, bytes, timeout_seconds);
  std::string name = team.rank == 0 ? new_segment_name() : "";
  SymmetricMemory memory;
  if (team.rank == 0) memory = map_segment(name, team, bytes, timeout_seconds, true);
  try {
    name = communicator.exchange(name, deadline).front();
    if (team.rank != 0) memory = map_segment(name, team, bytes, timeout_seconds, false);
    communicator.barrier(deadline);
  } catch (...) {
    if (team.rank == 0) unlink_segment(name);
    throw;
  }
  if (team.rank == 0) unlink_segment(name);
  return memory;
}

}  // namespace amdahl
