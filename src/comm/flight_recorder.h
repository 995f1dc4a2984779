// Flight recorder: the last collectives that a rank issued, and how far they got.
//
// It is always on. The calls lie in a page of memory that becomes a file of the run folder as soon as there is one, so
// that the other ranks and `amdahl report` can read what a rank did last even when the rank was killed. A call costs
// two reads of the clock and a few stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_call.h"

namespace amdahl {

/// A call as the recorder has it.
struct RecordedCall {
  CollectiveCall call;
  int world_size = 0;     // ranks of its communicator
  uint64_t number = 0;    // counts the rank's calls on all its communicators from 1
  int64_t issued_us = 0;  // Unix time
  bool finished = false;  // as far as the host knows: calls on GPU streams stay unfinished here
};

/// What is known of a rank.
struct RankFlight {
  int rank = 0;
  int64_t process = 0;  // its number on `host`
  std::string host;
  bool alive = true;                // its process still holds the file
  int signal = 0;                   // the last one that its process noted; 0: none
  std::vector<RecordedCall> calls;  // oldest first, at most FlightRecorder::kCalls
};

struct FlightPage;

/// Of one rank.
class FlightRecorder {
 public:
  static constexpr size_t kCalls = 128;  // a queue of calls that have not begun fits

  /// By the rank's host thread. Returns the call's number.
  uint64_t issued(const CollectiveCall& call, int world_size) noexcept;
  /// By any thread. A number that the ring has dropped already is no error.
  void finished(uint64_t number) noexcept;
  RankFlight snapshot() const;

 private:
  friend class FlightLog;
  FlightPage* page_ = nullptr;
  uint64_t next_ = 0;  // host thread only
};

/// The recorders of the ranks of this process.
class FlightLog {
 public:
  explicit FlightLog(const std::vector<int>& ranks);
  /// Removes its file, unless an exception is on its way: then the file is evidence.
  ~FlightLog();
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  /// Keeps the pages as a file of `folder` from now on; `folder` must be there. False where that is impossible (no such
  /// folder on this host, a full disk): it goes on in memory. Not while a rank is at work.
  bool keep_in(const std::filesystem::path& folder) noexcept;

  /// Of the `index`-th of the ranks; keeps the log alive.
  static std::shared_ptr<FlightRecorder> recorder(const std::shared_ptr<FlightLog>& log, size_t index) {
    return {log, &log->recorders_[index]};
  }

 private:
  void use(FlightPage* pages) noexcept;

  std::vector<FlightRecorder> recorders_;
  FlightPage* pages_ = nullptr;
  int file_ = -1;               // locked as long as this process lives
  std::filesystem::path path_;  // empty: in memory
};

/// One call on its way, to be told when it has ended. Copied into queued work.
class FlightNote {
 public:
  FlightNote() = default;
  FlightNote(std::shared_ptr<FlightRecorder> recorder, uint64_t number)
      : recorder_(std::move(recorder)), number_(number) {}
  void finished() const noexcept {
    if (recorder_) recorder_->finished(number_);
  }

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  uint64_t number_ = 0;
};

/// The clock of RecordedCall::issued_us.
int64_t unix_time_us();

/// The ranks whose pages lie in `folder`, in rank order; pages that cannot be read are left out.
std::vector<RankFlight> read_flights(const std::filesystem::path& folder);

/// Writes the signal into the pages of every log of this process. Async-signal-safe.
void note_signal_in_flights(int signal) noexcept;

}  // namespace amdahl
