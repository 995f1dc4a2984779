#include "fuzz_child.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <typeinfo>

#include "amdahl/error.h"
#include "mutator.h"

namespace amdahl::fuzz {
namespace {

constexpr time_t kMostSeconds = 2;       // of processor time for one input
constexpr time_t kMostWallSeconds = 60;  // one that waits for something uses no processor
constexpr rlim_t kMostMemoryBytes = rlim_t{512} << 20;
constexpr rlim_t kSanitizerBytes = rlim_t{1} << 40;  // AddressSanitizer alone maps more than this

/// What the child tells; it stays when the child dies.
struct Shared {
  uint64_t inputs, accepted, input_bytes;
  char defect[1000];
  char input[Mutator::kMostBytes * 16];  // files of a corpus may be longer than mutations
};

class SharedMemory {
 public:
  SharedMemory() : memory_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("no shared memory");
  }
  ~SharedMemory() { munmap(memory_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared& operator*() const { return *static_cast<Shared*>(memory_); }

 private:
  void* memory_;
};

/// The memory in use and kMostMemoryBytes; allocating beyond throws std::bad_alloc. Sanitizers have limits of their
/// own.
void limit_memory() {
  unsigned long long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%llu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const rlim_t used = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  if (used == 0 || used > kSanitizerBytes) return;
  const rlimit limit{used + kMostMemoryBytes, used + kMostMemoryBytes};
  setrlimit(RLIMIT_AS, &limit);
}

/// The signals of these timers end the child.
void start_timers() {
  const itimerval cpu{{0, 0}, {kMostSeconds, 0}}, wall{{0, 0}, {kMostWallSeconds, 0}};
  setitimer(ITIMER_PROF, &cpu, nullptr);
  setitimer(ITIMER_REAL, &wall, nullptr);
}

std::string defect_of(const Target& target, std::string_view input, uint64_t& accepted) {
  try {
    target.parse(input);
    ++accepted;
  } catch (const Error& error) {
    if (error.cause() == Cause::internal) return error.line();
  } catch (const std::bad_alloc&) {
    return fmt::format("more than {} MiB of memory", kMostMemoryBytes >> 20);
  } catch (const std::exception& problem) {
    return fmt::format("{}: {}", typeid(problem).name(), problem.what());
  }
  return {};
}

[[noreturn]] void run_child(const Target& target, const std::function<std::string()>& next, const Limits& limits,
                            Shared& shared) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  limit_memory();
  while (shared.inputs < limits.inputs) {
    if (limits.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() > limits.seconds) break;
    const std::string input = next();
    shared.input_bytes = std::min(input.size(), sizeof shared.input);
    std::memcpy(shared.input, input.data(), shared.input_bytes);
    ++shared.inputs;
    start_timers();
    const std::string defect = defect_of(target, input, shared.accepted);
    if (defect.empty()) continue;
    std::snprintf(shared.defect, sizeof shared.defect, "%s", defect.c_str());
    break;
  }
  std::fflush(nullptr);
  _exit(0);
}

std::string ending_text(int status) {
  if (WIFEXITED(status))  // a sanitizer's way
    return WEXITSTATUS(status) == 0 ? "" : fmt::format("the process ended with exit code {}", WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  if (number == SIGPROF) return fmt::format("more than {} s of processor time", kMostSeconds);
  if (number == SIGALRM) return fmt::format("more than {} s", kMostWallSeconds);
  return fmt::format("signal {} ({})", number, strsignal(number));
}

}  // namespace

Outcome run_in_child(const Target& target, const std::function<std::string()>& next, const Limits& limits) {
  const SharedMemory memory;
  Shared& shared = *memory;
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process can be started");
  if (child == 0) run_child(target, next, limits, shared);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error("the process was lost");
  Outcome outcome{shared.inputs, shared.accepted, 0, shared.defect, {shared.input, shared.input_bytes}};
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.defect.empty()) outcome.defect = ending_text(status);
  return outcome;
}

}  // namespace amdahl::fuzz
