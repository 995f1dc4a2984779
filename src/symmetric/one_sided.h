// One-sided operations of one rank in stream order: the interface of the backends.
#pragma once

#include <memory>
#include <string_view>

#include "device/device.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Calls enqueue and return. Offsets are bytes from the start of a rank's region; the TeamFlags there must not be
/// overwritten. `local` is memory of this rank's device and must stay valid until the stream has executed the call. A
/// wait that exceeds the memory's timeout ends, and later rounds do nothing; the stream's synchronize then throws
/// Error{rank_hung} that names the missing rank. SymmetricHeap checks ranges; these functions do not. Not thread-safe
/// except for abort().
///
/// Streams that calls were enqueued on must outlive this object, because its destructor waits for them.
///
/// To add a backend, write a class in its own file and add it to make_one_sided.
class OneSided {
 public:
  virtual ~OneSided() = default;
  /// "cpu" or "cuda_p2p".
  virtual std::string_view name() const = 0;

  virtual void put(Stream& stream, size_t offset, const void* local, size_t bytes, int rank) = 0;
  virtual void get(Stream& stream, void* local, size_t offset, size_t bytes, int rank) = 0;
  /// Stores `value` to a Signal of that rank, after all earlier puts of this stream to that rank.
  virtual void signal(Stream& stream, size_t offset, uint64_t value, int rank) = 0;
  /// Later work of the stream starts once this rank's Signal, which rank `from` stores, is at least `value`.
  virtual void signal_wait(Stream& stream, size_t offset, uint64_t value, int from) = 0;
  /// Adds atomically to 8 bytes of that rank; `old` (local, may be null) receives the previous value.
  /// Error{environment_missing} for GPUs without native atomics between them.
  virtual void fetch_add(Stream& stream, size_t offset, uint64_t value, int rank, uint64_t* old) = 0;
  /// Orders earlier puts of this stream before later ones.
  virtual void fence(Stream& stream) = 0;
  /// Completes in stream order once this stream's earlier puts are complete.
  virtual void quiet(Stream& stream) = 0;
  /// One round of the team: completes once the streams of all ranks have arrived; their earlier puts are then visible.
  virtual void barrier(Stream& stream) = 0;

  /// Makes running and later waits of this rank fail. Thread-safe.
  virtual void abort() noexcept = 0;
};

/// The backend for the kind of the device.
std::unique_ptr<OneSided> make_one_sided(Device& device, const SymmetricMemory& memory);

std::unique_ptr<OneSided> make_cpu_one_sided(const SymmetricMemory& memory);
/// Error{environment_missing} in a build without CUDA.
std::unique_ptr<OneSided> make_cuda_p2p_one_sided(Device& device, const SymmetricMemory& memory);

}  // namespace amdahl
