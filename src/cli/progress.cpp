#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "amdahl/study.h"
#include "cli/output.h"

namespace amdahl::cli {

TerminalObserver::TerminalObserver(bool quiet) : quiet_(quiet) {
  const char* term = std::getenv("TERM");
  terminal_ = isatty(STDERR_FILENO) && term && std::strcmp(term, "dumb") != 0;
}

void TerminalObserver::clear() {
  if (line_open_) put(stderr, "\r\033[K");
  line_open_ = false;
}

void TerminalObserver::planned(const StudyPlan& plan) {
  if (!quiet_) show(stderr, plan_text(plan));
}

void TerminalObserver::note(const std::string& line) {
  clear();
  if (!quiet_) show(stderr, line + "\n");
}

void TerminalObserver::warning(const std::string& line) {
  clear();
  show(stderr, fmt::format("warning: {}\n", line));
}

void TerminalObserver::progress(int done, int total, const std::string& what) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (first_done_ < 0) {
    first_done_ = done;
    start_ = now;
  }
  const double spent = std::chrono::duration<double>(now - start_).count();
  const int counted = done - first_done_;
  const std::string eta =
      counted > 0 ? "ETA " + format_duration(spent / counted * (total - done)) : std::string("ETA unknown");
  const double since_last = std::chrono::duration<double>(now - last_).count();
  if (terminal_) {
    put(stderr, fmt::format("\r\033[K[{}/{}] {}  {}", done, total, printable(what), eta));
    std::fflush(stderr);
    line_open_ = true;
  } else if (since_last > 10) {
    put(stderr, fmt::format("[{}/{}] {}  {}\n", done, total, printable(what), eta));
    last_ = now;
  }
}

std::string plan_text(const StudyPlan& plan) {
  std::string text = fmt::format("plan: {} ({} parameters) on {}, {}\n", plan.model.name,
                                 with_thousands(plan.model.num_parameters()), plan.data_name, plan.device_kind);
  for (const DeviceSpec& device : plan.devices) text += fmt::format("  device {}: {}\n", device.index, device.name);
  for (size_t begin = 0; begin < plan.decision.size();) {
    const size_t end = std::min(plan.decision.find('\n', begin), plan.decision.size());
    text += fmt::format("  {}\n", plan.decision.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!plan.cells.empty()) text += "  cells, with memory per device (modelled):\n";
  for (const PlannedCell& cell : plan.cells)
    text += fmt::format("  batch {:>6}  {} x {:<10}  {:<5} {}  {:>3} run{}  {}\n", cell.global_batch, cell.devices,
                        cell.strategy, cell.launch, cell.math, cell.runs, cell.runs == 1 ? " " : "s",
                        format_bytes(static_cast<double>(cell.memory_bytes_per_device)));
  if (plan.expected_seconds > 0)
    text += fmt::format("  expected time: about {} (predicted from the machine's calibration)\n",
                        format_duration(plan.expected_seconds));
  for (const std::string& note : plan.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

}  // namespace amdahl::cli
