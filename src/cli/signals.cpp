#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/commands.h"

namespace amdahl::cli {
namespace {

std::atomic<int> g_signal{0};  // written by the handler, read by every rank's thread
static_assert(std::atomic<int>::is_always_lock_free);

// A job manager kills what has not ended within its grace, often 10 s; one run of a study may take longer.
constexpr unsigned kGraceSeconds = 8;

extern "C" void on_signal(int number) {
  if (g_signal.exchange(number) != 0) _exit(128 + number);
  alarm(kGraceSeconds);
}

// What is finished is on disk already: only the run at hand is lost.
extern "C" void on_alarm(int) {
  constexpr char kLine[] =
      "error[interrupted]: stopped by the user within a run; what was finished before it is kept; try: --resume to go "
      "on with a study\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
  _exit(128 + g_signal);
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool signalled() { return g_signal != 0; }
int signal_exit_code() { return g_signal == 0 ? 0 : 128 + g_signal; }

}  // namespace amdahl::cli
