// A block of data with one writer and any number of readers, which never see a part of an update.
//
// The writer alternates between two copies. A reader copies the current one and repeats when a write that reuses it has
// begun meanwhile.
#pragma once

#include "symmetric/structures/words.h"

namespace amdahl {

/// Access to a block. Version 0: nothing was written. All zero memory is such a block.
class VersionedBlock {
 public:
  static size_t total_bytes(size_t bytes) { return sizeof(Header) + 2 * words_for(bytes) * sizeof(uint64_t); }
  /// `place`: total_bytes(bytes) of symmetric memory of any rank.
  VersionedBlock(char* place, size_t bytes)
      : header_(reinterpret_cast<Header*>(place)),
        words_(reinterpret_cast<uint64_t*>(place + sizeof(Header))),
        bytes_(bytes) {}

  uint64_t version() const { return load_word(header_->current); }
  /// Writes `version`, which is above all earlier ones. One writer at a time.
  void write(const void* data, uint64_t version) {
    prepare(data);
    publish(version);
  }
  /// The two halves of a write: readers see the new data after publish.
  void prepare(const void* data) {
    const uint64_t writes = load_word(header_->writes) + 1;
    store_word(header_->writes, writes);
    store_words(copy(writes), data, bytes_);
  }
  void publish(uint64_t version) {
    const uint64_t writes = load_word(header_->writes);
    store_word(header_->versions[writes % 2], version);
    store_word(header_->published, writes);
    store_word(header_->current, version);
  }
  /// Copies the current data; returns its version, 0 when there is none. False in `whole` when a writer overtook the
  /// copy, which must be repeated.
  uint64_t try_read(void* data, bool& whole) const {
    const uint64_t published = load_word(header_->published);
    whole = true;
    if (published == 0) return 0;
    const uint64_t version = load_word(header_->versions[published % 2]);
    load_words(data, copy(published), bytes_);
    whole = load_word(header_->writes) < published + 2;
    return version;
  }
  /// Repeats until the copy is whole. Error{rank_hung} with `writer` at the deadline.
  uint64_t read(CpuTeam& team, void* data, int writer) const {
    uint64_t version = 0;
    bool whole = false;
    if (!symmetric_cpu::wait_for(team.view, writer, [&] {
          version = try_read(data, whole);
          return whole;
        }))
      team.fail("a whole copy of a block");
    return version;
  }

 private:
  struct alignas(64) Header {
    uint64_t writes;     // begun
    uint64_t published;  // the write whose data is current
    uint64_t versions[2];
    uint64_t current;
  };
  uint64_t* copy(uint64_t write) const { return words_ + write % 2 * words_for(bytes_); }

  Header* header_;
  uint64_t* words_;
  size_t bytes_;
};

}  // namespace amdahl
