#include "transfer/host_affinity.h"

#include <sched.h>

#include <cstdlib>
#include <exception>
#include <thread>

namespace amdahl {
namespace {

/// The cores of a list such as "0-3,8" that are in `allowed`.
cpu_set_t parse_cores(const std::string& cores, const cpu_set_t& allowed) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const char* at = cores.c_str();
  while (*at) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (end == at) break;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long core = std::max(first, 0L); core <= last && core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(static_cast<size_t>(core), &allowed)) CPU_SET(static_cast<size_t>(core), &set);
    if (*end == ',') ++end;
    at = end;
  }
  return set;
}

}  // namespace

void run_on_cores(const std::string& cores, const std::function<void()>& work) {
  if (cores.empty()) return work();
  std::exception_ptr error;
  std::thread([&] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
      const cpu_set_t wanted = parse_cores(cores, allowed);
      if (CPU_COUNT(&wanted) > 0) sched_setaffinity(0, sizeof(wanted), &wanted);
    }
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

}  // namespace amdahl
