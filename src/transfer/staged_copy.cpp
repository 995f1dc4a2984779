#include "transfer/staged_copy.h"

#include <algorithm>

namespace amdahl {

StagedCopy::StagedCopy(End source, End destination, const std::string& cores)
    : source_(source), destination_(destination), slots_(kSlots) {
  for (Slot& slot : slots_) {
    slot.host = source_.transfer->allocate_host(kChunkBytes, HostMemory::pinned, cores);
    slot.filled = source_.device->make_event();
    slot.emptied = destination_.device->make_event();
  }
}

void StagedCopy::copy(Stream& source_stream, Stream& destination_stream, void* destination, const void* source,
                      size_t bytes) {
  for (size_t done = 0; done < bytes; done += kChunkBytes) {
    const size_t chunk = std::min(kChunkBytes, bytes - done);
    Slot& slot = slots_[next_++ % kSlots];
    if (slot.used) source_stream.wait(*slot.emptied);
    source_.transfer->copy(source_stream, slot.host->data(), static_cast<const char*>(source) + done, chunk,
                           Mover::engine, 1);
    source_stream.record(*slot.filled);
    destination_stream.wait(*slot.filled);
    destination_.transfer->copy(destination_stream, static_cast<char*>(destination) + done, slot.host->data(), chunk,
                                Mover::engine, 1);
    destination_stream.record(*slot.emptied);
    slot.used = true;
  }
}

}  // namespace amdahl
