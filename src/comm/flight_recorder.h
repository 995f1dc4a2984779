// Flight recorder: the last collectives that a rank issued, and their state.
//
// It is always on. The calls are in a memory page, which is moved to a mapped file of the run folder once there is one,
// so that other ranks and `amdahl report` can read the last calls of a rank even when it was killed. A call costs two
// reads of the clock and a few stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_call.h"

namespace amdahl {

/// A recorded call.
struct RecordedCall {
  CollectiveCall call;
  int world_size = 0;     // ranks of its communicator
  uint64_t number = 0;    // number of the rank's call over all its communicators, from 1
  int64_t issued_us = 0;  // Unix time
  bool finished = false;  // as known to the host: calls on GPU streams stay unfinished
};

/// State of a rank.
struct RankFlight {
  int rank = 0;
  int64_t process = 0;  // process ID on `host`
  std::string host;
  bool alive = true;                // its process still locks the file
  int signal = 0;                   // last signal that its process recorded; 0: none
  std::vector<RecordedCall> calls;  // oldest first, at most FlightRecorder::kCalls
};

struct FlightPage;

/// The recorder of one rank. Thread safety: see each function.
class FlightRecorder {
 public:
  static constexpr size_t kCalls = 128;  // more than a usual queue of calls that have not started

  /// Returns the call's number. Called by the rank's host thread only.
  uint64_t issued(const CollectiveCall& call, int world_size) noexcept;
  /// Ignores numbers that the ring buffer has already overwritten. Thread-safe.
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
  /// Removes its file, except during stack unwinding: then it is kept as evidence.
  ~FlightLog();
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  /// Moves the pages to a file in the existing `folder`. False when that is not possible (no such folder on this host,
  /// a full disk); recording then continues in memory. Must not be called while a rank works.
  bool keep_in(const std::filesystem::path& folder) noexcept;

  /// The recorder of the `index`-th rank; it keeps the log alive.
  static std::shared_ptr<FlightRecorder> recorder(const std::shared_ptr<FlightLog>& log, size_t index) {
    return {log, &log->recorders_[index]};
  }

 private:
  void use(FlightPage* pages) noexcept;

  std::vector<FlightRecorder> recorders_;
  FlightPage* pages_ = nullptr;
  int file_ = -1;               // locked while this process lives
  std::filesystem::path path_;  // empty: in memory
};

/// Handle to mark a recorded call as finished. Copied into queued work.
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

/// The ranks whose pages are in `folder`, in rank order; unreadable pages are omitted.
std::vector<RankFlight> read_flights(const std::filesystem::path& folder);

/// Writes the signal into the pages of every log of this process. Async-signal-safe.
void note_signal_in_flights(int signal) noexcept;

}  // namespace amdahl
