// Rules of sums, means and maxima, and sums of packs of features.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "sensor/ops/voxels/cuda_voxelize.cuh"

namespace amdahl::sensor_cuda {

struct ValueArgs {
  const void* features;
  uint32_t columns;  // packs of features per point
  void* output;      // first value of the slab
  int32_t* counts;   // of the slab; may be null
  const float* scale;
  bool zero_floor;
};

// Rules: initial value, addition of a value, combination of two sums, result of `count` values. The result of the
// initial value is that of an empty voxel.

struct FloatMean {
  using Sum = float;
  __device__ static Sum start(const ValueArgs&) { return 0; }
  __device__ static void add(const ValueArgs&, Sum& sum, float value) { sum += value; }
  __device__ static void join(Sum& sum, Sum other) { sum += other; }
  __device__ static float result(const ValueArgs&, Sum sum, uint32_t count) {
    return count <= 1 ? sum : __fdiv_rn(sum, static_cast<float>(count));
  }
};

struct FloatSum : FloatMean {
  __device__ static float result(const ValueArgs&, Sum sum, uint32_t) { return sum; }
};

struct FixedSum {
  using Sum = long long;
  __device__ static Sum start(const ValueArgs&) { return 0; }
  __device__ static void add(const ValueArgs& args, Sum& sum, float value) {
    if (isfinite(value)) sum += __float2ll_rn(value * __ldg(args.scale));
  }
  __device__ static void join(Sum& sum, Sum other) { sum += other; }
  __device__ static long long result(const ValueArgs&, Sum sum, uint32_t) { return sum; }
};

struct FixedMean : FixedSum {
  /// Equals fixed_point_mean of voxel_values.h bit for bit, because the scale is a power of two.
  __device__ static float result(const ValueArgs& args, Sum sum, uint32_t count) {
    const double mean = static_cast<double>(sum) * inverse(__ldg(args.scale));
    return static_cast<float>(count <= 1 ? mean : mean / count);
  }
  /// The result of a single value, equal bit for bit, without 64-bit numbers.
  __device__ static float of_one(const ValueArgs& args, float value) {
    if (!isfinite(value)) return 0;
    const float scale = __ldg(args.scale);
    return (rintf(value * scale) + 0.0f) * static_cast<float>(inverse(scale));  // -0 + 0 is 0
  }
  /// 1 / power, for powers of two in float's normal range, computed from the exponent.
  __device__ static double inverse(float power) {
    return __hiloint2double((127 + 1023 - static_cast<int>(__float_as_uint(power) >> 23)) << 20, 0);
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

/// final_max of voxel_values.h: -0 + 0 is 0.
struct Max : PartialMax {
  __device__ static void add(const ValueArgs&, Sum& most, float value) { most = fmaxf(most, value + 0.0f); }
  __device__ static float result(const ValueArgs&, Sum most, uint32_t) { return most == -kInfinity ? 0.0f : most; }
};

/// Loads feature pack `column` of a point.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> load(const ValueArgs& args, uint32_t point, uint32_t column) {
  return static_cast<const Pack<T, N>*>(args.features)[static_cast<int64_t>(point) * args.columns + column];
}

/// Stores evict-first, because grids may not fit into the L2.
template <class R, int N>
__device__ __forceinline__ void store_streaming(Pack<R, N>* at, const Pack<R, N>& value) {
  if constexpr (sizeof(value) % sizeof(uint4) == 0) {
#pragma unroll
    for (size_t i = 0; i < sizeof(value) / sizeof(uint4); ++i)
      __stcs(reinterpret_cast<uint4*>(at) + i, reinterpret_cast<const uint4*>(&value)[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) __stcs(&at->at[i], value.at[i]);
  }
}

/// Sums of N consecutive features of a voxel.
template <class Rule, class T, int N>
struct alignas(sizeof(typename Rule::Sum) * N) Sums {
  using Results = Pack<decltype(Rule::result(std::declval<ValueArgs>(), typename Rule::Sum{}, 0u)), N>;

  typename Rule::Sum at[N];

  __device__ explicit Sums(const ValueArgs& args) {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = Rule::start(args);
  }
  __device__ __forceinline__ void add(const ValueArgs& args, const Pack<T, N>& values) {
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::add(args, at[i], as_float(values.at[i]));
  }
  __device__ __forceinline__ void join(const Sums& other) {
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::join(at[i], other.at[i]);
  }
  /// Combines lanes whose distance is a multiple of `step`, a power of two.
  __device__ void join_warp(int step = 1) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
      if (d < step) break;
#pragma unroll
      for (int i = 0; i < N; ++i) Rule::join(at[i], __shfl_xor_sync(~0u, at[i], d));
    }
  }
  __device__ __forceinline__ void write(const ValueArgs& args, uint32_t voxel, uint32_t column, uint32_t count) const {
    static_cast<Results*>(args.output)[static_cast<int64_t>(voxel) * args.columns + column] = result(args, count);
  }
  /// The result of a voxel with only these values.
  __device__ __forceinline__ static Results of_one(const ValueArgs& args, const Pack<T, N>& values) {
    if constexpr (requires(float value) { Rule::of_one(args, value); }) {
      Results row;
#pragma unroll
      for (int i = 0; i < N; ++i) row.at[i] = Rule::of_one(args, as_float(values.at[i]));
      return row;
    } else {
      Sums sums(args);
      sums.add(args, values);
      return sums.result(args, 1);
    }
  }
  __device__ __forceinline__ Results result(const ValueArgs& args, uint32_t count) const {
    Results row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = Rule::result(args, at[i], count);
    return row;
  }
};

/// Calls work(args, rule, element type, pack width) for the problem, the last three as types.
template <class Work>
void with_values(const VoxelizeProblem& problem, const BinArgs& bins, const Work& work) {
  const int64_t result_bytes = is_fixed_point(problem) && problem.partial ? sizeof(int64_t) : sizeof(float);
  ValueArgs args{};
  args.features = problem.features;
  args.output = static_cast<char*>(problem.output) + bins.first_voxel * problem.num_features * result_bytes;
  args.counts = problem.counts ? problem.counts + bins.first_voxel : nullptr;
  args.scale = problem.scale;
  args.zero_floor = problem.options.zero_floor;
  with_type(problem.feature_type, [&](auto type) {
    using T = decltype(type);
    constexpr int kPack = 4;
    const auto out = static_cast<int64_t>(reinterpret_cast<uintptr_t>(args.output));
    const auto in = static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.features));
    const bool packed = problem.num_features % kPack == 0 && out % (kPack * result_bytes) == 0 &&
                        in % (kPack * static_cast<int64_t>(sizeof(T))) == 0;
    args.columns = static_cast<uint32_t>(problem.num_features / (packed ? kPack : 1));
    const auto with_rule = [&](auto rule) {
      if (packed) return work(args, rule, type, std::integral_constant<int, kPack>{});
      work(args, rule, type, std::integral_constant<int, 1>{});
    };
    if (!is_mean(problem)) return problem.partial ? with_rule(PartialMax{}) : with_rule(Max{});
    if (is_fixed_point(problem)) return problem.partial ? with_rule(FixedSum{}) : with_rule(FixedMean{});
    problem.partial ? with_rule(FloatSum{}) : with_rule(FloatMean{});
  });
}

}  // namespace amdahl::sensor_cuda
