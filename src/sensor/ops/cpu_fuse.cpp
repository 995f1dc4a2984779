// Interpolates streams at target times on the CPU. Built twice: AMDAHL_CPU_FUSE names the table, the build sets the
// instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "sensor/ops/cpu_elements.h"
#include "sensor/ops/cpu_kernels.h"

namespace amdahl {
namespace {

/// The two samples around a target and the weight of the second one; the same sample twice if it is copied.
struct Place {
  int64_t before = 0, after = 0;
  float weight = 0;
};

/// Index of the last of times[0, n) that is at most t, or -1.
int64_t last_at_most(const float* times, int64_t n, float t) {
  return std::upper_bound(times, times + n, t) - times - 1;
}

Place place_hold(const float* times, int64_t n, float t) {
  const int64_t i = last_at_most(times, n, t);
  if (i < 0) return {0, 0, 0};
  if (i >= n - 1) return {n - 1, n - 1, 0};
  return {i, i + 1, (t - times[i]) / (times[i + 1] - times[i])};
}

constexpr float kOriginalEpsilon = 1e-8f;

float original_weight(const float* times, int64_t i, float t) {
  return (t - times[i]) / (times[i + 1] - times[i] + kOriginalEpsilon);
}

Place place_linear(const float* times, int64_t n, float t) {
  if (n == 1) return {0, 0, 0};
  int64_t i = 0;
  if (t > times[0]) i = t >= times[n - 1] ? n - 2 : std::clamp<int64_t>(last_at_most(times, n, t), 0, n - 2);
  return {i, i + 1, original_weight(times, i, t)};
}

Place place_linear_right(const float* times, int64_t n, float t) {
  const int64_t at = std::min<int64_t>(std::lower_bound(times, times + n, t) - times, n - 1);
  if (at == 0) return {0, 0, 0};
  return {at - 1, at, original_weight(times, at - 1, t)};
}

template <class T>
void interpolate(Extrapolation rule, const T* a, const T* b, float w, T* out, int64_t width) {
  if (a == b) {
    std::memcpy(static_cast<void*>(out), a, static_cast<size_t>(width) * sizeof(T));
  } else if (rule == Extrapolation::hold) {
    for (int64_t i = 0; i < width; ++i) store(out[i], load(a[i]) + w * (load(b[i]) - load(a[i])));
  } else if (rule == Extrapolation::linear) {
    for (int64_t i = 0; i < width; ++i) store(out[i], std::fma(w, load(b[i]) - load(a[i]), load(a[i])));
  } else {
    const float v = 1.0f - w;
    for (int64_t i = 0; i < width; ++i) store(out[i], std::fma(v, load(a[i]), w * load(b[i])));
  }
}

template <class T>
void fuse_as(const FuseProblem& problem) {
  const auto find = problem.extrapolation == Extrapolation::hold     ? place_hold
                    : problem.extrapolation == Extrapolation::linear ? place_linear
                                                                     : place_linear_right;
  auto* out = static_cast<T*>(problem.output);
  for (int64_t b = 0; b < problem.batch; ++b)
    for (int64_t t = 0; t < problem.num_targets; ++t) {
      const float target = problem.targets[b * problem.num_targets + t];
      for (const FuseStream& stream : problem.streams) {
        const Place place = find(stream.times + b * stream.length, stream.length, target);
        const T* rows = static_cast<const T*>(stream.data) + b * stream.length * stream.width;
        interpolate(problem.extrapolation, rows + place.before * stream.width, rows + place.after * stream.width,
                    place.weight, out, stream.width);
        out += stream.width;
      }
    }
}

void fuse(const FuseProblem& problem) {
  with_type(problem.type, [&](auto* type) { fuse_as<std::remove_pointer_t<decltype(type)>>(problem); });
}

}  // namespace

const CpuFuseKernels AMDAHL_CPU_FUSE{fuse};

}  // namespace amdahl
