#include <unistd.h>

#include <csignal>

#include "cli/commands.h"

namespace amdahl::cli {
namespace {

volatile std::sig_atomic_t g_signal = 0;

extern "C" void on_signal(int number) {
  if (g_signal != 0) _exit(128 + number);
  g_signal = number;
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool signalled() { return g_signal != 0; }
int signal_exit_code() { return g_signal == 0 ? 0 : 128 + g_signal; }

}  // namespace amdahl::cli
