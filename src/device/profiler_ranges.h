// Named host ranges for profilers (NVTX in a build with CUDA), and control of what profilers record.
#pragma once

#include <cstdint>

namespace amdahl {

/// A range from construction to destruction on the calling thread, in the domain "amdahl". Without a profiler it costs
/// a test of a pointer. `name` must be a literal. The range covers the time of enqueueing, not of execution on the
/// device. The replay of a graph enqueues nothing, so only its launch has a range.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  /// With a number that the profiler shows next to the name, for example the bytes of a bucket.
  ProfilerRange(const char* name, int64_t payload);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

/// The interval that a profiler in capture-range mode (`nsys --capture-range cudaProfilerApi`) records: from
/// construction to destruction, also by an exception. No effect otherwise, nor if not `active`.
class ProfilerCapture {
 public:
  explicit ProfilerCapture(bool active);
  ~ProfilerCapture();
  ProfilerCapture(const ProfilerCapture&) = delete;
  ProfilerCapture& operator=(const ProfilerCapture&) = delete;

 private:
  const bool active_;
};

}  // namespace amdahl
