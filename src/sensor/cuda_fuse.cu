// Sensor streams onto target times. A block takes some targets of one batch entry: first the place of each target in
// each stream is found, once, then every thread interpolates its columns for all of them.
#include <cmath>
#include <limits>

#include "sensor/cuda_launch.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kMaxStreams = 4;  // of a launch; more streams are more launches
constexpr int kMaxRows = 64;    // targets of a block
constexpr int kLanes = 32;
constexpr int kDirect = 256;  // times that a warp looks through at once
constexpr int kMostThreads = 512, kThreadsOfSm = 2048;
constexpr int kMostCopiedTimes = 4096;
constexpr float kOriginalEpsilon = 1e-8f;

struct StreamArgs {
  const void* data;
  const float* times;
  int64_t length;
  int packs;       // of a sample
  int first_pack;  // of the launch's columns
  int first_time;  // of the copied times
};

struct FuseArgs {
  StreamArgs streams[kMaxStreams];
  int num_streams;
  const float* targets;
  void* output;
  int64_t num_targets;
  int64_t row_packs;   // of the whole output row
  int64_t first_pack;  // of it, that this launch writes
  int packs;
  int num_times;      // of a batch entry, in all streams
  bool copies_times;  // to shared memory
  uint32_t chunks;    // of targets, for each batch entry
  int64_t work;       // batch entries x chunks
  int rows;           // targets of a chunk
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
    const int i = t <= times[0] ? 0 : t >= times[n - 1] ? n - 2 : min(max(below - 1, 0), n - 2);
    return {i, i + 1, original_weight(times, i, t)};
  }
  const int at = min(below, n - 1);
  if (at == 0) return {0, 0, 0};
  return {at - 1, at, original_weight(times, at - 1, t)};
}

/// Calls visit(s, stream) for the launch's streams, with every access to the arguments at a fixed place: indexed by a
/// variable they would be copied to memory.
template <class Visit>
__device__ __forceinline__ void for_each_stream(const FuseArgs& args, const Visit& visit) {
#pragma unroll
  for (int s = 0; s < kMaxStreams; ++s)
    if (s < args.num_streams) visit(s, args.streams[s]);
}

/// Places of `rows` targets in all streams. Few are found by a warp each, reading times side by side; many by a thread
/// each, in times that the block has copied if they fit.
template <Extrapolation kRule>
__device__ void find_places(const FuseArgs& args, int64_t entry, int first_target, int rows, Place* places,
                            float* copied) {
  constexpr bool kOrEqual = kRule != Extrapolation::linear_right;
  const float* targets = args.targets + entry * args.num_targets + first_target;
  if (rows * args.num_streams <= static_cast<int>(blockDim.x) / kLanes) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    const int row = warp % rows, wanted = warp / rows;
    for_each_stream(args, [&](int s, const StreamArgs& stream) {
      if (s != wanted) return;
      const float t = targets[row];
      const int n = static_cast<int>(stream.length);
      const float* times = stream.times + entry * stream.length;
      const int below = count_below_warp<kOrEqual>(times, n, t);
      if (threadIdx.x % kLanes == 0) places[s * kMaxRows + row] = place_of<kRule>(times, n, t, below);
    });
    return;
  }
  if (args.copies_times) {
    for_each_stream(args, [&](int, const StreamArgs& stream) {
      const float* times = stream.times + entry * stream.length;
      for (int i = threadIdx.x; i < stream.length; i += blockDim.x) copied[stream.first_time + i] = times[i];
    });
    __syncthreads();
  }
  for_each_stream(args, [&](int s, const StreamArgs& stream) {
    const int n = static_cast<int>(stream.length);
    const float* times = args.copies_times ? copied + stream.first_time : stream.times + entry * stream.length;
    // Streams begin at different threads, so that a block's threads share the work.
    for (int row = (threadIdx.x + blockDim.x - s * rows % blockDim.x) % blockDim.x; row < rows; row += blockDim.x) {
      const float t = targets[row];
      places[s * kMaxRows + row] = place_of<kRule>(times, n, t, count_below_thread<kOrEqual>(times, n, t));
    }
  });
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

/// One block's rows of the output: this thread's column of them.
template <class T, int N, Extrapolation kRule>
__device__ __forceinline__ void interpolate_column(const FuseArgs& args, int64_t entry, Pack<T, N>* out, int column,
                                                   int first_row, int step, int rows, const Place* places) {
  constexpr int kAhead = 4;
  const Pack<T, N>* source = nullptr;
  int packs = 0;
  const Place* stream_places = places;
  for_each_stream(args, [&](int s, const StreamArgs& stream) {
    if (column < stream.first_pack) return;
    packs = stream.packs;
    source = static_cast<const Pack<T, N>*>(stream.data) + entry * stream.length * packs + (column - stream.first_pack);
    stream_places = places + s * kMaxRows;
  });
  out += column;
  for (int row = first_row; row < rows; row += step * kAhead) {
    Pack<T, N> a[kAhead], b[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = row + k * step;
      if (at >= rows) continue;
      const Place place = stream_places[at];
      a[k] = source[static_cast<int64_t>(place.before) * packs];
      b[k] = source[static_cast<int64_t>(place.after) * packs];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = row + k * step;
      if (at < rows)
        out[static_cast<int64_t>(at) * args.row_packs] = interpolate<T, N, kRule>(a[k], b[k], stream_places[at]);
    }
  }
}

/// Long divisions take a while, and are seldom needed.
__device__ __forceinline__ int64_t divide(int64_t number, uint32_t by) {
  return number >> 32 == 0 ? static_cast<uint32_t>(number) / by : number / by;
}

template <class T, int N, Extrapolation kRule>
__global__ void __launch_bounds__(kMostThreads, 2) fuse_kernel(FuseArgs args) {
  __shared__ Place places[kMaxRows * kMaxStreams];
  extern __shared__ float copied[];
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
  // Narrow rows: the block's threads stand side by side over several of them.
  const bool narrow = args.packs < static_cast<int>(blockDim.x);
  const int first_row = narrow ? static_cast<int>(threadIdx.x) / args.packs : 0;
  const int first_column = narrow ? static_cast<int>(threadIdx.x) % args.packs : static_cast<int>(threadIdx.x);
  const int step = narrow ? static_cast<int>(blockDim.x) / args.packs : 1;
  for (int64_t work = blockIdx.x; work < args.work; work += gridDim.x) {
    const int64_t entry = args.chunks == 1 ? work : divide(work, args.chunks);
    const int first_target = static_cast<int>(work - entry * args.chunks) * args.rows;
    const int rows = min(args.rows, static_cast<int>(args.num_targets) - first_target);
    find_places<kRule>(args, entry, first_target, rows, places, copied);
    __syncthreads();
    auto* out = static_cast<Pack<T, N>*>(args.output) + (entry * args.num_targets + first_target) * args.row_packs +
                args.first_pack;
    if (first_row < step)
      for (int column = first_column; column < args.packs; column += blockDim.x)
        interpolate_column<T, N, kRule>(args, entry, out, column, first_row, step, rows, places);
    __syncthreads();
  }
}

template <class T, int N>
void launch_packed(const SensorLaunch& launch, const FuseProblem& problem, const FuseArgs& args, int threads) {
  const auto blocks = static_cast<unsigned>(
      std::min<int64_t>(args.work, static_cast<int64_t>(launch.num_sms) * (kThreadsOfSm / threads)));
  const size_t shared = args.copies_times ? static_cast<size_t>(args.num_times) * sizeof(float) : 0;
  const auto run = [&](auto* kernel) { launch_early(launch, blocks, threads, shared, kernel, "fuse", args); };
  if (problem.extrapolation == Extrapolation::hold) return run(&fuse_kernel<T, N, Extrapolation::hold>);
  if (problem.extrapolation == Extrapolation::linear) return run(&fuse_kernel<T, N, Extrapolation::linear>);
  run(&fuse_kernel<T, N, Extrapolation::linear_right>);
}

/// Threads for the columns of a row, and targets a block: one while the blocks do not fill the chip, as many as keep
/// every multiprocessor busy else, because places are found once for all columns.
void choose_shape(const SensorLaunch& launch, int64_t batch, FuseArgs& args, int& threads) {
  constexpr int kBlocksPerSm = 8, kNarrow = 64, kNarrowThreads = 256;
  threads = std::clamp((args.packs + kLanes - 1) / kLanes * kLanes, kNarrow, kMostThreads);
  if (args.packs < kNarrow) threads = kNarrowThreads;
  const int64_t wanted = batch * args.num_targets / (static_cast<int64_t>(launch.num_sms) * kBlocksPerSm);
  const int64_t side_by_side = std::max(1, threads / args.packs);
  const int64_t rows =
      std::clamp<int64_t>(std::max(wanted, side_by_side), 1, std::min<int64_t>(kMaxRows, args.num_targets));
  args.chunks = static_cast<uint32_t>((args.num_targets + rows - 1) / rows);
  args.rows = static_cast<int>((args.num_targets + args.chunks - 1) / args.chunks);
  args.work = batch * args.chunks;
  args.copies_times = args.num_times <= kMostCopiedTimes;
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
      const auto packs = static_cast<int>(stream.width / pack);
      args.streams[args.num_streams++] = {stream.data, stream.times, stream.length, packs, args.packs, args.num_times};
      args.packs += packs;
      args.num_times = static_cast<int>(std::min<int64_t>(args.num_times + stream.length, kMostCopiedTimes + 1));
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
