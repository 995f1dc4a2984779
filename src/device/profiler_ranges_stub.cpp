// Replaces cuda_profiler_ranges.cpp in a build without CUDA.
#include "device/profiler_ranges.h"

namespace amdahl {

ProfilerRange::ProfilerRange(const char*) {}
ProfilerRange::ProfilerRange(const char*, int64_t) {}
ProfilerRange::~ProfilerRange() {}

void start_profiler_capture() {}
void stop_profiler_capture() {}

}  // namespace amdahl
