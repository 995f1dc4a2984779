#include "device/host_load.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "base/control_group.h"

namespace amdahl {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Each thread of the process has its own file.
double waited_by_threads_us() {
  double total = -1;
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::istringstream text(read_file(thread.path() / "schedstat"));
    double ran_ns = 0, waited_ns = 0;
    if (text >> ran_ns >> waited_ns) total = std::max(total, 0.0) + waited_ns / 1e3;
  }
  return total;
}

double own_processor_us() {
  timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return -1;
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double difference(double after, double before) { return after < 0 || before < 0 ? -1 : std::max(0.0, after - before); }

}  // namespace

namespace detail {

StatTicks stat_ticks(const std::string& proc_stat) {
  std::istringstream text(proc_stat);
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(text >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq) || name != "cpu") return {};
  if (!(text >> steal)) steal = 0;  // kernels before 2.6.11
  return {user + nice + system + irq + softirq, steal};
}

}  // namespace detail

HostLoad read_host_load() {
  HostLoad load;
  const double tick_us = 1e6 / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  const detail::StatTicks ticks = detail::stat_ticks(read_file("/proc/stat"));
  if (ticks.busy >= 0) load.busy_us = ticks.busy * tick_us, load.stolen_us = ticks.stolen * tick_us;
  load.own_us = own_processor_us();
  load.waited_us = waited_by_threads_us();
  load.throttled_us = control_group_cpu().throttled_us;
  return load;
}

HostLoad operator-(const HostLoad& after, const HostLoad& before) {
  return {difference(after.busy_us, before.busy_us), difference(after.stolen_us, before.stolen_us),
          difference(after.own_us, before.own_us), difference(after.waited_us, before.waited_us),
          difference(after.throttled_us, before.throttled_us)};
}

std::optional<Contention> contention_of(std::span<const ProcessLoad> processes) {
  struct Host {
    double busy = 0, own = 0;
    Contention contention;
  };
  std::map<int64_t, Host> hosts;
  std::set<std::pair<int64_t, int64_t>> seen;  // ranks that are threads of one process have the same readings
  for (const ProcessLoad& p : processes) {
    if (!p.load.known()) return std::nullopt;
    Host& host = hosts[p.host];
    host.busy = std::max(host.busy, p.load.busy_us);
    host.contention.stolen_us = std::max(host.contention.stolen_us, p.load.stolen_us);
    host.contention.throttled_us = std::max(host.contention.throttled_us, p.load.throttled_us);
    if (!seen.insert({p.host, p.process}).second) continue;
    host.own += p.load.own_us;
    host.contention.waited_us += p.load.waited_us;
  }
  std::optional<Contention> most;
  for (auto& [number, host] : hosts) {
    host.contention.others_us = host.busy - host.own;
    if (!most || host.contention.lost_us() > most->lost_us()) most = host.contention;
  }
  return most;
}

}  // namespace amdahl
