// Loops of one-sided operations in stream order, executed where the device computes (a CPU worker, a kernel), to
// measure the operations without the cost of enqueueing each.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "device/device.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

enum class LoopKind {
  put,            // rank 0 to rank 1, each completed before the next one
  get,            // rank 0 from rank 1
  put_signal,     // ranks 0 and 1 in turn: the data, then a signal that the other waits for
  put_packets,    // the same for up to kMostPacketBytes, in packets that the other unpacks
  signal,         // as put_signal without data
  fetch_add,      // rank 0 on a counter of rank 1
  contended_add,  // all ranks on a counter of rank 0
  put_fence,      // rank 0 to rank 1, a fence after each
  put_quiet,      // rank 0 to rank 1: 8 puts of a part each, then quiet
  barrier,        // all ranks
};

/// Most blocks, and most threads of a block, of a kernel that executes a loop.
inline constexpr int kMostLoopBlocks = 64, kMostLoopThreads = 1024;
/// Signals that a loop uses: two per block.
inline constexpr size_t kLoopSignals = 2 * kMostLoopBlocks;

/// Largest message of put_packets, and size of the object that it uses.
inline constexpr size_t kMostPacketBytes = 4096, kLoopPacketBytes = 2 * kMostPacketBytes;

/// All offsets are from the start of a rank's region and equal on all ranks.
struct LoopCall {
  LoopKind kind = LoopKind::put;
  size_t outbox = 0, inbox = 0;  // `bytes` each
  size_t signals = 0;            // kLoopSignals
  size_t packets = 0;            // kLoopPacketBytes, initially zero
  size_t counter = 0;            // 8 bytes
  size_t bytes = 8;
  int64_t times = 1;
  uint64_t first_signal = 0;      // value of the signals before the loop; afterwards `times` more
  int blocks = 1, threads = 256;  // of a kernel
};

/// One rank's loops. Errors as OneSided: the stream's synchronize throws. Not thread-safe except for abort().
class OneSidedLoops {
 public:
  virtual ~OneSidedLoops() = default;
  /// Enqueues this rank's part of the loop; ranks without a part do nothing.
  virtual void enqueue(Stream& stream, const LoopCall& call) = 0;
  virtual void abort() noexcept = 0;
};

std::unique_ptr<OneSidedLoops> make_one_sided_loops(Device& device, const SymmetricMemory& memory);
/// Error{environment_missing} in a build without CUDA.
std::unique_ptr<OneSidedLoops> make_cuda_one_sided_loops(Device& device, const SymmetricMemory& memory);

}  // namespace amdahl
