// Transfers between the memories of one machine and their verification: copies by copy engine or kernel, host memory,
// gates that start several streams together, bit patterns, pointer chases.
//
// A Transfer belongs to one Device and enqueues on its streams. Addresses may be in any memory that the device can
// access: its own, a peer's after Device::reach, and host memory of allocate_host. Not thread-safe: one host thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "transfer/pattern.h"

namespace amdahl {

/// Transfer method: the copy engine (memcpy), or a kernel that reads or writes the other memory.
enum class Mover { engine, kernel };
constexpr std::string_view to_string(Mover mover) { return mover == Mover::engine ? "engine" : "kernel"; }

enum class HostMemory { pinned, pageable };

/// Blocks streams at a point of their queues until it is opened, so that their work starts together and host calls are
/// not part of the measured time. Its destructor opens it.
class Gate {
 public:
  virtual ~Gate() = default;
  /// Later work of `stream`, of any device of the gate's kind, waits for `open` or the timeout.
  virtual void hold(Stream& stream) = 0;
  virtual void open() = 0;
};

class Transfer {
 public:
  virtual ~Transfer() = default;

  /// `times` consecutive copies of `bytes`. Any alignment. With Mover::engine the devices need no peer access: the
  /// driver then copies through host memory.
  virtual void copy(Stream& stream, void* destination, const void* source, size_t bytes, Mover mover, int times) = 0;

  /// Host memory; pinned memory is accessible by this device's kernels. Allocated on the NUMA node of `cores` ("0-15");
  /// empty: on any node. Throws Error{out_of_memory}.
  virtual std::unique_ptr<Buffer> allocate_host(size_t bytes, HostMemory kind, const std::string& cores) = 0;

  virtual std::unique_ptr<Gate> make_gate(double timeout_seconds) = 0;

  /// Writes the first `bytes` of a pattern, or of its complement.
  virtual void write_pattern(Stream& stream, void* destination, size_t bytes, Pattern pattern, uint64_t seed,
                             bool complement) = 0;
  /// Compares every byte and waits for the result.
  virtual PatternFault check_pattern(Stream& stream, const void* data, size_t bytes, Pattern pattern, uint64_t seed,
                                     Deadline deadline) = 0;

  /// Minimum size of a chain whose loads miss the caches of this device.
  virtual size_t chain_bytes() const = 0;
  /// Latency of a dependent 8-byte load in us, mean over `accesses` loads along `chain`: `bytes` of memory that this
  /// device can access, filled by make_chain. On a GPU, from each of its SMs in turn.
  virtual double chase_us(Stream& stream, void* chain, size_t bytes, int accesses, Deadline deadline) = 0;
};

/// Contents of a chain at address `base`: every kChainStride bytes a pointer to another element, forming one cycle
/// through all elements in an order that prefetchers cannot predict.
inline constexpr size_t kChainStride = 128;
std::vector<uint64_t> make_chain(const void* base, size_t bytes);

std::unique_ptr<Transfer> make_cpu_transfer(Device& device);
/// Throws Error{environment_missing} in a build without CUDA.
std::unique_ptr<Transfer> make_cuda_transfer(Device& device);

}  // namespace amdahl
