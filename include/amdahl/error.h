// Errors of the public API, the references to fields in their texts, and the texts of sizes and counts. An Error ends a
// verb; Status, Feasibility and Availability are results that describe why something expected is not possible.
//
// Example:
//   try {
//     config.buffer_bytes = amdahl::parse_whole("32M", amdahl::Unit::bytes, "buffer");  // 33554432
//     amdahl::run_links(config, observer);
//   } catch (const amdahl::Error& error) {
//     std::fprintf(stderr, "%s\n", error.line().c_str());
//     return exit_code(error.cause());
//   }
//
// Texts of the library refer to fields of the configuration in backticks: `batch_sizes`, with a value `strategy=ddp`,
// of another verb `study resume` or `links machine=FILE`. Words are separated by one space; a value contains neither
// spaces nor backticks. A program translates them into its own names, for example of options:
//   amdahl::set_field_namer([](const std::vector<amdahl::FieldWord>& words) {
//     return words[0].name == "batch_sizes" ? std::string("batch sizes of the form") : std::string();
//   });
//
// All functions are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

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

/// A word of a reference: part of a verb's name, or a field with an optional value.
struct FieldWord {
  std::string name;  // lower case, digits and underscores
  std::optional<std::string> value{};
};

/// Returns the user's name of a reference; an empty string leaves the reference as it is. The result is not searched
/// for references again. Called by any thread.
using FieldNamer = std::string (*)(const std::vector<FieldWord>& words);

/// Sets the namer for errors and texts that any thread makes from now on; nullptr: references stay as they are.
AMDAHL_API void set_field_namer(FieldNamer namer);

/// `text` with each reference replaced by its user's name.
AMDAHL_API std::string named(std::string_view text);
/// The user's name of one reference, whose values may contain any characters.
AMDAHL_API std::string named_reference(const std::vector<FieldWord>& words);

/// What a number means, and with it the suffixes that it may have:
///   number    -1.5, without suffixes
///   count     54403, 54,403, 250k or 6.9M; multiples are decimal
///   bytes     8, 32M (2^25, binary as in nccl-tests) or 1GiB
///   seconds   90, 500ms, 90s, 5m or 1h
///   fraction  0.01 or 1%
///   percent   3 or 3%
///   rate      230 or 230GB/s; in GB/s
enum class Unit { number, count, bytes, seconds, fraction, percent, rate };

/// Parses a number of that unit, suffixes in any case. Error{usage} that names `what` ("--timeout", or with the part of
/// the option's value: "--trace batch=") and proposes a value near `text`.
AMDAHL_API double parse_quantity(std::string_view text, Unit unit, std::string_view what);
/// The same for whole numbers of at least 0. A suffix makes a whole number of a fraction: 0.3k is 300.
AMDAHL_API int64_t parse_whole(std::string_view text, Unit unit, std::string_view what);
/// Numbers of that unit, separated by commas.
AMDAHL_API std::vector<double> parse_quantities(std::string_view text, Unit unit, std::string_view what);
/// Whole numbers of at least `minimum` in the form of `example`, "200x200x40" or "10:13": as many, between the same
/// separators.
AMDAHL_API std::vector<int64_t> parse_like(std::string_view example, std::string_view text, std::string_view what,
                                           int64_t minimum = 1);
/// Parses "1,2,4", "1..8x2" (1,2,4,8), "0..3" or "500k,1M" to integers of at least `minimum`. Error{usage} that names
/// `what`.
AMDAHL_API std::vector<int64_t> parse_count_list(std::string_view text, std::string_view what, int64_t minimum = 1);
/// 6885376 as "6,885,376".
AMDAHL_API std::string with_thousands(int64_t value);
/// Bytes as "27.5 MB" (decimal).
AMDAHL_API std::string format_bytes(double bytes);
/// Seconds as "1h05m", "1m20s", "1.5 s", "850 ms" or "12 us".
AMDAHL_API std::string format_duration(double seconds);
/// Text of unknown origin, made safe for a terminal: control characters and invalid UTF-8 become \xNN, and a text of
/// more than `longest` bytes is cut in the middle.
AMDAHL_API std::string printable(std::string_view text, size_t longest = std::string_view::npos);
/// The entry of `known` with the least edit distance to `word`, or that begins with it; empty when none is close.
AMDAHL_API std::string nearest_name(std::string_view word, const std::vector<std::string>& known);
/// Remedy for an unknown name: "medium? or one of medium, large".
AMDAHL_API std::string choices_hint(std::string_view word, const std::vector<std::string>& known);

}  // namespace amdahl
