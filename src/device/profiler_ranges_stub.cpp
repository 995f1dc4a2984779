// Replaces cuda_profiler_ranges.cpp in a build without CUDA.
#include "device/profiler_ranges.h"

namespace amdahl {

ProfilerRange::ProfilerRange(const char*) {}
ProfilerRange::ProfilerRange(const char*, int64_t) {}
ProfilerRange::~ProfilerRange() {}

ProfilerCapture::ProfilerCapture(bool active) : active_(active) {}
ProfilerCapture::~ProfilerCapture() { static_cast<void>(active_); }

}  // namespace amdahl
