// Interpolates sensor streams at target times. A thread computes packs of up to 16 bytes of an output row from two rows
// of samples, which a binary search in the stream's times finds.
//
// Cost: samples and times are read about once, the output is written once; large batches reach 70 to 80 % of a copy's
// speed. Variant `few`, if blocks of `many` would not fill the GPU: a warp computes one target for 32 packs of one
// stream and does its own search, so that no warp waits for another. Variant `many`: a block takes several targets of a
// batch entry, one thread per target and stream does the search, then every thread interpolates its columns for all of
// them.
#include <limits>
#include <type_traits>

#include "sensor/ops/cuda_fuse_places.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kMaxStreams = 4;  // per launch; more streams take more launches
constexpr int kMaxRows = 64;    // per block
constexpr int kMostThreads = 512;
constexpr int kNarrow = 64, kNarrowThreads = 256;  // rows of fewer packs use blocks of this size
constexpr int kResidentThreads = 1024;             // per SM, with the 64 registers of fuse_many
constexpr int kMostCopiedTimes = 4096;
constexpr int64_t kMostBlocks = 1 << 30;

struct StreamArgs {
  const void* data;
  const float* times;
  int64_t length;
  int packs;          // per sample
  int first_pack;     // first column in the launch
  int first_time;     // offset in the copied times
  int first_segment;  // segments have 32 packs
};

struct FuseArgs {
  StreamArgs streams[kMaxStreams];
  int num_streams;
  const float* targets;
  void* output;
  int64_t num_targets;
  int64_t row_packs;   // of a whole output row
  int64_t first_pack;  // first pack of the row that this launch writes
  int packs, segments;
  int row_blocks;     // fuse_few: blocks per target
  int num_times;      // per batch entry, in all streams
  bool copies_times;  // to shared memory
  uint32_t chunks;    // of targets, per batch entry
  int64_t work;       // batch entries x chunks
  int rows;           // targets per chunk
};

/// Divides in 32 bits if possible, which is much faster than in 64 bits.
__device__ __forceinline__ int64_t divide(int64_t number, int64_t by) {
  return (number | by) >> 32 == 0 ? static_cast<uint32_t>(number) / static_cast<uint32_t>(by) : number / by;
}

/// The stream of a column or segment; `first` is the member with the streams' first ones.
__device__ __forceinline__ int stream_of(const FuseArgs& args, int at, int StreamArgs::*first) {
  int s = 0;
#pragma unroll
  for (int k = 1; k < kMaxStreams; ++k)
    if (k < args.num_streams && at >= args.streams[k].*first) s = k;
  return s;
}

/// Row `at` of rows of `bytes` bytes, by one multiplication.
template <class Row>
__device__ __forceinline__ Row* row_at(Row* first, int at, uint32_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<Row>, const char, char>;
  return reinterpret_cast<Row*>(reinterpret_cast<Byte*>(first) + uint64_t{static_cast<uint32_t>(at)} * bytes);
}

// ---- few targets ----

template <class T, int N, Extrapolation kRule>
__global__ void __launch_bounds__(kMostThreads) fuse_few(const __grid_constant__ FuseArgs args) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t row = args.row_blocks == 1 ? blockIdx.x : divide(blockIdx.x, args.row_blocks);
  const auto part = static_cast<unsigned>(blockIdx.x - row * args.row_blocks);
  const int segment = static_cast<int>((part * blockDim.x + threadIdx.x) / kLanes);
  if (segment >= args.segments) return;
  const StreamArgs& stream = args.streams[stream_of(args, segment, &StreamArgs::first_segment)];
  const int64_t entry = divide(row, args.num_targets), packs = stream.packs;
  const float t = args.targets[row];
  const int n = static_cast<int>(stream.length);
  const float* times = stream.times + entry * stream.length;
  const int below = count_below_warp<kCountsEqual<kRule>>(times, n, t);
  const Place place = place_of<kRule>(times, n, t, below);
  const int column = (segment - stream.first_segment) * kLanes + static_cast<int>(threadIdx.x) % kLanes;
  if (column >= stream.packs) return;
  const auto* source = static_cast<const Pack<T, N>*>(stream.data) + entry * stream.length * packs + column;
  const Pack<T, N> a = source[place.before * packs], b = source[place.after * packs];
  static_cast<Pack<T, N>*>(args.output)[row * args.row_packs + args.first_pack + stream.first_pack + column] =
      interpolate<kRule>(a, b, place);
}

// ---- many targets ----

/// Finds the places of `rows` targets in all streams. The block copies the times to shared memory first if they fit.
template <Extrapolation kRule>
__device__ void find_places(const FuseArgs& args, int64_t entry, int first_target, int rows, Place* places,
                            float* copied) {
  const float* targets = args.targets + entry * args.num_targets + first_target;
  if (args.copies_times) {
    for (int s = 0; s < args.num_streams; ++s) {
      const StreamArgs& stream = args.streams[s];
      const float* times = stream.times + entry * stream.length;
      for (int i = threadIdx.x; i < stream.length; i += blockDim.x) copied[stream.first_time + i] = times[i];
    }
    __syncthreads();
  }
  for (int item = threadIdx.x; item < rows * args.num_streams; item += blockDim.x) {
    const int s = item / rows, row = item - s * rows;
    const StreamArgs& stream = args.streams[s];
    const int n = static_cast<int>(stream.length);
    const float* times = args.copies_times ? copied + stream.first_time : stream.times + entry * stream.length;
    const float t = targets[row];
    places[s * kMaxRows + row] = place_of<kRule>(times, n, t, count_below_thread<kCountsEqual<kRule>>(times, n, t));
  }
}

/// Computes this thread's column of the block's rows. If the number of rows is not a multiple of kAhead, the thread
/// writes the last row several times with the same values.
template <class T, int N, Extrapolation kRule>
__device__ __forceinline__ void interpolate_column(const FuseArgs& args, int64_t entry, Pack<T, N>* out, int column,
                                                   int first_row, int step, int rows, const Place* places) {
  constexpr int kAhead = 4;
  const int s = stream_of(args, column, &StreamArgs::first_pack);
  const StreamArgs& stream = args.streams[s];
  const auto bytes = static_cast<uint32_t>(stream.packs * sizeof(Pack<T, N>)),
             out_bytes = static_cast<uint32_t>(args.row_packs * sizeof(Pack<T, N>));
  const auto* source =
      static_cast<const Pack<T, N>*>(stream.data) + entry * stream.length * stream.packs + (column - stream.first_pack);
  places += s * kMaxRows;
  out += column;
  for (int row = first_row; row < rows; row += step * kAhead) {
    Place place[kAhead];
    Pack<T, N> a[kAhead], b[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      place[k] = places[min(row + k * step, rows - 1)];
      a[k] = *row_at(source, place[k].before, bytes), b[k] = *row_at(source, place[k].after, bytes);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      *row_at(out, min(row + k * step, rows - 1), out_bytes) = interpolate<kRule>(a[k], b[k], place[k]);
  }
}

template <class T, int N, Extrapolation kRule>
__global__ void __launch_bounds__(kMostThreads, kResidentThreads / kMostThreads)
    fuse_many(const __grid_constant__ FuseArgs args) {
  __shared__ Place places[kMaxRows * kMaxStreams];
  extern __shared__ float copied[];
  let_successor_start();
  wait_for_predecessor();
  // Narrow rows: the block's threads cover several rows at a time.
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

template <class T, int N, Extrapolation kRule>
void launch_rule(const SensorLaunch& launch, const FuseProblem& problem, const FuseArgs& args, int threads) {
  const int warps = std::min(args.segments, kMostThreads / kLanes);
  const int row_blocks = (args.segments + warps - 1) / warps;
  const int64_t blocks_of_few = problem.batch * problem.num_targets * row_blocks;
  // fuse_many has 32-bit row sizes, so rows of 4 GiB and more use fuse_few.
  const bool huge = args.row_packs * static_cast<int64_t>(sizeof(Pack<T, N>)) >> 32 != 0;
  if ((args.rows == 1 || huge) && blocks_of_few < kMostBlocks) {
    FuseArgs few = args;
    few.row_blocks = row_blocks;
    return launch_early(launch, static_cast<unsigned>(blocks_of_few), static_cast<unsigned>(warps * kLanes), 0,
                        &fuse_few<T, N, kRule>, "fuse_few", few);
  }
  const auto blocks = static_cast<unsigned>(std::min(args.work, kMostBlocks));
  const size_t shared = args.copies_times ? static_cast<size_t>(args.num_times) * sizeof(float) : 0;
  launch_early(launch, blocks, threads, shared, &fuse_many<T, N, kRule>, "fuse_many", args);
}

template <class T, int N>
void launch_packed(const SensorLaunch& launch, const FuseProblem& problem, const FuseArgs& args, int threads) {
  if (problem.extrapolation == Extrapolation::hold)
    return launch_rule<T, N, Extrapolation::hold>(launch, problem, args, threads);
  if (problem.extrapolation == Extrapolation::linear)
    return launch_rule<T, N, Extrapolation::linear>(launch, problem, args, threads);
  launch_rule<T, N, Extrapolation::linear_right>(launch, problem, args, threads);
}

/// Threads per block, and chunks of targets per batch entry.
struct Division {
  int threads;
  int64_t chunks;
};

/// Minimises the estimated time over block sizes and numbers of chunks that fill whole rounds of blocks. The search for
/// places costs as much as kSetup targets of a thread. If several are equal, the one with the fewest chunks reads
/// samples and times the fewest times.
Division divide_targets(const SensorLaunch& launch, int64_t batch, int64_t num_targets, int packs) {
  const bool narrow = packs < kNarrow;
  const int most_side_by_side = std::max((narrow ? kNarrowThreads : kMostThreads) / packs, 1);
  constexpr int64_t kSetup = 6, kMoreRounds = 4;
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t least = divide_up(num_targets, kMaxRows);
  Division best{};
  int64_t best_time = std::numeric_limits<int64_t>::max();
  for (int side_by_side = narrow ? most_side_by_side : 1; side_by_side <= most_side_by_side; ++side_by_side) {
    const int threads = std::min((side_by_side * packs + kLanes - 1) / kLanes * kLanes, kMostThreads);
    const int64_t at_once = launch.num_sms * (kResidentThreads / threads);
    const int64_t first = divide_up(batch * least, at_once);
    for (int64_t round = first; round <= first + kMoreRounds; ++round) {
      const int64_t chunks = std::clamp(round * at_once / batch, least, num_targets);
      const int64_t rows = divide_up(num_targets, chunks);
      const int64_t time = divide_up(batch * chunks, at_once) * (divide_up(rows, side_by_side) + kSetup);
      if (time < best_time || (time == best_time && chunks < best.chunks)) best = {threads, chunks}, best_time = time;
    }
  }
  return best;
}

/// Chooses threads and targets per block; one target per block, for fuse_few, while more would not fill the GPU.
void choose_shape(const SensorLaunch& launch, int64_t batch, FuseArgs& args, int& threads) {
  constexpr int kBlocksPerSm = 8;
  const int64_t of_block = batch * args.num_targets / (static_cast<int64_t>(launch.num_sms) * kBlocksPerSm);
  const bool few = args.num_targets == 1 || of_block == 0 || (of_block == 1 && args.packs >= kNarrow);
  const int one_row = std::clamp((args.packs + kLanes - 1) / kLanes * kLanes, kNarrow, kMostThreads);
  const Division division =
      few ? Division{one_row, args.num_targets} : divide_targets(launch, batch, args.num_targets, args.packs);
  threads = division.threads;
  args.chunks = static_cast<uint32_t>(division.chunks);
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
      args.streams[args.num_streams++] = {stream.data, stream.times,   stream.length, packs,
                                          args.packs,  args.num_times, args.segments};
      args.packs += packs, args.segments += (packs + kLanes - 1) / kLanes;
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

}  // namespace

void launch_fuse(const SensorLaunch& launch, const FuseProblem& problem) {
  with_type(problem.type, [&](auto type) { launch_typed<decltype(type)>(launch, problem); });
}

}  // namespace amdahl
