#include "device/recording_device.h"

#include <algorithm>

namespace amdahl {
namespace {

constexpr size_t kAlignment = 256;  // of buffers: Buffer

class RecordingEvent final : public Event {
 public:
  bool done() const override { return true; }
};

class RecordingStream final : public Stream {
 public:
  explicit RecordingStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize(Deadline) override {}

 private:
  Device& device_;
};

class RecordingBuffer final : public Buffer {
 public:
  RecordingBuffer(RecordingDevice::Count& count, size_t bytes) : count_(count), bytes_(bytes), address_(count.next) {
    count_.next += (bytes / kAlignment + 1) * kAlignment;
    count_.now += bytes_;
    count_.peak = std::max(count_.peak, count_.now);
  }
  ~RecordingBuffer() override { count_.now -= bytes_; }
  RecordingBuffer(const RecordingBuffer&) = delete;
  RecordingBuffer& operator=(const RecordingBuffer&) = delete;

  void* data() override { return reinterpret_cast<void*>(address_); }  // NOLINT(performance-no-int-to-ptr)
  size_t bytes() const override { return bytes_; }

 private:
  RecordingDevice::Count& count_;
  size_t bytes_;
  uintptr_t address_;
};

}  // namespace

RecordingDevice::RecordingDevice(BackendKind stands_for) : backend_(stands_for) {
  spec_.kind = stands_for == BackendKind::cpu ? "cpu-virtual" : "cuda";
  spec_.name = "recording device";
  count_.next = kAlignment;  // no buffer is at null
}

std::unique_ptr<Stream> RecordingDevice::make_stream(const std::string&) {
  return std::make_unique<RecordingStream>(*this);
}

std::unique_ptr<Event> RecordingDevice::make_event() { return std::make_unique<RecordingEvent>(); }

std::unique_ptr<Buffer> RecordingDevice::allocate(size_t bytes) {
  return std::make_unique<RecordingBuffer>(count_, bytes);
}

std::unique_ptr<Graph> RecordingDevice::capture(Stream&, const std::function<void()>&) {
  throw Error(Cause::internal, supports_graphs().reason);
}

}  // namespace amdahl
