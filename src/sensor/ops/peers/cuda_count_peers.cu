// Merges counts of several GPUs through peer memory by adding up byte counts, for grids too small for
// cuda_count_division.cu: each rank adds up the bytes of its own voxels, sends the sums to all others, and writes the
// whole grid as sums arrive.
//
// Voxelizing writes a part's bytes into the inboxes of the ranks that add them up; a rank has one inbox per rank, for
// its own voxels. A merge is a round of the team with one barrier. No rank waits until inboxes or sums are free: a
// rank completes a merge only after all ranks have read what it had written for that merge, and sums are sent only
// after all ranks have arrived, that is, have completed the previous merge. Overflow lists are read until a merge
// ends, so the next merge uses the list of the other parity.
#include "sensor/ops/peers/cuda_peer_lists.cuh"
#include "sensor/ops/peers/cuda_peers.h"
#include "sensor/ops/place.h"

namespace amdahl {
namespace {

using namespace sensor_cuda;
using namespace symmetric_cuda;

constexpr int kThreads = 512;
constexpr int64_t kVector = sizeof(uint4);

/// Offsets in a rank's memory, in bytes, behind its TeamFlags.
struct CountLayout {
  int64_t part_voxels = 0;  // voxels that a rank adds up, a multiple of 64
  int64_t slices = 0;       // per part; a block processes one slice of each part
  int64_t capacity = 0;     // of an overflow list, without its first entry
  size_t own_list = 0;      // overflow list that voxelizing fills
  size_t lists = 0;         // [2] copies of own_list that other ranks read
  size_t summed = 0;        // [ranks, slices] Signal of each rank's sums
  size_t inboxes = 0;       // [ranks, part_voxels] u8
  size_t sums = 0;          // [ranks, part_voxels] u8; a packed slice uses its first half
  size_t bytes = 0;

  static constexpr int64_t kSliceVoxels = 16384;
  /// End of a slice's voxels, relative to the part.
  constexpr int64_t end_of(int64_t slice) const {
    const int64_t end = (slice + 1) * kSliceVoxels;
    return end < part_voxels ? end : part_voxels;
  }
  size_t list_bytes() const { return (static_cast<size_t>(capacity) + 1) * sizeof(OverflowCount); }
};
struct CountLaunch {
  TeamView team;
  CountLayout layout;
  int64_t num_voxels;
};

/// Signal at rank `to` for the sums of this slice from rank `from`: see word_of_merge.
__device__ __forceinline__ Signal* summed(const CountLaunch& p, int to, int from, int64_t slice) {
  return reinterpret_cast<Signal*>(p.team.base[to] + p.layout.summed) + from * p.layout.slices + slice;
}
/// Value of the signal: the sums of this merge have arrived, packed (4 bits per voxel) or not.
__device__ __forceinline__ uint64_t word_of_merge(uint64_t merge, bool packed) { return merge * 2 + (packed ? 1 : 0); }
/// Sums of the voxels of rank `of` in the memory of rank `at`.
__device__ __forceinline__ char* sums(const CountLaunch& p, int at, int of) {
  return p.team.base[at] + p.layout.sums + of * p.layout.part_voxels;
}

/// Publishes this rank's overflow list and clears the list that voxelizing fills.
__device__ void publish_list(const CountLaunch& p, uint64_t merge) {
  auto* own = reinterpret_cast<OverflowCount*>(p.team.base[p.team.rank] + p.layout.own_list);
  OverflowCount* published = overflow_list(p, p.team.rank, merge);
  const int64_t length = own->voxel;
  __syncthreads();
  for (int64_t i = threadIdx.x; i <= length; i += kThreads) published[i] = own[i];
  if (threadIdx.x == 0) own->voxel = 0;
}

/// Arrives at a merge and waits for all ranks. False, in all threads of the block, if a wait has failed.
__device__ bool enter(const CountLaunch& p, uint64_t merge) {
  if (blockIdx.x == 0) {
    if (!__syncthreads_and(!is_broken(p.team))) return false;
    publish_list(p, merge);
    __syncthreads();
  }
  return arrive_and_wait(p.team, 0, merge, blockIdx.x == 0);
}

/// Adds up a slice of this rank's voxels and sends the sums to all ranks; returns whether they are packed.
__device__ bool add_up(const CountLaunch& p, int64_t slice) {
  constexpr int kOfThread = CountLayout::kSliceVoxels / kVector / kThreads;
  const char* own = p.team.base[p.team.rank] + p.layout.inboxes;
  const int64_t first = slice * CountLayout::kSliceVoxels, end = p.layout.end_of(slice);
  const auto at = [](int i) { return (i * kThreads + static_cast<int>(threadIdx.x)) * kVector; };
  uint4 sums_of_thread[kOfThread];
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < kOfThread; ++i) {
    uint4& sum = sums_of_thread[i];
    sum = make_uint4(0, 0, 0, 0);
    if (first + at(i) >= end) continue;
#pragma unroll 4
    for (int from = 0; from < p.team.size; ++from) {
      const uint4 part = __ldcs(reinterpret_cast<const uint4*>(own + from * p.layout.part_voxels + first + at(i)));
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;  // byte sums do not exceed 255
    }
    any |= sum.x | sum.y | sum.z | sum.w;
  }
  const bool packed = !__syncthreads_or((any & 0xf0f0f0f0) != 0);
  for (int k = 0; k < p.team.size; ++k) {  // ranks send to different ones at a time
    char* to = sums(p, (p.team.rank + k) % p.team.size, p.team.rank) + first;
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      if (first + at(i) >= end) continue;
      const uint4 sum = sums_of_thread[i];
      if (packed)
        *reinterpret_cast<uint2*>(to + at(i) / 2) =
            make_uint2(pack_word(sum.x) | pack_word(sum.y) << 16, pack_word(sum.z) | pack_word(sum.w) << 16);
      else
        *reinterpret_cast<uint4*>(to + at(i)) = sum;
    }
  }
  return packed;
}

/// Writes a slice of the voxels of rank `of` from their sums.
__device__ void write_slice(const CountLaunch& p, int of, int64_t slice, bool packed, int32_t* grid) {
  constexpr int kWord = sizeof(uint32_t), kAhead = CountLayout::kSliceVoxels / kWord / kThreads;
  const int64_t first = slice * CountLayout::kSliceVoxels, end = p.layout.end_of(slice);
  const int64_t voxel = of * p.layout.part_voxels + first;
  const char* bytes = sums(p, p.team.rank, of) + first;
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  const auto at = [](int i) { return (i * kThreads + static_cast<int>(threadIdx.x)) * kWord; };
  uint32_t words[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (first + at(i) < end)
      words[i] = packed ? *reinterpret_cast<const uint16_t*>(bytes + at(i) / 2)
                        : *reinterpret_cast<const uint32_t*>(bytes + at(i));
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (first + at(i) < end)
      write_bytes_as_numbers(packed ? unpack_word(words[i]) : words[i], voxel + at(i), p.num_voxels, aligned, grid);
}

/// One block per slice of every part. It waits only for blocks of the same slice, which start at the same time on all
/// ranks.
__global__ void __launch_bounds__(kThreads, 2) merge_counts(const __grid_constant__ CountLaunch p, int32_t* grid) {
  __shared__ bool packed_of_other;
  wait_for_predecessor();
  let_successor_start();
  const uint64_t merge = this_round(p.team);
  const int64_t slice = blockIdx.x;
  bool complete = enter(p, merge);
  if (complete) {
    const bool packed = add_up(p, slice);
    __syncthreads();
    const int other = static_cast<int>(threadIdx.x);
    if (other < p.team.size && other != p.team.rank)
      store_release(summed(p, other, p.team.rank, slice), word_of_merge(merge, packed));
    write_slice(p, p.team.rank, slice, packed, grid);
    for (int k = 1; k < p.team.size && complete; ++k) {
      const int from = (p.team.rank + p.team.size - k) % p.team.size;  // in the order in which they send to this rank
      if (threadIdx.x == 0) {
        const Signal* signal = summed(p, p.team.rank, from, slice);
        complete = wait_until(p.team, signal, word_of_merge(merge, false), from);
        packed_of_other = load_acquire(signal) == word_of_merge(merge, true);
      }
      complete = __syncthreads_and(complete);
      if (complete) write_slice(p, from, slice, packed_of_other, grid);
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) end_round(p.team, merge, complete);
}

CountLayout count_layout(const ByteCounts& counts) {
  constexpr int64_t kStep = 64;  // voxels of a chunk, and more than a vector's
  const auto ranks = static_cast<size_t>(counts.world_size);
  CountLayout layout;
  layout.part_voxels = std::max<int64_t>((counts.num_voxels + counts.world_size - 1) / counts.world_size, 1);
  layout.part_voxels = (layout.part_voxels + kStep - 1) / kStep * kStep;
  layout.slices = (layout.part_voxels + CountLayout::kSliceVoxels - 1) / CountLayout::kSliceVoxels;
  layout.capacity = counts.capacity;
  layout.bytes = kTeamFlagBytes;
  layout.own_list = place(layout.bytes, layout.list_bytes());
  layout.lists = place(layout.bytes, 2 * layout.list_bytes());
  layout.summed = place(layout.bytes, ranks * static_cast<size_t>(layout.slices) * sizeof(Signal));
  layout.inboxes = place(layout.bytes, ranks * static_cast<size_t>(layout.part_voxels));
  layout.sums = place(layout.bytes, ranks * static_cast<size_t>(layout.part_voxels));
  return layout;
}

class CudaCountPeers final : public CountPeers {
 public:
  CudaCountPeers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory, const ByteCounts& counts)
      : limits_(limits),
        counts_(counts),
        team_(CudaTeam::join(device, memory, "a merge of counts")),
        peers_{team_->view(), count_layout(counts), counts.num_voxels} {}

  void aim(VoxelizeProblem& part) const override {
    const CountLayout& layout = peers_.layout;
    const TeamView& team = peers_.team;
    part.most_in_byte = counts_.most();
    part.overflow = reinterpret_cast<OverflowCount*>(team.base[team.rank] + layout.own_list);
    if (team.size == 1) {
      part.output = team.base[0] + layout.inboxes;
      return;
    }
    part.byte_parts.voxels = layout.part_voxels;
    for (int r = 0; r < team.size; ++r)
      part.byte_parts.part[r] =
          reinterpret_cast<uint8_t*>(team.base[r] + layout.inboxes) + team.rank * layout.part_voxels;
  }

  void merge(Stream& stream, int32_t* grid) override {
    const SensorLaunch launch = launch_of(*team_, stream, limits_);
    launch_early(launch, static_cast<unsigned>(peers_.layout.slices), kThreads, 0, &merge_counts, "merge_counts",
                 peers_, grid);
    launch_add_peer_lists<true>(launch, peers_, grid);
  }

 private:
  ChipLimits limits_;
  ByteCounts counts_;
  std::shared_ptr<CudaTeam> team_;
  CountLaunch peers_;
};

}  // namespace

size_t cuda_count_peer_bytes(const ByteCounts& counts) { return count_layout(counts).bytes; }

std::unique_ptr<CountPeers> make_cuda_count_peers(Device& device, const ChipLimits& limits,
                                                  const SymmetricMemory& memory, const ByteCounts& counts) {
  return std::make_unique<CudaCountPeers>(device, limits, memory, counts);
}

}  // namespace amdahl
