// One-sided operations of one rank in stream order: the interface of the back ends.
#pragma once

#include <memory>
#include <string_view>

#include "device/device.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Calls are enqueued and return. Offsets are bytes from the front of a rank's region, whose TeamFlags nothing may
/// overwrite; `local` memory is memory of this rank's device, valid until the stream is past the call. A wait that
/// outlasts the memory's timeout ends, and later rounds do nothing; the stream's synchronize then throws
/// Error{rank_hung} that names the rank that was waited for. SymmetricHeap checks ranges and calls these.
///
/// Streams that calls were enqueued on must outlive it: its end waits for them.
///
/// A back end is a class in a file of its own and a row in make_one_sided.
class OneSided {
 public:
  virtual ~OneSided() = default;
  /// "cpu" or "cuda_p2p".
  virtual std::string_view name() const = 0;

  virtual void put(Stream& stream, size_t offset, const void* local, size_t bytes, int rank) = 0;
  virtual void get(Stream& stream, void* local, size_t offset, size_t bytes, int rank) = 0;
  /// Stores `value` to a Signal of that rank, after all that this stream has put there before.
  virtual void signal(Stream& stream, size_t offset, uint64_t value, int rank) = 0;
  /// Later work of the stream starts once this rank's Signal, which rank `from` stores, is `value` or more.
  virtual void signal_wait(Stream& stream, size_t offset, uint64_t value, int from) = 0;
  /// Adds to 8 bytes of that rank, atomically; `old` (local, may be null) gets what was there before.
  virtual void fetch_add(Stream& stream, size_t offset, uint64_t value, int rank, uint64_t* old) = 0;
  /// Orders puts of this stream before its later ones.
  virtual void fence(Stream& stream) = 0;
  /// The stream is past it once its puts are done.
  virtual void quiet(Stream& stream) = 0;
  /// A round of the team: the stream is past it once all ranks' streams have reached theirs, and what they put is seen.
  virtual void barrier(Stream& stream) = 0;

  /// Ends running and later waits of this rank, which then fail. Any thread.
  virtual void abort() noexcept = 0;
};

/// The back end of the device's kind.
std::unique_ptr<OneSided> make_one_sided(Device& device, const SymmetricMemory& memory);

std::unique_ptr<OneSided> make_cpu_one_sided(const SymmetricMemory& memory);
/// Error{environment_missing} in a build without CUDA.
std::unique_ptr<OneSided> make_cuda_p2p_one_sided(Device& device, const SymmetricMemory& memory);

}  // namespace amdahl
