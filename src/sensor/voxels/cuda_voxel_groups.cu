// Second step of a voxelization with values, for bins of few points: a warp builds a group of neighbouring voxels in
// shared memory and writes it as one piece. Every row of the grid is written once; rows cleared first and written again
// go to DRAM twice.
#include "sensor/voxels/cuda_voxel_group_list.cuh"
#include "sensor/voxels/cuda_voxel_steps.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = kGroupThreads;

/// Groups of more points than a warp should add up while others wait for it: twice its share of the bin's, within
/// bounds.
struct LargeGroups {
  static constexpr uint32_t kLeast = 64, kMost = 256;
  uint32_t num_groups;
  uint16_t places[kFewPoints / kLeast];
  __device__ static bool is_large(uint32_t points, uint32_t points_of_bin) {
    return points > min(max(2 * points_of_bin / kWarps, kLeast), kMost);
  }
};

/// A warp's work on groups: lanes stand side by side over the columns of several points.
template <class Rule, class T, int N>
class GroupWriter {
 public:
  using Memory = GroupMemory<Rule, T, N>;
  using Sum = Sums<Rule, T, N>;
  using Results = typename Sum::Results;

  __device__ GroupWriter(const BinArgs& bins, uint32_t bin, const ValueArgs& args, const GroupShape& shape,
                         const Memory& memory, const uint32_t* begins)
      : bins_(bins), args_(args), shape_(shape), memory_(memory), begins_(begins), bin_(bin) {
    lane_ = threadIdx.x % 32, column_ = lane_ & ((1u << shape.column_bits) - 1), first_ = lane_ >> shape.column_bits;
    sums_ = memory.sums + threadIdx.x / 32 * Memory::kSums, ring_ = memory.ring + threadIdx.x / 32 * kAhead * 32;
  }

  /// Each warp its share of the bin's groups, one after the other. Leaves groups of very many points to write_large.
  __device__ __forceinline__ void write_all(LargeGroups& large) {
    const uint32_t warp = threadIdx.x / 32;
    uint32_t place = warp * shape_.share, begin = begins_[place];
    base_ = begin, end_ = begins_[place + shape_.share], next_lot_ = 0;
    const uint32_t of_bin = begins_[kWarps * shape_.share];
    for (uint32_t group = warp; group < shape_.num_groups; group += kWarps, ++place) {
      const uint32_t end = begins_[place + 1];
      if (LargeGroups::is_large(end - begin, of_bin)) {
        if (lane_ == 0) large.places[atomicAdd(&large.num_groups, 1u)] = static_cast<uint16_t>(place);
        wait_for_batches<0>();
        __syncwarp();
        next_lot_ = lot_of(end);
      } else {
        for (uint32_t at = begin; at < end; at += shape_.lot()) {
          read_ahead(at);
          add(at, end, ring_[((at + first_ - base_) << shape_.column_bits | column_) % (kAhead * 32)]);
        }
        if (Rule::kFinishedByPoint) finish(begin, end, group << shape_.group_bits);
        write(group);
      }
      begin = end;
    }
    wait_for_batches<0>();
    __syncwarp();
  }
  /// Groups that the whole block adds up, a sum for each warp.
  __device__ void write_large(const LargeGroups& large) {
    for (uint32_t i = 0; i < large.num_groups; ++i) {
      const uint32_t place = large.places[i], end = begins_[place + 1], group = shape_.group_at(place);
      const uint32_t step = kWarps * shape_.lot();
      uint32_t at = begins_[place] + threadIdx.x / 32 * shape_.lot();
      Pack<T, N> values = values_at(at, end);
#pragma unroll 1
      for (; at < end; at += step) {
        const Pack<T, N> next = values_at(at + step, end);
        add(at, end, values);
        values = next;
      }
      __syncthreads();
      for (uint32_t pack = threadIdx.x; pack < shape_.packs(); pack += kThreads) {
        const uint32_t count = memory_.count_of((group << shape_.group_bits) + (pack >> shape_.column_bits));
        if (count == 0) continue;
        Sum all(args_);
        for (int warp = 0; warp < kWarps; ++warp) {
          Sum& of_warp = memory_.sums[warp * Memory::kSums + pack];
          all.join(of_warp);
          of_warp = Sum(args_);
        }
        if (Rule::kFinishedByPoint) finish(all, count);
        memory_.sums[pack] = all;
      }
      __syncthreads();
      if (threadIdx.x < 32) write(group);
      __syncthreads();
    }
  }

 private:
  __device__ __forceinline__ uint32_t lot_of(uint32_t at) const { return (at - base_) >> shape_.lot_bits(); }

  /// The features of points [at, at + lot) are in the ring when this returns, and more are under way.
  __device__ __forceinline__ void read_ahead(uint32_t at) {
    for (const uint32_t until = lot_of(at) + kAhead; next_lot_ < until; ++next_lot_) {
      const uint32_t point = base_ + (next_lot_ << shape_.lot_bits()) + first_;
      if (point < end_ && column_ < args_.columns)
        copy_async(ring_ + next_lot_ % kAhead * 32 + lane_,
                   static_cast<const Pack<T, N>*>(args_.features) +
                       static_cast<int64_t>(memory_.points[point].point()) * args_.columns + column_);
      end_async_batch();
    }
    wait_for_batches<kAhead - 2>();
    __syncwarp();
  }

  __device__ __forceinline__ bool has(uint32_t at, uint32_t end) const {
    return at + first_ < end && column_ < args_.columns;
  }
  __device__ __forceinline__ Pack<T, N> values_at(uint32_t at, uint32_t end) const {
    return has(at, end) ? load<T, N>(args_, memory_.points[at + first_].point(), column_) : Pack<T, N>{};
  }
  /// Adds points [at, at + lot), this lane's with `values`, to this warp's sums; those of one voxel take turns.
  __device__ __forceinline__ void add(uint32_t at, uint32_t end, const Pack<T, N>& values) const {
    const bool mine = has(at, end);
    uint32_t before = 0, place = 0;  // of a lane without a point: it has its turn at once
    if (mine) {
      const Listed point = memory_.points[at + first_];
      before = point.before(), place = point.voxel() << shape_.column_bits | column_;
    }
    // Who comes when: by the voxel's points before this one, or in dense places by those of this lot.
    uint32_t turn = before;
    if (__any_sync(~0u, before == Listed::kManyBefore))
      turn = __popc(__match_any_sync(~0u, mine ? place : ~lane_) & ((1u << lane_) - 1));
    for (uint32_t i = 0; i == 0 || __any_sync(~0u, turn >= i); ++i) {
      if (mine && turn == i) {
        Sum sum = sums_[place];
        sum.add(args_, values);
        sums_[place] = sum;
      }
      __syncwarp();
    }
  }
  /// Turns the sums of a group's voxels with points into results, in place; by the first of each voxel's points.
  __device__ __forceinline__ void finish(uint32_t begin, uint32_t end, uint32_t first_voxel) const {
    for (uint32_t at = begin + first_; at < end && column_ < args_.columns; at += shape_.lot()) {
      const Listed point = memory_.points[at];
      if (point.before() == 0)
        finish(sums_[point.voxel() << shape_.column_bits | column_], memory_.count_of(first_voxel + point.voxel()));
    }
    __syncwarp();
  }
  __device__ __forceinline__ void finish(Sum& sum, uint32_t count) const {
    const Results result = sum.result(args_, count);
    memcpy(&sum, &result, sizeof(result));
  }

  /// Pack `i` of the group that begins at voxel `begin`, which has `count` points; the sum is as it starts again.
  __device__ __forceinline__ Results take(uint32_t i, uint32_t count) const {
    Results result;
    if constexpr (Rule::kFinishedByPoint)
      memcpy(&result, &sums_[i], sizeof(result));
    else
      result = sums_[i].result(args_, count);
    sums_[i] = Sum(args_);
    return result;
  }
  /// Writes a group's voxels.
  __device__ __forceinline__ void write(uint32_t group) const {
    const uint32_t begin = group << shape_.group_bits, first = voxel_of(bins_, bin_, begin), columns = args_.columns;
    const uint32_t packs = shape_.packs();
    auto* out = static_cast<Results*>(args_.output) + static_cast<int64_t>(first) * columns;
    const bool whole = columns == 1u << shape_.column_bits && first + shape_.group_voxels() <= bins_.num_voxels;
    if (whole && packs % 32 == 0 && !args_.counts) {
      out += lane_;
#pragma unroll
      for (uint32_t k = 0; k < Memory::kSums && k < packs; k += 32)
        store_streaming(out + k, take(lane_ + k, memory_.count_of(begin + ((lane_ + k) >> shape_.column_bits))));
    } else {
#pragma unroll 1
      for (uint32_t i = lane_; i < packs; i += 32) {
        const uint32_t row = i >> shape_.column_bits, count = memory_.count_of(begin + row);
        const auto result = take(i, count);
        if (column_ >= columns || first + row >= bins_.num_voxels) continue;
        store_streaming(out + row * columns + column_, result);
        if (args_.counts && column_ == 0) args_.counts[first + row] = static_cast<int32_t>(count);
      }
    }
    __syncwarp();
  }

  const BinArgs& bins_;
  const ValueArgs& args_;
  const GroupShape& shape_;
  const Memory& memory_;
  const uint32_t* begins_;
  uint32_t bin_, lane_, column_, first_;
  uint32_t base_, end_, next_lot_;  // of the warp's points: where they are listed, and which lot is read next
  Sum* sums_;
  Pack<T, N>* ring_;
};

template <class Rule, class T, int N, bool kDealt>
__global__ void __launch_bounds__(kThreads, 2) add_groups(BinArgs bins, ValueArgs args, GroupShape shape) {
  extern __shared__ __align__(128) uint4 memory[];  // rows of two packs lie in one line
  __shared__ uint32_t warps[32];
  __shared__ LargeGroups large;
  const GroupMemory<Rule, T, N> groups(memory, bins, shape);
  if (tells_fates()) {
    let_successor_start();
    return tell_fates(bins);
  }
  groups.clear_sums(args);
  for (uint32_t bin = blockIdx.x; bin < bins.num_bins(); bin += blocks_for_bins()) {
    groups.clear_counts(bins, shape);
    if (threadIdx.x == 0) large.num_groups = 0;
    __syncthreads();
    if (bin == blockIdx.x) {
      wait_for_predecessor();
      let_successor_start();  // after the wait: the next step then finds no density of another call
    }
    const uint32_t* begins = list_groups<kDealt>(bins, bin, shape, groups, warps);
    if (threadIdx.x == 0) {
      if (!begins) __threadfence();  // what the first step has written is there for those who go on with the bin
      bins.densities[bin] = begins ? BinDensity::few : BinDensity::crowded;
    }
    if (begins) {
      GroupWriter<Rule, T, N> writer(bins, bin, args, shape, groups, begins);
      writer.write_all(large);
      __syncthreads();
      writer.write_large(large);
    }
    __syncthreads();
  }
}

}  // namespace

void launch_voxel_groups(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins) {
  with_values(problem, bins, [&](const ValueArgs& args, auto rule, auto type, auto pack) {
    using Rule = decltype(rule);
    using T = decltype(type);
    constexpr int kPack = decltype(pack)::value;
    GroupShape shape = group_shape(bins, args.columns, sizeof(Sums<Rule, T, kPack>));
    if (GroupMemory<Rule, T, kPack>::bytes(bins, shape) > launch.limits.most_shared)
      shape = {};  // as rows that are too long
    const size_t shared = GroupMemory<Rule, T, kPack>::bytes(bins, shape);
    const auto run = [&](auto* kernel) {
      allow_shared(launch, kernel, shared);
      launch_early(launch, second_step_blocks(launch, bins), kThreads, shared, kernel, "add_groups", bins, args, shape);
    };
    if (bins.rows) return run(&add_groups<Rule, T, kPack, true>);
    run(&add_groups<Rule, T, kPack, false>);
  });
}

}  // namespace amdahl
