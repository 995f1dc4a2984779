// Collectives and messages of any size, in chunks; each block has a part of the data. Included by one source.
#pragma once

#include "symmetric/cuda_direct.cuh"

namespace amdahl {
namespace {

/// The same answer on every rank.
template <class T, bool sums>
__device__ bool can_exchange_directly(const TeamView& team, const Addresses& all, const ExchangeCall& call) {
  if constexpr (sums)
    return all_show(team, all, true, false, -1) && all_are_aligned(team, all) && call.stride * sizeof(T) % 16 == 0;
  else
    return all_show(team, all, false, true, call.root);
}

/// Reduce-scatter: each rank adds up its part where it is. Others: each rank writes where the data are wanted.
template <class T, bool sums>
__device__ __noinline__ void exchange_directly(const TeamView& team, const Addresses& all, const ExchangeCall& call) {
  const size_t stride = call.stride * sizeof(T);
  if constexpr (sums) {
    auto* to = static_cast<T*>(call.recv);
    const bool is_aligned = is_multiple_of_pack(to);
    add_directly<T>(team, all, static_cast<size_t>(team.rank) * stride, call.count, call.op,
                    [&](size_t p, const Pack<T>& pack) { store_pack(to, p, call.count, is_aligned, pack); });
  } else {
    if (!call.pushes) return;
    const auto* send = static_cast<const char*>(call.send);
    const auto place = [&](int rank) {
      char* base = rank == team.rank ? static_cast<char*>(call.recv) : all.recv[rank];
      return base + (call.root >= 0 ? 0 : static_cast<size_t>(team.rank) * stride);
    };
    if (call.parts) {
      for_tiles(call.count, [&](size_t begin, size_t bytes) {
        for (int step = 0; step < team.size; ++step) {
          const int rank = (team.rank + step) % team.size;
          copy_bytes<kDirectUnroll>(place(rank) + begin, send + static_cast<size_t>(rank) * stride + begin, bytes);
        }
      });
      return;
    }
    unsigned to = (1u << team.size) - 1;
    if (place(team.rank) == send) to &= ~(1u << team.rank);
    copy_to_ranks(team, to, send, call.count, place);
  }
}

/// Adds up a chunk of the round of that number, and stores the sums. Not inlined: as reduce_directly.
template <class T>
__device__ __noinline__ void add_chunk(const TeamView& team, const Layout& layout, uint64_t number, const T* own, T* to,
                                       size_t count, ReduceOp op) {
  const bool is_aligned = are_aligned(to, to, sizeof(uint4));
  const auto slot = [&](int rank) {
    return team.base[team.rank] + layout.pushed(number, team.rank, rank, static_cast<int>(blockIdx.x));
  };
  add_up(team, own, count, op, slot,
         [&](size_t p, const Pack<T>& pack) { store_pack(to, p, count, is_aligned, pack); });
}

/// Every rank pushes to every other one, then uses what it got: with n - 1 parts on the link of each rank.
template <class T, bool sums>
__global__ void __launch_bounds__(kCollectiveThreads)
    exchange(const __grid_constant__ TeamView team, const __grid_constant__ Layout layout,
             const __grid_constant__ ExchangeCall call) {
  begin_after_previous();
  BlockRounds rounds(team, layout);
  if (call.meets) {
    __shared__ Addresses all;
    rounds.exchange_addresses(call.shown_send, call.shown_recv, all);
    if (rounds.complete() && can_exchange_directly<T, sums>(team, all, call)) {
      exchange_directly<T, sums>(team, all, call);
      return rounds.finish();
    }
  }
  const BlockRange range = range_of_block<T>(call.count, blockIdx.x, gridDim.x);
  const size_t chunk = layout.chunk_bytes / sizeof(T);
  const uint64_t chunks = (range.end - range.begin + chunk - 1) / chunk;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const auto begin_of = [&](uint64_t i) { return range.begin + i * chunk; };
  const auto count_of = [&](uint64_t i) { return min(chunk, range.end - begin_of(i)); };
  const auto own_part = [&](int rank, uint64_t i) {
    return send + (call.parts ? static_cast<size_t>(rank) * call.stride : 0) + begin_of(i);
  };
  const auto bytes_at = [](auto* place) { return reinterpret_cast<const char*>(place); };
  const auto push = [&](uint64_t i) {
    const size_t bytes = count_of(i) * sizeof(T);
    if (call.target >= 0) {
      if (call.target != team.rank)
        copy_bytes(rounds.pushed(call.target, team.rank, i), bytes_at(own_part(call.target, i)), bytes);
      return;
    }
    if (!call.parts) return push_to_all(rounds, i, bytes_at(own_part(team.rank, i)), bytes);
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      copy_bytes(rounds.pushed(to, team.rank, i), bytes_at(own_part(to, i)), bytes);
    }
  };
  const auto take = [&](uint64_t i) {
    if constexpr (sums) {
      add_chunk(team, layout, rounds.number(i), own_part(team.rank, i), recv + begin_of(i), count_of(i), call.op);
    } else {
      for (int from = 0; from < team.size; ++from) {
        if (call.root >= 0 && from != call.root) continue;
        T* to = recv + (call.root >= 0 ? 0 : static_cast<size_t>(from) * call.stride) + begin_of(i);
        copy_bytes(reinterpret_cast<char*>(to),
                   from == team.rank ? bytes_at(own_part(from, i)) : rounds.pushed(team.rank, from, i),
                   count_of(i) * sizeof(T));
      }
    }
  };
  if (call.meets && chunks == 0) return rounds.finish();
  for (uint64_t i = 0; rounds.complete() && i <= chunks; ++i) {
    if (i < chunks && call.pushes) push(i);
    if (i > 0 && rounds.wait(i - 1) && call.receives) take(i - 1);
    if (i < chunks && rounds.complete()) rounds.signal(i);
  }
  rounds.end(chunks);
}

/// Each rank adds up its share where it is, and writes the sums where they are wanted. Not inlined: with registers of
/// its own it spills none.
template <class T>
__device__ __noinline__ void reduce_directly(const TeamView& team, const Addresses& all, size_t share,
                                             const ExchangeCall& call) {
  const size_t begin = min(call.count, static_cast<size_t>(team.rank) * share);
  const size_t count = min(call.count, begin + share) - begin;
  add_directly<T>(team, all, begin * sizeof(T), count, call.op, [&](size_t p, const Pack<T>& pack) {
    for (int step = 0; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      store_pack(reinterpret_cast<T*>(all.recv[to]) + begin, p, count, true, pack);
    }
  });
}

/// In two steps, with 2 (n - 1) / n of the data on the link of each rank: sums (all-reduce, or reduce to `target`), for
/// which each rank adds up a share and pushes it on; or without sums a broadcast, whose root gives each of the others a
/// share to push on, with once the data on its link.
template <class T, bool sums>
__global__ void __launch_bounds__(kCollectiveThreads)
    two_steps(const __grid_constant__ TeamView team, const __grid_constant__ Layout layout,
              const __grid_constant__ ExchangeCall call) {
  begin_after_previous();
  BlockRounds rounds(team, layout);
  const size_t share = share_of(call.count, static_cast<size_t>(sums ? team.size : team.size - 1));
  __shared__ Addresses all;
  bool direct = false;
  if (call.meets) {
    rounds.exchange_addresses(call.shown_send, call.shown_recv, all);
    direct = rounds.complete() && all_show(team, all, sums, true, sums ? -1 : call.root);
    if constexpr (sums) {
      if (direct && all_are_aligned(team, all)) {
        reduce_directly<T>(team, all, share, call);
        return rounds.finish();
      }
    }
  }
  const BlockRange range = range_of_block<T>(share, blockIdx.x, gridDim.x);
  const size_t chunk = layout.chunk_bytes / sizeof(T);
  const uint64_t chunks = (range.end - range.begin + chunk - 1) / chunk;
  const auto* send = static_cast<const T*>(call.send);
  auto* recv = static_cast<T*>(call.recv);
  const bool is_root = team.rank == (sums ? call.target : call.root), all_receive = !sums || call.target < 0;
  const auto has_share = [&](int rank) { return sums || rank != call.root; };
  /// Chunk i of the share of a rank that has one.
  const auto begin_of = [&](int rank, uint64_t i) {
    const auto number = static_cast<size_t>(!sums && rank > call.root ? rank - 1 : rank);
    return min(call.count, number * share + range.begin + i * chunk);
  };
  const auto count_of = [&](int rank, uint64_t i) {
    const auto number = static_cast<size_t>(!sums && rank > call.root ? rank - 1 : rank);
    return min(call.count, number * share + min(range.end, range.begin + (i + 1) * chunk)) - begin_of(rank, i);
  };
  const auto move = [](T* to, const T* from, size_t count) {
    copy_bytes(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), count * sizeof(T));
  };
  const auto scatter = [&](uint64_t i) {
    if (!sums && !is_root) return;
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      const T* from = send + begin_of(to, i);
      char* there = !sums && direct ? all.recv[to] + begin_of(to, i) * sizeof(T) : rounds.pushed(to, team.rank, i);
      move(reinterpret_cast<T*>(there), from, count_of(to, i));
      if (!sums) move(recv + begin_of(to, i), from, count_of(to, i));
    }
  };
  /// Pushes a pack of this rank's share to those who need it, in round i + 1.
  const auto pass_on = [&](uint64_t i, size_t p, const Pack<T>& pack) {
    for (int step = 1; step < team.size; ++step) {
      const int to = (team.rank + step) % team.size;
      if (sums ? all_receive || to == call.target : to != call.root)
        reinterpret_cast<uint4*>(rounds.result(to, team.rank, i + 1))[p] = pack.bits;
    }
  };
  const auto finish_share = [&](uint64_t i) {
    if (!has_share(team.rank)) return;
    T* to = recv + begin_of(team.rank, i);
    const size_t count = count_of(team.rank, i);
    if constexpr (!sums) {
      if (direct) {
        for (int step = 1; step < team.size; ++step) {
          const int other = (team.rank + step) % team.size;
          if (other != call.root) move(reinterpret_cast<T*>(all.recv[other]) + begin_of(team.rank, i), to, count);
        }
        return;
      }
    }
    const bool is_aligned = are_aligned(to, to, sizeof(uint4)), keeps = all_receive || is_root;
    const auto use = [&](size_t p, const Pack<T>& pack) {
      if (keeps) store_pack(to, p, count, is_aligned, pack);
      pass_on(i, p, pack);
    };
    if constexpr (sums) {
      const auto slot = [&](int rank) { return rounds.pushed(team.rank, rank, i); };
      add_up(team, send + begin_of(team.rank, i), count, call.op, slot, use);
    } else {
      const auto* slot = reinterpret_cast<const uint4*>(rounds.pushed(team.rank, call.root, i));
      for (size_t p = threadIdx.x; p * sizeof(uint4) < count * sizeof(T); p += blockDim.x) {
        Pack<T> pack;
        pack.bits = __ldcg(slot + p);
        use(p, pack);
      }
    }
  };
  const auto collect = [&](uint64_t i) {
    if (sums ? !all_receive && !is_root : is_root || direct) return;
    for (int step = 1; step < team.size; ++step) {
      const int from = (team.rank + step) % team.size;
      if (has_share(from))
        move(recv + begin_of(from, i), reinterpret_cast<const T*>(rounds.result(team.rank, from, i + 1)),
             count_of(from, i));
    }
  };
  // Chunk i is scattered in round i, finished and pushed on in round i + 1, and collected after round i + 1.
  if (call.meets && chunks == 0) return rounds.finish();
  for (uint64_t i = 0; chunks > 0 && rounds.complete() && i <= chunks + 1; ++i) {
    if (i < chunks) scatter(i);
    if (i > 0 && rounds.wait(i - 1)) {
      if (i <= chunks) finish_share(i - 1);
      if (i > 1) collect(i - 2);
    }
    if (i <= chunks && rounds.complete()) rounds.signal(i);
  }
  rounds.end(chunks > 0 ? chunks + 1 : 0);
}

/// A message to rank `to`, one from rank `from`, or both: the first `senders` blocks send.
struct MessageCall {
  const char* send;
  char* recv;
  size_t send_bytes, recv_bytes;
  int to, from;
  unsigned senders;
  /// Of a large message the sender learns its destination and writes there, if it can access it. `shown_recv`: null
  /// when it cannot.
  bool sent_meets, received_meets;
  char* shown_recv;
};

/// A chunk is written once the one that was in its slot has been read. Block b of the sender meets block b of the
/// receiver: both derive the number of blocks from the size. A message that is written to its destination counts as one
/// chunk.
__global__ void __launch_bounds__(kMessageThreads)
    move_message(const __grid_constant__ TeamView team, const __grid_constant__ Layout layout,
                 const __grid_constant__ MessageCall call) {
  const bool sends = blockIdx.x < call.senders;
  const unsigned block = sends ? blockIdx.x : blockIdx.x - call.senders;
  const unsigned blocks = sends ? call.senders : gridDim.x - call.senders;
  const int other = sends ? call.to : call.from;
  const BlockRange range = range_of_block<char>(sends ? call.send_bytes : call.recv_bytes, block, blocks);
  const uint64_t chunks = (range.end - range.begin + Layout::kMessageChunk - 1) / Layout::kMessageChunk;
  const auto counter = [&](int on, size_t kind, int of) {
    return at<uint64_t>(team, on, kind) + static_cast<unsigned>(of) * kMessageBlocks + block;
  };
  const auto signal = [&](int on, size_t kind, int of) { return reinterpret_cast<Signal*>(counter(on, kind, of)); };
  uint64_t* moved = counter(team.rank, sends ? Layout::kSent : Layout::kReceived, other);
  const uint64_t base = *moved;
  const Signal* awaited = signal(team.rank, sends ? Layout::kRead : Layout::kDelivered, other);
  Signal* told = signal(other, sends ? Layout::kDelivered : Layout::kRead, team.rank);
  bool complete = __syncthreads_and(is_broken(team) ? 0 : 1) != 0;
  if (sends ? call.sent_meets : call.received_meets) {
    __shared__ char* destination;
    bool came = true;
    if (threadIdx.x == 0 && complete) {
      destination = call.shown_recv;
      if (sends) {
        uint64_t address = 0, *const word = counter(team.rank, Layout::kMessageAddresses, other);
        came = wait_for(team, other, [&] { return has_address(word, base, address); });
        *word = 0;
        destination = reinterpret_cast<char*>(address);
      } else {
        store_word(counter(other, Layout::kMessageAddresses, team.rank), address_word(call.shown_recv, base));
      }
    }
    complete = __syncthreads_and(complete && came ? 1 : 0) != 0;
    if (complete && destination != nullptr) {
      if (sends) copy_bytes<kDirectUnroll>(destination + range.begin, call.send + range.begin, range.end - range.begin);
      __syncthreads();
      if (threadIdx.x != 0) return;
      if (sends) {
        store_release(told, base + 1);
      } else if (wait_for(team, other, [&] { return has_reached(awaited, base + 1); })) {
        store_release(told, base + 1);
      } else {
        store_word(counter(other, Layout::kMessageAddresses, team.rank), 0);
        set_broken(team);
      }
      *moved = base + 1;
      return;
    }
  }
  for (uint64_t i = 0; complete && i < chunks; ++i) {
    const uint64_t after = base + i + 1;
    bool came = true;
    if (threadIdx.x == 0) {
      const uint64_t value = sends ? after - Layout::kChunkSlots : after;
      came = wait_for(team, other, [&] { return has_reached(awaited, value); });
    }
    complete = __syncthreads_and(came ? 1 : 0) != 0;
    if (!complete) break;
    const size_t begin = range.begin + i * Layout::kMessageChunk;
    const size_t bytes = min(Layout::kMessageChunk, range.end - begin);
    char* slot = at<char>(
        team, sends ? other : team.rank,
        layout.message(base + i, sends ? other : team.rank, sends ? team.rank : other, static_cast<int>(block)));
    if (sends)
      copy_bytes(slot, call.send + begin, bytes);
    else
      copy_bytes(call.recv + begin, slot, bytes);
    __syncthreads();
    if (threadIdx.x == 0) store_release(told, after);
  }
  if (threadIdx.x != 0) return;
  if (!complete) set_broken(team);
  *moved = base + chunks;
}

}  // namespace
}  // namespace amdahl
