#include "setup/fresh_processes.h"

#include <fmt/format.h>

#include <optional>

#include "base/child_process.h"
#include "comm/world.h"
#include "setup/failure_watch.h"
#include "setup/temporary_folder.h"

namespace amdahl {
namespace {

constexpr double kMostSeconds = 30 * 24 * 3600.0;  // each process has its own deadlines for every wait

std::optional<Cause> cause_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Cause::internal); ++i)
    if (to_string(static_cast<Cause>(i)) == name) return static_cast<Cause>(i);
  return std::nullopt;
}

/// Parses "error[usage]: what; try: remedy" from a process's standard error.
std::optional<Error> error_in(const std::string& text, const std::string& who) {
  constexpr std::string_view kBegin = "error[", kTryText = "; try: ";
  const size_t begin = text.find(kBegin), close = text.find("]: ", begin);
  if (begin == std::string::npos || close == std::string::npos) return std::nullopt;
  const auto cause = cause_named(std::string_view(text).substr(begin + kBegin.size(), close - begin - kBegin.size()));
  if (!cause) return std::nullopt;
  const std::string line = text.substr(close + 3, text.find('\n', close) - close - 3);
  const size_t remedy = line.find(kTryText);
  return Error(*cause, who + ": " + line.substr(0, remedy),
               remedy == std::string::npos ? "" : line.substr(remedy + kTryText.size()));
}

void pass_warnings(const std::string& text, Observer& observer) {
  constexpr std::string_view kBegin = "warning: ";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with(kBegin)) observer.warning(line.substr(kBegin.size()));
    begin = end + 1;
  }
}

void run_slice(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
               const FreshProcesses::Slice& slice, Observer& observer) {
  ChildCommand command{processes.program, processes.arguments, environment};
  command.arguments.push_back(fmt::format("{}:{}:{}:{}", slice.index, slice.first, slice.end, slice.run_dir));
  const ChildResult result =
      run_children({command}, Deadline::after_seconds(kMostSeconds), [&] { return observer.cancelled(); }).front();
  if (observer.cancelled())
    throw Error(Cause::interrupted, "stopped by the user; the processes measured so far are kept",
                "fewer processes for a shorter run");
  pass_warnings(result.err, observer);
  if (result.end == ChildResult::End::exited && result.code == 0) return;
  const std::string who = fmt::format("process {} of {}", slice.index + 1, processes.count);
  if (const auto error = error_in(result.err, who)) throw *error;
  if (result.end == ChildResult::End::signalled) {
    const SignalledError error(fmt::format("{} was ended by signal {}", who, result.code), result.code);
    leave_failure(slice.run_dir, error);
    throw error;
  }
  throw Error(Cause::rank_died, fmt::format("{} ended with code {}", who, result.code));
}

}  // namespace

void check_fresh_processes(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
                           const char* field) {
  constexpr int kMost = 1000;
  if (processes.count < 1 || processes.count > kMost)
    throw Error(Cause::usage, fmt::format("{} is {}", field, processes.count), fmt::format("1 to {}", kMost));
  if (processes.count == 1 || processes.is_child()) return;
  if (processes.program.empty()) throw Error(Cause::usage, "fresh processes have no program", "the path of amdahl");
  const LaunchContext launch = detect_launch(environment);
  if (launch.multi_process())
    throw Error(
        Cause::usage,
        fmt::format("{} is {}, and {} started this process as one of several", field, processes.count, launch.family),
        fmt::format("{} launches without it, and compare their folders as A1+A2+A3", processes.count));
}

void run_fresh_processes(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
                         const std::vector<FreshProcesses::Slice>& slices, Observer& observer) {
  int done = 0;
  const int total = static_cast<int>(slices.size());
  for (const FreshProcesses::Slice& slice : slices) {
    observer.progress(done, total, fmt::format("process {} of {}", done + 1, total));
    run_slice(processes, environment, slice, observer);
    ++done;
  }
  observer.progress(done, total, fmt::format("{} processes", total));
}

RunFolder open_run_folder(const FreshProcesses& processes, const std::string& run_dir, const RunHeader& given) {
  RunHeader header = given;
  if (processes.count > 1) header.config["processes"] = std::to_string(processes.count);
  return processes.is_child() ? RunFolder::resume(run_dir, header) : RunFolder::create(run_dir, header);
}

void mark_process(Record& record, const FreshProcesses& processes) {
  if (processes.is_child()) record.axes[kProcessAxis] = static_cast<int64_t>(processes.slice.index);
}

std::vector<Record> repeat_in_processes(const FreshProcesses& processes,
                                        const std::map<std::string, std::string>& environment,
                                        const std::string& run_dir, const RunHeader& header, Observer& observer) {
  std::optional<TemporaryFolder> temporary;
  if (run_dir.empty()) temporary.emplace(environment);
  const std::string folder = temporary ? (temporary->path() / "run").string() : run_dir;
  open_run_folder(processes, folder, header);
  std::vector<FreshProcesses::Slice> slices;
  for (int i = 0; i < processes.count; ++i) slices.push_back({i, 0, 1, folder});
  run_fresh_processes(processes, environment, slices, observer);
  end_run(folder);
  return read_records(folder);
}

}  // namespace amdahl
