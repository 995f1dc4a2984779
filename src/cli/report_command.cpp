// amdahl report: text and Markdown of single runs, or a page about all of them.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/output.h"

extern char** environ;

namespace amdahl::cli {
namespace {

namespace fs = std::filesystem;

// The path of a program in PATH; empty when it is not found.
std::string find_program(const std::string& name) {
  const auto environment = process_environment();
  const auto found = environment.find("PATH");
  std::string path = found == environment.end() ? "/usr/bin:/bin" : found->second;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    std::error_code error;
    if (end > begin && fs::is_regular_file(candidate, error) && access(candidate.c_str(), X_OK) == 0)
      return candidate.string();
    begin = end + 1;
  }
  return {};
}

// Interpreters that may draw the pictures of Markdown: the requested one, otherwise this build's, then the one in PATH.
std::vector<std::string> picture_pythons() {
  const auto environment = process_environment();
  if (const auto chosen = environment.find("AMDAHL_CHART_PYTHON"); chosen != environment.end()) return {chosen->second};
  return {"", find_program("python3")};
}

// Starts the opener in the background, because some openers run until the browser is closed. A failing one ends within
// a second.
void open_page(const std::string& file) {
  std::string opener = find_program("xdg-open");
  if (opener.empty())
    throw Error(Cause::environment_missing, "--open: there is no xdg-open on this machine",
                fmt::format("open {} in a browser", file));
  std::string path = fs::absolute(file).string();
  char* arguments[] = {opener.data(), path.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, opener.c_str(), nullptr, nullptr, arguments, environ) != 0)
    throw Error(Cause::environment_missing, fmt::format("--open: {} cannot be started", opener),
                fmt::format("open {} in a browser", file));
  for (int i = 0; i < 100; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
      throw Error(Cause::environment_missing, fmt::format("--open: {} found no browser", opener),
                  fmt::format("open {} in one", file));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

int page_command(const ReportArgs& args) {
  if (args.talk.json)
    throw Error(Cause::usage, "--json with --html, --md or --open",
                "the page holds the records as JSON, or two commands");
  PageConfig config = args.page;
  if (args.open && config.html.empty()) {
    const fs::path run(config.runs.front());
    config.html = ((fs::is_directory(run) ? run : run.parent_path()) / "report.html").string();
  }
  if (!config.markdown.empty()) config.picture_pythons = picture_pythons();
  const PageOutcome outcome = run_page_report(config);
  for (const std::string& note : outcome.notes) show(stderr, fmt::format("warning: {}\n", note));
  if (!args.talk.quiet) {
    show(stdout, fmt::format("{}{}\n", outcome.title, outcome.qualifier.empty() ? "" : " (" + outcome.qualifier + ")"));
    show(stdout, fmt::format("{}\n", outcome.verdict));
  }
  for (const std::string& file : outcome.written) show(stdout, fmt::format("report: {}\n", file));
  std::fflush(stdout);
  if (outcome.problem) throw *outcome.problem;
  if (args.open) open_page(config.html);
  return 0;
}

/// Whether the report can be written to the folder. Runs in a folder of another user, or on a read-only file system,
/// are still reported.
bool keeps_reports(const std::string& run) {
  std::error_code error;
  const fs::path folder = fs::is_directory(run, error) ? fs::path(run) : fs::path(run).parent_path();
  return access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
}

void show_report(const std::string& run, const Talk& talk) {
  const bool keeps = keeps_reports(run);
  const ReportOutcome outcome = run_report(run, keeps);
  for (const std::string& note : outcome.notes) show(stderr, fmt::format("warning: {}\n", note));
  if (talk.json)
    show_data(outcome.json + "\n");
  else
    show(stdout, outcome.text);
  if (keeps)
    show(talk.json ? stderr : stdout, fmt::format("report: {}\n", outcome.report_path));
  else
    show(stderr, fmt::format("warning: {} cannot be written into: no report is kept there\n", run));
}

}  // namespace

int report_command(const ReportArgs& args) {
  if (args.open || !args.page.html.empty() || !args.page.markdown.empty()) return page_command(args);
  const std::vector<std::string> runs = find_runs(args.page.runs);
  if (args.talk.json && runs.size() > 1)
    throw Error(Cause::usage, fmt::format("--json of {} runs", runs.size()), "one run, or --html FILE for all");
  std::optional<Error> problem;  // error of one run, while other runs have a report
  for (const std::string& run : runs) {
    try {
      show_report(run, args.talk);
    } catch (const Error& error) {
      const bool of_run = error.cause() == Cause::usage || error.cause() == Cause::store_corrupt ||
                          error.cause() == Cause::version_refused;
      if (!of_run || runs.size() == 1) throw;
      if (problem) show(stderr, fmt::format("warning: {}\n", problem->what()));
      problem = error;
    }
  }
  if (!problem) return 0;
  std::fflush(stdout);
  throw *problem;
}

}  // namespace amdahl::cli
