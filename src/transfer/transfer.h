// Moving bytes between the memories of one machine, and proving that they arrived: copies by copy engine or kernel,
// host memory, gates that let several streams start together, patterns, pointer chases.
//
// A Transfer belongs to one Device and enqueues on that device's streams. Addresses may be of any memory that the
// device reaches: its own, a peer's after Device::reach, and host memory of allocate_host. One host thread drives it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "transfer/pattern.h"

namespace amdahl {

/// Who moves the bytes: the copy engine (memcpy), or a kernel whose device reads or writes the other memory itself.
enum class Mover { engine, kernel };
constexpr std::string_view to_string(Mover mover) { return mover == Mover::engine ? "engine" : "kernel"; }

enum class HostMemory { pinned, pageable };

/// Holds streams at a point of their queues until it is opened, so that what several of them do starts together and no
/// host call falls into it. Opens when it goes.
class Gate {
 public:
  virtual ~Gate() = default;
  /// Later work of a stream, of any device of the gate's kind, waits for `open`, or for the deadline.
  virtual void hold(Stream& stream) = 0;
  virtual void open() = 0;
};

class Transfer {
 public:
  virtual ~Transfer() = default;

  /// `times` copies of `bytes` one after the other. Addresses and sizes may be odd. With Mover::engine the memories
  /// need not reach each other: the driver then goes through host memory.
  virtual void copy(Stream& stream, void* destination, const void* source, size_t bytes, Mover mover, int times) = 0;

  /// Host memory that this device's kernels reach when it is pinned. On the NUMA node whose `cores` ("0-15") are
  /// given; anywhere when that is empty. Throws Error{out_of_memory}.
  virtual std::unique_ptr<Buffer> allocate_host(size_t bytes, HostMemory kind, const std::string& cores) = 0;

  virtual std::unique_ptr<Gate> make_gate(double timeout_seconds) = 0;

  /// Bytes 0 to `bytes` of a pattern, or of its complement.
  virtual void write_pattern(Stream& stream, void* destination, size_t bytes, Pattern pattern, uint64_t seed,
                             bool complement) = 0;
  /// Compares every byte, and waits for the answer.
  virtual PatternFault check_pattern(Stream& stream, const void* data, size_t bytes, Pattern pattern, uint64_t seed,
                                     Deadline deadline) = 0;

  /// What a chain should have at least so that its loads leave the caches of the one who walks it.
  virtual size_t chain_bytes() const = 0;
  /// Microseconds a dependent 8-byte load takes, mean over `accesses` loads that walk `chain`, memory of `bytes` that
  /// this device reaches and that make_chain has filled. On a GPU from each of its SMs in turn.
  virtual double chase_us(Stream& stream, void* chain, size_t bytes, int accesses, Deadline deadline) = 0;
};

/// The content of a chain at address `base`: every kChainStride bytes a pointer to another such place, one round
/// through all of them in an order that no prefetcher guesses.
inline constexpr size_t kChainStride = 128;
std::vector<uint64_t> make_chain(const void* base, size_t bytes);

std::unique_ptr<Transfer> make_cpu_transfer(Device& device);
/// Throws Error{environment_missing} in a build without CUDA.
std::unique_ptr<Transfer> make_cuda_transfer(Device& device);

}  // namespace amdahl
