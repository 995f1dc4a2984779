// Errors of the public API. An Error ends a verb; Status, Feasibility and Availability are results that describe why
// something expected is not possible.
//
// Example:
//   try {
//     amdahl::run_study(config, observer);
//   } catch (const amdahl::Error& error) {
//     std::fprintf(stderr, "%s\n", error.line().c_str());
//     return exit_code(error.cause());
//   }
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#define AMDAHL_API __attribute__((visibility("default")))

namespace amdahl {

/// Why a job ended. The names returned by `to_string` are part of the API and never change meaning.
enum class Cause {
  usage,                // the request is invalid: unknown names, values out of range, contradictions
  check_failed,         // a threshold, a regression gate or a verification failed
  environment_missing,  // requested hardware or library is not present
  launcher_mismatch,    // launchers disagree about rank or world size
  rank_died,            // a peer process or thread ended early
  rank_hung,            // a peer did not arrive before the deadline
  collective_mismatch,  // ranks called different collectives or sizes
  peer_unreachable,     // no connection to a peer
  device_error,         // a call of a device or its library failed
  out_of_memory,        // device or host memory ran out
  data_corrupt,         // input data does not have the format that it claims to have
  store_corrupt,        // a run folder, record or summary cannot be parsed
  version_refused,      // a document has a schema version that this build does not know
  disk_full,            // output could not be written
  non_finite,           // NaN or infinity in data or loss
  interrupted,          // SIGINT or SIGTERM
  internal,             // an invariant of amdahl does not hold: a bug
};

/// Stable hyphenated name, for example "rank-died".
AMDAHL_API std::string_view to_string(Cause cause);

/// Process exit code of a cause. 1: check_failed, non_finite, internal. 2: usage, launcher_mismatch, data_corrupt.
/// 3: environment_missing, out_of_memory. 4: rank_died, collective_mismatch, peer_unreachable, device_error.
/// 5: store_corrupt, version_refused. 6: rank_hung. 7: disk_full. 130: interrupted.
AMDAHL_API int exit_code(Cause cause);

/// The only exception type that amdahl itself throws: what happened and where, and what to do about it. Objects are
/// immutable; concurrent reads are safe.
class AMDAHL_API Error : public std::runtime_error {
 public:
  Error(Cause cause, const std::string& message, std::string remedy = {}, int rank = -1);

  Cause cause() const { return cause_; }
  /// What the user can do; empty without a useful suggestion.
  const std::string& remedy() const { return remedy_; }
  /// Rank that raised it, or -1 outside a parallel section.
  int rank() const { return rank_; }
  /// One line: "error[cause]: message; try: remedy". Control characters are escaped and long messages shortened.
  std::string line() const;
  /// The same error, attributed to a rank.
  Error with_rank(int rank) const;

 private:
  Cause cause_;
  std::string remedy_;
  int rank_;
};

/// Whether a plan can run, and the reason when it cannot.
struct Feasibility {
  bool ok = true;
  std::string reason;
};

/// Whether an optional backend is usable in this build on this machine, and reason and remedy when it is not.
struct Availability {
  bool ok = false;
  std::string reason;
  std::string remedy;
};

/// Outcome of one measurement. `waived`: it does not apply here, for the given reason.
struct Status {
  enum class Kind { ok, waived, failed };
  Kind kind = Kind::ok;
  std::string reason;
};

}  // namespace amdahl
