#include "comm/rank_zero_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "comm/wire.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLook{200}, kGone{1000}, kDoomed{3000}, kAbsent{10'000};

/// Initial environment of a process; empty when it has ended or is not readable.
std::map<std::string, std::string> environment_of(const fs::path& process) {
  std::map<std::string, std::string> variables;
  std::ifstream file(process / "environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (const size_t equals = entry.find('='); equals != std::string::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  return variables;
}

/// The rank of a process in the job; -1: none.
int rank_in(const LaunchContext& job, const std::map<std::string, std::string>& environment) {
  try {
    const LaunchContext other = detect_launch(environment);
    const bool same = other.world_size == job.world_size && other.master_address == job.master_address &&
                      other.master_port == job.master_port && other.job == job.job;
    return same ? other.rank : -1;
  } catch (const Error&) {  // contradictory variables: another program
    return -1;
  }
}

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

struct Stat {
  std::string name;
  char state = 0;
  int parent = 0;
  int64_t start = 0;  // ticks of the clock
};

/// "12 (amdahl) Z 7 ...": fields are counted behind the name, which may contain blanks and brackets.
Stat stat_of(const fs::path& process) {
  const std::string line = line_of(process / "stat");
  const size_t begin = line.find('('), end = line.rfind(')');
  Stat stat;
  if (end == std::string::npos) return stat;
  stat.name = line.substr(begin + 1, end - begin - 1);
  std::istringstream fields(line.substr(end + 1));
  constexpr int kBetween = 17;  // fields from the parent to the start
  std::string skipped;
  fields >> stat.state >> stat.parent;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  fields >> stat.start;
  return stat;
}

/// Whether a process has ended that this one's parent started about when it started this one, as the same program.
bool is_ended_sibling(const fs::path& process) {
  constexpr int64_t kTogetherSeconds = 5;
  static const Stat own = stat_of("/proc/self");
  const Stat other = stat_of(process);
  return other.state == 'Z' && other.parent == getppid() && other.name == own.name &&
         std::abs(other.start - own.start) <= kTogetherSeconds * sysconf(_SC_CLK_TCK);
}

struct Seen {
  std::map<int, int> pids;  // by rank
  int ended_siblings = 0;
};

Seen look_for_ranks(const LaunchContext& job) {
  Seen seen;
  std::error_code error;
  for (auto entry = fs::directory_iterator("/proc", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    const std::map<std::string, std::string> environment = environment_of(entry->path());
    if (environment.empty())
      seen.ended_siblings += is_ended_sibling(entry->path()) ? 1 : 0;
    else if (const int rank = rank_in(job, environment); rank >= 0)
      seen.pids.emplace(rank, std::stoi(name));
  }
  return seen;
}

/// Whether a launcher or a script started this process: interactive shells give each command a process group.
bool started_by_program(const LaunchContext& launch) {
  return launch.family != "amdahl" || (getppid() > 1 && getpgrp() == getpgid(getppid()));
}

}  // namespace

RankZeroWatch::RankZeroWatch(const LaunchContext& launch)
    : launch_(launch), expected_here_(started_by_program(launch) && wire::is_own_address(launch.master_address)) {}

void RankZeroWatch::check() {
  const auto now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLook;
  const Seen seen = look_for_ranks(launch_);
  const auto zero = seen.pids.find(0);
  if (zero != seen.pids.end()) {
    seen_pid_ = zero->second;
    last_seen_ = now;
    return;
  }
  const auto absent = now - last_seen_;
  if (absent < kGone) return;
  if (seen_pid_ >= 0) throw ended(fmt::format("rank 0 (process {}) ended", seen_pid_));
  if (seen.ended_siblings > 0 && static_cast<int>(seen.pids.size()) + seen.ended_siblings >= launch_.world_size)
    throw ended("rank 0 ended");
  if (seen.ended_siblings > 0 && absent >= kDoomed)
    throw ended("rank 0 is not there, and a rank that was started with this one ended,");
  if (expected_here_ && absent >= kAbsent)
    throw ended(fmt::format("rank 0 is not among the processes of this host for {} s: it ended, or was not started,",
                            kAbsent.count() / 1000));
}

bool may_have_other_ranks(const LaunchContext& launch) {
  std::map<int, int> pids = look_for_ranks(launch).pids;
  pids.erase(launch.rank);
  return !pids.empty() || launch.local_world_size < launch.world_size;
}

Error RankZeroWatch::ended(const std::string& what) const {
  return Error(
      Cause::rank_died,
      fmt::format("{} before its rendezvous at {}:{} was up", what, launch_.master_address, launch_.master_port),
      "read that rank's own output; the kernel log tells whether it was killed for memory", 0);
}

}  // namespace amdahl
