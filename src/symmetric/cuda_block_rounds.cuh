// Rounds of one block with the blocks of the same number on all other ranks, and how a block moves data. Included by
// one source.
//
// In round i a block writes chunks into slots in the memory of the others, waits until all others have signalled round
// i - 1, reads what they wrote in it, and signals round i: one signal and one wait per round, and the writes of a round
// are on their way while the previous ones are read. Slots are numbered by round, modulo 4. What was written in round q
// has been read before its reader signals round q + 1 (or begins its next kernel, whose first round that is). Who
// writes in round g has waited for all signals of round g - 2, so that round g - 3 has been read everywhere, and may
// overwrite round g - 4. Kernels that follow go on counting.
#pragma once

#include "symmetric/cuda_collective_kernels.cuh"

namespace amdahl {
namespace {

/// Elements [begin, end) of a block.
struct BlockRange {
  size_t begin, end;
};
template <class T>
__device__ BlockRange range_of_block(size_t count, unsigned block, unsigned blocks) {
  constexpr size_t kGrain = 1024 / sizeof(T);
  const size_t part = ((count + blocks - 1) / blocks + kGrain - 1) / kGrain * kGrain;
  const size_t begin = min(count, part * block);
  return {begin, min(count, begin + part)};
}

/// Whether a counter has reached `value`. Counters wrap.
__device__ __forceinline__ bool has_reached(const Signal* counter, uint64_t value) {
  return static_cast<int64_t>(load_acquire(counter) - value) >= 0;
}

/// Where the buffers of all ranks are; null for one that others cannot access.
struct Addresses {
  const char* send[kMaxTeamRanks];
  char* recv[kMaxTeamRanks];
};
/// An address and a tag that is never 0, in one word: it is stored whole.
inline constexpr int kAddressBits = 48;
__device__ __forceinline__ uint64_t address_word(const void* address, uint64_t counter) {
  return (counter % 0xffff + 1) << kAddressBits | reinterpret_cast<uint64_t>(address);
}
/// Whether this word is that of `counter`, with its address.
__device__ __forceinline__ bool is_word_of(uint64_t word, uint64_t counter, uint64_t& address) {
  address = word & ((uint64_t{1} << kAddressBits) - 1);
  return word >> kAddressBits == counter % 0xffff + 1;
}
/// Whether the word of `counter` has come.
__device__ __forceinline__ bool has_address(const uint64_t* word, uint64_t counter, uint64_t& address) {
  return is_word_of(load_acquire(reinterpret_cast<const Signal*>(word)), counter, address);
}
/// Not ordered after earlier writes of this kernel: it follows none.
__device__ __forceinline__ void store_word(uint64_t* place, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(place), "l"(value) : "memory");
}

/// All functions are called by all threads of the block.
class BlockRounds {
 public:
  __device__ BlockRounds(const TeamView& team, const Layout& layout)
      : team_(team), layout_(layout), base_(*counter()), complete_(false) {
    complete_ = __syncthreads_and(is_broken(team) ? 0 : 1) != 0;
  }

  /// False after an abandoned wait of this rank, now or earlier. The same for all threads.
  __device__ bool complete() const { return complete_; }
  /// The block's writes of round `round` for other ranks are done, and its reads of round - 1.
  __device__ void signal(uint64_t round) {
    __syncthreads();
    const int other = static_cast<int>(threadIdx.x);
    if (other < team_.size && other != team_.rank) store_release(arrived(other, team_.rank), base_ + round + 1);
  }
  /// Waits for the signal of all other ranks; returns complete().
  __device__ bool wait(uint64_t round) {
    const int other = static_cast<int>(threadIdx.x);
    bool came = true;
    if (other < team_.size && other != team_.rank) {
      const Signal* signal = arrived(team_.rank, other);
      came = wait_for(team_, other, [&] { return has_reached(signal, base_ + round + 1); });
    }
    complete_ = __syncthreads_and(came ? 1 : 0) != 0;
    return complete_;
  }
  /// Ends the block's part of a kernel of `rounds` signals.
  __device__ void end(uint64_t rounds) {
    if (threadIdx.x != 0) return;
    if (!complete_) set_broken(team_);
    *counter() = base_ + rounds;
  }

  /// Tells the others where this rank's buffers are, and takes their addresses. Before the first round. A rank that
  /// abandons this takes its addresses back: its buffers are not accessed later. Returns complete().
  __device__ bool exchange_addresses(const void* send, void* recv, Addresses& all) {
    const int other = static_cast<int>(threadIdx.x);
    const bool has_other = other < team_.size && other != team_.rank;
    bool came = true;
    if (complete_ && other < team_.size)
      all.send[other] = static_cast<const char*>(send), all.recv[other] = static_cast<char*>(recv);
    if (complete_ && has_other) {
      uint64_t* there = address(other, team_.rank);
      store_word(there, address_word(send, base_));
      store_word(there + 1, address_word(recv, base_));
      uint64_t* here = address(team_.rank, other);
      uint64_t of_send = 0, of_recv = 0;
      came = wait_for(team_, other, [&] {
        uint64_t words[2];
        load_acquire(here, words);
        return is_word_of(words[0], base_, of_send) & is_word_of(words[1], base_, of_recv);
      });
      all.send[other] = reinterpret_cast<const char*>(of_send), all.recv[other] = reinterpret_cast<char*>(of_recv);
      here[0] = here[1] = 0;  // the next ones come after this kernel
    }
    complete_ = __syncthreads_and(complete_ && came ? 1 : 0) != 0;
    if (!complete_ && has_other) {
      store_word(address(other, team_.rank), 0);
      store_word(address(other, team_.rank) + 1, 0);
    }
    return complete_;
  }
  /// Ends a kernel without slots: returns once the writes of all ranks are done. One round.
  __device__ void finish() {
    if (complete_) {
      signal(0);
      wait(0);
    }
    end(1);
  }

  /// Of a round, over all kernels: the number of its slots.
  __device__ uint64_t number(uint64_t round) const { return base_ + round; }
  /// Slots in the memory of rank `on` for what rank `from`, another one, writes in a round.
  __device__ char* pushed(int on, int from, uint64_t round) const {
    return team_.base[on] + layout_.pushed(base_ + round, on, from, static_cast<int>(blockIdx.x));
  }
  __device__ char* result(int on, int from, uint64_t round) const {
    return team_.base[on] + layout_.result(base_ + round, on, from, static_cast<int>(blockIdx.x));
  }
  __device__ const TeamView& team() const { return team_; }

 private:
  __device__ uint64_t* counter() const { return at<uint64_t>(team_, team_.rank, Layout::kRounds) + blockIdx.x; }
  __device__ Signal* arrived(int on, int of) const {
    return at<Signal>(team_, on, Layout::kArrived) + blockIdx.x * kMaxTeamRanks + of;
  }

  /// On rank `on`, the words of rank `of` for this block.
  __device__ uint64_t* address(int on, int of) const {
    return at<uint64_t>(team_, on, Layout::kAddresses) + 2 * (blockIdx.x * kMaxTeamRanks + static_cast<unsigned>(of));
  }

  const TeamView& team_;
  const Layout& layout_;
  const uint64_t base_;  // signals of this block before this kernel
  bool complete_;
};

__device__ __forceinline__ bool are_aligned(const void* a, const void* b, size_t bytes) {
  return ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) & (bytes - 1)) == 0;
}

/// Copies what is made of whole Units, and returns its bytes. By all threads of a block. `kUnroll`: loads in flight of
/// a thread; in a kernel that also adds up, more than 4 spill registers.
template <class Unit, int kUnroll = 4>
__device__ __forceinline__ size_t copy_units(char* to, const char* from, size_t bytes) {
  const size_t count = bytes / sizeof(Unit), threads = blockDim.x;
  auto* target = reinterpret_cast<Unit*>(to);
  const auto* source = reinterpret_cast<const Unit*>(from);
  for (size_t first = threadIdx.x; first < count; first += kUnroll * threads) {
    Unit units[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (first + k * threads < count) units[k] = __ldcg(source + first + k * threads);
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (first + k * threads < count) target[first + k * threads] = units[k];
  }
  return count * sizeof(Unit);
}

/// Copies between any addresses, 16 bytes at a time where they allow it. By all threads of a block.
template <int kUnroll = 4>
__device__ inline void copy_bytes(char* to, const char* from, size_t bytes) {
  if (to == from) return;
  size_t done = 0;
  if (are_aligned(to, from, sizeof(uint4)))
    done = copy_units<uint4, kUnroll>(to, from, bytes);
  else if (are_aligned(to, from, sizeof(unsigned)))
    done = copy_units<unsigned>(to, from, bytes);
  else if (are_aligned(to, from, sizeof(unsigned short)))
    done = copy_units<unsigned short>(to, from, bytes);
  for (size_t i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = __ldcg(from + i);
}

/// 16 bytes as elements.
template <class T>
union Pack {
  static constexpr int kCount = 16 / sizeof(T);
  uint4 bits;
  T values[kCount];
  __device__ Pack() : bits{0, 0, 0, 0} {}
};
/// Pack `p` of `count` elements, with zeros after the last one.
template <class T>
__device__ __forceinline__ Pack<T> load_pack(const T* from, size_t p, size_t count, bool is_aligned) {
  Pack<T> pack;
  const size_t first = p * Pack<T>::kCount;
  if (is_aligned && first + Pack<T>::kCount <= count) {
    pack.bits = __ldcg(reinterpret_cast<const uint4*>(from) + p);
  } else {
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k)
      if (first + k < count) pack.values[k] = from[first + k];
  }
  return pack;
}
template <class T>
__device__ __forceinline__ void store_pack(T* to, size_t p, size_t count, bool is_aligned, const Pack<T>& pack) {
  const size_t first = p * Pack<T>::kCount;
  if (is_aligned && first + Pack<T>::kCount <= count) {
    reinterpret_cast<uint4*>(to)[p] = pack.bits;
  } else {
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k)
      if (first + k < count) to[first + k] = pack.values[k];
  }
}

/// Writes `bytes` into the slots of a round of all other ranks. By all threads of a block.
__device__ inline void push_to_all(const BlockRounds& rounds, uint64_t round, const char* from, size_t bytes) {
  const TeamView& team = rounds.team();
  const auto slot = [&](int step) {
    const int to = (team.rank + step) % team.size;
    return rounds.pushed(to, team.rank, round);
  };
  if (!are_aligned(from, from, sizeof(uint4)) || team.size == 2) {
    for (int step = 1; step < team.size; ++step) copy_bytes(slot(step), from, bytes);
    return;
  }
  // Loads once what all get. Slots are read up to `bytes` only.
  constexpr int kUnroll = 4;
  const size_t packs = (bytes + sizeof(uint4) - 1) / sizeof(uint4), threads = blockDim.x;
  for (size_t first = threadIdx.x; first < packs; first += kUnroll * threads) {
    Pack<char> got[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
      if (first + k * threads < packs) got[k] = load_pack(from, first + k * threads, bytes, true);
    for (int step = 1; step < team.size; ++step) {
      auto* to = reinterpret_cast<uint4*>(slot(step));
#pragma unroll
      for (int k = 0; k < kUnroll; ++k)
        if (first + k * threads < packs) to[first + k * threads] = got[k].bits;
    }
  }
}

/// Calls use(p, pack) with the packs first + u threads of sums, of `packs`.
template <class T, int kUnroll, class Use>
__device__ __forceinline__ void use_sums(const typename Adder<T>::type (&sums)[kUnroll][Pack<T>::kCount], size_t first,
                                         size_t threads, size_t packs, ReduceOp op, int ranks, const Use& use) {
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const size_t p = first + u * threads;
    if (p >= packs) continue;
    Pack<T> pack;
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k) pack.values[k] = Adder<T>::store(finished(op, sums[u][k], ranks));
    use(p, pack);
  }
}

/// Adds up `count` elements over the ranks, in their order: `own` and what was pushed to this rank's slot(rank). Calls
/// use(p, pack) with each pack of sums. By all threads of a block. `adds`: the operation is a sum or an average.
template <class T, bool adds, class Slot, class Use>
__device__ __forceinline__ void add_packs(const TeamView& team, const T* own, size_t count, ReduceOp op,
                                          const Slot& slot, const Use& use) {
  using A = Adder<T>;
  constexpr int kUnroll = !adds || sizeof(T) == 1 ? 1 : sizeof(T) == 2 ? 2 : 4, kPer = Pack<T>::kCount;
  const size_t packs = (count + kPer - 1) / kPer, threads = blockDim.x;
  const bool is_aligned = are_aligned(own, own, sizeof(uint4));
  for (size_t first = threadIdx.x; first < packs; first += kUnroll * threads) {
    typename A::type sums[kUnroll][kPer];
    for (int rank = 0; rank < team.size; ++rank) {
      Pack<T> got[kUnroll];
      if (rank == team.rank) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          if (first + u * threads < packs) got[u] = load_pack(own, first + u * threads, count, is_aligned);
      } else {
        const auto* pushed = reinterpret_cast<const uint4*>(slot(rank));
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
          if (first + u * threads < packs) got[u].bits = __ldcg(pushed + first + u * threads);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
#pragma unroll
        for (int k = 0; k < kPer; ++k) {
          const typename A::type value = A::load(got[u].values[k]);
          sums[u][k] = rank == 0 ? value : combine(adds ? ReduceOp::sum : op, sums[u][k], value);
        }
    }
    use_sums<T>(sums, first, threads, packs, op, team.size, use);
  }
}
template <class T, class Slot, class Use>
__device__ __forceinline__ void add_up(const TeamView& team, const T* own, size_t count, ReduceOp op, const Slot& slot,
                                       const Use& use) {
  if (op == ReduceOp::sum || op == ReduceOp::avg)
    add_packs<T, true>(team, own, count, op, slot, use);
  else
    add_packs<T, false>(team, own, count, op, slot, use);
}

}  // namespace
}  // namespace amdahl
