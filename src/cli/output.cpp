#include "cli/output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "amdahl/machine.h"
#include "amdahl/report.h"
#include "cli/color.h"

namespace amdahl::cli {

namespace {

std::mutex g_printing;
bool g_progress_shown = false;  // on the terminal's last line
bool g_result_begun = false;    // text went to stdout

void clear_progress() {
  if (std::exchange(g_progress_shown, false)) std::fputs("\r\033[K", stderr);
}

}  // namespace

void put_progress(const std::string& line, bool is_terminal) {
  const std::lock_guard lock(g_printing);
  if (g_result_begun) return;
  if (!is_terminal) {
    std::fputs((line + "\n").c_str(), stderr);
    return;
  }
  const auto columns = static_cast<size_t>(terminal_columns(stderr));
  clear_progress();
  size_t shown = columns > 0 ? std::min(line.size(), columns) : line.size();
  while (shown < line.size() && (static_cast<unsigned char>(line[shown]) & 0xC0U) == 0x80U)
    --shown;  // whole characters
  std::fputs(line.substr(0, shown).c_str(), stderr);
  std::fflush(stderr);
  g_progress_shown = true;
}

void put(std::FILE* to, std::string_view text) {
  const std::lock_guard lock(g_printing);
  clear_progress();
  g_result_begun = g_result_begun || to == stdout;
  if (std::fwrite(text.data(), 1, text.size(), to) == text.size() || to == stderr) return;
  throw std::system_error(errno, std::generic_category(), "cannot print");
}

void show(std::FILE* to, std::string_view lines) {
  const bool color = has_color(to);
  const auto columns = static_cast<size_t>(terminal_columns(to));
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string line = printable(lines.substr(begin, end - begin));
    if (columns > 0 && !line.empty()) line = fitted_lines(line, columns), line.pop_back();
    put(to, (color ? colored(line) : line) + (end < lines.size() ? "\n" : ""));
    begin = end + 1;
  }
}

int terminal_columns(std::FILE* of) {
  winsize size{};
  return isatty(fileno(of)) && ioctl(fileno(of), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void show_data(std::string_view text) {
  if (!isatty(STDOUT_FILENO)) return put(stdout, text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);  // of a CSV
    put(stdout, printable(line) + (end < text.size() ? "\n" : ""));
    begin = end + 1;
  }
}

void show_place(const char* what, const std::string& path, const OutputOptions& output) {
  if (!path.empty()) show(output.json ? stderr : stdout, fmt::format("{}: {}\n", what, path));
}

void show_run(const std::string& folder, const OutputOptions& output) {
  show_place("run", folder, output);
  write_page(folder, output);
}

void write_page(const std::string& folder, const OutputOptions& output) {
  if (output.html.empty()) return;
  PageConfig config;
  config.runs = {folder}, config.html = output.html;
  for (const std::string& note : run_page_report(config).notes) show(stderr, fmt::format("note: {}\n", note));
  show_place("page", output.html, output);
}

void show_written(const std::string& file) {
  struct stat written {};
  struct stat standard {};
  const bool same = ::stat(file.c_str(), &written) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
                    written.st_dev == standard.st_dev && written.st_ino == standard.st_ino;
  if (!same) show(stdout, file + "\n");
}

void save_measured(const std::string& file, const MachineSpec& machine) {
  const MachineSpec saved = save_machine(file, machine);
  for (size_t i = 0; i < saved.links.size(); ++i)
    if (saved.links[i].quarantine != machine.links[i].quarantine)
      show(stderr, fmt::format("warning: {} to {} stays quarantined: {}; delete \"quarantine\" of that link in {} to "
                               "lift it\n",
                               saved.links[i].source, saved.links[i].destination, saved.links[i].quarantine, file));
}

}  // namespace amdahl::cli
