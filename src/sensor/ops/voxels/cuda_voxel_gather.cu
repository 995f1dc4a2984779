// Variant `gather`, for means and maxima if bins have few points: after the partition a block per bin assigns each
// point a slot in shared memory. Half of the warps load all features asynchronously; the others list the points of
// voxels with several points. Sums replace the features of a voxel's first point; then the block writes the rows of all
// voxels.
//
// Cost: features read once, the grid written once, in order. 500,000 points of 8 features in 128^3 voxels take 30 us on
// an H200, of which writing 67 MB takes 16. Faster than `lists`, because all loads of a bin are in flight at once and
// empty and other rows are written in one pass. Features without a slot row are read when needed; bins with more points
// than slots are skipped and left to `lists`.
#include "sensor/ops/voxels/cuda_voxel_rules.cuh"
#include "sensor/ops/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr uint32_t kWarps = kThreads / 32, kFetchers = kWarps / 2;  // warps; the first kFetchers load features
constexpr uint32_t kLongVoxel = 16;  // longer lists are added up by a warp instead of a lane per column
// Flags of a voxel's head. kSingle: the voxel has one point, in this slot, and its row still holds features. kWritten:
// the voxel is already in the grid.
constexpr uint32_t kSingle = 1 << 15, kWritten = kSingle - 1;
static_assert(kGatherLookUp >= 2 * kThreads * sizeof(uint32_t));

/// Shared memory of a block. Slots are numbered from 1; row 0 is the result of empty voxels. Only the first slots have
/// rows.
template <class Results>
struct GatherMemory {
  uint16_t* heads;    // [bin_voxels]: number of points, then kSingle or the list's begin, then the row's slot
  Results* rows;      // [1 + fetched, columns]: features, replaced by results
  uint32_t* points;   // [1 + slots]
  uint16_t* offsets;  // [1 + slots]: offsets of the points' voxels
  uint16_t* ranks;    // [1 + slots]: rank of the point in its voxel
  uint16_t* listed;   // [1 + slots]: first slots of voxels with lists; long ones from the back
  uint16_t* lists;    // [2 * slots]: number of points, and their slots
  __device__ GatherMemory(void* memory, const BinArgs& bins, const GatherSlots& slots, uint32_t columns) {
    heads = static_cast<uint16_t*>(memory);
    rows = reinterpret_cast<Results*>(heads + bins.bin_voxels());
    points = reinterpret_cast<uint32_t*>(rows + (1 + slots.fetched) * columns);
    offsets = reinterpret_cast<uint16_t*>(points + 1 + slots.all);
    ranks = offsets + 1 + slots.all;
    listed = ranks + 1 + slots.all;
    lists = listed + 1 + slots.all;
  }
  static size_t bytes(const BinArgs& bins, const GatherSlots& slots, size_t row) {
    return bins.bin_voxels() * sizeof(uint16_t) + (1 + slots.fetched) * row + (1 + slots.all) * kGatherSlotBytes;
  }
};

/// Counters of a block's bin.
struct Found {
  uint32_t num_slots, num_long;
  uint32_t listed_and_end;  // number of voxels with short lists << 16 | end of the lists
};

/// Segments of a bin in some tiles, copied to shared memory.
struct LookedUp {
  const uint32_t* words;
  __device__ __forceinline__ Segment operator[](int tile) const { return Segment::of(words[tile]); }
};

/// Work of a block on one bin.
template <class Rule, class T, int N>
class BinGatherer {
 public:
  using Sum = Sums<Rule, T, N>;
  using Results = typename Sum::Results;
  using Values = Pack<T, N>;

  __device__ BinGatherer(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const GatherSlots& slots,
                         int column_bits, const GatherMemory<Results>& memory, Found& found)
      : bins_(bins), args_(args), slots_(slots), memory_(memory), found_(found), bin_(bin) {
    const uint32_t lane = threadIdx.x % 32;
    column_ = lane & ((1u << column_bits) - 1), first_ = lane >> column_bits, lot_ = 32u >> column_bits;
    has_column_ = column_ < args.columns;
  }

  __device__ __forceinline__ void clear() const {
    auto* heads = reinterpret_cast<uint4*>(memory_.heads);
    for (uint32_t i = threadIdx.x; i < bins_.bin_voxels() / 8; i += kThreads) heads[i] = uint4{};
    if (threadIdx.x < args_.columns) memory_.rows[threadIdx.x] = Sum(args_).result(args_, 0);
    if (threadIdx.x == 0) found_ = {};
    __syncthreads();
  }

  /// Assigns slots to the bin's points, consecutive ones within a segment. False if there are too many. Ends with a
  /// block barrier.
  __device__ __forceinline__ bool find() const {
    auto* words = reinterpret_cast<uint32_t*>(memory_.rows + args_.columns);  // free until features arrive
    uint32_t* slots_before = words + kThreads;                                // minus the segment's begin
    for (int64_t first = 0; first < bins_.num_tiles; first += kThreads) {
      const int count = static_cast<int>(min(bins_.num_tiles - first, int64_t{kThreads}));
      uint32_t word = 0;
      if (static_cast<int>(threadIdx.x) < count) word = SegmentTable(bins_, bin_).word(first + threadIdx.x);
      const auto [begin, end] = Segment::of(word);
      const uint32_t through = scan_warp(end - begin);
      uint32_t before = 0;
      if (threadIdx.x % 32 == 31) before = atomicAdd(&found_.num_slots, through);
      words[threadIdx.x] = word, slots_before[threadIdx.x] = __shfl_sync(~0u, before, 31) + through - end;
      __syncthreads();
      if (found_.num_slots > slots_.all) return false;
      for_each_in_segments<uint32_t, Reads<8, 3, 3>, kThreads>(
          bins_, first, count, LookedUp{words}, [&](uint32_t entry, int tile, int at) {
            const uint32_t offset = offset_of(entry), shift = offset % 2 * 16, slot = slots_before[tile] + 1 + at;
            memory_.points[slot] = bins_.point_of(entry, static_cast<int>(first) + tile);
            memory_.offsets[slot] = static_cast<uint16_t>(offset);
            auto* pairs = reinterpret_cast<uint32_t*>(memory_.heads);
            memory_.ranks[slot] = static_cast<uint16_t>(atomicAdd(&pairs[offset / 2], 1u << shift) >> shift);
          });
      __syncthreads();
    }
    return true;
  }

  /// Loads the features and adds up those of voxels with lists. Ends with a block barrier.
  __device__ __forceinline__ void add_up() const {
    if (threadIdx.x < kFetchers * 32)
      fetch();
    else
      begin_lists();
    __syncthreads();
    for_each_slot<false, 0>([&](uint32_t slot, uint32_t, uint32_t begin) {
      memory_.lists[begin + 1 + memory_.ranks[slot]] = static_cast<uint16_t>(slot);
    });
    wait_for_copies();
    __syncthreads();
    const uint32_t warp = threadIdx.x / 32, num_listed = found_.listed_and_end >> 16;
#pragma unroll 1
    for (uint32_t first = warp * lot_; first < num_listed; first += kWarps * lot_)
      add_voxel<false>(first + first_ < num_listed ? memory_.listed[first + first_] : 0);
#pragma unroll 1
    for (uint32_t i = warp; i < found_.num_long; i += kWarps) add_voxel<true>(memory_.listed[slots_.all - i]);
    __syncthreads();
  }

  /// Writes all rows that are not yet in the grid.
  __device__ __forceinline__ void write() const {
    const bool whole = args_.columns * lot_ == 32 && bins_.num_voxels % kChunkVoxels == 0 && !args_.counts;
#pragma unroll 1
    for (uint32_t chunk = threadIdx.x / 32; chunk < bins_.bin_chunks; chunk += kWarps) {
      const uint32_t voxel = voxel_of(bins_, bin_, chunk * kChunkVoxels) + first_;
      const uint16_t* heads = memory_.heads + chunk * kChunkVoxels + first_;
      if (!whole)
        write_chunk<false>(heads, voxel);
      else if (voxel < bins_.num_voxels)
        write_chunk<true>(heads, voxel);
    }
  }

 private:
  __device__ __forceinline__ Results* row_at(uint32_t slot) const {
    return memory_.rows + slot * args_.columns + column_;
  }
  __device__ __forceinline__ Results* out_at(uint32_t voxel) const {
    return static_cast<Results*>(args_.output) + static_cast<int64_t>(voxel) * args_.columns + column_;
  }
  __device__ __forceinline__ Values values_of(uint32_t slot) const {
    return slot <= slots_.fetched ? *reinterpret_cast<const Values*>(row_at(slot))
                                  : load<T, N>(args_, memory_.points[slot], column_);
  }

  /// Begins to copy features to the slots with rows. The lanes of a warp cover the columns of several points. Executed
  /// by the fetching warps.
  __device__ __forceinline__ void fetch() const {
    const uint32_t last = min(found_.num_slots, slots_.fetched);
#pragma unroll 2
    for (uint32_t slot = 1 + threadIdx.x / 32 * lot_ + first_; slot <= last; slot += kFetchers * lot_)
      if (has_column_)
        copy_async(reinterpret_cast<Values*>(row_at(slot)),
                   static_cast<const Values*>(args_.features) +
                       static_cast<int64_t>(memory_.points[slot]) * args_.columns + column_);
  }

  /// Calls visit(slot, offset, head) for all slots whose points are (kFirst) or are not the first ones of their voxels.
  /// Executed by the warps from `kFirstWarp` on.
  template <bool kFirst, uint32_t kFirstWarp, class Visit>
  __device__ __forceinline__ void for_each_slot(const Visit& visit) const {
    constexpr uint32_t kStep = kThreads - kFirstWarp * 32;
    constexpr int kTogether = 2;
    const uint32_t num_slots = found_.num_slots;
#pragma unroll 1
    for (uint32_t first = 1 + threadIdx.x - kFirstWarp * 32; first <= num_slots; first += kTogether * kStep) {
      bool meant[kTogether];
      uint32_t offset[kTogether], head[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        meant[k] = first + k * kStep <= num_slots && (memory_.ranks[first + k * kStep] == 0) == kFirst;
        if (meant[k]) offset[k] = memory_.offsets[first + k * kStep];
      }
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        if (meant[k]) head[k] = memory_.heads[offset[k]];
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        if (meant[k]) visit(first + k * kStep, offset[k], head[k]);
    }
  }
  /// Sets the heads of voxels with one point, and creates the lists of all other voxels and of those without a row.
  /// Executed by the warps that do not fetch.
  __device__ __forceinline__ void begin_lists() const {
    for_each_slot<true, kFetchers>([&](uint32_t slot, uint32_t offset, uint32_t count) {
      uint32_t head = slot | kSingle;
      if (count > 1 || slot > slots_.fetched) {
        const bool is_long = count > kLongVoxel;
        const uint32_t both = atomicAdd(&found_.listed_and_end, (is_long ? 0 : 1u << 16) + count + 1);
        head = both & 0xffff;
        memory_.lists[head] = static_cast<uint16_t>(count), memory_.lists[head + 1] = static_cast<uint16_t>(slot);
        memory_.listed[is_long ? slots_.all - atomicAdd(&found_.num_long, 1u) : both >> 16] =
            static_cast<uint16_t>(slot);
      }
      memory_.heads[offset] = static_cast<uint16_t>(head);
    });
  }

  /// Adds up the voxel whose first point has this slot (0: none). Each group of lanes has its own voxel, or, with
  /// kByWarp, the warp one voxel. No other lanes access the voxel's head or rows meanwhile.
  template <bool kByWarp>
  __device__ __forceinline__ void add_voxel(uint32_t slot) const {
    const uint32_t offset = slot > 0 ? memory_.offsets[slot] : 0;
    const uint16_t* list = memory_.lists + (slot > 0 ? memory_.heads[offset] : 0);
    const uint32_t count = slot > 0 ? list[0] : 0, step = kByWarp ? lot_ : 1;
    Sum sum(args_);
#pragma unroll 1
    for (uint32_t i = kByWarp ? first_ : 0; i < count && has_column_; i += step) sum.add(args_, values_of(list[1 + i]));
    if (kByWarp) sum.join_warp(static_cast<int>(32 / lot_));
    __syncwarp();  // all lanes have read the head
    if (count == 0 || (kByWarp && first_ != 0) || !has_column_) return;
    const uint32_t voxel = voxel_of(bins_, bin_, offset);
    if (slot <= slots_.fetched)
      *row_at(slot) = sum.result(args_, count);
    else
      store_streaming(out_at(voxel), sum.result(args_, count));
    if (column_ != 0) return;
    memory_.heads[offset] = static_cast<uint16_t>(slot <= slots_.fetched ? slot : kWritten);
    if (args_.counts) args_.counts[voxel] = static_cast<int32_t>(count);
  }

  /// The result of a voxel: its row, or the result of its only point's features.
  __device__ __forceinline__ Results row_of(uint32_t head) const {
    Results row = *row_at(head == kWritten ? 0 : head & (kSingle - 1));
    Values values;
    memcpy(&values, &row, sizeof(values));
    const Results of_one = Sum::of_one(args_, values);
#pragma unroll
    for (int i = 0; i < N; ++i) row.at[i] = (head & kSingle) != 0 ? of_one.at[i] : row.at[i];
    return row;
  }
  /// Writes a chunk, from this lane's first voxel on. `kWhole`: all its voxels exist, and counts are not requested.
  template <bool kWhole>
  __device__ __forceinline__ void write_chunk(const uint16_t* heads, uint32_t voxel) const {
    constexpr int kTogether = 2;
    Results* out = out_at(voxel);
    const uint32_t step = kWhole ? 32 : lot_ * args_.columns;
#pragma unroll 1
    for (uint32_t at = 0; at < kChunkVoxels; at += kTogether * lot_, out += kTogether * step) {
      uint32_t head[kTogether];
      Results rows[kTogether];
      const auto there = [&](int k) { return kWhole || (has_column_ && voxel + at + k * lot_ < bins_.num_voxels); };
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        head[k] = heads[at + k * lot_];
        if (there(k)) rows[k] = row_of(head[k]);
      }
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if (there(k) && head[k] != kWritten) store_streaming(out + k * step, rows[k]);
        if (!kWhole && there(k) && args_.counts && column_ == 0 && (head[k] == 0 || (head[k] & kSingle) != 0))
          args_.counts[voxel + at + k * lot_] = head[k] == 0 ? 0 : 1;
      }
    }
  }

  const BinArgs& bins_;
  const ValueArgs& args_;
  const GatherSlots& slots_;
  const GatherMemory<Results>& memory_;
  Found& found_;
  uint32_t bin_, column_, first_, lot_;
  bool has_column_;
};

template <class Rule, class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    gather_bins(BinArgs bins, ValueArgs args, GatherSlots slots, int column_bits) {
  extern __shared__ __align__(128) uint4 memory[];
  __shared__ Found found;
  using Gatherer = BinGatherer<Rule, T, N>;
  const GatherMemory<typename Gatherer::Results> of_bin(memory, bins, slots, args.columns);
  let_successor_start();
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += gridDim.x) {
    const Gatherer gatherer(bins, bin, args, slots, column_bits, of_bin, found);
    gatherer.clear();
    if (bin == blockIdx.x) wait_for_predecessor();
    if (gatherer.find()) {
      gatherer.add_up();
      gatherer.write();
    } else if (threadIdx.x == 0) {
      bins.overfull->bins[atomicAdd(&bins.overfull->num_bins, 1u)] = bin + 1;
    }
    __syncthreads();
  }
}

}  // namespace

void launch_voxel_gather(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const size_t row = row_bytes(problem);
  const GatherSlots slots = gather_slots(launch.limits.most_shared, bins.bin_voxels(), row);
  with_values(problem, bins, [&](const ValueArgs& args, auto rule, auto type, auto pack) {
    using Gatherer = BinGatherer<decltype(rule), decltype(type), decltype(pack)::value>;
    int column_bits = 0;
    while (1u << column_bits < args.columns) ++column_bits;
    auto* kernel = &gather_bins<decltype(rule), decltype(type), decltype(pack)::value>;
    const size_t shared = GatherMemory<typename Gatherer::Results>::bytes(bins, slots, row);
    launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "gather_bins", bins, args, slots,
                 column_bits);
  });
}

}  // namespace amdahl
