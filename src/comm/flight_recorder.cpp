#include "comm/flight_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

namespace amdahl {
namespace {

constexpr uint64_t kMagic = 0x31746867696c66;  // "flight1"
constexpr size_t kHostBytes = 128;

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

/// All words are atomic, because a page is read while its rank writes. `number` is 0 while the other words change.
struct Slot {
  Word number, issued_us, seq, count;
  Word kinds;  // kind, type, op: one byte each; then world size: 16 bits
  Word root;   // two's complement
  Word finished;
};

uint64_t pack_kinds(const CollectiveCall& call, int world_size) {
  return static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.type) << 8 |
         static_cast<uint64_t>(call.op) << 16 | static_cast<uint64_t>(world_size) << 24;
}

}  // namespace

struct FlightPage {
  Word magic;
  Word ranks;  // number of ranks in the file, one page each
  Word rank, process, signal;
  std::array<char, kHostBytes> host;
  std::array<Slot, FlightRecorder::kCalls> calls;
};

namespace {

// Logs of this process for signal handlers, which must not lock or allocate.
constexpr size_t kMostLogs = 64;
std::array<std::atomic<FlightPage*>, kMostLogs> g_logs{};
std::atomic<int> g_noting{0};  // running handlers, which may use a pointer of g_logs

void replace_log(FlightPage* from, FlightPage* to) {
  for (auto& place : g_logs) {
    FlightPage* expected = from;
    if (place.compare_exchange_strong(expected, to)) return;
  }
}

size_t bytes_of(size_t ranks) { return ranks * sizeof(FlightPage); }

FlightPage* map_pages(size_t ranks, int file) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const memory = ::mmap(nullptr, bytes_of(ranks), PROT_READ | PROT_WRITE, flags, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<FlightPage*>(memory);
}

/// `from` must not be written meanwhile.
void copy_page(FlightPage& from, FlightPage& to) {
  for (Word FlightPage::*word : {&FlightPage::ranks, &FlightPage::rank, &FlightPage::process, &FlightPage::signal})
    (to.*word).store((from.*word).load());
  to.host = from.host;
  for (size_t i = 0; i < from.calls.size(); ++i)
    for (Word Slot::*word :
         {&Slot::issued_us, &Slot::seq, &Slot::count, &Slot::kinds, &Slot::root, &Slot::finished, &Slot::number})
      (to.calls[i].*word).store((from.calls[i].*word).load());
  to.magic.store(kMagic, std::memory_order_release);
}

/// Absent while the slot is being written, or when its contents are invalid.
bool read_slot(const Slot& slot, RecordedCall& out) {
  out.number = slot.number.load(std::memory_order_acquire);
  if (out.number == 0) return false;
  out.issued_us = static_cast<int64_t>(slot.issued_us.load(std::memory_order_acquire));
  out.call.seq = slot.seq.load(std::memory_order_acquire);
  out.call.count = slot.count.load(std::memory_order_acquire);
  const uint64_t kinds = slot.kinds.load(std::memory_order_acquire);
  out.call.root = static_cast<int>(static_cast<int64_t>(slot.root.load(std::memory_order_acquire)));
  out.finished = slot.finished.load(std::memory_order_acquire) == out.number;
  if (slot.number.load(std::memory_order_relaxed) != out.number) return false;
  const uint64_t kind = kinds & 0xff, type = kinds >> 8 & 0xff, op = kinds >> 16 & 0xff;
  if (kind > static_cast<uint64_t>(CollectiveKind::exchange) || type > static_cast<uint64_t>(DType::u32) ||
      op > static_cast<uint64_t>(ReduceOp::avg))
    return false;
  out.call.kind = static_cast<CollectiveKind>(kind);
  out.call.type = static_cast<DType>(type);
  out.call.op = static_cast<ReduceOp>(op);
  out.world_size = static_cast<int>(kinds >> 24 & 0xffff);
  return true;
}

RankFlight read_page(const FlightPage& page) {
  RankFlight flight;
  flight.rank = static_cast<int>(page.rank.load(std::memory_order_relaxed));
  flight.process = static_cast<int64_t>(page.process.load(std::memory_order_relaxed));
  flight.signal = static_cast<int>(page.signal.load(std::memory_order_relaxed));
  flight.host.assign(page.host.data(), ::strnlen(page.host.data(), kHostBytes));
  for (const Slot& slot : page.calls) {
    RecordedCall call;
    if (read_slot(slot, call)) flight.calls.push_back(call);
  }
  std::sort(flight.calls.begin(), flight.calls.end(),
            [](const RecordedCall& a, const RecordedCall& b) { return a.number < b.number; });
  return flight;
}

/// Adds the ranks of a file.
void read_file(const std::filesystem::path& path, std::vector<RankFlight>& out) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  struct stat found {};
  const bool usable = ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0 &&
                      static_cast<size_t>(found.st_size) % sizeof(FlightPage) == 0;
  const size_t bytes = usable ? static_cast<size_t>(found.st_size) : 0;
  void* const memory = usable ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  if (memory != MAP_FAILED) {
    const bool alive = ::flock(file, LOCK_EX | LOCK_NB) != 0;  // the process holds the lock until it ends in any manner
    const auto* pages = static_cast<const FlightPage*>(memory);
    for (size_t i = 0; i < bytes / sizeof(FlightPage); ++i) {
      if (pages[i].magic.load(std::memory_order_acquire) != kMagic) continue;
      out.push_back(read_page(pages[i]));
      out.back().alive = alive;
    }
    ::munmap(memory, bytes);
  }
  ::close(file);
}

}  // namespace

FlightLog::FlightLog(const std::vector<int>& ranks)
    : recorders_(ranks.size()), pages_(map_pages(std::max<size_t>(ranks.size(), 1), -1)) {
  if (!pages_) throw std::bad_alloc();
  for (size_t i = 0; i < ranks.size(); ++i) {
    FlightPage& page = pages_[i];
    page.ranks.store(ranks.size());
    page.rank.store(static_cast<uint64_t>(ranks[i]));
    page.process.store(static_cast<uint64_t>(::getpid()));
    ::gethostname(page.host.data(), page.host.size() - 1);
    page.magic.store(kMagic, std::memory_order_release);
    recorders_[i].page_ = &page;
  }
  replace_log(nullptr, pages_);
}

FlightLog::~FlightLog() {
  if (!path_.empty() && std::uncaught_exceptions() == 0) {
    std::error_code error;
    std::filesystem::remove(path_, error);
    std::filesystem::remove(path_.parent_path(), error);  // succeeds when the folder is empty
  }
  use(nullptr);
  if (file_ >= 0) ::close(file_);
}

/// Switches recorders and handlers to other pages and unmaps the previous ones.
void FlightLog::use(FlightPage* pages) noexcept {
  replace_log(pages_, pages);
  while (g_noting.load() > 0) std::this_thread::yield();
  ::munmap(pages_, bytes_of(std::max<size_t>(recorders_.size(), 1)));
  pages_ = pages;
  for (size_t i = 0; pages && i < recorders_.size(); ++i) recorders_[i].page_ = &pages[i];
}

bool FlightLog::keep_in(const std::filesystem::path& folder) noexcept try {
  if (recorders_.empty() || !path_.empty()) return false;
  const std::filesystem::path path = folder / fmt::format("rank-{}", pages_->rank.load());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return false;
  // Allocates the blocks, because a store into a hole on a full disk raises SIGBUS.
  const bool locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  const bool there = locked && ::posix_fallocate(file, 0, static_cast<off_t>(bytes_of(recorders_.size()))) == 0;
  FlightPage* const pages = there ? map_pages(recorders_.size(), file) : nullptr;
  if (!pages) {
    ::close(file);
    if (locked) ::unlink(path.c_str());
    return false;
  }
  for (size_t i = 0; i < recorders_.size(); ++i) copy_page(pages_[i], pages[i]);
  use(pages);
  file_ = file;
  path_ = path;
  return true;
} catch (...) {
  return false;
}

int64_t unix_time_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t FlightRecorder::issued(const CollectiveCall& call, int world_size) noexcept {
  const uint64_t number = ++next_;
  Slot& slot = page_->calls[number % kCalls];
  constexpr auto after_zero = std::memory_order_release;  // readers of these also see number 0 or the new number
  slot.number.store(0, std::memory_order_relaxed);
  slot.issued_us.store(static_cast<uint64_t>(unix_time_us()), after_zero);
  slot.seq.store(call.seq, after_zero);
  slot.count.store(call.count, after_zero);
  slot.kinds.store(pack_kinds(call, world_size), after_zero);
  slot.root.store(static_cast<uint64_t>(static_cast<int64_t>(call.root)), after_zero);
  slot.number.store(number, std::memory_order_release);
  return number;
}

void FlightRecorder::finished(uint64_t number) noexcept {
  page_->calls[number % kCalls].finished.store(number, std::memory_order_relaxed);
}

RankFlight FlightRecorder::snapshot() const { return read_page(*page_); }

std::vector<RankFlight> read_flights(const std::filesystem::path& folder) {
  std::vector<RankFlight> flights;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("rank-")) read_file(entry.path(), flights);
  std::sort(flights.begin(), flights.end(), [](const RankFlight& a, const RankFlight& b) { return a.rank < b.rank; });
  return flights;
}

void note_signal_in_flights(int signal) noexcept {
  g_noting.fetch_add(1);
  for (auto& place : g_logs) {
    FlightPage* const pages = place.load();
    for (uint64_t i = 0; pages && i < pages->ranks.load(); ++i) pages[i].signal.store(static_cast<uint64_t>(signal));
  }
  g_noting.fetch_sub(1);
}

}  // namespace amdahl
