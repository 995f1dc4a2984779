// Device, Stream, Event, Buffer, Graph: the execution model that CPU virtual devices and CUDA devices share.
//
// A Device belongs to one rank. Work is enqueued on Streams and runs asynchronously in order; Events order work across
// the streams of one device and carry time stamps. Not thread-safe: only the rank's host thread uses a device at a
// time. Each CPU stream executes its queue on its own worker thread.
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

/// Bytes of so many floats.
inline size_t float_bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

class Device;

/// A mark in a stream. Recording again replaces the mark. Must not outlive its Device.
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
  /// Marks a point that other streams `wait` for. Inside a capture it becomes an edge of the graph, without a time
  /// stamp.
  virtual void record(Event& event) = 0;
  /// Marks a time stamp for `elapsed_us`, also inside a captured graph, where every replay renews it. An event is used
  /// either with `record` or with `stamp`, not with both.
  virtual void stamp(Event& event) { record(event); }
  /// Later work on this stream starts after the event's last recorded mark.
  virtual void wait(Event& event) = 0;
  /// Blocks the host until all work enqueued so far is done. Throws the first error of that work; Error{rank_hung} at
  /// the deadline; Error{interrupted} once the device's stop condition holds, whether the work is done or not. CPU
  /// streams: the deadline restarts whenever a queued item finishes, and no queued work runs any more when this throws,
  /// so that the caller may free the memory that it uses. CUDA streams: the deadline does not restart, and queued work
  /// stays queued.
  virtual void synchronize(Deadline deadline) = 0;
  /// Microseconds spent executing work items since creation (CPU workers); negative when the backend cannot tell.
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

/// Captured work of one or several streams, replayed by one call.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
  virtual size_t num_nodes() const = 0;
};

/// Readings taken before and after a measurement, to flag a series during which the card's state changed. Absent
/// readings are negative.
struct DeviceHealth {
  double sm_clock_mhz = -1, memory_clock_mhz = -1, temperature_c = -1, power_w = -1;
  double utilisation_percent = -1;
  /// Energy of the whole card since its driver was loaded; updated about ten times per second.
  double energy_j = -1;
  uint64_t throttle_reasons = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual BackendKind backend() const = 0;
  virtual const DeviceSpec& spec() const = 0;

  /// Streams whose name starts with "comm" get a higher priority where the device has stream priorities.
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// Microseconds between two passed stamps, by this device's clock only.
  virtual double elapsed_us(const Event& start, const Event& end) = 0;
  /// A passed stamp on the host's steady clock in ns; absent when the device has its own clock.
  virtual std::optional<int64_t> host_time_ns(const Event& event) {
    (void)event;
    return std::nullopt;
  }

  /// Throws Error{out_of_memory} that names the requested and the free size. Contents are undefined.
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;
  /// Host memory from which copies to this device run beside its work: pinned on CUDA.
  virtual std::unique_ptr<Buffer> allocate_host(size_t bytes) = 0;
  /// Bytes that could be allocated now, as far as the system tells.
  virtual int64_t free_bytes() const = 0;
  virtual size_t allocated_bytes() const = 0;
  virtual size_t peak_allocated_bytes() const = 0;
  virtual void reset_peak() = 0;

  /// Asynchronous copies in stream order. Host memory must stay valid until the stream passes them.
  virtual void copy_in(Stream& stream, void* device_destination, const void* host_source, size_t bytes) = 0;
  /// copy_in from memory of allocate_host.
  virtual void copy_in_pinned(Stream& stream, void* device_destination, const void* host_source, size_t bytes) {
    copy_in(stream, device_destination, host_source, bytes);
  }
  virtual void copy_out(Stream& stream, void* host_destination, const void* device_source, size_t bytes) = 0;
  virtual void copy_within(Stream& stream, void* destination, const void* source, size_t bytes) = 0;
  virtual void fill_zero(Stream& stream, void* destination, size_t bytes) = 0;

  virtual Feasibility supports_graphs() const = 0;
  /// Calls `enqueue` while `origin`, and the streams that join it by events, capture work, and returns that work
  /// without running it.
  virtual std::unique_ptr<Graph> capture(Stream& origin, const std::function<void()>& enqueue) = 0;

  /// Lets kernels of this device access present and future memory of `peer`, a device of this process; returns the
  /// reason when that is not possible.
  Feasibility reach(Device& peer) {
    const auto found = avoided_.find(peer.spec().index);
    return found == avoided_.end() ? reach_peer(peer) : Feasibility{false, found->second};
  }
  /// Makes `reach` fail for the peer of that index with the reason `why`, for example a link that corrupts data.
  void avoid(int peer_index, std::string why) { avoided_[peer_index] = std::move(why); }

  /// Makes this device current for the calling thread (a no-op on CPU).
  virtual void bind_thread() = 0;
  virtual DeviceHealth health() = 0;

  /// Ends host waits on this device's streams once `stopped` returns true. It is polled in those waits and between
  /// steps, by any thread. Set before ranks run.
  void end_waits_when(std::function<bool()> stopped) { stopped_ = std::move(stopped); }
  bool stop_asked() const { return stopped_ && stopped_(); }
  /// Throws Error{interrupted} when stop_asked().
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

/// `count` virtual devices, numbered from `first_index`. Each of their streams computes with one math thread, its
/// worker. See cpu_device.h.
std::vector<std::unique_ptr<Device>> make_cpu_devices(int count, int first_index = 0);
/// Virtual devices, each at a fraction (in (0, 1]) of its speed: streams made later wait after each piece of work, in
/// proportion to the processor time that it took.
std::vector<std::unique_ptr<Device>> make_limited_cpu_devices(const std::vector<double>& speeds, int first_index = 0);

/// CUDA devices by index; Error{environment_missing} when a device is not present. A device with a share below 1 is an
/// SM-limited partition: it has that share of the multiprocessors, rounded to the hardware's groups. `spec().sm_count`
/// is their number, and the work of its streams, captured or not, runs on no others. Its memory and copy engines are
/// those of the whole GPU. Partitions of one GPU that are made together, with its index repeated, have disjoint
/// multiprocessors. Error{usage} for a share outside (0, 1] or below the smallest group. Empty `sm_shares`: whole GPUs.
std::vector<std::unique_ptr<Device>> make_cuda_devices(const std::vector<int>& indices,
                                                       const std::vector<double>& sm_shares = {});
Availability cuda_availability();
/// Wraps a cudaStream_t of that device, which the caller keeps and destroys.
std::unique_ptr<Stream> adopt_cuda_stream(Device& device, void* stream);
/// Versions of the CUDA runtime, driver and cuBLAS by name; empty in a build without CUDA.
std::map<std::string, std::string> cuda_versions();
/// Every CUDA device of this machine; empty without a driver.
std::vector<DeviceSpec> list_cuda_devices();
/// Peer access between two CUDA devices according to the CUDA runtime.
struct PeerAbility {
  int source = 0, destination = 0;
  bool access = false, atomics = false;
};
/// Every ordered pair of CUDA devices; empty without a driver.
std::vector<PeerAbility> list_cuda_peers();

}  // namespace amdahl
