#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <thread>

#include "amdahl/error.h"

namespace amdahl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(5);
constexpr double kGraceSeconds = 2;
constexpr double kAfterFailureSeconds = 10;

/// An anonymous file in memory.
class Catcher {
 public:
  Catcher() : fd_(memfd_create("output", MFD_CLOEXEC)) {
    if (fd_ < 0)
      throw Error(Cause::environment_missing, std::string("no file in memory: ") + std::strerror(errno),
                  "a higher limit of open files");
  }
  Catcher(const Catcher&) = delete;
  Catcher& operator=(const Catcher&) = delete;
  ~Catcher() { close(fd_); }

  int fd() const { return fd_; }
  std::string text() const {
    std::string all;
    char part[1 << 16];
    for (off_t at = 0;;) {
      const ssize_t got = pread(fd_, part, sizeof part, at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return all;
      all.append(part, static_cast<size_t>(got));
      at += got;
    }
  }

 private:
  int fd_;
};

/// A started program; the destructor kills it if it still runs.
class Child {
 public:
  explicit Child(const ChildCommand& command) {
    std::vector<std::string> words{command.program}, variables;
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    for (const auto& [name, value] : command.environment) {
      variables.push_back(name);
      variables.back().append("=").append(value);
    }
    const std::vector<char*> arguments = pointers(words), environment = pointers(variables);
    int failed[2];  // pipe for the error number of a failed exec
    if (pipe2(failed, O_CLOEXEC) != 0)
      throw Error(Cause::environment_missing, std::string("no pipe for a program: ") + std::strerror(errno),
                  "a higher limit of open files");
    const pid_t parent = getpid();
    start_ = Clock::now();
    pid_ = fork();
    if (pid_ == 0) become(parent, command, arguments.data(), environment.data(), failed[1]);
    int error = pid_ < 0 ? errno : 0;
    close(failed[1]);
    while (pid_ > 0 && read(failed[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
    close(failed[0]);
    if (error != 0) {
      if (pid_ > 0) waitpid(pid_, nullptr, 0);
      pid_ = -1;
      throw Error(Cause::environment_missing, command.program + " does not start: " + std::strerror(error),
                  error == EAGAIN || error == ENOMEM ? "a higher limit of processes (ulimit -u) or of memory"
                                                     : "look whether it is there and may be run");
    }
    end_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));  // Linux before 5.3 has none
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (running()) signal(SIGKILL);
    const Deadline deadline = Deadline::after_seconds(kGraceSeconds);  // a process that hangs in a driver is abandoned
    while (running() && !deadline.expired()) std::this_thread::sleep_for(kLook);
    if (end_fd_ >= 0) close(end_fd_);
  }

  bool running() {
    if (pid_ < 0 || ended_) return false;
    const pid_t done = wait4(pid_, &status_, WNOHANG, &usage_);
    ended_ = done == pid_ || (done < 0 && errno != EINTR);
    if (ended_) end_ = Clock::now();
    return !ended_;
  }
  bool failed() const { return ended_ && !(WIFEXITED(status_) && WEXITSTATUS(status_) == 0); }
  void signal(int number) { kill(pid_, number); }
  /// Becomes readable when the process ends; negative where the system does not tell.
  int end_fd() const { return end_fd_; }

  ChildResult result(bool late) const {
    ChildResult result{.out = out_.text(), .err = err_.text()};
    result.wall_us = std::chrono::duration<double, std::micro>(end_ - start_).count();
    result.user_us = microseconds(usage_.ru_utime), result.system_us = microseconds(usage_.ru_stime);
    result.peak_bytes = int64_t{usage_.ru_maxrss} * 1024;
    if (late)
      result.end = ChildResult::End::late;
    else if (WIFSIGNALED(status_))
      result.end = ChildResult::End::signalled, result.code = WTERMSIG(status_);
    else
      result.code = WEXITSTATUS(status_);
    return result;
  }

 private:
  /// In the new process: only async-signal-safe calls between fork and exec. The program gets SIGTERM when the thread
  /// that started it ends, which is the end of this process, because run_children waits on that thread.
  [[noreturn]] void become(pid_t parent, const ChildCommand& command, char* const* arguments, char* const* environment,
                           int failed) const {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(128 + SIGTERM);  // the parent ended before prctl
    const int nothing = open("/dev/null", O_RDWR), out = command.keeps_output ? out_.fd() : nothing;
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(err_.fd(), STDERR_FILENO) >= 0) {
      if (nothing > STDERR_FILENO) close(nothing);
      execve(command.program.c_str(), arguments, environment);
    }
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failed, &error, sizeof error);
    _exit(127);
  }

  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> all;
    for (std::string& word : words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  }

  static double microseconds(const timeval& time) {
    return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
  }

  Catcher out_, err_;
  Clock::time_point start_, end_;
  rusage usage_{};
  int end_fd_ = -1;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

using Children = std::vector<std::unique_ptr<Child>>;

bool any_running(const Children& children) {
  bool any = false;
  for (const auto& child : children) any = child->running() || any;  // queries all of them, which also reaps
  return any;
}

bool any_failed(const Children& children) {
  return std::any_of(children.begin(), children.end(), [](const auto& child) { return child->failed(); });
}

/// Until a running one ends, but not longer than kLook.
void wait_for_an_end(const Children& children) {
  std::vector<pollfd> ends;
  for (const auto& child : children)
    if (child->running() && child->end_fd() >= 0) ends.push_back({child->end_fd(), POLLIN, 0});
  if (ends.empty())
    std::this_thread::sleep_for(kLook);
  else
    poll(ends.data(), ends.size(), static_cast<int>(kLook.count()));
}

/// Waits until all have ended; false at the deadline or when stopped.
bool wait_all(const Children& children, Deadline deadline, const std::function<bool()>& stopped) {
  bool failed = false;
  while (any_running(children)) {
    if (!failed && any_failed(children)) {
      failed = true;
      const Deadline soon = Deadline::after_seconds(kAfterFailureSeconds);
      if (soon.time() < deadline.time()) deadline = soon;
    }
    if (deadline.expired() || (stopped && stopped())) return false;
    wait_for_an_end(children);
  }
  return true;
}

}  // namespace

std::vector<ChildResult> run_children(const std::vector<ChildCommand>& commands, Deadline deadline,
                                      const std::function<bool()>& stopped) {
  Children children;
  for (const ChildCommand& command : commands) children.push_back(std::make_unique<Child>(command));
  std::vector<bool> late(children.size(), false);
  if (!wait_all(children, deadline, stopped)) {
    for (size_t i = 0; i < children.size(); ++i)
      if ((late[i] = children[i]->running())) children[i]->signal(SIGTERM);
    if (!wait_all(children, Deadline::after_seconds(kGraceSeconds), {}))
      for (const auto& child : children)
        if (child->running()) child->signal(SIGKILL);
    wait_all(children, Deadline::after_seconds(kGraceSeconds), {});
  }
  std::vector<ChildResult> results;
  for (size_t i = 0; i < children.size(); ++i) results.push_back(children[i]->result(late[i]));
  return results;
}

std::string program_file(const std::string& name, const std::map<std::string, std::string>& environment) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (name.find('/') != std::string::npos) return name;
  const auto path = environment.find("PATH");
  std::istringstream folders(path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    const fs::perms executable = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    if (fs::is_regular_file(file, error) && (fs::status(file, error).permissions() & executable) != fs::perms::none)
      return file.string();
  }
  return {};
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last = "it said nothing";
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return printable(last, 300);
}

}  // namespace amdahl
