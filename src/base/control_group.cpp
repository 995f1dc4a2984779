#include "base/control_group.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace amdahl {
namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The folders of a group and of those around it. In a container the group's path may be that of the host, of which
/// only the last folder is mounted.
std::vector<fs::path> folders_of(const fs::path& mount, const std::string& group) {
  std::vector<fs::path> folders;
  for (fs::path path = fs::path(group).relative_path(); !path.empty(); path = path.parent_path())
    folders.push_back(mount / path);
  folders.push_back(mount);
  return folders;
}

/// The folders of this process's groups that limit processors, of the versions 1 ("4:cpu,cpuacct:/a") and 2 ("0::/a").
std::vector<fs::path> cpu_folders(const std::string& groups, const fs::path& mount) {
  std::vector<fs::path> all;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::vector<fs::path> folders = folders_of(controllers.empty() ? mount : mount / controllers, group);
    all.insert(all.end(), folders.begin(), folders.end());
    if (controllers.find(',') == std::string::npos) continue;
    for (const fs::path& folder : folders_of(mount / "cpu", group)) all.push_back(folder);  // a link on some systems
  }
  return all;
}

/// Processors by the group's quota; 0: none.
double limit_in(const fs::path& folder) {
  double quota = 0, period = 0;
  std::istringstream both(text_in(folder / "cpu.max"));  // "50000 100000" or "max 100000"
  if (!(both >> quota >> period)) {
    std::istringstream(text_in(folder / "cpu.cfs_quota_us")) >> quota;  // -1: none
    std::istringstream(text_in(folder / "cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

double throttled_in(const fs::path& folder) {
  std::istringstream words(text_in(folder / "cpu.stat"));
  double value = 0;
  for (std::string name; words >> name >> value;) {
    if (name == "throttled_usec") return value;
    if (name == "throttled_time") return value / 1e3;  // ns
  }
  return -1;
}

}  // namespace

ControlGroupCpu control_group_cpu(const std::string& groups, const fs::path& mount) {
  ControlGroupCpu cpu;
  for (const fs::path& folder : cpu_folders(groups, mount)) {
    if (const double limit = limit_in(folder); limit > 0 && (cpu.limit == 0 || limit < cpu.limit)) cpu.limit = limit;
    cpu.throttled_us = std::max(cpu.throttled_us, throttled_in(folder));
  }
  return cpu;
}

ControlGroupCpu control_group_cpu() { return control_group_cpu(text_in("/proc/self/cgroup"), "/sys/fs/cgroup"); }

}  // namespace amdahl
