// Records in failure.json of a run folder why a run ended early.
#pragma once

#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <string>

#include "amdahl/error.h"
#include "spec/failure.h"
#include "spec/run_folder.h"

namespace amdahl {

/// Combines the error with the flight recorders that the ranks keep in the folder.
Failure describe_failure(const std::filesystem::path& run_dir, const Error& error);

/// Writes failure.json, unless it exists already or the folder cannot be written.
void leave_failure(const std::filesystem::path& run_dir, const Error& error) noexcept;

/// Reads failure.json; without it, reconstructs the failure from the flight recorders of ranks that ended without
/// reporting an error. nullopt for a run that ended normally or is still running.
std::optional<Failure> failure_of(const std::filesystem::path& run_dir);

/// failure_of in one line, or empty. An unreadable failure.json is reported in the line too.
std::string failure_note(const std::filesystem::path& run_dir);

/// Error{store_corrupt} for a run without records; it includes the run's failure, if known.
void require_records(const std::string& run_dir, const RunContents& contents);

/// Tells the other ranks of a launched job why this one ends before they have met.
void tell_other_ranks(const std::map<std::string, std::string>& environment, const Error& error) noexcept;

class FailureWatch {
 public:
  /// The ranks of the job know each other from now on, and the fleet tells them of failures.
  void met() { has_met_ = true; }
  /// Sets the run folder; empty: the run has none.
  void begin(const std::filesystem::path& run_dir) { run_dir_ = run_dir; }

  /// Runs `work(watch)`; records what it throws in the folder, then rethrows. `environment`: that of a command that
  /// launchers may start, which calls met().
  template <class Work>
  static auto over(const Work& work, const std::map<std::string, std::string>& environment = {}) {
    FailureWatch watch;
    try {
      return work(watch);
    } catch (const Error& error) {
      leave_failure(watch.run_dir_, error);
      if (!watch.has_met_) tell_other_ranks(environment, error);
      throw;
    } catch (const std::bad_alloc&) {
      leave_failure(watch.run_dir_, Error(Cause::out_of_memory, "host memory ran out", "a smaller batch or model"));
      throw;
    }
  }

 private:
  std::filesystem::path run_dir_;
  bool has_met_ = false;
};

}  // namespace amdahl
