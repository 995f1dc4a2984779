// Layer normalisation with its all-reduce, in one kernel: every rank pushes its part of a row to all others in packets
// that carry their flags, adds up what arrives in rank order and normalises the row that it has in registers.
//
// A call is one hop, without a barrier. Every thread first pushes all its columns, then waits: no block waits for
// another one of its rank. Slots alternate between two sets, as those of flagged all-reduces
// (symmetric/cuda_collectives.cuh).
#include <algorithm>

#include "device/cuda_check.h"
#include "ops/sequence/cuda_norm.h"
#include "ops/sequence/cuda_norm_row.cuh"
#include "ops/sequence/peer_norm.h"
#include "symmetric/cuda_flagged.cuh"
#include "symmetric/cuda_team.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl {
namespace {

using namespace symmetric_cuda;

/// Offsets in a region.
struct PeerNormPlaces {
  size_t slots[2];    // of the data of rank 0, in each set
  size_t slot_bytes;  // from one rank's to the next one's
  size_t state;       // FlaggedState
};

constexpr int kPacketBytes = 8;  // of data

template <class D>
constexpr int kPacketsPerGroup = kGroup* static_cast<int>(sizeof(D)) / kPacketBytes;

template <class D>
union PacketGroup {
  uint2 packets[kPacketsPerGroup<D>];
  Elements<D, kGroup> group;
  __device__ PacketGroup() : packets() {}
};

/// The columns of a row that a thread has: group c begins at column (c kRowThreads + lane) kGroup.
template <class D, int kRowThreads, int kChunks>
class PeerRows {
 public:
  using Group = PacketGroup<D>;

  __device__ PeerRows(const TeamView& team, const PeerNormPlaces& places, const LayerNormForward& a, uint64_t round)
      : team_(team),
        slots_(places.slots[round & 1]),
        slot_bytes_(places.slot_bytes),
        a_(a),
        flag_(static_cast<uint32_t>(round % kFlagPeriod + 1)),
        lane_(static_cast<int>(threadIdx.x) % kRowThreads) {}

  __device__ int lane() const { return lane_; }
  __device__ int64_t column(int c) const { return (static_cast<int64_t>(c) * kRowThreads + lane_) * kGroup; }
  __device__ bool has(int c) const { return column(c) < a_.width; }

  __device__ void load_own(int64_t row, Group (&own)[kChunks]) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
      if (has(c)) own[c].group = load_elements<kGroup>(static_cast<const D*>(a_.delta) + row * a_.width + column(c));
  }
  __device__ void push(int64_t row, const Group (&own)[kChunks]) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (!has(c)) continue;
#pragma unroll
      for (int p = 0; p < kPacketsPerGroup<D>; ++p) push_packet(packet_of(row, c, p), own[c].packets[p]);
    }
  }
  /// The weights come into this multiprocessor's cache while the row waits for the other ranks.
  __device__ void prefetch_weights() const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (!has(c)) continue;
      asm volatile("prefetch.global.L1 [%0];" ::"l"(a_.gamma + column(c)));
      asm volatile("prefetch.global.L1 [%0];" ::"l"(a_.beta + column(c)));
    }
  }
  /// Overwrites packets from `begin` to `end` of a slot, so that no flag of an earlier period remains.
  __device__ void overwrite(int64_t begin, int64_t end) const {
    for (int64_t i = begin + thread_index(); i < end; i += thread_count()) push_packet(i, {0, 0});
  }
  /// x + the sums over the ranks; false after an abandoned wait, for this thread alone.
  __device__ bool add(int64_t row, const Group (&own)[kChunks], Floats<kGroup> (&x)[kChunks]) const {
    Floats<kGroup> sums[kChunks];
    for (int rank = 0; rank < team_.size; ++rank) {
      Group part[kChunks];
      if (rank == team_.rank) {
#pragma unroll
        for (int c = 0; c < kChunks; ++c) part[c] = own[c];
      } else if (!take(row, rank, part)) {
        return false;
      }
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const Floats<kGroup> terms = to_floats(part[c].group);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) sums[c].v[i] = rank == 0 ? terms.v[i] : sums[c].v[i] + terms.v[i];
      }
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kGroup; ++i)
        if (has(c)) x[c].v[i] += to_float(to_element<D>(sums[c].v[i]));
    return true;
  }

 private:
  /// Packet p of a group. Those that the lanes of a row access together are adjacent in the slot.
  __device__ int64_t packet_of(int64_t row, int c, int p) const {
    const auto groups = static_cast<int>(a_.width / kGroup), before = c * kRowThreads;
    const int lanes = min(kRowThreads, groups - before);  // that have a group c
    return (row * groups + before) * kPacketsPerGroup<D> + p * lanes + lane_;
  }
  __device__ uint64_t* place(int on, int from, int64_t packet) const {
    return at<uint64_t>(team_, on, slots_ + static_cast<size_t>(from) * slot_bytes_) + 2 * packet;
  }
  __device__ void push_packet(int64_t packet, uint2 data) const {
    const uint64_t high = static_cast<uint64_t>(flag_) << 32, words[2] = {high | data.x, high | data.y};
    for (int step = 1; step < team_.size; ++step) {
      const int to = team_.rank + step < team_.size ? team_.rank + step : team_.rank + step - team_.size;
      store_sixteen(place(to, team_.rank, packet), words);
    }
  }
  /// Waits for this thread's columns of a row of rank `from`.
  __device__ bool take(int64_t row, int from, Group (&part)[kChunks]) const {
    uint64_t start = 0;
    for (unsigned poll = 1;; ++poll) {
      bool complete = true;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        if (!has(c)) continue;
#pragma unroll
        for (int p = 0; p < kPacketsPerGroup<D>; ++p) {
          uint64_t words[2];
          load_sixteen(place(team_.rank, from, packet_of(row, c, p)), words);
          part[c].packets[p] = {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1])};
          complete &= words[0] >> 32 == flag_ && words[1] >> 32 == flag_;
        }
      }
      if (complete) return true;
      if (poll % kPollsPerLook == 0 && look_is_last(team_, start, from)) return false;
    }
  }

  const TeamView& team_;
  const size_t slots_, slot_bytes_;
  const LayerNormForward& a_;
  const uint32_t flag_;
  const int lane_;
};

/// kRowThreads threads have a row.
template <class D, class Y, int kRowThreads, int kChunks>
__global__ void __launch_bounds__(kThreads)
    peer_norm_kernel(const __grid_constant__ TeamView team, const __grid_constant__ PeerNormPlaces places,
                     const __grid_constant__ LayerNormForward a) {
  using Rows = PeerRows<D, kRowThreads, kChunks>;
  constexpr int kRowsPerBlock = kThreads / kRowThreads;
  begin_after_previous();
  const FlaggedRound round(team, places.state);
  const Rows rows(team, places, a, round.number());
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kRowThreads;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kRowsPerBlock;
  typename Rows::Group own[kChunks];
  bool complete = __syncthreads_and(!is_broken(team)) != 0;
  if (complete) {
    for (int64_t row = first; row < a.rows; row += stride) {
      rows.load_own(row, own);
      rows.push(row, own);
    }
    if (round.number() % kFlagPeriod < 2)
      rows.overwrite(a.rows * a.width * static_cast<int64_t>(sizeof(D)) / kPacketBytes,
                     static_cast<int64_t>(places.slot_bytes) / (2 * kPacketBytes));
  }
  if (first < a.rows) rows.prefetch_weights();
  const bool one_row = first + stride >= a.rows;  // which `own` has
  for (int64_t row = first; complete && row < a.rows; row += stride) {
    Floats<kGroup> x[kChunks];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      x[c] = {};
      if (rows.has(c)) x[c] = load_floats<kGroup>(a.x + row * a.width + rows.column(c));
    }
    if (!one_row) rows.load_own(row, own);
    complete = rows.add(row, own, x);
    if constexpr (kRowThreads == kWarp)
      complete = __all_sync(0xffffffffu, complete) != 0;
    else
      complete = __syncthreads_and(complete) != 0;
    if (complete) normalise_row<Y, kRowThreads>(a, row, rows.lane(), x);
  }
  round.end(__syncthreads_and(complete) != 0);
}

using PeerNormKernel = void (*)(TeamView, PeerNormPlaces, LayerNormForward);
constexpr int64_t kMostNarrow = 1024;  // a warp has a row of up to this width, else a block

template <class D, class Y>
PeerNormKernel peer_norm_kernel_for(int64_t width) {
  return width <= kMostNarrow ? peer_norm_kernel<D, Y, kWarp, 4> : peer_norm_kernel<D, Y, kThreads, 4>;
}

void check_width(int64_t width) {
  if (width % kGroup == 0 && width <= kMostNormWidth) return;
  throw Error(Cause::usage, "an all-reduce with normalisation of " + std::to_string(width) + " columns on GPUs",
              "a multiple of " + std::to_string(kGroup) + " up to " + std::to_string(kMostNormWidth));
}

template <class Use>
void with_kernel(DType delta, DType y, int64_t width, const Use& use) {
  with_element_types(delta, y, [&](auto d, auto e) {
    use(peer_norm_kernel_for<typename decltype(d)::type, typename decltype(e)::type>(width));
  });
}

class CudaPeerNorm final : public PeerNorm {
 public:
  CudaPeerNorm(std::shared_ptr<CudaTeam> team, SymmetricHeap& heap, const PeerNormSize& size)
      : PeerNorm(heap, size),
        team_(std::move(team)),
        places_{{slot(0, 0), slot(1, 0)}, slot_bytes_, counters_.range.offset},
        overlaps_launches_(cuda_attribute(team_->device().spec().index, cudaDevAttrComputeCapabilityMajor) >= 9) {}

 protected:
  void enqueue(Stream& stream, const LayerNormForward& a) override {
    check_width(a.width);
    for (const void* buffer :
         {static_cast<const void*>(a.x), a.delta, static_cast<const void*>(a.sum), static_cast<const void*>(a.gamma),
          static_cast<const void*>(a.beta), static_cast<const void*>(a.y)})
      if (!aligned16(buffer))
        throw Error(Cause::usage, "an all-reduce with normalisation of an unaligned buffer",
                    "buffers at multiples of 16 bytes");
    const DeviceSpec& spec = team_->device().spec();
    const int64_t rows_per_block = a.width <= kMostNarrow ? kThreads / kWarp : 1;
    const unsigned blocks =
        std::min(num_blocks(a.rows, rows_per_block), static_cast<unsigned>(most_collective_blocks(spec.sm_count)));
    // A kernel that waits for the previous one takes multiprocessors from other work: one of few blocks.
    constexpr unsigned kFewBlocks = 8;
    const LaunchPlace place{team_->use(stream), spec.index, overlaps_launches_ && blocks <= kFewBlocks};
    with_kernel(a.type, a.y ? a.y_type : a.type, a.width, [&](auto* kernel) {
      launch_on(place, {blocks, kThreads, 0}, kernel, "peer_norm_kernel", team_->view(), places_, a);
    });
  }

 private:
  const std::shared_ptr<CudaTeam> team_;
  const PeerNormPlaces places_;
  const bool overlaps_launches_;
};

}  // namespace

std::unique_ptr<PeerNorm> make_cuda_peer_norm(Device& device, SymmetricHeap& heap, const PeerNormSize& size) {
  check_width(size.width);
  // What can wait for the GPU comes before the heap's allocations, after which no rank is still here.
  std::shared_ptr<CudaTeam> team = CudaTeam::join(device, heap.memory(), "an all-reduce with normalisation");
  for (const DType y : {DType::f32, size.type})
    for (const int64_t width : {kMostNarrow, kMostNormWidth})
      with_kernel(size.type, y, width, [&](auto* kernel) { preload(device.spec().index, kernel); });
  return std::make_unique<CudaPeerNorm>(std::move(team), heap, size);
}

}  // namespace amdahl
