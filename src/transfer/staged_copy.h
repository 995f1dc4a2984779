// A copy between two devices through pinned host memory, in chunks whose two halves overlap. Needs no peer access.
#pragma once

#include <memory>
#include <vector>

#include "transfer/transfer.h"

namespace amdahl {

class StagedCopy {
 public:
  struct End {
    Device* device;
    Transfer* transfer;
  };
  /// Chunks are in host memory near the source (`cores` as in Transfer::allocate_host).
  StagedCopy(End source, End destination, const std::string& cores);

  /// Enqueues a copy, which is complete when `destination_stream` reaches this point. Each stream belongs to the device
  /// of its end.
  void copy(Stream& source_stream, Stream& destination_stream, void* destination, const void* source, size_t bytes);

 private:
  static constexpr size_t kChunkBytes = size_t{2} << 20;
  static constexpr size_t kSlots = 4;
  struct Slot {
    std::unique_ptr<Buffer> host;
    std::unique_ptr<Event> filled, emptied;
    bool used = false;
  };
  End source_, destination_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace amdahl
