// Layer normalisation fused with the all-reduce before it: the partial results of a row-parallel layer are added up
// over the ranks while the rows are normalised, by one kernel.
//
// Example, on every rank of a team:
//   auto norm = make_peer_norm(device, heap, {.rows = 8, .width = 4096, .type = DType::bf16});
//   norm->forward(*stream, {.x = residual, .delta = partial, .sum = residual, ...});
#pragma once

#include <cstdint>
#include <memory>

#include "amdahl/tensor.h"
#include "ops/sequence/norm_ops.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {

/// The largest call. Every rank passes the same.
struct PeerNormSize {
  int64_t rows = 0, width = 0;
  DType type = DType::f32;  // of delta
};

/// One rank's part. Not thread-safe. All ranks make the same calls in the same order, on streams of their devices;
/// calls can be captured in graphs. A wait longer than the heap's timeout ends the call; the stream's synchronize then
/// throws Error{rank_hung} that names the missing rank.
class PeerNorm {
 public:
  virtual ~PeerNorm() = default;
  PeerNorm(const PeerNorm&) = delete;
  PeerNorm& operator=(const PeerNorm&) = delete;

  /// Of the heap, for a team of that many ranks.
  static size_t heap_bytes(const PeerNormSize& size, int ranks);

  /// NormOps::layer_norm_forward whose delta is the sum of the ranks' `delta`, which stay as they are: added up in the
  /// order of the ranks and rounded to `type`. Every rank gets the bits of an all-reduce followed by that operation.
  /// Error{usage} for a call beyond the size, and on GPUs for a width that is no multiple of 8.
  void forward(Stream& stream, const LayerNormForward& a);

 protected:
  PeerNorm(SymmetricHeap& heap, const PeerNormSize& size);
  virtual void enqueue(Stream& stream, const LayerNormForward& a) = 0;
  /// Offset in the region of the data of rank `from`, which alternates from call to call.
  size_t slot(uint64_t call, int from) const {
    return slots_.range.offset +
           ((call & 1) * static_cast<size_t>(heap_.team().size()) + static_cast<size_t>(from)) * slot_bytes_;
  }

  SymmetricHeap& heap_;
  const PeerNormSize size_;
  const size_t slot_bytes_;
  const SymmetricArray<char> slots_;
  static constexpr size_t kCounters = 2 * kMaxTeamRanks;
  const SymmetricArray<Signal> counters_;  // kCounters, of calls
};

/// Collective, blocks the host; `heap` outlives it, and has room for heap_bytes(). The work of all calls has ended
/// before it is destroyed. Error{usage} for what forward refuses, Error{environment_missing} for a GPU in a build
/// without CUDA.
std::unique_ptr<PeerNorm> make_peer_norm(Device& device, SymmetricHeap& heap, const PeerNormSize& size);

/// The implementations of the backends.
std::unique_ptr<PeerNorm> make_cpu_peer_norm(SymmetricHeap& heap, const PeerNormSize& size);
std::unique_ptr<PeerNorm> make_cuda_peer_norm(Device& device, SymmetricHeap& heap, const PeerNormSize& size);

}  // namespace amdahl
