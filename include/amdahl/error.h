// Errors of the public API. An Error ends the job; Status, Feasibility and Availability describe the expected.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#define AMDAHL_API __attribute__((visibility("default")))

namespace amdahl {

/// Why a job ended. The names returned by `to_string` are part of the API and never change meaning.
enum class Cause {
  usage,                // the caller asked for something that does not exist or cannot be
  check_failed,         // a threshold, a regression gate or a verification failed
  environment_missing,  // hardware or a library that was asked for is not here
  launcher_mismatch,    // launchers disagree about rank or world size
  rank_died,            // a peer process or thread ended before its time
  rank_hung,            // a peer did not arrive before the deadline
  collective_mismatch,  // ranks called different collectives or sizes
  peer_unreachable,     // no connection to a peer could be made
  device_error,         // a device call failed
  out_of_memory,        // device or host memory ran out
  data_corrupt,         // input data that cannot be read as what it claims to be
  store_corrupt,        // a run folder, record or summary that cannot be read
  version_refused,      // a document of a schema version that this build does not know
  disk_full,            // output could not be written
  non_finite,           // NaN or infinity in data or loss
  interrupted,          // SIGINT or SIGTERM
  internal,             // a broken invariant of amdahl itself
};

/// Stable hyphenated name, for example "rank-died".
AMDAHL_API std::string_view to_string(Cause cause);

/// Process exit code of a cause: 1 check, 2 usage, 3 environment, 4 rank, 5 corrupt, 6 timeout, 7 disk full, 130
/// interrupted.
AMDAHL_API int exit_code(Cause cause);

/// The one exception type of amdahl: what happened (with where), and what to do about it.
class AMDAHL_API Error : public std::runtime_error {
 public:
  Error(Cause cause, const std::string& message, std::string remedy = {}, int rank = -1);

  Cause cause() const { return cause_; }
  /// What the user can do; empty when nothing sensible can be said.
  const std::string& remedy() const { return remedy_; }
  /// Rank that raised it, or -1 outside a parallel section.
  int rank() const { return rank_; }
  /// One line: "error[cause]: message; try: remedy".
  std::string line() const;
  /// The same error, attributed to a rank.
  Error with_rank(int rank) const;

 private:
  Cause cause_;
  std::string remedy_;
  int rank_;
};

/// Whether a plan can run, with the reason when it cannot.
struct Feasibility {
  bool ok = true;
  std::string reason;
};

/// Whether an optional backend is usable in this build on this machine, with reason and remedy when it is not.
struct Availability {
  bool ok = false;
  std::string reason;
  std::string remedy;
};

/// Outcome of one measured series. `waived` means: it does not apply here, and the reason says why.
struct Status {
  enum class Kind { ok, waived, failed };
  Kind kind = Kind::ok;
  std::string reason;
};

}  // namespace amdahl
