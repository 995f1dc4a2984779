// Second step of a voxelization with values, for bins whose points' features fit into shared memory. A point has a slot
// there: half of a block's warps ask for all features as soon as the points are known, while the others find the voxels
// that have several points and list these. What those voxels' values become stands where the first point's features
// were; what is left is to write a row for every voxel. What can be done by point is: of a sparse cloud most voxels are
// empty, and instructions are what this step is short of. Loops are kept short in code: two blocks of a multiprocessor
// are at different places of it, and unrolled by eight instead of two, one loop alone made 30 us of it 34 (H200). Where
// a bin has more points than there is room for features, those of the last ones are read where they are needed.
#include "sensor/voxels/cuda_voxel_fetched_memory.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr uint32_t kWarps = kThreads / 32, kFetchers = kWarps / 2;  // warps; the first ones fetch

/// A block's work on one bin.
template <class Rule, class T, int N>
class BinWriter {
 public:
  using Sum = Sums<Rule, T, N>;
  using Results = typename Sum::Results;
  using Values = Pack<T, N>;
  using Memory = FetchedMemory<Results, T, N>;

  __device__ BinWriter(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const FetchShape& shape,
                       const Memory& memory, FoundPoints& found)
      : bins_(bins), args_(args), shape_(shape), memory_(memory), found_(found), bin_(bin) {
    const uint32_t lane = threadIdx.x % 32;
    column_ = lane & ((1u << shape.column_bits) - 1), first_ = lane >> shape.column_bits;
    has_column_ = column_ < args.columns;
  }

  /// As find() needs it, once all threads have seen it.
  __device__ __forceinline__ void clear() const {
    auto* heads = reinterpret_cast<uint4*>(memory_.heads);
    for (uint32_t i = threadIdx.x; i < bins_.bin_voxels() / 8; i += kThreads) heads[i] = uint4{};
    if (threadIdx.x < args_.columns) memory_.rows[threadIdx.x] = Sum(args_).result(args_, 0);
    if (threadIdx.x == 0) found_ = {0, 0, 1, 0};  // no list begins at 0
  }

  /// Finds the bin's points. False where there are too many. Waits for all threads.
  __device__ __forceinline__ bool find() const {
    using Slots = DealtSlots<ValueRow, kThreads>;
    const uint32_t lane = threadIdx.x % 32, counts = shared_address(memory_.heads);
    const auto add = [&](bool there, uint32_t entry, int tile, uint32_t slot) {
      const uint32_t offset = offset_of(entry), shift = offset % 2 * 16;
      const uint32_t both = add_and_get_at(counts + offset / 2 * sizeof(uint32_t), 1u << shift, there, 0);
      if (!there || slot > kFewPoints) return;
      memory_.points[slot] = Slotted(bins_.point_of<true>(entry, tile), both >> shift & 0xffff);
      memory_.offsets[slot] = static_cast<uint16_t>(offset);
    };
    uint32_t next = 0, of_thread = 0;  // next: slot of the warp
    const int longest = for_each_dealt<ValueRow, kThreads>(
        bins_, bin_, [] {},
        [&](int length) {
          uint32_t slots = 0;
          if (threadIdx.x % ValueRow::kLanes == 0)
            of_thread += length, slots = min(static_cast<uint32_t>(length), uint32_t{ValueRow::kSlots});
          slots = __reduce_add_sync(~0u, slots);
          if (lane == 0) next = 1 + atomicAdd(&found_.num_slots, slots);
          next = __shfl_sync(~0u, next, 0);
        },
        [&](bool there, uint32_t entry, int tile, int at) {
          if (at >= Slots::kOfFirst) return add(there, entry, tile, 1 + atomicAdd(&found_.num_slots, 1u));
          const uint32_t mask = __ballot_sync(~0u, there);
          add(there, entry, tile, next + __popc(mask & ((1u << lane) - 1)));
          next += __popc(mask);
        });
    const bool spilled = __syncthreads_or(longest > Slots::kMostVisited);
    if (!spilled) return found_.num_slots <= kFewPoints;
    of_thread = __reduce_add_sync(~0u, of_thread);
    if (lane == 0) atomicAdd(&found_.num_points, of_thread);
    __syncthreads();
    if (found_.num_points > kFewPoints) return false;
    for_each_spilled<ValueRow, kThreads>(
        bins_, bin_, [&](uint32_t entry, int tile) { add(true, entry, tile, 1 + atomicAdd(&found_.num_slots, 1u)); });
    __syncthreads();
    return true;
  }

  /// Has the features come, and adds up those of voxels that have several points. Waits for all threads.
  __device__ __forceinline__ void add_up() const {
    if (threadIdx.x < kFetchers * 32)
      fetch();
    else
      begin_lists();
    __syncthreads();
    fill_lists();
    wait_for_batches<0>();
    __syncthreads();
    add_several<false>();
    __syncthreads();
  }

  /// Writes the rows of all voxels, and then again those whose first point's features are not here.
  __device__ __forceinline__ void write() const {
    write_chunks();
    if (found_.num_slots <= shape_.most_fetched) return;
    __syncthreads();
    const uint32_t num_slots = found_.num_slots, warp = threadIdx.x / 32;
#pragma unroll 1
    for (uint32_t slot = shape_.most_fetched + 1 + warp * lot() + first_; slot <= num_slots; slot += kWarps * lot())
      if (memory_.points[slot].rank() == Slotted::kAlone)
        write_row(memory_.offsets[slot], Sum::of_one(args_, values_of(slot)), 1);
    add_several<true>();
  }

 private:
  /// Points or voxels whose columns the lanes of a warp have side by side.
  __device__ __forceinline__ uint32_t lot() const { return 32u >> shape_.column_bits; }
  __device__ __forceinline__ Values* values_at(uint32_t slot) const {
    return reinterpret_cast<Values*>(memory_.rows + slot * args_.columns) + column_;
  }

  __device__ __forceinline__ Results* row_at(uint32_t slot) const {
    return memory_.rows + slot * args_.columns + column_;
  }
  /// What stands in a voxel's row.
  __device__ __forceinline__ Results row_of(uint16_t head) const {
    const uint32_t slot = head & (kFeatures - 1u);
    const bool features = (head & kFeatures) != 0;
    if constexpr (sizeof(Values) == sizeof(Results)) {
      Results row = *row_at(slot);
      Values values;
      memcpy(&values, &row, sizeof(row));
      const Results of_one = Sum::of_one(args_, values);
#pragma unroll
      for (int i = 0; i < N; ++i) row.at[i] = features ? of_one.at[i] : row.at[i];
      return row;
    } else {
      return features ? Sum::of_one(args_, *values_at(slot)) : *row_at(slot);
    }
  }

  /// Begins to fetch what there is room for. By the warps that do.
  __device__ __forceinline__ void fetch() const {
    const uint32_t last = min(found_.num_slots, shape_.most_fetched);
#pragma unroll 2
    for (uint32_t slot = 1 + threadIdx.x / 32 * lot() + first_; slot <= last; slot += kFetchers * lot())
      if (has_column_)
        copy_async(values_at(slot), static_cast<const Values*>(args_.features) +
                                        static_cast<int64_t>(memory_.points[slot].point()) * args_.columns + column_);
    end_async_batch();
  }

  /// Calls visit(slot, rank, offset, head) for all slots whose points are the first ones of their voxels, or for the
  /// others. By the warps from `kFirstWarp` on.
  template <bool kFirst, uint32_t kFirstWarp, class Visit>
  __device__ __forceinline__ void for_each_slot(const Visit& visit) const {
    constexpr uint32_t kStep = kThreads - kFirstWarp * 32;
    constexpr int kTogether = 2;
    const uint32_t num_slots = found_.num_slots;
#pragma unroll 1
    for (uint32_t first = 1 + threadIdx.x - kFirstWarp * 32; first <= num_slots; first += kTogether * kStep) {
      uint32_t rank[kTogether], offset[kTogether], head[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        rank[k] = Slotted::kAlone;
        if (first + k * kStep > num_slots) continue;
        rank[k] = memory_.points[first + k * kStep].rank(), offset[k] = memory_.offsets[first + k * kStep];
      }
      const auto is_meant = [&](int k) { return kFirst ? rank[k] == 0 : rank[k] != 0 && rank[k] != Slotted::kAlone; };
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        if (is_meant(k)) head[k] = memory_.heads[offset[k]];
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        if (is_meant(k)) visit(first + k * kStep, rank[k], offset[k], head[k]);
    }
  }
  /// Tells voxels of one point their slot, and begins the lists of the others. By the warps that do not fetch.
  __device__ __forceinline__ void begin_lists() const {
    for_each_slot<true, kFetchers>([&](uint32_t slot, uint32_t, uint32_t offset, uint32_t count) {
      uint32_t head = slot | kFeatures;
      if (count > 1) {
        const bool is_long = count > kLongVoxel;
        const uint32_t both = atomicAdd(&found_.several_and_end, (is_long ? 0 : 1u << 16) + count + 1),
                       begin = both & 0xffff,
                       place = is_long ? kFewPoints / 2 - 1 - atomicAdd(&found_.num_long, 1u) : both >> 16;
        memory_.lists[begin] = static_cast<uint16_t>(count), memory_.lists[begin + 1] = static_cast<uint16_t>(slot);
        memory_.several[place] = {static_cast<uint16_t>(offset), static_cast<uint16_t>(begin)};
        head = begin;
      } else if (slot > shape_.most_fetched) {
        memory_.points[slot] = Slotted(memory_.points[slot].point(), Slotted::kAlone);
        head = 0;
      }
      memory_.heads[offset] = static_cast<uint16_t>(head);
    });
  }
  __device__ __forceinline__ void fill_lists() const {
    for_each_slot<false, 0>([&](uint32_t slot, uint32_t rank, uint32_t, uint32_t begin) {
      memory_.lists[begin + 1 + rank] = static_cast<uint16_t>(slot);
    });
  }

  /// Adds up the voxels of several points: those whose rows are here, or those whose rows are written at once.
  template <bool kAtOnce>
  __device__ __forceinline__ void add_several() const {
    const uint32_t warp = threadIdx.x / 32, num_several = found_.several_and_end >> 16;
#pragma unroll 1
    for (uint32_t first = warp * lot(); first < num_several; first += kWarps * lot())
      add_voxel<kAtOnce, false>(first + first_ < num_several ? memory_.several + first + first_ : nullptr);
#pragma unroll 1
    for (uint32_t i = warp; i < found_.num_long; i += kWarps)
      add_voxel<kAtOnce, true>(memory_.several + kFewPoints / 2 - 1 - i);
  }
  /// Of one: each lane of its own or of none, or the warp together.
  template <bool kAtOnce, bool kByWarp>
  __device__ __forceinline__ void add_voxel(const Several* voxel) const {
    Sum sum(args_);
    uint32_t count = 0;
    const uint16_t* slots = nullptr;
    if (voxel) {
      slots = memory_.lists + voxel->begin + 1;
      const bool is_here = slots[0] <= shape_.most_fetched;
      if (is_here == kAtOnce) {
        if (!kAtOnce && column_ == 0) memory_.heads[voxel->offset] = 0;
        voxel = nullptr;
      } else {
        count = slots[-1];
      }
    }
    const uint32_t first = kByWarp ? first_ : 0, step = kByWarp ? lot() : 1;
#pragma unroll 1
    for (uint32_t i = first; i < count && has_column_; i += step) sum.add(args_, values_of(slots[i]));
    if (kByWarp) sum.join_warp(1 << shape_.column_bits);
    __syncwarp();
    if (!voxel || (kByWarp && first_ != 0) || !has_column_) return;
    if (kAtOnce) return write_row(voxel->offset, sum.result(args_, count), count);
    *row_at(slots[0]) = sum.result(args_, count);
    if (column_ != 0) return;
    memory_.heads[voxel->offset] = slots[0];
    if (args_.counts) args_.counts[voxel_of(bins_, bin_, voxel->offset)] = static_cast<int32_t>(count);
  }
  __device__ __forceinline__ Values values_of(uint32_t slot) const {
    return slot <= shape_.most_fetched ? *values_at(slot) : load<T, N>(args_, memory_.points[slot].point(), column_);
  }
  /// Writes this lane's column of a voxel.
  __device__ __forceinline__ void write_row(uint32_t offset, const Results& row, uint32_t count) const {
    if (!has_column_) return;
    const uint32_t voxel = voxel_of(bins_, bin_, offset);
    store_streaming(static_cast<Results*>(args_.output) + static_cast<int64_t>(voxel) * args_.columns + column_, row);
    if (args_.counts && column_ == 0) args_.counts[voxel] = static_cast<int32_t>(count);
  }

  /// Writes all rows as they stand here.
  __device__ __forceinline__ void write_chunks() const {
    const bool whole =
        args_.columns == 1u << shape_.column_bits && bins_.num_voxels % kChunkVoxels == 0 && !args_.counts;
#pragma unroll 1
    for (uint32_t chunk = threadIdx.x / 32; chunk < bins_.bin_chunks; chunk += kWarps) {
      const uint32_t voxel = voxel_of(bins_, bin_, chunk * kChunkVoxels) + first_;
      const uint16_t* heads = memory_.heads + chunk * kChunkVoxels + first_;
      Results* out = static_cast<Results*>(args_.output) + static_cast<int64_t>(voxel) * args_.columns + column_;
      if (!whole)
        write_chunk(heads, voxel, out);
      else if (voxel < bins_.num_voxels)
        write_whole_chunk(heads, out);
    }
  }

  /// Writes the rows of a chunk whose voxels are all there, without counts; `out` of this lane's first voxel.
  __device__ __forceinline__ void write_whole_chunk(const uint16_t* heads, Results* out) const {
    constexpr uint32_t kTogether = 2;
#pragma unroll 1
    for (uint32_t voxel = 0; voxel < kChunkVoxels; voxel += kTogether * lot(), out += kTogether * 32) {
      Results rows[kTogether];
#pragma unroll
      for (uint32_t k = 0; k < kTogether; ++k)
        if (voxel + k * lot() < kChunkVoxels) rows[k] = row_of(heads[voxel + k * lot()]);
#pragma unroll
      for (uint32_t k = 0; k < kTogether; ++k)
        if (voxel + k * lot() < kChunkVoxels) store_streaming(out + k * 32, rows[k]);
    }
  }
  /// Writes what there is of a chunk. Counts of several points have been written.
  __device__ __forceinline__ void write_chunk(const uint16_t* heads, uint32_t first_voxel, Results* out) const {
#pragma unroll 1
    for (uint32_t voxel = 0; voxel < kChunkVoxels && has_column_; voxel += lot(), out += lot() * args_.columns) {
      if (first_voxel + voxel >= bins_.num_voxels) continue;
      const uint16_t head = heads[voxel];
      store_streaming(out, row_of(head));
      if (args_.counts && column_ == 0 && (head == 0 || (head & kFeatures)))
        args_.counts[first_voxel + voxel] = head == 0 ? 0 : 1;
    }
  }

  const BinArgs& bins_;
  const ValueArgs& args_;
  const FetchShape& shape_;
  const Memory& memory_;
  FoundPoints& found_;
  uint32_t bin_, column_, first_;
  bool has_column_;
};

template <class Rule, class T, int N>
__global__ void __launch_bounds__(kThreads, 2) add_fetched(BinArgs bins, ValueArgs args, FetchShape shape) {
  extern __shared__ __align__(32) uint4 memory[];
  __shared__ FoundPoints found;
  using Writer = BinWriter<Rule, T, N>;
  const typename Writer::Memory of_bin(memory, bins, shape.most_fetched, args.columns);
  if (tells_fates()) {
    let_successor_start();
    return tell_fates(bins);
  }
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += blocks_for_bins()) {
    Writer writer(bins, bin, args, shape, of_bin, found);
    writer.clear();
    __syncthreads();
    if (bin == blockIdx.x) {
      wait_for_predecessor();
      let_successor_start();  // after the wait: the next step then finds no density of another call
    }
    const bool few = writer.find();
    if (threadIdx.x == 0) {
      if (!few) __threadfence();  // what the first step has written is there for those who go on with the bin
      bins.densities[bin] = few ? BinDensity::few : BinDensity::crowded;
    }
    if (few) {
      writer.add_up();
      writer.write();
    }
    __syncthreads();
  }
}

/// For rows of `columns` packs: as many points as fit into the shared memory of half a multiprocessor, if bins of a
/// cloud that is spread over the grid have no more on average.
template <class Memory>
FetchShape fetch_shape(const SensorLaunch& launch, const BinArgs& bins, int64_t num_points, uint32_t columns) {
  constexpr size_t kOther = 640;  // of a block: half of what the driver leaves out, and variables
  const size_t most = launch.limits.most_shared / 2, needed = Memory::bytes(bins, 0, columns) + kOther;
  FetchShape shape{};
  if (columns > 32 || most <= needed) return shape;
  while (1u << shape.column_bits < columns) ++shape.column_bits;
  const size_t row = Memory::bytes(bins, 1, columns) - Memory::bytes(bins, 0, columns),
               fetched = std::min<size_t>((most - needed) / row, kFewPoints);
  if (num_points <= static_cast<int64_t>(fetched * bins.num_bins()))
    shape.most_fetched = static_cast<uint32_t>(fetched);
  return shape;
}

}  // namespace

bool launch_voxel_fetched(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  bool fits = false;
  if (!bins.rows) return fits;
  with_values(problem, bins, [&](const ValueArgs& args, auto rule, auto type, auto pack) {
    using Writer = BinWriter<decltype(rule), decltype(type), decltype(pack)::value>;
    const auto shape = fetch_shape<typename Writer::Memory>(launch, bins, problem.num_points, args.columns);
    fits = shape.most_fetched > 0;
    if (!fits) return;
    auto* kernel = &add_fetched<decltype(rule), decltype(type), decltype(pack)::value>;
    const size_t shared = Writer::Memory::bytes(bins, shape.most_fetched, args.columns);
    allow_shared(launch, kernel, shared);
    launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "add_fetched", bins, args, shape);
  });
  return fits;
}

}  // namespace amdahl
