// Named ranges of the host's time for profilers (NVTX in a build with CUDA), and what of a process they record.
#pragma once

#include <cstdint>

namespace amdahl {

/// A range from construction to destruction on the calling thread, in the domain "amdahl". Without a profiler it is a
/// test of a pointer. `name` must be a literal. It covers what the host enqueues, not when the device runs it: the
/// profiler shows that beside it. A graph's replay enqueues nothing, so only its launch has a range.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  /// With a number that the profiler shows beside the name: bytes of a bucket.
  ProfilerRange(const char* name, int64_t payload);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

/// What runs between these is what a profiler records that was told to wait for them (`nsys --capture-range
/// cudaProfilerApi`). No effect otherwise.
void start_profiler_capture();
void stop_profiler_capture();

}  // namespace amdahl
