// Writes results of verbs to files that the caller names.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "amdahl/report.h"
#include "comm/world.h"
#include "files/output_place.h"
#include "files/whole_file.h"
#include "spec/run_folder.h"

namespace amdahl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCommandFile = "command.txt";  // of run_all

bool holds_run(const fs::path& dir) {
  std::error_code error;
  return fs::exists(records_file(dir), error) || fs::exists(dir / kCommandFile, error);
}

}  // namespace

std::string put_run_aside(const std::string& dir, const std::map<std::string, std::string>& environment) {
  std::error_code error;
  if (detect_launch(environment).rank != 0 || !fs::is_directory(dir, error) || fs::is_empty(dir, error)) return {};
  if (!holds_run(dir))
    throw Error(Cause::usage, fmt::format("{} holds no run that could be replaced", dir), "another folder");
  const fs::path folder = fs::canonical(dir, error);
  const fs::path aside = folder.parent_path() / fmt::format("{}.before-{}", folder.filename().string(), ::getpid());
  fs::rename(folder, aside, error);
  if (error) throw_write_error(folder, "move it aside", error.value());
  return aside.string();
}

void settle_run_aside(const std::string& dir, const std::string& aside) {
  if (aside.empty()) return;
  std::error_code error;
  if (holds_run(dir)) {
    fs::remove_all(aside, error);
    return;
  }
  fs::remove_all(dir, error);
  fs::rename(aside, dir, error);
  if (error) throw_write_error(dir, "move the earlier run back", error.value());
}

void save_text(const std::string& path, const std::string& text) { write_atomic(path, text); }

Availability check_output(const std::string& path) { return writable(output_place(path)); }

bool is_stream(const std::string& path) { return output_place(path).is_stream(); }

}  // namespace amdahl
