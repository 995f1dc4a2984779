// Structures in symmetric memory for kernels: a bounded queue, a hash map and a cache of parameter blocks, the
// counterparts of ring_buffer.h, hash_map.h and parameter_cache.h with the same protocols.
//
// Every word that another thread may access meanwhile is loaded with acquire and stored with release order at system
// scope: no access is a data race. GPUs must have native atomics on each other's memory (list_cuda_peers). A wait
// longer than the team's timeout is abandoned, and the report names the rank that was waited for.
//
// Example, by one thread of each block that works on the queue of rank 0:
//   symmetric_cuda::DeviceRing<uint64_t> ring(team, offset, 1024, 0);
//   while (ring.try_push(task) == symmetric_cuda::Outcome::refused) {}
#pragma once

#include "symmetric/cuda_symmetric.cuh"

namespace amdahl::symmetric_cuda {

/// Of an operation: it was executed; the structure refuses it (a full or empty queue, an absent key); a wait for
/// another rank was abandoned.
enum class Outcome { done, refused, abandoned };

__device__ __forceinline__ uint64_t load_word(const uint64_t* word) {
  return load_acquire(reinterpret_cast<const Signal*>(word));
}
__device__ __forceinline__ void store_word(uint64_t* word, uint64_t value) {
  store_release(reinterpret_cast<Signal*>(word), value);
}
/// True when `word` was `expected` and is now `wanted`.
__device__ __forceinline__ bool exchange_word(uint64_t* word, uint64_t expected, uint64_t wanted) {
  uint64_t before;
  asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(word), "l"(expected), "l"(wanted)
               : "memory");
  return before == expected;
}

template <class T>
__device__ __forceinline__ T* object_of(const TeamView& team, size_t offset, int home) {
  return reinterpret_cast<T*>(team.base[home] + offset);
}

/// Takes a lock, initially zero, that holds the number of its rank plus 1. Called by one thread. False when the wait
/// was abandoned; it names the rank that held the lock when the wait began.
__device__ __forceinline__ bool take_lock(const TeamView& team, uint64_t* lock) {
  const auto mine = static_cast<uint64_t>(team.rank) + 1;
  const uint64_t holder = load_word(lock);
  return wait_for(team, holder == 0 ? team.rank : static_cast<int>(holder) - 1,
                  [&] { return load_word(lock) == 0 && exchange_word(lock, 0, mine); });
}
__device__ __forceinline__ void free_lock(uint64_t* lock) { store_word(lock, 0); }

/// A bounded queue in one rank's memory, for producers and consumers on all ranks. All zero memory is an empty queue.
/// Its functions are called by one thread; threads of one warp must not call them at the same time.
template <class T>
class DeviceRing {
  static_assert(sizeof(T) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  struct Positions {
    alignas(64) uint64_t push;
    alignas(64) uint64_t pop;
  };
  struct alignas(16) Cell {
    uint64_t turn;
    uint64_t value[kWords];
  };

 public:
  __host__ __device__ static size_t bytes(size_t capacity) { return sizeof(Positions) + capacity * sizeof(Cell); }
  /// `offset`: of bytes(capacity) in `home`'s region, a multiple of 64.
  __device__ DeviceRing(const TeamView& team, size_t offset, size_t capacity, int home)
      : team_(team),
        capacity_(capacity),
        home_(home),
        positions_(object_of<Positions>(team, offset, home)),
        cells_(object_of<Cell>(team, offset + sizeof(Positions), home)) {}

  /// Refused when the queue is full.
  __device__ Outcome try_push(const T& value) {
    return move(&positions_->push, &positions_->pop, 0, [&](Cell* cell) {
      const auto* words = reinterpret_cast<const uint64_t*>(&value);
      for (size_t i = 0; i < kWords; ++i) store_word(&cell->value[i], words[i]);
    });
  }
  /// Refused when the queue is empty.
  __device__ Outcome try_pop(T* value) {
    return move(&positions_->pop, &positions_->push, 1, [&](Cell* cell) {
      auto* words = reinterpret_cast<uint64_t*>(value);
      for (size_t i = 0; i < kWords; ++i) words[i] = load_word(&cell->value[i]);
    });
  }

 private:
  /// Phase 0 pushes, phase 1 pops, see ring_buffer.h.
  template <class Action>
  __device__ Outcome move(uint64_t* position, const uint64_t* opposite, uint64_t phase, const Action& action) {
    Outcome outcome = Outcome::refused;
    const auto settled = [&] {
      const uint64_t at = load_word(position);
      Cell* cell = cells_ + at % capacity_;
      const uint64_t wanted = 2 * (at / capacity_) + phase;
      if (load_word(&cell->turn) == wanted) {
        if (!exchange_word(position, at, at + 1)) return false;
        action(cell);
        store_word(&cell->turn, wanted + 1);
        outcome = Outcome::done;
        return true;
      }
      const auto ahead = static_cast<int64_t>(at - load_word(opposite));
      return phase == 0 ? ahead >= static_cast<int64_t>(capacity_) : ahead == 0;
    };
    return wait_for(team_, home_, settled) ? outcome : Outcome::abandoned;
  }

  const TeamView& team_;
  const size_t capacity_;
  const int home_;
  Positions* positions_;
  Cell* cells_;
};

/// A hash map from 64-bit keys to 64-bit values over the memory of all ranks. All zero memory is an empty map. Calls as
/// of DeviceRing.
class DeviceMap {
 public:
  static constexpr uint64_t kSlots = 32;  // of a stripe

 private:
  struct alignas(64) Stripe {
    uint64_t lock, version, used;  // used: a bit per slot; version: odd during a change
    uint64_t keys[kSlots], values[kSlots];
  };

 public:
  __host__ __device__ static size_t bytes(size_t stripes_per_rank) { return stripes_per_rank * sizeof(Stripe); }
  /// `offset`: of bytes(stripes_per_rank) in every region, a multiple of 64.
  __device__ DeviceMap(const TeamView& team, size_t offset, size_t stripes_per_rank)
      : team_(team), offset_(offset), stripes_(stripes_per_rank) {}

  /// Sets the value of a key; `fresh`: it had none. Refused when the key's stripe has no free slot.
  __device__ Outcome insert(uint64_t key, uint64_t value, bool* fresh) {
    Stripe* stripe = stripe_of(key);
    if (!take_lock(team_, &stripe->lock)) return Outcome::abandoned;
    const uint64_t used = load_word(&stripe->used);
    uint64_t slot = slot_of(stripe, key);
    *fresh = slot == kSlots;
    if (*fresh)
      for (slot = 0; slot < kSlots && (used >> slot & 1) != 0;) ++slot;
    if (slot < kSlots) {
      turn_version(stripe);
      store_word(&stripe->keys[slot], key);
      store_word(&stripe->values[slot], value);
      store_word(&stripe->used, used | uint64_t{1} << slot);
      turn_version(stripe);
    }
    free_lock(&stripe->lock);
    return slot < kSlots ? Outcome::done : Outcome::refused;
  }
  /// `value`: the erased one. Refused when the key is absent.
  __device__ Outcome erase(uint64_t key, uint64_t* value) {
    Stripe* stripe = stripe_of(key);
    if (!take_lock(team_, &stripe->lock)) return Outcome::abandoned;
    const uint64_t slot = slot_of(stripe, key);
    if (slot < kSlots) {
      *value = load_word(&stripe->values[slot]);
      turn_version(stripe);
      store_word(&stripe->used, load_word(&stripe->used) & ~(uint64_t{1} << slot));
      turn_version(stripe);
    }
    free_lock(&stripe->lock);
    return slot < kSlots ? Outcome::done : Outcome::refused;
  }
  /// Takes no lock: repeats when the stripe has changed meanwhile. Refused when the key is absent.
  __device__ Outcome find(uint64_t key, uint64_t* value) {
    Stripe* stripe = stripe_of(key);
    bool found = false;
    const auto unchanged = [&] {
      const uint64_t version = load_word(&stripe->version);
      if (version % 2 != 0) return false;
      const uint64_t slot = slot_of(stripe, key);
      found = slot < kSlots;
      if (found) *value = load_word(&stripe->values[slot]);
      return load_word(&stripe->version) == version;
    };
    if (!wait_for(team_, home_of(key), unchanged)) return Outcome::abandoned;
    return found ? Outcome::done : Outcome::refused;
  }

  /// The rank whose memory has the key.
  __device__ int home_of(uint64_t key) const {
    return static_cast<int>(mixed(key) % static_cast<uint64_t>(team_.size));
  }

 private:
  __device__ static uint64_t mixed(uint64_t key) {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
  }
  __device__ Stripe* stripe_of(uint64_t key) const {
    const uint64_t within = mixed(key) / static_cast<uint64_t>(team_.size) % stripes_;
    return object_of<Stripe>(team_, offset_, home_of(key)) + within;
  }
  /// kSlots when the key is absent.
  __device__ static uint64_t slot_of(const Stripe* stripe, uint64_t key) {
    const uint64_t used = load_word(&stripe->used);
    uint64_t slot = 0;
    while (slot < kSlots && ((used >> slot & 1) == 0 || load_word(&stripe->keys[slot]) != key)) ++slot;
    return slot;
  }
  __device__ static void turn_version(Stripe* stripe) { store_word(&stripe->version, load_word(&stripe->version) + 1); }

  const TeamView& team_;
  const size_t offset_, stripes_;
};

/// A cache of parameter blocks that every rank reads in its own memory and any rank replaces on all, never a half of
/// one. All zero memory is a cache without contents. Its functions are called by all threads of a block, at most one
/// block of a rank at a time per entry for swap.
class DeviceParameterCache {
  struct alignas(64) Header {
    uint64_t writes;     // begun
    uint64_t published;  // the write whose data is current
    uint64_t versions[2];
    uint64_t current;
  };

 public:
  static constexpr uint64_t kAbandoned = ~uint64_t{0};

  /// `entries` blocks of `words` words of 8 bytes each.
  __host__ __device__ static size_t bytes(size_t entries, size_t words) {
    return entries * (64 + sizeof(Header) + rounded(2 * words * sizeof(uint64_t)));
  }
  /// `offset`: of bytes(...) in every region, a multiple of 64.
  __device__ DeviceParameterCache(const TeamView& team, size_t offset, size_t entries, size_t words)
      : team_(team), offset_(offset), entries_(entries), words_(words) {}

  /// Copies an entry from this rank's memory; returns its version to all threads: 0 when it was never set, kAbandoned
  /// after an abandoned wait.
  __device__ uint64_t read(size_t entry, uint64_t* data) {
    __shared__ uint64_t published, version;
    __shared__ bool whole, over;
    Header* header = header_of(entry, team_.rank);
    const uint64_t start = now_ns();
    for (unsigned attempt = 0;; ++attempt) {
      if (threadIdx.x == 0) {
        published = load_word(&header->published);
        version = published == 0 ? 0 : load_word(&header->versions[published % 2]);
      }
      __syncthreads();
      if (published != 0)
        for (size_t i = threadIdx.x; i < words_; i += blockDim.x) data[i] = load_word(copy_of(header, published) + i);
      __syncthreads();
      if (threadIdx.x == 0) {
        whole = load_word(&header->writes) < published + 2;
        over = !whole && attempt % 64 == 63 && wait_is_over(team_, start, team_.rank);
      }
      __syncthreads();
      const bool complete = whole, ends = over;
      const uint64_t found = version;
      __syncthreads();  // no thread renews the shared values before all have read them
      if (complete) return found;
      if (ends) return kAbandoned;
    }
  }

  /// Replaces an entry on every rank; returns the new version to all threads, kAbandoned after an abandoned wait.
  __device__ uint64_t swap(size_t entry, const uint64_t* data) {
    __shared__ uint64_t version;
    uint64_t* lock = object_of<uint64_t>(team_, offset_ + entry * 64, 0);
    if (threadIdx.x == 0) version = take_lock(team_, lock) ? load_word(&header_of(entry, 0)->current) + 1 : kAbandoned;
    __syncthreads();
    const uint64_t mine = version;
    __syncthreads();
    if (mine == kAbandoned) return mine;
    for (int rank = 0; rank < team_.size; ++rank) {
      Header* header = header_of(entry, rank);
      const uint64_t writes = load_word(&header->writes) + 1;  // only the holder of the lock changes it
      __syncthreads();
      if (threadIdx.x == 0) store_word(&header->writes, writes);
      __syncthreads();
      for (size_t i = threadIdx.x; i < words_; i += blockDim.x) store_word(copy_of(header, writes) + i, data[i]);
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      for (int rank = 0; rank < team_.size; ++rank) {
        Header* header = header_of(entry, rank);
        const uint64_t writes = load_word(&header->writes);
        store_word(&header->versions[writes % 2], mine);
        store_word(&header->published, writes);
        store_word(&header->current, mine);
      }
      free_lock(lock);
    }
    __syncthreads();
    return mine;
  }

 private:
  __host__ __device__ static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  __device__ Header* header_of(size_t entry, int rank) const {
    const size_t size = sizeof(Header) + rounded(2 * words_ * sizeof(uint64_t));
    return object_of<Header>(team_, offset_ + entries_ * 64 + entry * size, rank);
  }
  __device__ uint64_t* copy_of(Header* header, uint64_t write) const {
    return reinterpret_cast<uint64_t*>(header + 1) + write % 2 * words_;
  }

  const TeamView& team_;
  const size_t offset_, entries_, words_;
};

}  // namespace amdahl::symmetric_cuda
