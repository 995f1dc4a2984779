// What the values of a voxel's points become: rules of sums, means and maxima, and sums of neighbouring features.
#pragma once

#include <limits>

#include "sensor/cuda_launch.cuh"

namespace amdahl::sensor_cuda {

struct ValueArgs {
  const void* features;
  uint32_t columns;  // packs of features of a point
  void* output;      // of the slab: first voxel's first value
  int32_t* counts;   // of the slab, or null
  const float* scale;
  bool zero_floor;
};

// How values of a voxel become one: start, add a value, join two, write (count is at least 1 unless empty).

struct FloatMean {
  using Sum = float;
  __device__ static Sum start(const ValueArgs&) { return 0; }
  __device__ static void add(const ValueArgs&, Sum& sum, float value) { sum += value; }
  __device__ static void join(Sum& sum, Sum other) { sum += other; }
  __device__ static float result(const ValueArgs&, Sum sum, uint32_t count) {
    return count == 0 ? 0.0f : __fdiv_rn(sum, static_cast<float>(count));
  }
};

struct FloatSum : FloatMean {
  __device__ static float result(const ValueArgs&, Sum sum, uint32_t) { return sum; }
};

struct FixedSum {
  using Sum = long long;
  __device__ static Sum start(const ValueArgs&) { return 0; }
  __device__ static void add(const ValueArgs& args, Sum& sum, float value) {
    if (isfinite(value)) sum += __float2ll_rn(value * *args.scale);
  }
  __device__ static void join(Sum& sum, Sum other) { sum += other; }
  __device__ static long long result(const ValueArgs&, Sum sum, uint32_t) { return sum; }
};

struct FixedMean : FixedSum {
  __device__ static float result(const ValueArgs& args, Sum sum, uint32_t count) {
    return count == 0 ? 0.0f
                      : static_cast<float>(static_cast<double>(sum) / (static_cast<double>(*args.scale) * count));
  }
};

/// fmaxf ignores NaN.
struct PartialMax {
  using Sum = float;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  __device__ static Sum start(const ValueArgs& args) { return args.zero_floor ? 0.0f : -kInfinity; }
  __device__ static void add(const ValueArgs&, Sum& most, float value) { most = fmaxf(most, value); }
  __device__ static void join(Sum& most, Sum other) { most = fmaxf(most, other); }
  __device__ static float result(const ValueArgs&, Sum most, uint32_t) { return most; }
};

struct Max : PartialMax {
  __device__ static float result(const ValueArgs&, Sum most, uint32_t) {
    return most == -kInfinity || most == 0 ? 0.0f : most;  // final_max of voxel_values.h
  }
};

/// Feature pack `column` of a point.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> load(const ValueArgs& args, uint32_t point, uint32_t column) {
  return static_cast<const Pack<T, N>*>(args.features)[static_cast<int64_t>(point) * args.columns + column];
}

/// Sums of N neighbouring features of a voxel.
template <class Rule, class T, int N>
struct Sums {
  typename Rule::Sum at[N];

  __device__ explicit Sums(const ValueArgs& args) {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = Rule::start(args);
  }
  __device__ __forceinline__ void add(const ValueArgs& args, const Pack<T, N>& values) {
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::add(args, at[i], as_float(values.at[i]));
  }
  __device__ void join_warp() {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
      for (int i = 0; i < N; ++i) Rule::join(at[i], __shfl_xor_sync(~0u, at[i], d));
  }
  __device__ __forceinline__ void write(const ValueArgs& args, uint32_t voxel, uint32_t column, uint32_t count) const {
    write_at(args, static_cast<int64_t>(voxel) * args.columns + column, count);
  }
  /// Result pack `at` of the slab.
  __device__ __forceinline__ void write_at(const ValueArgs& args, int64_t at_pack, uint32_t count) const {
    using Result = decltype(Rule::result(args, at[0], count));
    Pack<Result, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = Rule::result(args, at[i], count);
    static_cast<Pack<Result, N>*>(args.output)[at_pack] = row;
  }
};

}  // namespace amdahl::sensor_cuda
