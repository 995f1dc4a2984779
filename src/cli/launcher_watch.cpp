#include "cli/launcher_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <system_error>
#include <thread>

namespace amdahl::cli {
namespace {

// Variables that launchers set in each rank, but users who start ranks by hand do not. The last one is of the Python
// package amdahl_lab.
constexpr const char* kMarks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",      "PMIX_RANK",
                                  "TORCHELASTIC_RUN_ID",  "SLURM_STEP_ID", "AMDAHL_LAB_CALL"};

std::atomic<bool> g_gone{false};  // written by the watching thread
std::string g_launcher;           // set before that thread starts

/// Whether a process was started with this variable; false for processes of other users, whose environment is not
/// readable.
bool started_with(pid_t process, const std::string& variable) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.compare(0, variable.size() + 1, variable + "=") == 0) return true;
  return false;
}

/// Parent process, from /proc/PID/stat. Fields are counted after the name, which may contain blanks and brackets: 0 is
/// the state, 1 the parent.
pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > line.size()) return 0;
  return static_cast<pid_t>(std::strtol(line.c_str() + name_end + 4, nullptr, 10));
}

/// The nearest ancestor that is not part of the rank: shells and tools of the rank may be in between. 0 or 1 when there
/// is no ancestor whose end this process could detect.
pid_t find_launcher(const std::string& mark) {
  pid_t process = getppid();
  while (process > 1 && started_with(process, mark)) process = parent_of(process);
  return process;
}

std::string name_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

void watch_launcher(const std::map<std::string, std::string>& environment) {
  for (const char* mark : kMarks) {
    if (environment.count(mark) == 0) continue;
    const pid_t launcher = find_launcher(mark);
    if (launcher <= 1) return;
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, launcher, 0));
    if (fd < 0) return;
    g_launcher = fmt::format("process {} ({})", launcher, name_of(launcher));
    if (find_launcher(mark) != launcher) return;  // the launcher ended meanwhile: its id may have been reused
    try {
      std::thread([fd] {
        pollfd polled{fd, POLLIN, 0};
        while (poll(&polled, 1, -1) < 0 && errno == EINTR) {
        }
        g_gone = true;
        kill(getpid(), SIGTERM);
      }).detach();
    } catch (const std::system_error&) {  // no thread available: the job's own threads will report it
      close(fd);
    }
    return;
  }
}

void let_failed_rank_end_first() {
  if (!g_launcher.empty() && !g_gone) std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

std::string gone_launcher() { return g_gone ? g_launcher : std::string(); }

}  // namespace amdahl::cli
