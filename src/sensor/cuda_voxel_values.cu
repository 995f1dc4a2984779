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
  uint32_t columns;  // packs of features of a point
  void* output;      // of the slab: first voxel's first value
  int32_t* counts;   // of the slab, or null
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
    using Result = decltype(Rule::result(args, at[0], count));
    Pack<Result, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = Rule::result(args, at[i], count);
    static_cast<Pack<Result, N>*>(args.output)[static_cast<int64_t>(voxel) * args.columns + column] = row;
  }
};

/// The lists of one bin: the points of voxel v are order[begin(v), ends[v]).
struct Lists {
  uint32_t* ends;
  uint32_t* order;
  __device__ uint32_t begin(uint32_t offset) const { return ends[static_cast<int>(offset) - 1]; }  // ends[-1] is 0
};

/// Sorts the points of a bin by voxel.
__device__ Lists make_lists(const BinArgs& bins, uint32_t bin, uint32_t* ends, uint32_t* in_shared, uint32_t* warps,
                            uint32_t& place) {
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  constexpr uint32_t kOffset = (1u << kOffsetBits) - 1;
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int) { atomicAdd(&ends[entry & kOffset], 1u); });
  __syncthreads();
  const uint32_t total = scan_block<kThreads>(ends, voxels, warps);
  if (threadIdx.x == 0 && total > kListed) place = atomicAdd(bins.cursor, total);
  __syncthreads();
  uint32_t* order = total > kListed ? bins.order + place : in_shared;
  for_each_entry<kLanesOfGroup>(bins, bin, [&](uint32_t entry, int tile) {
    const auto point = static_cast<uint32_t>(tile) * bins.tile_points + (entry >> kOffsetBits);
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
  const uint32_t columns = args.columns;
  for (uint32_t i = warp; i < num_long; i += kThreads / 32) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin > kVeryLong) continue;
    for (uint32_t column = 0; column < columns; ++column) {
      Sums<Rule, T, N> sums(args);
      for (uint32_t at = begin + lane; at < end; at += 32) sums.add(args, load<T, N>(args, lists.order[at], column));
      sums.join_warp();
      if (lane == 0) sums.write(args, voxel_of(bins, bin, longs[i]), column, end - begin);
    }
  }
  for (uint32_t i = 0; i < num_long; ++i) {
    const uint32_t begin = lists.begin(longs[i]), end = lists.ends[longs[i]];
    if (end - begin <= kVeryLong) continue;
    for (uint32_t column = 0; column < columns; ++column) {
      Sums<Rule, T, N> sums(args);
      for (uint32_t at = begin + threadIdx.x; at < end; at += kThreads)
        sums.add(args, load<T, N>(args, lists.order[at], column));
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

/// Adds up the voxels of a bin, and lists those of more than kLong points in `longs`. A thread keeps its column of the
/// features; the first points of several voxels are read together.
template <class Rule, class T, int N>
__device__ void add_short(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const Lists& lists, uint16_t* longs,
                          uint32_t& num_long) {
  constexpr int kAhead = 4;
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  const uint32_t columns = args.columns;
  const uint32_t side_by_side = max(1u, kThreads / columns);
  const uint32_t first = columns < kThreads ? threadIdx.x / columns : 0;
  if (first >= side_by_side) return;
  for (uint32_t column = columns < kThreads ? threadIdx.x % columns : threadIdx.x; column < columns; column += kThreads)
    for (uint32_t base = first; base < voxels; base += side_by_side * kAhead) {
      uint32_t begin[kAhead], end[kAhead];
      Pack<T, N> head[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const uint32_t offset = base + k * side_by_side;
        begin[k] = end[k] = 0;
        if (offset >= voxels) continue;
        begin[k] = lists.begin(offset), end[k] = lists.ends[offset];
        if (begin[k] < end[k]) head[k] = load<T, N>(args, lists.order[begin[k]], column);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const uint32_t offset = base + k * side_by_side, voxel = voxel_of(bins, bin, offset);
        if (offset >= voxels || voxel >= bins.num_voxels) continue;
        const uint32_t count = end[k] - begin[k];
        if (column == 0 && args.counts) args.counts[voxel] = static_cast<int32_t>(count);
        if (count > kLong) {
          if (column == 0) longs[atomicAdd(&num_long, 1u)] = static_cast<uint16_t>(offset);
          continue;
        }
        Sums<Rule, T, N> sums(args);
        if (count > 0) sums.add(args, head[k]);
#pragma unroll 2
        for (uint32_t at = begin[k] + 1; at < end[k]; ++at) sums.add(args, load<T, N>(args, lists.order[at], column));
        sums.write(args, voxel, column, count);
      }
    }
}

template <class Rule, class T, int N>
__global__ void __launch_bounds__(kThreads, 2) add_bins(BinArgs bins, ValueArgs args) {
  extern __shared__ uint4 memory[];
  __shared__ uint32_t warps[32], place, num_long;
  __shared__ alignas(16) unsigned char of_warps[kThreads / 32 * sizeof(Sums<Rule, T, N>)];
  const uint32_t voxels = bins.bin_chunks * kChunkVoxels;
  auto* ends = reinterpret_cast<uint32_t*>(memory) + 4;
  uint32_t* order = ends + voxels;
  auto* longs = reinterpret_cast<uint16_t*>(order + kListed);
  bool first = true;
  cudaTriggerProgrammaticLaunchCompletion();
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += gridDim.x) {
    for (uint32_t i = threadIdx.x; i < voxels / 4 + 1; i += kThreads) memory[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) num_long = 0;
    __syncthreads();
    if (first) {
      cudaGridDependencySynchronize();
      add_fates(bins);
      first = false;
    }
    const Lists lists = make_lists(bins, bin, ends, order, warps, place);
    add_short<Rule, T, N>(bins, bin, args, lists, longs, num_long);
    __syncthreads();
    add_long<Rule, T, N>(bins, bin, args, lists, longs, num_long, reinterpret_cast<Sums<Rule, T, N>*>(of_warps));
    __syncthreads();
  }
}

template <class Rule, class T, int N>
void launch_rule(const SensorLaunch& launch, const BinArgs& bins, const ValueArgs& args) {
  const size_t voxels = size_t{bins.bin_chunks} * kChunkVoxels;
  const size_t shared = (voxels + 4 + kListed) * sizeof(uint32_t) + voxels * sizeof(uint16_t);
  allow_shared(launch, &add_bins<Rule, T, N>, shared);
  const auto blocks = std::min<unsigned>(1u << bins.bin_bits, static_cast<unsigned>(launch.num_sms) * 2);
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
    args.columns = static_cast<uint32_t>(problem.num_features / (packed ? kPack : 1));
    if (packed)
      launch_packed<T, kPack>(launch, problem, bins, args);
    else
      launch_packed<T, 1>(launch, problem, bins, args);
  });
}

}  // namespace amdahl
