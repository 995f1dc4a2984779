// What ends a run before its time is left in its folder as failure.json.
#pragma once

#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "amdahl/error.h"
#include "spec/failure.h"
#include "spec/run_folder.h"

namespace amdahl {

/// The error, and what the ranks that keep their flight recorders in the folder did last.
Failure describe_failure(const std::filesystem::path& run_dir, const Error& error);

/// Writes failure.json, unless there is one or the folder cannot be written.
void leave_failure(const std::filesystem::path& run_dir, const Error& error) noexcept;

/// failure.json; else, where ranks of the run ended without a word, what their flight recorders say. Nothing of a run
/// that ended well or goes on.
std::optional<Failure> failure_of(const std::filesystem::path& run_dir);

/// failure_of in one line, or empty. One that cannot be read is a line too.
std::string failure_note(const std::filesystem::path& run_dir);

/// Error{store_corrupt} for a run without records: what its failure says, where it has one.
void require_records(const std::string& run_dir, const RunContents& contents);

class FailureWatch {
 public:
  /// From now on the folder is this run's; empty: it has none.
  void begin(const std::filesystem::path& run_dir) { run_dir_ = run_dir; }

  /// Runs `work(watch)`; what it throws goes into the folder first.
  template <class Work>
  static auto over(const Work& work) {
    FailureWatch watch;
    try {
      return work(watch);
    } catch (const Error& error) {
      leave_failure(watch.run_dir_, error);
      throw;
    } catch (const std::bad_alloc&) {
      leave_failure(watch.run_dir_, Error(Cause::out_of_memory, "host memory ran out", "a smaller batch or model"));
      throw;
    }
  }

 private:
  std::filesystem::path run_dir_;
};

}  // namespace amdahl
