#include "symmetric/cpu_collectives.h"

#include <algorithm>
#include <cstring>

#include "comm/reduce_kernels.h"

namespace amdahl {
namespace {

void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Flagged messages: words of 4 bytes of data and a flag of 4 bytes.
constexpr size_t kWord = sizeof(uint32_t);

uint32_t flag_of(uint64_t epoch) { return static_cast<uint32_t>(epoch % kFlagPeriod) + 1; }
size_t words_of(size_t bytes) { return (bytes + kWord - 1) / kWord; }

void store_flagged(char* place, const char* data, size_t bytes, uint32_t flag) {
  auto* to = reinterpret_cast<uint64_t*>(place);
  for (size_t done = 0; done < bytes; done += kWord, ++to) {
    uint32_t word = 0;
    std::memcpy(&word, data + done, std::min(kWord, bytes - done));
    std::atomic_ref(*to).store(uint64_t{flag} << 32 | word, std::memory_order_release);
  }
}

bool load_flagged(const char* place, char* data, uint32_t flag) {
  const uint64_t word =
      std::atomic_ref(const_cast<uint64_t&>(*reinterpret_cast<const uint64_t*>(place))).load(std::memory_order_acquire);
  if (word >> 32 != flag) return false;
  const auto value = static_cast<uint32_t>(word);
  std::memcpy(data, &value, kWord);
  return true;
}

/// Executes a call in pieces of at most `most` of `all` elements or bytes; at least one, so that ranks whose calls have
/// no elements also meet and are compared.
template <class Piece>
void for_each_piece(size_t all, size_t most, const Piece& piece) {
  size_t begin = 0;
  do {
    const size_t n = std::min(most, all - begin);
    piece(begin, n);
    begin += n;
  } while (begin < all);
}

}  // namespace

CpuCollectives::CpuCollectives(CpuRounds& rounds, const SymmetricOptions& options)
    : rounds_(rounds), options_(options) {}

void CpuCollectives::run(const CollectiveCall& call, const void* send, void* recv) {
  rounds_.wait(
      call, [&] { return order_.turn_of(call.seq); }, rounds_.rank());
  if (rounds_.aborted()) rounds_.throw_if_failed();
  dispatch(call, send, recv);
  order_.finish(call.seq);
}

void CpuCollectives::dispatch(const CollectiveCall& call, const void* from, void* to) {
  const auto* send = static_cast<const char*>(from);
  auto* recv = static_cast<char*>(to);
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce(call, send, recv);
    case CollectiveKind::reduce:
      return reduce(call, send, recv);
    case CollectiveKind::broadcast:
      return broadcast(call, send, recv);
    case CollectiveKind::all_gather:
    case CollectiveKind::gather:
      return gather(call, send, recv);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter(call, send, recv);
    case CollectiveKind::scatter:
      return scatter(call, send, recv);
    case CollectiveKind::all_to_all:
      return all_to_all(call, send, recv);
    default:
      throw Error(Cause::internal, "not an ordered collective");
  }
}

void CpuCollectives::all_reduce(const CollectiveCall& call, const char* send, char* recv) {
  switch (choose(options_, call.bytes())) {
    case SymmetricAlgorithm::flagged:
      return all_reduce_flagged(call, send, recv);
    case SymmetricAlgorithm::one_shot:
      return all_reduce_one_shot(call, send, recv);
    default:
      return all_reduce_two_shot(call, send, recv);
  }
}

void CpuCollectives::take_stages(uint64_t epoch, size_t offset) {
  sources_.clear();
  for (int from = 0; from < rounds_.size(); ++from)
    sources_.push_back(rounds_.at(from, rounds_.layout().stage(epoch)) + offset);
}

void CpuCollectives::add_up(const CollectiveCall& call, char* result, size_t begin, size_t end) {
  void* const to = result;
  reduce_in_order({sources_, {&to, 1}, begin, end, call.type, call.op});
}

void CpuCollectives::all_reduce_flagged(const CollectiveCall& call, const char* send, char* recv) {
  const size_t element = size_of(call.type), most = CollectiveLayout::kFlaggedBytes / element;
  received_.resize(world() * CollectiveLayout::kFlaggedBytes);
  for_each_piece(call.count, most, [&](size_t begin, size_t n) {
    const size_t bytes = n * element;
    const uint64_t epoch = rounds_.begin(call);
    const uint32_t flag = flag_of(epoch);
    for (int step = 1; step < rounds_.size(); ++step) {
      const int to = (rounds_.rank() + step) % rounds_.size();
      rounds_.announce(call, epoch, to);
      store_flagged(rounds_.at(to, rounds_.layout().flagged(epoch, rounds_.rank())), send + begin * element, bytes,
                    flag);
    }
    sources_.clear();
    for (int from = 0; from < rounds_.size(); ++from) {
      char* data = received_.data() + static_cast<size_t>(from) * CollectiveLayout::kFlaggedBytes;
      sources_.push_back(from == rounds_.rank() ? send + begin * element : data);
      if (from == rounds_.rank()) continue;
      const char* words = rounds_.own(rounds_.layout().flagged(epoch, from));
      for (size_t i = 0; i < words_of(bytes); ++i)
        if (!load_flagged(words + i * 2 * kWord, data + i * kWord, flag))
          rounds_.wait(
              call, [&] { return load_flagged(words + i * 2 * kWord, data + i * kWord, flag); },
              [&] { return std::vector<int>{from}; }, [&] { rounds_.check_line(call, epoch, from); });
      if (bytes == 0)
        rounds_.wait(
            call, [&] { return rounds_.here(epoch, from); }, from);
      rounds_.check_line(call, epoch, from);
    }
    add_up(call, recv + begin * element, 0, n);
  });
}

void CpuCollectives::all_reduce_one_shot(const CollectiveCall& call, const char* send, char* recv) {
  const size_t element = size_of(call.type), most = CollectiveLayout::kPushBytes / element;
  for_each_piece(call.count, most, [&](size_t begin, size_t n) {
    const uint64_t epoch = rounds_.begin(call);
    sources_.clear();
    for (int step = 1; step < rounds_.size(); ++step) {
      const int to = (rounds_.rank() + step) % rounds_.size();
      copy(rounds_.at(to, rounds_.layout().pushed(epoch, rounds_.rank())), send + begin * element, n * element);
    }
    rounds_.arrive(call, epoch);
    for (int from = 0; from < rounds_.size(); ++from)
      sources_.push_back(from == rounds_.rank() ? send + begin * element
                                                : rounds_.own(rounds_.layout().pushed(epoch, from)));
    add_up(call, recv + begin * element, 0, n);
  });
}

void CpuCollectives::all_reduce_two_shot(const CollectiveCall& call, const char* send, char* recv) {
  const size_t element = size_of(call.type), most = CollectiveLayout::kStageBytes / element;
  for_each_piece(call.count, most, [&](size_t begin, size_t n) {
    const uint64_t first = rounds_.begin(call);
    copy(rounds_.own(rounds_.layout().stage(first)), send + begin * element, n * element);
    rounds_.arrive(call, first);
    const ElementRange mine = share_of(n, rounds_.rank(), rounds_.size());
    const uint64_t second = rounds_.begin(call);
    take_stages(first, 0);
    add_up(call, rounds_.own(rounds_.layout().stage(second)), mine.begin, mine.end);
    rounds_.arrive(call, second);
    for (int from = 0; from < rounds_.size(); ++from) {
      const ElementRange theirs = share_of(n, from, rounds_.size());
      copy(recv + (begin + theirs.begin) * element,
           rounds_.at(from, rounds_.layout().stage(second)) + theirs.begin * element,
           (theirs.end - theirs.begin) * element);
    }
  });
}

void CpuCollectives::reduce(const CollectiveCall& call, const char* send, char* recv) {
  const size_t element = size_of(call.type), most = CollectiveLayout::kStageBytes / element;
  for_each_piece(call.count, most, [&](size_t begin, size_t n) {
    const uint64_t epoch = rounds_.begin(call);
    copy(rounds_.own(rounds_.layout().stage(epoch)), send + begin * element, n * element);
    rounds_.arrive(call, epoch);
    if (rounds_.rank() == call.root) {
      take_stages(epoch, 0);
      add_up(call, recv + begin * element, 0, n);
    }
  });
}

void CpuCollectives::broadcast(const CollectiveCall& call, const char* send, char* recv) {
  for_each_piece(call.bytes(), CollectiveLayout::kStageBytes, [&](size_t begin, size_t n) {
    const uint64_t epoch = rounds_.begin(call);
    if (rounds_.rank() == call.root) copy(rounds_.own(rounds_.layout().stage(epoch)), send + begin, n);
    rounds_.arrive(call, epoch);
    copy(recv + begin,
         rounds_.rank() == call.root ? send + begin : rounds_.at(call.root, rounds_.layout().stage(epoch)), n);
  });
}

void CpuCollectives::gather(const CollectiveCall& call, const char* send, char* recv) {
  const bool receives = call.kind == CollectiveKind::all_gather || rounds_.rank() == call.root;
  for_each_piece(call.bytes(), CollectiveLayout::kStageBytes, [&](size_t begin, size_t n) {
    const uint64_t epoch = rounds_.begin(call);
    copy(rounds_.own(rounds_.layout().stage(epoch)), send + begin, n);
    rounds_.arrive(call, epoch);
    for (int from = 0; receives && from < rounds_.size(); ++from)
      copy(recv + static_cast<size_t>(from) * call.bytes() + begin,
           from == rounds_.rank() ? send + begin : rounds_.at(from, rounds_.layout().stage(epoch)), n);
  });
}

void CpuCollectives::reduce_scatter(const CollectiveCall& call, const char* send, char* recv) {
  const size_t element = size_of(call.type), most = CollectiveLayout::kStageBytes / element / world();
  for_each_piece(call.count, most, [&](size_t begin, size_t n) {
    const size_t bytes = n * element;
    const uint64_t epoch = rounds_.begin(call);
    for (size_t part = 0; part < world(); ++part)
      copy(rounds_.own(rounds_.layout().stage(epoch)) + part * bytes, send + part * call.bytes() + begin * element,
           bytes);
    rounds_.arrive(call, epoch);
    take_stages(epoch, static_cast<size_t>(rounds_.rank()) * bytes);
    add_up(call, recv + begin * element, 0, n);
  });
}

void CpuCollectives::scatter(const CollectiveCall& call, const char* send, char* recv) {
  const size_t most = CollectiveLayout::kStageBytes / world();
  for_each_piece(call.bytes(), most, [&](size_t begin, size_t n) {
    const uint64_t epoch = rounds_.begin(call);
    for (size_t part = 0; rounds_.rank() == call.root && part < world(); ++part)
      copy(rounds_.own(rounds_.layout().stage(epoch)) + part * n, send + part * call.bytes() + begin, n);
    rounds_.arrive(call, epoch);
    copy(recv + begin, rounds_.at(call.root, rounds_.layout().stage(epoch)) + static_cast<size_t>(rounds_.rank()) * n,
         n);
  });
}

void CpuCollectives::all_to_all(const CollectiveCall& call, const char* send, char* recv) {
  const size_t most = CollectiveLayout::kStageBytes / world();
  for_each_piece(call.bytes(), most, [&](size_t begin, size_t n) {
    const uint64_t epoch = rounds_.begin(call);
    for (size_t part = 0; part < world(); ++part)
      copy(rounds_.own(rounds_.layout().stage(epoch)) + part * n, send + part * call.bytes() + begin, n);
    rounds_.arrive(call, epoch);
    for (int from = 0; from < rounds_.size(); ++from)
      copy(recv + static_cast<size_t>(from) * call.bytes() + begin,
           rounds_.at(from, rounds_.layout().stage(epoch)) + static_cast<size_t>(rounds_.rank()) * n, n);
  });
}

}  // namespace amdahl
