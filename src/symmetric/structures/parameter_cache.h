// A cache of named parameter blocks (adapters) that every rank reads in its own memory and any rank replaces on all.
#pragma once

#include "symmetric/structures/versioned_block.h"

namespace amdahl {

/// One rank's access; not thread-safe, one per thread. All zero memory is a cache without contents.
class ParameterCache {
 public:
  /// `entries` blocks of `entry_bytes` each.
  static size_t bytes(size_t entries, size_t entry_bytes) {
    return entries * (sizeof(uint64_t) * 8 + VersionedBlock::total_bytes(entry_bytes));
  }
  /// `offset`: of bytes(...) in every region, a multiple of 64.
  ParameterCache(CpuTeam& team, size_t offset, size_t entries, size_t entry_bytes)
      : team_(team), offset_(offset), entries_(entries), entry_bytes_(entry_bytes) {}

  /// Copies an entry from this rank's memory; returns its version, 0 when it was never set.
  uint64_t read(size_t entry, void* data) { return block(entry, team_.view.rank).read(team_, data, team_.view.rank); }
  uint64_t version(size_t entry) const { return block(entry, team_.view.rank).version(); }
  /// Replaces an entry on every rank: first the data everywhere, then the versions, so that the ranks change within the
  /// time of a few stores. Returns the new version.
  uint64_t swap(size_t entry, const void* data) {
    const SymmetricLock lock(team_, *object_of<uint64_t>(team_, offset_ + entry * 8 * sizeof(uint64_t), 0));
    const uint64_t version = block(entry, 0).version() + 1;
    for (int rank = 0; rank < team_.view.size; ++rank) block(entry, rank).prepare(data);
    for (int rank = 0; rank < team_.view.size; ++rank) block(entry, rank).publish(version);
    return version;
  }

 private:
  VersionedBlock block(size_t entry, int rank) const {
    const size_t blocks = offset_ + entries_ * 8 * sizeof(uint64_t);
    return {object_of<char>(team_, blocks + entry * rounded(VersionedBlock::total_bytes(entry_bytes_)), rank),
            entry_bytes_};
  }
  static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

  CpuTeam& team_;
  const size_t offset_, entries_, entry_bytes_;
};

}  // namespace amdahl
