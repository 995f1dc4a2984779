// Groups of neighbouring voxels of a bin, and the points of each listed in shared memory: what cuda_voxel_groups.cu
// works on.
#pragma once

#include "sensor/voxels/cuda_voxel_rules.cuh"

namespace amdahl::sensor_cuda {

inline constexpr int kGroupThreads = 512, kWarps = kGroupThreads / 32;
inline constexpr uint32_t kGroupBytes = 2048;  // of a warp's sums
inline constexpr uint32_t kAhead = 4;          // lots of features that a warp has under way

/// How a block divides its bin: 2^group_bits voxels a group, whose rows have 2^column_bits places.
struct GroupShape {
  int group_bits, column_bits;
  uint32_t num_groups;  // 0 where rows are too long
  uint32_t share;       // of a warp: it has every kWarps-th group, so that crowded places are spread
  __host__ __device__ uint32_t group_voxels() const { return 1u << group_bits; }
  __host__ __device__ uint32_t packs() const { return 1u << (group_bits + column_bits); }
  /// Points whose columns the lanes of a warp have side by side.
  __device__ uint32_t lot() const { return 1u << lot_bits(); }
  __device__ int lot_bits() const { return 5 - column_bits; }
  /// Groups are listed by warp: a group's place in that order, and the group at a place.
  __device__ uint32_t place_of(uint32_t group) const { return group % kWarps * share + group / kWarps; }
  __device__ uint32_t group_at(uint32_t place) const { return place % share * kWarps + place / share; }
  /// Of the counters that become the groups' begins; the last one is the end.
  __host__ __device__ uint32_t num_begins() const { return kWarps * share + 4; }
};

/// For rows of `columns` packs of `pack_bytes` sums, of which every lane has one column.
inline GroupShape group_shape(const BinArgs& bins, uint32_t columns, size_t pack_bytes) {
  GroupShape shape{};
  while (1u << shape.column_bits < columns) ++shape.column_bits;
  const auto row_bytes = static_cast<uint32_t>(pack_bytes << shape.column_bits);
  if (columns > 32 || 2 * row_bytes > kGroupBytes) return shape;
  while (shape.group_voxels() < kChunkVoxels && (row_bytes << (shape.group_bits + 1)) <= kGroupBytes)
    ++shape.group_bits;
  shape.num_groups = bins.bin_voxels() / shape.group_voxels();
  shape.share = (shape.num_groups + kWarps - 1) / kWarps;
  return shape;
}

/// A point as its group lists it: its number, where its voxel is in the group, and how many points that voxel had
/// before it, as far as kManyBefore: points of one voxel take turns.
struct Listed {
  static constexpr int kPlaceBits = 6, kBits = 8;
  static constexpr uint32_t kManyBefore = 3;
  static_assert(kChunkVoxels <= 1 << kPlaceBits && int64_t{kMaxBins} * kFewPointsMean <= int64_t{1} << (32 - kBits));
  uint32_t word;
  __device__ Listed(uint32_t point, uint32_t voxel, uint32_t before)
      : word(point << kBits | min(before, kManyBefore) << kPlaceBits | voxel) {}
  __device__ uint32_t point() const { return word >> kBits; }
  __device__ uint32_t voxel() const { return word & ((1u << kPlaceBits) - 1); }
  __device__ uint32_t before() const { return word >> kPlaceBits & kManyBefore; }
};

/// Shared memory of the block: each warp's sums, points of each voxel, and the bin's points by group.
template <class Rule, class T, int N>
struct GroupMemory {
  using Sum = Sums<Rule, T, N>;
  static constexpr uint32_t kSums = kGroupBytes / sizeof(Sum);  // of a warp
  Sum* sums;         // [kWarps, kSums], as they start wherever no group is under way
  Pack<T, N>* ring;  // [kWarps, kAhead, 32], features under way
  uint32_t* counts;  // [bin_voxels / 2], two voxels a word
  uint32_t* begins;  // [num_begins], after a 0
  uint32_t* tails;   // [num_begins], spilled points listed so far
  Listed* points;    // [kFewPoints]

  __device__ GroupMemory(void* memory, const BinArgs& bins, const GroupShape& shape) {
    sums = static_cast<Sum*>(memory);
    ring = reinterpret_cast<Pack<T, N>*>(static_cast<unsigned char*>(memory) + kWarps * kGroupBytes);
    counts = reinterpret_cast<uint32_t*>(ring + kWarps * kAhead * 32);
    begins = counts + bins.bin_voxels() / 2 + 4;
    tails = begins + shape.num_begins();
    points = reinterpret_cast<Listed*>(tails + shape.num_begins());
  }
  static size_t bytes(const BinArgs& bins, const GroupShape& shape) {
    return kWarps * (kGroupBytes + kAhead * 32 * sizeof(Pack<T, N>)) +
           (bins.bin_voxels() / 2 + 4 + 2 * shape.num_begins() + kFewPoints) * sizeof(uint32_t);
  }
  __device__ void clear_sums(const ValueArgs& args) const {
    for (uint32_t i = threadIdx.x; i < kWarps * kSums; i += kGroupThreads) sums[i] = Sum(args);
  }
  __device__ void clear_counts(const BinArgs& bins, const GroupShape& shape) const {
    const uint32_t words = bins.bin_voxels() / 2 + 4 + 2 * shape.num_begins();
    for (uint32_t i = threadIdx.x; i < words; i += kGroupThreads) counts[i] = 0;
  }
  /// Counts a point of a voxel; returns how many there were before.
  __device__ __forceinline__ uint32_t count(uint32_t offset) const {
    const uint32_t shift = offset % 2 * 16;
    return atomicAdd(&counts[offset / 2], 1u << shift) >> shift & 0xffff;
  }
  __device__ __forceinline__ uint32_t count_of(uint32_t offset) const {
    return reinterpret_cast<const uint16_t*>(counts)[offset];
  }
};

/// Lists the points of a bin by group: those of the group at place p are [begins[p], begins[p + 1]). Null where there
/// are too many.
template <bool kDealt, class Rule, class T, int N>
__device__ __forceinline__ const uint32_t* list_groups(const BinArgs& bins, uint32_t bin, const GroupShape& shape,
                                                       const GroupMemory<Rule, T, N>& memory, uint32_t* warps) {
  if (shape.num_groups == 0) return nullptr;
  const auto place_of = [&](uint32_t entry) { return shape.place_of(offset_of(entry) >> shape.group_bits); };
  const auto listed = [&](uint32_t entry, int tile, uint32_t before) {
    return Listed(bins.point_of<kDealt>(entry, tile), entry & (shape.group_voxels() - 1), before);
  };
  const auto count = [&](uint32_t entry, int) { atomicAdd(&memory.begins[place_of(entry)], 1u); };
  const auto fits = [&] { return scan_block<kGroupThreads>(memory.begins, shape.num_begins(), warps) <= kFewPoints; };
  if constexpr (kDealt) {
    using Slots = DealtSlots<ValueRow, kGroupThreads>;
    constexpr uint32_t kNone = ~0u, kBeforeBits = 2;
    uint32_t entries[Slots::kOfThread], ranks[Slots::kOfThread];  // rank in the group, and above it that in the voxel
#pragma unroll
    for (uint32_t& rank : ranks) rank = kNone;
    const uint32_t counts = shared_address(memory.counts), begins = shared_address(memory.begins);
    const int longest = for_each_dealt<ValueRow, kGroupThreads>(
        bins, bin, [] {}, [](int) {},
        [&](bool there, uint32_t entry, int, int at) {
          const uint32_t offset = offset_of(entry), shift = offset % 2 * 16;
          const uint32_t both = add_and_get_at(counts + offset / 2 * sizeof(uint32_t), 1u << shift, there, 0);
          const uint32_t before = min(both >> shift & 0xffff, Listed::kManyBefore);
          const uint32_t rank = add_and_get_at(begins + place_of(entry) * sizeof(uint32_t), 1, there, kNone);
          entries[at] = entry, ranks[at] = there ? rank << kBeforeBits | before : kNone;
        });
    const bool spilled = __syncthreads_or(longest > Slots::kMostVisited);
    if (spilled) {  // they come after the others, whose ranks are known
      for_each_spilled<ValueRow, kGroupThreads>(bins, bin, count);
      __syncthreads();
    }
    if (!fits()) return nullptr;
    if (spilled)
      for_each_spilled<ValueRow, kGroupThreads>(bins, bin, [&](uint32_t entry, int tile) {
        const uint32_t place = place_of(entry), from_end = 1 + atomicAdd(&memory.tails[place], 1u);
        memory.points[memory.begins[place + 1] - from_end] = listed(entry, tile, memory.count(offset_of(entry)));
      });
#pragma unroll
    for (int at = 0; at < Slots::kOfThread; ++at)
      if (ranks[at] != kNone)
        memory.points[memory.begins[place_of(entries[at])] + (ranks[at] >> kBeforeBits)] =
            listed(entries[at], Slots::tile(at), ranks[at] & Listed::kManyBefore);
    __syncthreads();
    return memory.begins;
  } else {
    for_each_in_segments<ValueRow, ValueReads, kGroupThreads>(bins, bin, count);
    __syncthreads();
    if (!fits()) return nullptr;
    for_each_in_segments<ValueRow, ValueReads, kGroupThreads>(bins, bin, [&](uint32_t entry, int tile) {
      memory.points[atomicAdd(&memory.begins[place_of(entry)], 1u)] =
          listed(entry, tile, memory.count(offset_of(entry)));
    });
    __syncthreads();
    return memory.begins - 1;  // what were begins are ends now
  }
}

}  // namespace amdahl::sensor_cuda
