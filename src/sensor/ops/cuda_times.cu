// Finds the first invalid time of each array of times.
#include "sensor/ops/cuda_launch.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 256;
constexpr size_t kAtOnce = 32;  // arrays per launch, passed as kernel parameters

struct TimesArgs {
  TimesRows rows[kAtOnce];
};

/// Blocks (x, y) check rows[y].
__global__ void __launch_bounds__(kThreads) find_bad_times(const __grid_constant__ TimesArgs args, TimesFault* faults) {
  const TimesRows& rows = args.rows[blockIdx.y];
  const float* times = rows.times;
  for (int64_t i = thread_index(); i < rows.batch * rows.length; i += thread_count()) {
    const bool finite = isfinite(times[i]), falls = i % rows.length > 0 && times[i] < times[i - 1];
    if (finite && !falls) continue;
    static_assert(sizeof(unsigned long long) == sizeof(TimesFault));
    atomicMin(reinterpret_cast<unsigned long long*>(&faults[blockIdx.y].place),
              static_cast<unsigned long long>(i) * 2 + (finite ? 1 : 0));
  }
}

}  // namespace

void launch_check_times(const SensorLaunch& launch, const std::vector<TimesRows>& rows, TimesFault* faults) {
  if (rows.empty()) return;
  static_assert(TimesFault::kNone == ~uint64_t{0});
  cuda_check(cudaMemsetAsync(faults, 0xff, rows.size() * sizeof(TimesFault), launch.stream), launch.device_index,
             "cudaMemsetAsync");
  for (size_t first = 0; first < rows.size(); first += kAtOnce) {
    const size_t count = std::min(kAtOnce, rows.size() - first);
    TimesArgs args{};
    int64_t most = 0;
    for (size_t i = 0; i < count; ++i) {
      args.rows[i] = rows[first + i];
      most = std::max(most, args.rows[i].batch * args.rows[i].length);
    }
    const dim3 blocks(num_blocks(launch, most, kThreads, 8), static_cast<unsigned>(count));
    find_bad_times<<<blocks, kThreads, 0, launch.stream>>>(args, faults + first);
    check_launch(launch, "check_times");
  }
}

}  // namespace amdahl
