#include "cli/progress.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "amdahl/error.h"
#include "amdahl/study.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

constexpr std::chrono::milliseconds kPeriod{2500};  // between lines: below 3 s on a busy host too

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && term && std::strcmp(term, "dumb") != 0;
}

/// A thread that takes no signals, which the program's other threads wait for; none where the system has no more
/// threads.
template <class Work>
std::thread silent_thread(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread started;
  try {
    started = std::thread(work);
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace

TerminalObserver::TerminalObserver(bool quiet) : quiet_(quiet), terminal_(is_terminal()) {
  if (!quiet_) timer_ = silent_thread([this] { repeat(); });
}

TerminalObserver::~TerminalObserver() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  if (timer_.joinable()) timer_.join();
  put(stderr, "");
}

void TerminalObserver::repeat() {
  std::unique_lock lock(mutex_);
  while (!is_ended_) {
    ended_.wait_until(lock, printed_ + kPeriod);
    if (!is_ended_ && Clock::now() >= printed_ + kPeriod) print();
  }
}

void TerminalObserver::print() {
  put_progress(line(), terminal_);
  printed_ = Clock::now();
}

std::string TerminalObserver::line() const {
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  const auto now = Clock::now();
  const std::string spent = fmt::format("{:.0f} s", seconds(now - start_));
  if (first_done_ < 0) return fmt::format("at work for {}", spent);
  const int counted = done_ - first_done_;
  const double left =
      counted > 0 ? seconds(changed_ - first_) / counted * (total_ - done_) - seconds(now - changed_) : -1;
  return fmt::format("[{}/{}] {}  {}, ETA {}", done_, total_, printable(what_), spent,
                     left < 0 ? "unknown" : format_duration(left));
}

void TerminalObserver::planned(const StudyPlan& plan) {
  if (!quiet_) show(stderr, plan_text(plan));
}

void TerminalObserver::note(const std::string& line) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  show(stderr, line + "\n");
  printed_ = Clock::now();
}

void TerminalObserver::warning(const std::string& line) { show(stderr, fmt::format("warning: {}\n", line)); }

void TerminalObserver::progress(int done, int total, const std::string& what) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  changed_ = Clock::now();
  if (first_done_ < 0) first_done_ = done, first_ = changed_;
  done_ = done, total_ = total, what_ = what;
  if (terminal_) print();
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
