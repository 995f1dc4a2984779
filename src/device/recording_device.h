// RecordingDevice: a device without memory that runs nothing and counts the bytes that are allocated. The code that
// trains runs on it unchanged, to tell what it would allocate and enqueue.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace amdahl {

/// Addresses of its buffers are distinct, aligned to 256 bytes, and must not be read or written. Copies, fills, streams
/// and events do nothing. `stands_for`: the kind of device whose choices are recorded.
class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(BackendKind stands_for);

  BackendKind backend() const override { return backend_; }
  const DeviceSpec& spec() const override { return spec_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  std::unique_ptr<Event> make_event() override;
  double elapsed_us(const Event&, const Event&) override { return 0; }
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  std::unique_ptr<Buffer> allocate_host(size_t bytes) override { return allocate(bytes); }
  int64_t free_bytes() const override { return INT64_MAX; }
  size_t allocated_bytes() const override { return count_.now; }
  size_t peak_allocated_bytes() const override { return count_.peak; }
  void reset_peak() override { count_.peak = count_.now; }
  void copy_in(Stream&, void*, const void*, size_t) override {}
  void copy_out(Stream&, void*, const void*, size_t) override {}
  void copy_within(Stream&, void*, const void*, size_t) override {}
  void fill_zero(Stream&, void*, size_t) override {}
  Feasibility supports_graphs() const override { return {false, "a recording device runs nothing"}; }
  /// Throws Error{internal}.
  std::unique_ptr<Graph> capture(Stream& origin, const std::function<void()>& enqueue) override;
  void bind_thread() override {}
  DeviceHealth health() override { return {}; }

  struct Count {
    size_t now = 0, peak = 0;
    uintptr_t next = 0;  // address of the next buffer
  };

 private:
  BackendKind backend_;
  DeviceSpec spec_;
  Count count_;
};

}  // namespace amdahl
