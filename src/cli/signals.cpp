#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "cli/commands.h"

namespace amdahl::cli {
namespace {

std::atomic<int> g_signal{0};         // written by the handler, read by every rank's thread
std::atomic<bool> g_is_asked{false};  // whether the command polls g_signal
std::atomic<const char*> g_remedy{"the same command again"};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

// Job managers kill processes that do not end within a grace period, often 10 s; one run of a study may take longer.
constexpr unsigned kGraceSeconds = 8;

void write_error(const char* what) {
  const char* const parts[] = {"error[interrupted]: stopped by the user", what, "; try: ", g_remedy, "\n"};
  for (const char* part : parts) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, part, std::strlen(part));
  }
}

// Commands that only read files have no safe point and keep nothing: they end at once.
extern "C" void on_signal(int number) {
  note_signal(number);
  if (g_signal.exchange(number) != 0) _exit(128 + number);
  if (g_is_asked) {
    alarm(kGraceSeconds);
    return;
  }
  write_error("");
  _exit(128 + number);
}

// Records the signal in the flight recorder, then lets the default action end the process.
extern "C" void on_crash(int number) {
  note_signal(number);
  std::signal(number, SIG_DFL);
  std::raise(number);  // delivered when the handler returns
}

// Completed runs are on disk: only the current run is lost.
extern "C" void on_alarm(int) {
  write_error(" within a run; what was finished before it is kept");
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
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) std::signal(number, on_crash);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // writes fail with EFBIG instead, which is reported and cleaned up
}

void set_interrupted_remedy(const char* remedy) { g_remedy = remedy; }

bool signalled() {
  if (!g_is_asked) g_is_asked = true;  // ranks poll during timing: a store on every call would be slow
  return g_signal != 0;
}

int signal_exit_code() { return g_signal == 0 ? 0 : 128 + g_signal; }

}  // namespace amdahl::cli
