#include "comm/rank_zero_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace amdahl {
namespace {

constexpr std::chrono::milliseconds kLook{200}, kGone{1000};

/// Initial environment of a process; empty when it has ended or is not readable.
std::map<std::string, std::string> environment_of(const std::filesystem::path& process) {
  std::map<std::string, std::string> variables;
  std::ifstream file(process / "environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (const size_t equals = entry.find('='); equals != std::string::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  return variables;
}

bool is_rank_zero_of(const LaunchContext& job, const std::map<std::string, std::string>& environment) {
  try {
    const LaunchContext other = detect_launch(environment);
    return other.rank == 0 && other.world_size == job.world_size && other.master_address == job.master_address &&
           other.master_port == job.master_port;
  } catch (const Error&) {  // contradictory variables: another program
    return false;
  }
}

/// Process ID of rank 0; -1: none visible.
int find_rank_zero(const LaunchContext& job) {
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator("/proc", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    if (is_rank_zero_of(job, environment_of(entry->path()))) return std::stoi(name);
  }
  return -1;
}

}  // namespace

void RankZeroWatch::check() {
  const auto now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLook;
  if (const int pid = find_rank_zero(launch_); pid >= 0) {
    seen_pid_ = pid;
    last_seen_ = now;
  }
  if (seen_pid_ < 0 || now - last_seen_ < kGone) return;
  throw Error(Cause::rank_died,
              fmt::format("rank 0 (process {}) ended before its rendezvous at {}:{} was up", seen_pid_,
                          launch_.master_address, launch_.master_port),
              "read that rank's own output; the kernel log tells whether it was killed for memory", 0);
}

}  // namespace amdahl
