// Sensor streams onto target times. A block takes some targets of one batch entry: first the place of each target in
// each stream is found, once, then every thread interpolates its columns for all of them.
#include <cmath>
#include <limits>

#include "sensor/cuda_launch.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kMaxStreams = 8;  // of a launch; more streams are more launches
constexpr int kMaxRows = 64;    // targets of a block
constexpr int kLanes = 32;
constexpr int kDirect = 256;  // times that a warp looks through at once
constexpr float kOriginalEpsilon = 1e-8f;

struct StreamArgs {
  const void* data;
  const float* times;
  int64_t length;
  int64_t packs;       // of a sample
  int64_t first_pack;  // of the output row
};

struct FuseArgs {
  StreamArgs streams[kMaxStreams];
  int num_streams;
  const float* targets;
  void* output;
  int64_t num_targets;
  int64_t row_packs;          // of the whole output row
  int64_t first_pack, packs;  // of it, that this launch writes
  int64_t chunks;             // of targets, for each batch entry
  int64_t work;               // batch entries x chunks
  int rows;                   // targets of a chunk
};

struct Place {
  int before, after;
  float weight;
};

// ---- finding places ----

/// How many of times[0, n) are below t, or at most t; one answer for the warp.
template <bool kOrEqual>
__device__ int count_below_warp(const float* times, int n, float t) {
  const int lane = threadIdx.x % kLanes;
  int begin = 0, length = n;
  while (length > kDirect) {
    const int step = (length + kLanes - 1) / kLanes;
    const int at = begin + lane * step;
    const bool below = lane * step < length && (kOrEqual ? times[at] <= t : times[at] < t);
    const int steps = __popc(__ballot_sync(~0u, below));
    if (steps == 0) return begin;
    const int end = begin + length;
    begin += (steps - 1) * step;
    length = min(step, end - begin);
  }
  int count = 0;
#pragma unroll
  for (int k = 0; k < kDirect; k += kLanes) {
    const int at = k + lane;
    const bool below = at < length && (kOrEqual ? times[begin + at] <= t : times[begin + at] < t);
    count += __popc(__ballot_sync(~0u, below));
  }
  return begin + count;
}

template <bool kOrEqual>
__device__ int count_below_thread(const float* times, int n, float t) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    const bool below = kOrEqual ? times[middle] <= t : times[middle] < t;
    low = below ? middle + 1 : low;
    high = below ? high : middle;
  }
  return low;
}

/// The original's weight, as its build computes it.
__device__ float original_weight(const float* times, int i, float t) {
  float span, from, weight;
  asm("sub.ftz.f32 %0, %1, %2;" : "=f"(span) : "f"(times[i + 1]), "f"(times[i]));
  asm("add.ftz.f32 %0, %1, %2;" : "=f"(span) : "f"(span), "f"(kOriginalEpsilon));
  asm("sub.ftz.f32 %0, %1, %2;" : "=f"(from) : "f"(t), "f"(times[i]));
  asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(weight) : "f"(from), "f"(span));
  return weight;
}

/// `below` counts the times that are at most t (linear_right: below t).
template <Extrapolation kRule>
__device__ Place place_of(const float* times, int n, float t, int below) {
  if (kRule == Extrapolation::hold) {
    const int i = below - 1;
    if (i < 0) return {0, 0, 0};
    if (i >= n - 1) return {n - 1, n - 1, 0};
    return {i, i + 1, __fdiv_rn(__fsub_rn(t, times[i]), __fsub_rn(times[i + 1], times[i]))};
  }
  if (n == 1) return {0, 0, 0};
  if (kRule == Extrapolation::linear) {
    const int i = t <= times[0] ? 0 : t >= times[n - 1] ? n - 2 : below - 1;
    return {i, i + 1, original_weight(times, i, t)};
  }
  const int at = min(below, n - 1);
  if (at == 0) return {0, 0, 0};
  return {at - 1, at, original_weight(times, at - 1, t)};
}

/// Places of `rows` targets in all streams: a thread each when there are many, else a warp each.
template <Extrapolation kRule>
__device__ void find_places(const FuseArgs& args, int64_t entry, int64_t first_target, int rows, Place* places) {
  constexpr bool kOrEqual = kRule != Extrapolation::linear_right;
  const int pairs = rows * args.num_streams;
  const bool by_thread = pairs >= kLanes;
  const int worker = by_thread ? threadIdx.x : threadIdx.x / kLanes;
  const int workers = by_thread ? blockDim.x : blockDim.x / kLanes;
  for (int pair = worker; pair < pairs; pair += workers) {
    const StreamArgs& stream = args.streams[pair % args.num_streams];
    const float t = args.targets[entry * args.num_targets + first_target + pair / args.num_streams];
    const auto n = static_cast<int>(stream.length);
    const float* times = stream.times + entry * stream.length;
    const int below = by_thread ? count_below_thread<kOrEqual>(times, n, t) : count_below_warp<kOrEqual>(times, n, t);
    if (by_thread || threadIdx.x % kLanes == 0) places[pair] = place_of<kRule>(times, n, t, below);
  }
}

// ---- interpolating ----

/// b - a, then a + w * that: rounded each by itself, or as the original's build does it.
template <Extrapolation kRule>
__device__ __forceinline__ float interpolate(float a, float b, float w) {
  if (kRule == Extrapolation::hold) return __fadd_rn(a, __fmul_rn(w, __fsub_rn(b, a)));
  float result;
  if (kRule == Extrapolation::linear) {
    asm("sub.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(b), "f"(a));
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(w), "f"(result), "f"(a));
  } else {
    float rest, right;
    asm("sub.ftz.f32 %0, 0f3F800000, %1;" : "=f"(rest) : "f"(w));
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(right) : "f"(w), "f"(b));
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(rest), "f"(a), "f"(right));
  }
  return result;
}

template <class T, int N, Extrapolation kRule>
__device__ __forceinline__ Pack<T, N> interpolate(const Pack<T, N>& a, const Pack<T, N>& b, const Place& place) {
  if (place.before == place.after) return a;
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.at[i] = from_float<T>(interpolate<kRule>(as_float(a.at[i]), as_float(b.at[i]), place.weight));
  return result;
}

template <class T, int N, Extrapolation kRule>
__global__ void __launch_bounds__(512) fuse_kernel(FuseArgs args) {
  __shared__ Place places[kMaxRows * kMaxStreams];
  using Packed = Pack<T, N>;
  constexpr int kAhead = 4;
  // Narrow rows: the block's threads stand side by side over several of them.
  const int side_by_side = max(1, static_cast<int>(blockDim.x / args.packs));
  const int first_row = args.packs < blockDim.x ? threadIdx.x / static_cast<int>(args.packs) : 0;
  const int64_t first_column = args.packs < blockDim.x ? threadIdx.x % static_cast<int>(args.packs) : threadIdx.x;
  for (int64_t work = blockIdx.x; work < args.work; work += gridDim.x) {
    const int64_t entry = work / args.chunks, first_target = work % args.chunks * args.rows;
    const int rows = static_cast<int>(min(static_cast<int64_t>(args.rows), args.num_targets - first_target));
    find_places<kRule>(args, entry, first_target, rows, places);
    __syncthreads();
    Packed* out = static_cast<Packed*>(args.output) + (entry * args.num_targets + first_target) * args.row_packs +
                  args.first_pack;
    for (int64_t column = first_column; column < args.packs && first_row < side_by_side; column += blockDim.x) {
      int s = 0;
      while (s + 1 < args.num_streams && column >= args.streams[s + 1].first_pack) ++s;
      const int64_t packs = args.streams[s].packs;
      const Packed* source = static_cast<const Packed*>(args.streams[s].data) + entry * args.streams[s].length * packs +
                             (column - args.streams[s].first_pack);
      for (int row = first_row; row < rows; row += side_by_side * kAhead) {
        Packed a[kAhead], b[kAhead];
        Place place[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int at = row + k * side_by_side;
          if (at >= rows) continue;
          place[k] = places[at * args.num_streams + s];
          a[k] = source[place[k].before * packs];
          b[k] = source[place[k].after * packs];
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int at = row + k * side_by_side;
          if (at < rows) out[at * args.row_packs + column] = interpolate<T, N, kRule>(a[k], b[k], place[k]);
        }
      }
    }
    __syncthreads();
  }
}

template <class T, int N>
void launch_packed(const SensorLaunch& launch, const FuseProblem& problem, const FuseArgs& args, int threads) {
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(args.work, static_cast<int64_t>(launch.num_sms) * 2048 / threads));
  const auto run = [&](auto* kernel) {
    kernel<<<blocks, threads, 0, launch.stream>>>(args);
    check_launch(launch, "fuse");
  };
  if (problem.extrapolation == Extrapolation::hold) return run(&fuse_kernel<T, N, Extrapolation::hold>);
  if (problem.extrapolation == Extrapolation::linear) return run(&fuse_kernel<T, N, Extrapolation::linear>);
  run(&fuse_kernel<T, N, Extrapolation::linear_right>);
}

/// Targets a block: few while the blocks do not fill the chip, more to find places for many columns at once.
void choose_shape(const SensorLaunch& launch, int64_t batch, FuseArgs& args, int& threads) {
  constexpr int kMost = 512, kLeast = 64;
  threads = static_cast<int>(std::clamp<int64_t>((args.packs + kLanes - 1) / kLanes * kLanes, kLeast, kMost));
  if (args.packs < kLeast) threads = 256;
  const int64_t side_by_side = std::max<int64_t>(1, threads / args.packs);
  const int64_t resident = static_cast<int64_t>(launch.num_sms) * (2048 / threads);
  const int64_t wanted = batch * args.num_targets / std::max<int64_t>(resident, 1);
  args.rows =
      static_cast<int>(std::clamp<int64_t>(wanted, side_by_side, std::clamp<int64_t>(4 * side_by_side, 16, kMaxRows)));
  args.rows = static_cast<int>(std::min<int64_t>(args.rows, args.num_targets));
  args.rows = std::min(args.rows, kMaxRows);
  args.chunks = (args.num_targets + args.rows - 1) / args.rows;
  args.work = batch * args.chunks;
}

template <class T>
void launch_typed(const SensorLaunch& launch, const FuseProblem& problem) {
  constexpr int64_t kBytes = sizeof(T);
  int64_t row = 0;
  for (const FuseStream& stream : problem.streams) row += stream.width;
  int64_t bytes = common_power(16, row * kBytes, static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.output)));
  for (const FuseStream& stream : problem.streams)
    bytes = common_power(bytes, stream.width * kBytes, static_cast<int64_t>(reinterpret_cast<uintptr_t>(stream.data)));
  const int64_t pack = std::max<int64_t>(bytes / kBytes, 1);
  int64_t written = 0;
  for (size_t first = 0; first < problem.streams.size(); first += kMaxStreams) {
    FuseArgs args{};
    for (size_t i = first; i < std::min(problem.streams.size(), first + kMaxStreams); ++i) {
      const FuseStream& stream = problem.streams[i];
      args.streams[args.num_streams++] = {stream.data, stream.times, stream.length, stream.width / pack, args.packs};
      args.packs += stream.width / pack;
    }
    args.targets = problem.targets, args.output = problem.output;
    args.num_targets = problem.num_targets, args.row_packs = row / pack, args.first_pack = written;
    written += args.packs;
    if (args.packs == 0) continue;
    int threads = 0;
    choose_shape(launch, problem.batch, args, threads);
    if (pack * kBytes == 16)
      launch_packed<T, 16 / kBytes>(launch, problem, args, threads);
    else if (pack * kBytes == 8)
      launch_packed<T, 8 / kBytes>(launch, problem, args, threads);
    else if (pack * kBytes == 4)
      launch_packed<T, 4 / kBytes>(launch, problem, args, threads);
    else
      launch_packed<T, 1>(launch, problem, args, threads);
  }
}

// ---- times ----

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

void launch_fuse(const SensorLaunch& launch, const FuseProblem& problem) {
  with_type(problem.type, [&](auto type) { launch_typed<decltype(type)>(launch, problem); });
}

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
