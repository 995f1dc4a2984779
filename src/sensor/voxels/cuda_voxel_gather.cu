// Variant `gather`, of means and maxima where bins have few points: after the partition a block per bin gives each of
// its points a slot in shared memory, copies all their features there at once, adds up those of each voxel in the slot
// of its first point, and writes a row for every voxel of the bin.
//
// Cost: features read once, in rows of 16 bytes and more, and the grid written once, in order; 500,000 points of 8
// features into 128^3 voxels take 30 us on an H200, of which writing 67 MB alone is 16. Wins over `lists` because all
// features of a bin are asked for at once, and a row is written in order with its neighbours whether empty or not: rows
// cleared first and written again would go to DRAM twice. Bins of more points than slots are left to `lists`.
#include "sensor/voxels/cuda_voxel_rules.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kLongVoxel = 16;  // points that one lane adds up for each column; of more a warp does
constexpr uint32_t kMostLong = 456;  // voxels of more points, of a bin: slots are 7,680 at most
constexpr uint16_t kSingle = 1 << 15;

/// Shared memory of a block. Slots count from 1; row 0 is that of voxels without points.
template <class Results>
struct GatherMemory {
  uint16_t* heads;    // [bin_voxels]: how many points; then kSingle, or the begin of a list; then the slot of the row
  Results* rows;      // [1 + slots, columns], each column with its features until it has its result
  uint32_t* points;   // [1 + slots]
  uint16_t* offsets;  // [1 + slots], of the points' voxels
  uint16_t* ranks;    // [1 + slots], how many points of the voxel came before
  uint16_t* lists;    // [1 + slots * 3 / 2], of several points: how many, and their slots
  __device__ GatherMemory(void* memory, const BinArgs& bins, uint32_t slots, uint32_t columns) {
    heads = static_cast<uint16_t*>(memory);
    rows = reinterpret_cast<Results*>(heads + bins.bin_voxels());
    points = reinterpret_cast<uint32_t*>(rows + (1 + slots) * columns);
    offsets = reinterpret_cast<uint16_t*>(points + 1 + slots);
    ranks = offsets + 1 + slots;
    lists = ranks + 1 + slots;
  }
};

/// What a block has found out about its bin.
struct Found {
  uint32_t num_slots, list_end, num_long;
  uint16_t longs[kMostLong];  // first slots
};

/// A block's work on one bin.
template <class Rule, class T, int N>
class BinGatherer {
 public:
  using Sum = Sums<Rule, T, N>;
  using Results = typename Sum::Results;
  using Values = Pack<T, N>;

  __device__ BinGatherer(const BinArgs& bins, uint32_t bin, const ValueArgs& args, uint32_t slots, int column_bits,
                         const GatherMemory<Results>& memory, Found& found)
      : bins_(bins), args_(args), memory_(memory), found_(found), bin_(bin), slots_(slots) {
    const uint32_t lane = threadIdx.x % 32;
    column_ = lane & ((1u << column_bits) - 1), first_ = lane >> column_bits, lot_ = 32u >> column_bits;
    has_column_ = column_ < args.columns;
  }

  __device__ __forceinline__ void clear() const {
    auto* heads = reinterpret_cast<uint4*>(memory_.heads);
    for (uint32_t i = threadIdx.x; i < bins_.bin_voxels() / 8; i += kThreads) heads[i] = uint4{};
    if (threadIdx.x < args_.columns) memory_.rows[threadIdx.x] = Sum(args_).result(args_, 0);
    if (threadIdx.x == 0) found_.num_slots = found_.num_long = 0, found_.list_end = 1;  // no list begins at 0
    __syncthreads();
  }

  /// Gives the bin's points slots. False where there are too many. Waits for all threads.
  __device__ __forceinline__ bool find() const {
    for_each_in_segments<uint32_t, ValueReads, kThreads>(bins_, bin_, [&](uint32_t entry, int tile) {
      const uint32_t offset = offset_of(entry), shift = offset % 2 * 16, slot = next_slot();
      if (slot > slots_) return;
      memory_.points[slot] = bins_.point_of(entry, tile), memory_.offsets[slot] = static_cast<uint16_t>(offset);
      auto* pairs = reinterpret_cast<uint32_t*>(memory_.heads);
      memory_.ranks[slot] = static_cast<uint16_t>(atomicAdd(&pairs[offset / 2], 1u << shift) >> shift);
    });
    __syncthreads();
    return found_.num_slots <= slots_;
  }

  /// Has the features come, and makes rows of them. Waits for all threads.
  __device__ __forceinline__ void add_up() const {
    fetch();
    list_first();
    __syncthreads();
    for (uint32_t slot = 1 + threadIdx.x; slot <= found_.num_slots; slot += kThreads)
      if (memory_.ranks[slot] > 0)
        memory_.lists[memory_.heads[memory_.offsets[slot]] + 1 + memory_.ranks[slot]] = static_cast<uint16_t>(slot);
    wait_for_batches<0>();
    __syncthreads();
    const uint32_t warp = threadIdx.x / 32;
#pragma unroll 1
    for (uint32_t first = 1 + warp * lot_; first <= found_.num_slots; first += kWarps * lot_) add_voxel(first + first_);
#pragma unroll 1
    for (uint32_t i = warp; i < found_.num_long; i += kWarps) add_long_voxel(found_.longs[i]);
    __syncthreads();
  }

  /// Writes all rows of the bin.
  __device__ __forceinline__ void write() const {
#pragma unroll 1
    for (uint32_t chunk = threadIdx.x / 32; chunk < bins_.bin_chunks; chunk += kWarps) {
      const uint32_t chunk_voxel = voxel_of(bins_, bin_, chunk * kChunkVoxels);
      const uint16_t* heads = memory_.heads + chunk * kChunkVoxels;
      Results* out = static_cast<Results*>(args_.output) + static_cast<int64_t>(chunk_voxel) * args_.columns + column_;
#pragma unroll 2
      for (uint32_t voxel = first_; voxel < kChunkVoxels; voxel += lot_) {
        if (!has_column_ || chunk_voxel + voxel >= bins_.num_voxels) continue;
        const uint32_t slot = heads[voxel];
        store_streaming(out + voxel * args_.columns, memory_.rows[slot * args_.columns + column_]);
        if (args_.counts && column_ == 0 && slot == 0) args_.counts[chunk_voxel + voxel] = 0;
      }
    }
  }

 private:
  /// Lanes that are here at once take slots side by side.
  __device__ __forceinline__ uint32_t next_slot() const {
    const unsigned here = __activemask(), lane = threadIdx.x % 32, leader = __ffs(static_cast<int>(here)) - 1;
    uint32_t first = 0;
    if (lane == leader) first = atomicAdd(&found_.num_slots, static_cast<uint32_t>(__popc(here)));
    return 1 + __shfl_sync(here, first, static_cast<int>(leader)) + __popc(here & ((1u << lane) - 1));
  }
  __device__ __forceinline__ Results* row_at(uint32_t slot) const {
    return memory_.rows + slot * args_.columns + column_;
  }
  __device__ __forceinline__ Values values_of(uint32_t slot) const {
    return *reinterpret_cast<const Values*>(row_at(slot));
  }

  /// Begins to copy the features. Lanes stand side by side over the columns of several points.
  __device__ __forceinline__ void fetch() const {
#pragma unroll 2
    for (uint32_t slot = 1 + threadIdx.x / 32 * lot_ + first_; slot <= found_.num_slots; slot += kWarps * lot_)
      if (has_column_)
        copy_async(reinterpret_cast<Values*>(row_at(slot)),
                   static_cast<const Values*>(args_.features) +
                       static_cast<int64_t>(memory_.points[slot]) * args_.columns + column_);
    end_async_batch();
  }
  /// Begins the lists of voxels of several points, with their first ones.
  __device__ __forceinline__ void list_first() const {
    for (uint32_t slot = 1 + threadIdx.x; slot <= found_.num_slots; slot += kThreads) {
      if (memory_.ranks[slot] != 0) continue;
      uint16_t& head = memory_.heads[memory_.offsets[slot]];
      const uint32_t count = head;
      if (count == 1) {
        head = kSingle;
        continue;
      }
      const uint32_t begin = atomicAdd(&found_.list_end, count + 1);
      memory_.lists[begin] = static_cast<uint16_t>(count), memory_.lists[begin + 1] = static_cast<uint16_t>(slot);
      head = static_cast<uint16_t>(begin);
      if (count > kLongVoxel) found_.longs[atomicAdd(&found_.num_long, 1u)] = static_cast<uint16_t>(slot);
    }
  }

  /// Makes the row of the voxel whose first point has this slot, if it is one; each lot of lanes its own.
  __device__ __forceinline__ void add_voxel(uint32_t slot) const {
    const bool is_first = slot <= found_.num_slots && memory_.ranks[slot] == 0;
    const uint32_t offset = is_first ? memory_.offsets[slot] : 0, head = is_first ? memory_.heads[offset] : kSingle;
    const uint16_t* slots = memory_.lists + head + 1;
    const uint32_t count = head == kSingle ? 1 : slots[-1];
    __syncwarp();  // all have read the head
    if (!is_first || count > kLongVoxel || !has_column_) return;
    if (count == 1) {
      *row_at(slot) = Sum::of_one(args_, values_of(slot));
    } else {
      Sum sum(args_);
#pragma unroll 1
      for (uint32_t i = 0; i < count; ++i) sum.add(args_, values_of(slots[i]));
      *row_at(slot) = sum.result(args_, count);
    }
    finish(slot, offset, count);
  }
  /// The same of a voxel of many points, by a warp.
  __device__ __forceinline__ void add_long_voxel(uint32_t slot) const {
    const uint32_t offset = memory_.offsets[slot];
    const uint16_t* slots = memory_.lists + memory_.heads[offset] + 1;
    const uint32_t count = slots[-1];
    Sum sum(args_);
    for (uint32_t i = first_; i < count && has_column_; i += lot_) sum.add(args_, values_of(slots[i]));
    sum.join_warp(static_cast<int>(32 / lot_));
    if (first_ != 0 || !has_column_) return;
    *row_at(slot) = sum.result(args_, count);
    finish(slot, offset, count);
  }
  __device__ __forceinline__ void finish(uint32_t slot, uint32_t offset, uint32_t count) const {
    if (column_ != 0) return;
    memory_.heads[offset] = static_cast<uint16_t>(slot);
    if (args_.counts) args_.counts[voxel_of(bins_, bin_, offset)] = static_cast<int32_t>(count);
  }

  const BinArgs& bins_;
  const ValueArgs& args_;
  const GatherMemory<Results>& memory_;
  Found& found_;
  uint32_t bin_, slots_, column_, first_, lot_;
  bool has_column_;
};

template <class Rule, class T, int N>
__global__ void __launch_bounds__(kThreads, 2)
    gather_bins(BinArgs bins, ValueArgs args, uint32_t slots, int column_bits) {
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
      bins.crowded->bins[atomicAdd(&bins.crowded->num_bins, 1u)] = bin + 1;
    }
    __syncthreads();
  }
}

}  // namespace

void launch_voxel_gather(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  const size_t row = row_bytes(problem);
  const uint32_t slots = gather_slots(launch.limits.most_shared, bins.bin_voxels(), row);
  with_values(problem, bins, [&](const ValueArgs& args, auto rule, auto type, auto pack) {
    int column_bits = 0;
    while (1u << column_bits < args.columns) ++column_bits;
    auto* kernel = &gather_bins<decltype(rule), decltype(type), decltype(pack)::value>;
    const size_t shared = bins.bin_voxels() * sizeof(uint16_t) + (1 + slots) * (row + kGatherSlotBytes) + sizeof(uint4);
    allow_shared(launch, kernel, shared);
    launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "gather_bins", bins, args, slots,
                 column_bits);
  });
}

}  // namespace amdahl
