// Times of whole commands: fresh processes, taking turns, a verdict by statistics. Plain data.
//
// Example:
//   amdahl::BenchConfig config;
//   config.commands = {"sort -n numbers.txt", "sort -n --parallel=8 numbers.txt"};
//   amdahl::Observer quiet;
//   std::puts(to_text(amdahl::run_bench(config, quiet)).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

struct BenchConfig {
  /// The first is the baseline of the others. Words between blanks; a command with characters of a shell (quotes,
  /// pipes, variables, patterns) is run by `sh -c`.
  std::vector<std::string> commands;
  std::vector<std::string> names;  // of the commands, in their order; empty: the commands themselves
  std::string prepare;             // command before every run, not timed; empty: none
  int64_t runs = 0;                // rounds, each of which runs every command once; 0: at least 10, and 3 s of each
  int64_t warmup = 1;              // rounds that are not counted
  double timeout_seconds = 600;    // of a run
  bool ignore_failure = false;     // runs that end with another code than 0 count too
  std::optional<double> fail_on_regression_percent;  // [0, 100]; absent: never
  std::string output_dir;                            // run folder; empty: none
  uint64_t seed = 42;                                // of the order within rounds
  std::map<std::string, std::string> environment;    // of the commands, complete
  std::string command_line;                          // recorded
};

/// One command, over its counted runs.
struct BenchedCommand {
  std::string name;
  SampleSummary time;                     // us, from fork to the end of the process
  double user_us = 0, system_us = 0;      // medians of the processor times of it and its ended children
  double peak_bytes = 0;                  // largest resident memory of one of its processes; at least amdahl's, some MB
  int64_t failed = 0;                     // runs that ended with another code than 0
  std::optional<PairTest> against_first;  // ratio above 1: faster than the first; absent for the first
};

struct BenchOutcome {
  std::vector<Record> records;  // one per run
  std::vector<BenchedCommand> commands;
  bool regression = false;  // a command is slower than the first by more than `fail_on_regression_percent`
};
AMDAHL_API std::string to_text(const BenchOutcome& outcome, int width = 0);
AMDAHL_API std::string to_markdown(const BenchOutcome& outcome);
/// RFC 4180, one row per run and quantity.
AMDAHL_API std::string to_csv(const BenchOutcome& outcome);
/// JSON, schema docs/schema/bench.schema.json.
AMDAHL_API std::string to_json(const BenchOutcome& outcome);
/// Runs the commands in rounds, in random order within each, one process at a time. Error{usage} for no command, names
/// that are not one per command or not different, counts below their least value, and a program that is not found;
/// Error{check_failed} for a run that ends with another code than 0 or by a signal, unless `ignore_failure`, with the
/// last line of its standard error; Error{rank_hung} for a run longer than `timeout_seconds`.
AMDAHL_API BenchOutcome run_bench(const BenchConfig& config, Observer& observer);

}  // namespace amdahl
