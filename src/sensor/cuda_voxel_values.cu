// Second step of a voxelization with values: the points of a bin are listed by voxel in shared memory; then the voxel's
// values are read once, added up in registers and written once. No atomics on values, so a fixed-point sum costs as
// much as a float one.

#include "sensor/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr int kLanesOfGroup = 8;
constexpr uint32_t kListed = 12288;   // points whose list fits into shared memory, 48 KiB
constexpr uint32_t kLong = 32;        // points from which a warp adds up a voxel
constexpr uint32_t kVeryLong = 4096;  // and a block

struct ValueArgs {
  const void* features;
  int64_t num_features;
  void* output;     // of the slab: first voxel's first value
  int32_t* counts;  // of the slab, or null
  const float* scale;
  bool zero_floor;
};

/// Orders floats as whole numbers; its own inverse.
__device__ __forceinline__ int order_of(int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

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

constexpr int kOrderOfNone = static_cast<int>(0xff800000u ^ 0x7fffffffu);  // order of -infinity

struct PartialMax {
  using Sum = int;
  __device__ static Sum start(const ValueArgs& args) { return args.zero_floor ? 0 : kOrderOfNone; }
  __device__ static void add(const ValueArgs&, Sum& most, float value) {
    if (value == value) most = max(most, order_of(__float_as_int(value)));
  }
  __device__ static void join(Sum& most, Sum other) { most = max(most, other); }
  __device__ static float result(const ValueArgs&, Sum most, uint32_t) { return __int_as_float(order_of(most)); }
};

struct Max : PartialMax {
  __device__ static float result(const ValueArgs&, Sum most, uint32_t) {
    return most == kOrderOfNone ? 0.0f : __int_as_float(order_of(most));
  }
};

/// Sums of N neighbouring features of a voxel.
template <class Rule, class T, int N>
struct Sums {
  typename Rule::Sum at[N];

  __device__ explicit Sums(const ValueArgs& args) {
#pragma unroll
    for (int i = 0; i < N; ++i) at[i] = Rule::start(args);
  }
  /// Of feature pack `column` of a point.
  __device__ __forceinline__ void add(const ValueArgs& args, int64_t point, int64_t column) {
    const auto* packs = static_cast<const Pack<T, N>*>(args.features);
    const Pack<T, N> values = packs[point * (args.num_features / N) + column];
#pragma unroll
    for (int i = 0; i < N; ++i) Rule::add(args, at[i], as_float(values.at[i]));
  }
  __device__ void join_warp() {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
      for (int i = 0; i < N; ++i) Rule::join(at[i], __shfl_xor_sync(~0u, at[i], d));
  }
  __device__ __forceinline__ void write(const ValueArgs& args, int64_t voxel, int64_t column, uint32_t count) const {
    using Result = decltype(Rule::result(args, at[0], count));
    Pack<Result, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = Rule::result(args, at[i], count);
    static_cast<Pack<Result, N>*>(args.output)[voxel * (args.num_features / N) + column] = row;
  }
};

/// The lists of one bin: the points of voxel v are order[begin(v), ends[v]).
struct Lists {
  uint32_t* ends;
  uint32_t* order;
  __device__ uint32_t begin(uint32_t offset) const { return offset == 0 ? 0 : ends[offset - 1]; }
};

/// Sorts the points of a bin by voxel.
__device__ Lists make_lists(const BinArgs& bins, uint32_t bin, uint32_t* ends, uint32_t* in_shared, uint32_t* warps,
                            uint32_t& place) {
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  constexpr uint32_t kOffset = (1u << kOffsetBits) - 1;
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int64_t) { atomicAdd(&ends[entry & kOffset], 1u); });
  __syncthreads();
  const uint32_t total = scan_block<kThreads>(ends, voxels, warps);
  if (threadIdx.x == 0 && total > kListed) place = atomicAdd(bins.cursor, total);
  __syncthreads();
  uint32_t* order = total > kListed ? bins.order + place : in_shared;
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int64_t tile) {
    const auto point = static_cast<uint32_t>(tile * bins.tile_points) + (entry >> kOffsetBits);
    order[atomicAdd(&ends[entry & kOffset], 1u)] = point;
  });
  __syncthreads();
  return {ends, order};
}

/// Adds up voxels of more than kLong points, found in `longs`.
template <class Rule, class T, int N>
__device__ void add_long(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const Lists& lists,
                         const uint16_t* longs, uint32_t num_long, Sums<Rule, T, N>* of_warps) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t columns = args.num_features / N;
  for (uint32_t i = warp; i < num_long; i += kThreads / 32) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin > kVeryLong) continue;
    for (int64_t column = 0; column < columns; ++column) {
      Sums<Rule, T, N> sums(args);
      for (uint32_t at = begin + lane; at < end; at += 32) sums.add(args, lists.order[at], column);
      sums.join_warp();
      if (lane == 0) sums.write(args, voxel_of(bins, bin, longs[i]), column, end - begin);
    }
  }
  for (uint32_t i = 0; i < num_long; ++i) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin <= kVeryLong) continue;
    for (int64_t column = 0; column < columns; ++column) {
      Sums<Rule, T, N> sums(args);
      for (uint32_t at = begin + threadIdx.x; at < end; at += kThreads) sums.add(args, lists.order[at], column);
      sums.join_warp();
      if (lane == 0) of_warps[warp] = sums;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int w = 1; w < kThreads / 32; ++w)
          for (int k = 0; k < N; ++k) Rule::join(sums.at[k], of_warps[w].at[k]);
        sums.write(args, voxel_of(bins, bin, longs[i]), column, end - begin);
      }
      __syncthreads();
    }
  }
}

template <class Rule, class T, int N>
__global__ void __launch_bounds__(kThreads, 2) add_bins(BinArgs bins, ValueArgs args) {
  extern __shared__ uint4 memory[];
  __shared__ uint32_t warps[32], place, num_long;
  __shared__ alignas(16) unsigned char of_warps[kThreads / 32 * sizeof(Sums<Rule, T, N>)];
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  auto* ends = reinterpret_cast<uint32_t*>(memory);
  uint32_t* order = ends + voxels;
  auto* longs = reinterpret_cast<uint16_t*>(order + kListed);
  const auto columns = static_cast<uint32_t>(args.num_features / N);
  bool first = true;
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins; bin += gridDim.x) {
    for (uint32_t i = threadIdx.x; i < voxels / 4; i += kThreads) memory[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) num_long = 0;
    __syncthreads();
    if (first) cudaGridDependencySynchronize();
    first = false;
    const Lists lists = make_lists(bins, bin, ends, order, warps, place);
    for (uint32_t item = threadIdx.x; item < voxels * columns; item += kThreads) {
      const uint32_t offset = item / columns, column = item % columns;
      const int64_t voxel = voxel_of(bins, bin, offset);
      if (voxel >= bins.num_voxels) continue;
      const uint32_t begin = lists.begin(offset), end = lists.ends[offset];
      if (column == 0 && args.counts) args.counts[voxel] = static_cast<int32_t>(end - begin);
      if (end - begin > kLong) {
        if (column == 0) longs[atomicAdd(&num_long, 1u)] = static_cast<uint16_t>(offset);
        continue;
      }
      Sums<Rule, T, N> sums(args);
      for (uint32_t at = begin; at < end; ++at) sums.add(args, lists.order[at], column);
      sums.write(args, voxel, column, end - begin);
    }
    __syncthreads();
    add_long<Rule, T, N>(bins, bin, args, lists, longs, num_long, reinterpret_cast<Sums<Rule, T, N>*>(of_warps));
    __syncthreads();
  }
}

template <class Rule, class T, int N>
void launch_rule(const SensorLaunch& launch, const BinArgs& bins, const ValueArgs& args) {
  const size_t voxels = size_t{bins.bin_chunks} * kChunkVoxels;
  const size_t shared = (voxels + kListed) * sizeof(uint32_t) + voxels * sizeof(uint16_t);
  allow_shared(launch, &add_bins<Rule, T, N>, shared);
  const auto blocks = std::min<unsigned>(bins.num_bins, static_cast<unsigned>(launch.num_sms) * 2);
  launch_early(launch, blocks, kThreads, shared, &add_bins<Rule, T, N>, "add_bins", bins, args);
}

template <class T, int N>
void launch_packed(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins,
                   const ValueArgs& args) {
  if (problem.options.mode == VoxelMode::max) {
    if (problem.partial) return launch_rule<PartialMax, T, N>(launch, bins, args);
    return launch_rule<Max, T, N>(launch, bins, args);
  }
  if (problem.options.deterministic) {
    if (problem.partial) return launch_rule<FixedSum, T, N>(launch, bins, args);
    return launch_rule<FixedMean, T, N>(launch, bins, args);
  }
  if (problem.partial) return launch_rule<FloatSum, T, N>(launch, bins, args);
  launch_rule<FloatMean, T, N>(launch, bins, args);
}

}  // namespace

void launch_voxel_values(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  if (problem.num_features == 0) return;
  const bool wide = problem.options.mode == VoxelMode::mean && problem.partial && problem.options.deterministic;
  const int64_t result_bytes = wide ? sizeof(int64_t) : sizeof(float);
  ValueArgs args{};
  args.features = problem.features;
  args.num_features = problem.num_features;
  args.output = static_cast<char*>(problem.output) + bins.first_voxel * problem.num_features * result_bytes;
  args.counts = problem.counts ? problem.counts + bins.first_voxel : nullptr;
  args.scale = problem.scale;
  args.zero_floor = problem.options.zero_floor;
  with_type(problem.feature_type, [&](auto type) {
    using T = decltype(type);
    constexpr int64_t kPack = 4;
    const auto out = static_cast<int64_t>(reinterpret_cast<uintptr_t>(args.output));
    const auto in = static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.features));
    const bool packed = problem.num_features % kPack == 0 && out % (kPack * result_bytes) == 0 &&
                        in % (kPack * static_cast<int64_t>(sizeof(T))) == 0;
    if (packed)
      launch_packed<T, kPack>(launch, problem, bins, args);
    else
      launch_packed<T, 1>(launch, problem, bins, args);
  });
}

}  // namespace amdahl
