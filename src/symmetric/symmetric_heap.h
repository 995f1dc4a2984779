// SymmetricHeap: objects at the same offset in every rank's memory, and one-sided operations on them.
//
// Each rank of a team has its own heap and calls allocate and free in the same order with the same arguments.
// Operations are enqueued on a stream of the rank's device. Not thread-safe, except for abort(): one thread per rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "symmetric/one_sided.h"

namespace amdahl {

/// A range of every rank's region.
struct SymmetricRange {
  size_t offset = 0, bytes = 0;
  uint64_t number = 0;  // identifies the allocation; 0: none
};

/// `size` elements on every rank. Plain data that does not own the memory; the heap knows whether it is allocated.
template <class T>
struct SymmetricArray {
  SymmetricRange range;
  size_t size() const { return range.bytes / sizeof(T); }
};

/// Elements [first, first + count) of an array.
template <class T>
struct SymmetricSlice {
  SymmetricArray<T> array;
  size_t first = 0, count = 0;
};

class SymmetricHeap {
 public:
  /// `bytes`: capacity for all objects, each of which starts at a multiple of 256. Collective, blocks the host. Errors
  /// as make_symmetric_memory. `device`, `communicator` and the streams of all calls must outlive the heap.
  SymmetricHeap(Device& device, Communicator& communicator, size_t bytes, double timeout_seconds);

  const Team& team() const { return memory_.team; }
  /// The memory that the objects are in, for code that runs in it.
  const SymmetricMemory& memory() const { return memory_; }
  /// Whether transfers use no link between devices: ranks on the CPU, or on one GPU.
  bool emulated() const { return memory_.emulated; }
  std::string_view back_end() const { return one_sided_->name(); }
  size_t free_bytes() const;

  /// Allocates `count` zeroed elements on every rank. Collective, blocks the host. Error{out_of_memory} on every rank
  /// when no free range is large enough; Error{collective_mismatch} when the ranks' arguments differ; Error{rank_hung}.
  template <class T>
  SymmetricArray<T> allocate(size_t count) {
    return {allocate_bytes(count, sizeof(T))};
  }
  /// Collective, blocks the host. The caller's streams must have completed all operations on the array. Error{usage}
  /// for an array that is not allocated.
  template <class T>
  void free(const SymmetricArray<T>& array) {
    free_range(array.range);
  }

  /// Addresses valid on this rank's device. Error{usage} for an array that is not allocated and an unknown rank.
  template <class T>
  T* local(const SymmetricArray<T>& array) const {
    return peer(array, memory_.team.rank);
  }
  template <class T>
  T* peer(const SymmetricArray<T>& array, int rank) const {
    return reinterpret_cast<T*>(address(array.range, rank));
  }

  /// The operations of OneSided; Error{usage} for elements outside the array.
  template <class T>
  void put(Stream& stream, const SymmetricSlice<T>& to, const T* from, int rank) {
    one_sided_->put(stream, offset_of(to, rank), from, to.count * sizeof(T), rank);
  }
  template <class T>
  void get(Stream& stream, T* to, const SymmetricSlice<T>& from, int rank) {
    one_sided_->get(stream, to, offset_of(from, rank), from.count * sizeof(T), rank);
  }
  template <class T>
  void put_signal(Stream& stream, const SymmetricSlice<T>& to, const T* from, const SymmetricSlice<Signal>& signal,
                  uint64_t value, int rank) {
    const size_t signal_offset = offset_of(signal, rank);
    put(stream, to, from, rank);
    one_sided_->signal(stream, signal_offset, value, rank);
  }
  void signal_wait(Stream& stream, const SymmetricSlice<Signal>& signal, uint64_t value, int from) {
    one_sided_->signal_wait(stream, offset_of(signal, from), value, from);
  }
  void fetch_add(Stream& stream, const SymmetricSlice<uint64_t>& to, uint64_t value, int rank, uint64_t* old) {
    one_sided_->fetch_add(stream, offset_of(to, rank), value, rank, old);
  }
  void fence(Stream& stream) { one_sided_->fence(stream); }
  void quiet(Stream& stream) { one_sided_->quiet(stream); }
  void barrier(Stream& stream) { one_sided_->barrier(stream); }
  void abort() noexcept { one_sided_->abort(); }

 private:
  SymmetricRange allocate_bytes(size_t count, size_t element_bytes);
  void free_range(const SymmetricRange& range);
  char* address(const SymmetricRange& range, int rank) const;
  void check_slice(const SymmetricRange& range, size_t first, size_t count, size_t element_bytes) const;
  /// Waits for all ranks. Error{collective_mismatch} when their arguments differ.
  void agree(const char* call, size_t argument);
  template <class T>
  size_t offset_of(const SymmetricSlice<T>& slice, int rank) const {
    address(slice.array.range, rank);
    check_slice(slice.array.range, slice.first, slice.count, sizeof(T));
    return slice.array.range.offset + slice.first * sizeof(T);
  }

  Device& device_;
  Communicator& communicator_;
  SymmetricMemory memory_;
  std::unique_ptr<OneSided> one_sided_;
  std::map<size_t, size_t> free_;              // offset -> bytes; adjacent ranges are merged
  std::map<uint64_t, SymmetricRange> in_use_;  // by number
  uint64_t last_number_ = 0;
};

}  // namespace amdahl
