#include "symmetric/symmetric_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace amdahl {
namespace {

constexpr size_t kAlign = 256;

size_t round_up(size_t bytes) { return (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign; }

}  // namespace

SymmetricHeap::SymmetricHeap(Device& device, Communicator& communicator, size_t bytes, double timeout_seconds)
    : device_(device), communicator_(communicator) {
  const size_t front = round_up(kTeamFlagBytes);
  memory_.timeout_seconds = timeout_seconds;
  if (bytes > SIZE_MAX / 2)
    throw Error(Cause::out_of_memory, fmt::format("a symmetric heap of {} bytes", bytes), "a smaller heap");
  agree("a symmetric heap", bytes);
  memory_ = make_symmetric_memory(device, communicator, front + round_up(bytes), timeout_seconds);
  one_sided_ = make_one_sided(device, memory_);
  free_[front] = round_up(bytes);
  agree("a symmetric heap", bytes);  // so that no kernel waits for a rank that still allocates
}

size_t SymmetricHeap::free_bytes() const {
  return std::accumulate(free_.begin(), free_.end(), size_t{0},
                         [](size_t sum, const auto& piece) { return sum + piece.second; });
}

void SymmetricHeap::agree(const char* call, size_t argument) {
  const std::string mine = fmt::format("{} of {}", call, argument);
  const std::vector<std::string> all = communicator_.exchange(mine, Deadline::after_seconds(memory_.timeout_seconds));
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all.front())
      throw Error(Cause::collective_mismatch,
                  fmt::format("rank 0 calls {}, rank {} calls {}", all.front(), rank, all[rank]),
                  "the same calls in the same order on every rank", static_cast<int>(rank));
}

SymmetricRange SymmetricHeap::allocate_bytes(size_t count, size_t element_bytes) {
  const size_t bytes = count > SIZE_MAX / 2 / element_bytes ? SIZE_MAX / 2 : count * element_bytes;
  agree("allocate", bytes);
  const size_t wanted = round_up(bytes);
  const auto piece = std::find_if(free_.begin(), free_.end(), [&](const auto& each) { return each.second >= wanted; });
  if (piece == free_.end()) {
    size_t largest = 0;
    for (const auto& each : free_) largest = std::max(largest, each.second);
    throw Error(Cause::out_of_memory,
                fmt::format("symmetric heap: {} bytes asked, {} are free, at most {} in one piece", bytes, free_bytes(),
                            largest),
                "a larger heap, or free what is not used any more");
  }
  const auto [offset, found] = *piece;
  free_.erase(piece);
  if (found > wanted) free_[offset + wanted] = found - wanted;
  const SymmetricRange range{offset, bytes, ++last_number_};
  in_use_[range.number] = range;
  const std::unique_ptr<Stream> stream = device_.make_stream("symmetric");
  device_.fill_zero(*stream, memory_.own<char>() + offset, wanted);
  stream->synchronize(Deadline::after_seconds(memory_.timeout_seconds));
  agree("allocate", bytes);  // so that no rank puts into memory that its owner still clears
  return range;
}

void SymmetricHeap::free_range(const SymmetricRange& range) {
  address(range, memory_.team.rank);
  agree("free", range.offset);
  in_use_.erase(range.number);
  auto piece = free_.emplace(range.offset, round_up(range.bytes)).first;
  const auto next = std::next(piece);
  if (next != free_.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece == free_.begin()) return;
  const auto before = std::prev(piece);
  if (before->first + before->second != piece->first) return;
  before->second += piece->second;
  free_.erase(piece);
}

char* SymmetricHeap::address(const SymmetricRange& range, int rank) const {
  const auto found = in_use_.find(range.number);
  if (found == in_use_.end() || found->second.offset != range.offset)
    throw Error(Cause::usage, fmt::format("a symmetric array at offset {} that is not allocated", range.offset),
                "an array of this heap that was not freed");
  if (rank < 0 || rank >= memory_.team.size())
    throw Error(Cause::usage, fmt::format("rank {} of a team of {}", rank, memory_.team.size()), "a rank of the team");
  return memory_.base[static_cast<size_t>(rank)] + range.offset;
}

void SymmetricHeap::check_slice(const SymmetricRange& range, size_t first, size_t count, size_t element_bytes) const {
  const size_t size = range.bytes / element_bytes;
  if (first > size || count > size - first)
    throw Error(Cause::usage, fmt::format("{} elements from {} on of a symmetric array of {}", count, first, size),
                "elements of the array");
}

}  // namespace amdahl
