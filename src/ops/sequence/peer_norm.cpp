#include "ops/sequence/peer_norm.h"

#include <fmt/format.h>

namespace amdahl {
namespace {

constexpr size_t kHeapGrain = 256;  // of an allocation in the heap
/// Data and flags of 8 bytes each.
constexpr size_t kPacketFactor = 2;

size_t packet_bytes(const PeerNormSize& size) {
  const size_t bytes = static_cast<size_t>(size.rows * size.width) * size_of(size.type) * kPacketFactor;
  return (bytes + kHeapGrain - 1) / kHeapGrain * kHeapGrain;
}

}  // namespace

size_t PeerNorm::heap_bytes(const PeerNormSize& size, int ranks) {
  return 2 * static_cast<size_t>(ranks) * packet_bytes(size) + kCounters * sizeof(Signal) + 2 * kHeapGrain;
}

PeerNorm::PeerNorm(SymmetricHeap& heap, const PeerNormSize& size)
    : heap_(heap),
      size_(size),
      slot_bytes_(packet_bytes(size)),
      slots_(heap.allocate<char>(2 * static_cast<size_t>(heap.team().size()) * slot_bytes_)),
      counters_(heap.allocate<Signal>(kCounters)) {}

void PeerNorm::forward(Stream& stream, const LayerNormForward& a) {
  if (a.rows == 0 || a.width == 0) return;
  if (a.rows * a.width > size_.rows * size_.width || a.type != size_.type || !a.delta)
    throw Error(Cause::usage,
                fmt::format("an all-reduce with normalisation of {} x {} {}, made for {} x {} {}", a.rows, a.width,
                            to_string(a.type), size_.rows, size_.width, to_string(size_.type)),
                "at most the size that it was made for");
  enqueue(stream, a);
}

std::unique_ptr<PeerNorm> make_peer_norm(Device& device, SymmetricHeap& heap, const PeerNormSize& size) {
  return device.backend() == BackendKind::cuda ? make_cuda_peer_norm(device, heap, size)
                                               : make_cpu_peer_norm(heap, size);
}

}  // namespace amdahl
