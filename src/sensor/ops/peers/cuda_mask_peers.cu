// Merges bit masks of several GPUs by one kernel: each rank sends its mask to all others and writes its own grid.
//
// The memory of each rank has TeamFlags and then the inboxes: for each parity of merges the masks of all ranks.
//
// A merge is a round of the team without a barrier. A rank writes its mask into the inboxes of the others in packets
// of 16 bytes that contain the round's number, so that data and signal arrive together without a fence. No rank waits
// until inboxes are free: the next merge uses the other parity, and the merge after that can reuse the first one,
// because a rank completes a merge only after all masks have arrived.
#include "sensor/ops/cuda_launch.cuh"
#include "sensor/ops/peers/cuda_peers.h"
#include "symmetric/cuda_symmetric.cuh"

namespace amdahl {
namespace {

using namespace sensor_cuda;
using namespace symmetric_cuda;

constexpr int kThreads = 256;
constexpr int kPacketWords = 3;  // words of the mask per packet; the fourth word is the round's number
constexpr int kPackets = 128;    // per block
constexpr int kWords = kPackets * kPacketWords;

struct MaskLaunch {
  TeamView team;
  int64_t num_voxels;
};

/// Packets of a mask.
__host__ __device__ constexpr int64_t num_packets(int64_t num_voxels) {
  return ((num_voxels + 31) / 32 + kPacketWords - 1) / kPacketWords;
}

/// Words of a mask and the number of their merge; read and written by one access.
struct alignas(16) Packet {
  uint32_t word[kPacketWords];
  uint32_t number;
};

/// Scalar accesses of 128 bits are atomic (PTX ISA, memory consistency model), those of vectors are not.
__device__ __forceinline__ void store_packet(Packet* to, const Packet& packet) {
  const uint64_t low = packet.word[0] | static_cast<uint64_t>(packet.word[1]) << 32;
  const uint64_t high = packet.word[2] | static_cast<uint64_t>(packet.number) << 32;
  asm volatile("{\n .reg .b128 p;\n mov.b128 p, {%1, %2};\n st.relaxed.sys.global.b128 [%0], p;\n}" ::"l"(to), "l"(low),
               "l"(high)
               : "memory");
}
__device__ __forceinline__ Packet load_packet(const Packet* from) {
  uint64_t low, high;
  asm volatile("{\n .reg .b128 p;\n ld.relaxed.sys.global.b128 p, [%2];\n mov.b128 {%0, %1}, p;\n}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  return {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high)},
          static_cast<uint32_t>(high >> 32)};
}

/// The inbox of rank `to` for the mask of rank `from` in this merge.
__device__ __forceinline__ Packet* inbox(const MaskLaunch& p, int to, int from, uint32_t number) {
  const int64_t place = static_cast<int64_t>(number % 2) * p.team.size + from;
  return reinterpret_cast<Packet*>(p.team.base[to] + kTeamFlagBytes) + place * num_packets(p.num_voxels);
}

/// Sends `words` as packets `first`, ... of the mask to all other ranks.
__device__ __forceinline__ void send(const MaskLaunch& p, const uint32_t* words, int64_t first, int count,
                                     uint32_t number) {
  for (int i = static_cast<int>(threadIdx.x); i < count * (p.team.size - 1); i += kThreads) {
    const int to = (p.team.rank + 1 + i / count) % p.team.size,
              at = i % count;  // each rank begins with another destination
    const uint32_t* from = words + at * kPacketWords;
    store_packet(inbox(p, to, p.team.rank, number) + first + at, {{from[0], from[1], from[2]}, number});
  }
}

/// ORs the words of the other ranks into `words`; false if some did not arrive in time.
__device__ __forceinline__ bool receive(const MaskLaunch& p, uint32_t* words, int64_t first, int count,
                                        uint32_t number) {
  for (int i = static_cast<int>(threadIdx.x); i < count * (p.team.size - 1); i += kThreads) {
    const int from = (p.team.rank + 1 + i / count) % p.team.size, at = i % count;
    const Packet* slot = inbox(p, p.team.rank, from, number) + first + at;
    Packet packet;
    if (!wait_for(p.team, from, [&] { return (packet = load_packet(slot)).number == number; })) return false;
#pragma unroll
    for (int k = 0; k < kPacketWords; ++k)
      if (packet.word[k] != 0) atomicOr(&words[at * kPacketWords + k], packet.word[k]);
  }
  return true;
}

/// Writes voxels [0, voxels) from their bits in `words`.
__device__ __forceinline__ void write_voxels(const uint32_t* words, int voxels, int32_t* grid) {
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < voxels; i += kThreads * 4)
    write_bits_as_numbers(words[i / 32] >> (i % 32), i, voxels, aligned, grid);
}

__global__ void __launch_bounds__(kThreads)
    merge_masks(const __grid_constant__ MaskLaunch p, const uint32_t* mask, int32_t* grid, uint32_t* merged) {
  __shared__ uint32_t words[kWords];
  wait_for_predecessor();
  let_successor_start();
  const uint64_t merge = this_round(p.team);
  const auto number = static_cast<uint32_t>(merge);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPackets, first_word = first * kPacketWords;
  const int count = static_cast<int>(min(static_cast<int64_t>(kPackets), num_packets(p.num_voxels) - first));
  const int num_words = static_cast<int>(min(static_cast<int64_t>(kWords), (p.num_voxels + 31) / 32 - first_word));
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads)
    words[i] = i < num_words ? mask[first_word + i] : 0;
  __syncthreads();
  bool complete = !is_broken(p.team);
  if (complete) send(p, words, first, count, number);
  __syncthreads();  // `words` must not change before all are sent
  complete = __syncthreads_and(complete && receive(p, words, first, count, number));
  if (complete) {
    for (int i = static_cast<int>(threadIdx.x); merged && i < num_words; i += kThreads)
      merged[first_word + i] = words[i];
    if (grid)
      write_voxels(words, static_cast<int>(min(int64_t{num_words} * 32, p.num_voxels - first_word * 32)),
                   grid + first_word * 32);
  }
  if (threadIdx.x == 0) end_round(p.team, merge, complete);
}

class CudaMaskPeers final : public MaskPeers {
 public:
  CudaMaskPeers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory, int64_t num_voxels)
      : limits_(limits),
        team_(CudaTeam::join(device, memory, "a merge of bit masks")),
        peers_{team_->view(), num_voxels} {}

  void merge(Stream& stream, const uint32_t* mask, int32_t* grid, uint32_t* merged) override {
    const auto blocks = static_cast<unsigned>((num_packets(peers_.num_voxels) + kPackets - 1) / kPackets);
    launch_early(launch_of(*team_, stream, limits_), blocks, kThreads, 0, &merge_masks, "merge_masks", peers_, mask,
                 grid, merged);
  }

 private:
  ChipLimits limits_;
  std::shared_ptr<CudaTeam> team_;
  MaskLaunch peers_;
};

}  // namespace

size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size) {
  constexpr size_t kParities = 2, kPacketBytes = 16;
  return kTeamFlagBytes +
         kParities * static_cast<size_t>(world_size) * static_cast<size_t>(num_packets(num_voxels)) * kPacketBytes;
}

std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const SymmetricMemory& memory,
                                                int64_t num_voxels) {
  return std::make_unique<CudaMaskPeers>(device, limits, memory, num_voxels);
}

}  // namespace amdahl
