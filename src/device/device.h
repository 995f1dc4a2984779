// Device, Stream, Event, Buffer, Graph: the execution model that CPU virtual devices and CUDA devices share.
//
// A Device belongs to one rank. Work is enqueued on Streams in order and runs asynchronously; Events order work across
// streams of one device and carry time stamps. One host thread (the rank's) drives a device at a time; CPU streams run
// their queue on a worker thread of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "base/deadline.h"

namespace amdahl {

class Device;

/// A mark in a stream. Reusable: recording again replaces the mark. Must not outlive its Device.
class Event {
 public:
  virtual ~Event() = default;
  /// True once the last recorded mark has been passed (or nothing was recorded).
  virtual bool done() const = 0;
};

/// An in-order queue of device work. Enqueueing never blocks on the device's progress.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  /// Marks a point that other streams `wait` for. Inside a capture it becomes an edge of the graph and carries no time.
  virtual void record(Event& event) = 0;
  /// Marks a point in time for `elapsed_us`, also inside a captured graph, whose every replay renews the stamp. An
  /// event is used either with `record` or with `stamp`, not with both.
  virtual void stamp(Event& event) { record(event); }
  /// Later work on this stream starts after the event's last recorded mark.
  virtual void wait(Event& event) = 0;
  /// Blocks the host until everything enqueued so far is done. Throws the first error of that work; Error{rank_hung} at
  /// the deadline; Error{interrupted} once the device's waits are to end, done or not. CPU streams see their own
  /// progress: there the deadline's span starts again whenever queued work was finished, and nothing of the queue runs
  /// any more when this throws, so that the caller may let go of the memory the work uses. CUDA streams end at the
  /// deadline, and what is queued stays queued.
  virtual void synchronize(Deadline deadline) = 0;
  /// Microseconds spent executing work items since creation, where the backend can tell (CPU workers); else negative.
  virtual double busy_us() { return -1.0; }
};

/// Device memory, freed with the object. `data()` is a device pointer (host memory on CPU virtual devices), 256-byte
/// aligned.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }
};

/// A captured sequence of work over one or several streams, replayed with one call.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
  virtual size_t num_nodes() const = 0;
};

/// State read around a measurement, to flag a series during which the card changed. Absent readings are negative.
struct DeviceHealth {
  double sm_clock_mhz = -1, memory_clock_mhz = -1, temperature_c = -1, power_w = -1;
  double utilisation_percent = -1;
  /// Of the whole card since its driver was loaded; the meter moves on every tenth of a second or so.
  double energy_j = -1;
  uint64_t throttle_reasons = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual BackendKind backend() const = 0;
  virtual const DeviceSpec& spec() const = 0;

  /// Devices with stream priorities serve streams whose name starts with "comm" before the others.
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// Microseconds between two passed stamps of this device. Host clocks never mix in.
  virtual double elapsed_us(const Event& start, const Event& end) = 0;
  /// A passed stamp on the host's steady clock in ns, where that is the device's clock; nothing where it has its own.
  virtual std::optional<int64_t> host_time_ns(const Event& event) {
    (void)event;
    return std::nullopt;
  }

  /// Throws Error{out_of_memory} that says how much was asked and how much is free. Contents are undefined.
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;
  virtual size_t allocated_bytes() const = 0;
  virtual size_t peak_allocated_bytes() const = 0;
  virtual void reset_peak() = 0;

  /// Asynchronous copies in stream order. Host memory must stay valid until the stream passes them.
  virtual void copy_in(Stream& stream, void* device_destination, const void* host_source, size_t bytes) = 0;
  virtual void copy_out(Stream& stream, void* host_destination, const void* device_source, size_t bytes) = 0;
  virtual void copy_within(Stream& stream, void* destination, const void* source, size_t bytes) = 0;
  virtual void fill_zero(Stream& stream, void* destination, size_t bytes) = 0;

  virtual Feasibility supports_graphs() const = 0;
  /// Runs `enqueue` in capture mode on `origin` and streams that joined it by events, and returns the captured work,
  /// not run.
  virtual std::unique_ptr<Graph> capture(Stream& origin, const std::function<void()>& enqueue) = 0;

  /// Lets kernels of this device read and write memory that `peer`, a device of this process, allocates now or later;
  /// says why not where that cannot be.
  Feasibility reach(Device& peer) {
    const auto found = avoided_.find(peer.spec().index);
    return found == avoided_.end() ? reach_peer(peer) : Feasibility{false, found->second};
  }
  /// From now on `reach` says no for the peer of that index, because of `why`: a link that corrupts data, for example.
  void avoid(int peer_index, std::string why) { avoided_[peer_index] = std::move(why); }

  /// Makes this device current for the calling thread (a no-op on CPU).
  virtual void bind_thread() = 0;
  virtual DeviceHealth health() = 0;

  /// Lets host waits on this device's streams end early once `stopped` says so. It is polled in those waits and between
  /// steps, from any thread. Set before ranks run.
  void end_waits_when(std::function<bool()> stopped) { stopped_ = std::move(stopped); }
  bool stop_asked() const { return stopped_ && stopped_(); }
  /// Error{interrupted} if it is.
  void throw_if_stopped() const {
    if (stop_asked()) throw Error(Cause::interrupted, "stopped by the user", "the same command again");
  }

 protected:
  virtual Feasibility reach_peer(Device& peer) {
    (void)peer;
    return {false, "devices of this kind do not reach each other's memory"};
  }

 private:
  std::map<int, std::string> avoided_;
  std::function<bool()> stopped_;
};

/// `count` virtual devices, numbered from `first_index` on. Each of their streams computes with one math thread, its
/// worker. See cpu_device.h.
std::vector<std::unique_ptr<Device>> make_cpu_devices(int count, int first_index = 0);

/// CUDA devices by index; Error{environment_missing} when a device is not there. See cuda_device.h for availability.
/// A device with a share below 1 has that part of its multiprocessors, in the hardware's groups: `spec().sm_count` says
/// how many, and nothing that its streams run, captured or not, uses others. Its memory and its copies stay those of
/// the whole. Parts of one GPU that are made together, under its index each, have no multiprocessor in common.
/// Error{usage} for a share outside (0, 1] or below the smallest group. `sm_shares` empty: all are whole.
std::vector<std::unique_ptr<Device>> make_cuda_devices(const std::vector<int>& indices,
                                                       const std::vector<double>& sm_shares = {});
Availability cuda_availability();
/// A stream that somebody else made: a cudaStream_t of that device, which is not destroyed with the result.
std::unique_ptr<Stream> adopt_cuda_stream(Device& device, void* stream);
/// Versions of the CUDA runtime, driver and cuBLAS by name; empty in a build without CUDA.
std::map<std::string, std::string> cuda_versions();
/// Every CUDA device of this machine; empty without a driver.
std::vector<DeviceSpec> list_cuda_devices();
/// What the CUDA runtime says of peer access between two of them; nothing without a driver.
struct PeerAbility {
  int source = 0, destination = 0;
  bool access = false, atomics = false;
};
std::vector<PeerAbility> list_cuda_peers();

}  // namespace amdahl
