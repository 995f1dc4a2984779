// Looks through times for the first that no operation takes.
#include "sensor/cuda_launch.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

__global__ void find_bad_time(const float* times, int64_t count, int64_t length, unsigned long long* first) {
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const bool falls = i % length > 0 && times[i] < times[i - 1];
    if (falls || !isfinite(times[i])) atomicMin(first, static_cast<unsigned long long>(i));
  }
}

__global__ void describe_bad_time(const float* times, TimesFault* fault) {
  fault->non_finite = fault->index >= 0 && !isfinite(times[fault->index]);
}

}  // namespace

void launch_check_times(const SensorLaunch& launch, const float* times, int64_t batch, int64_t length,
                        TimesFault* fault) {
  constexpr int kThreads = 256;
  static_assert(sizeof(unsigned long long) == sizeof(int64_t));
  cuda_check(cudaMemsetAsync(&fault->index, 0xff, sizeof fault->index, launch.stream), launch.device_index,
             "cudaMemsetAsync");
  if (batch * length > 0)
    find_bad_time<<<num_blocks(launch, batch * length, kThreads, 8), kThreads, 0, launch.stream>>>(
        times, batch * length, length, reinterpret_cast<unsigned long long*>(&fault->index));
  describe_bad_time<<<1, 1, 0, launch.stream>>>(times, fault);
  check_launch(launch, "check_times");
}

}  // namespace amdahl
