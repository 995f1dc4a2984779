#include "setup/rank_processes.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "amdahl/error.h"

namespace amdahl {
namespace {

// Variables that would make a child process act as a rank of this process's job.
constexpr std::array<std::string_view, 8> kLaunchPrefixes{"AMDAHL_", "OMPI_",  "PMI_",          "PMIX_",
                                                          "MPI_",    "SLURM_", "TORCHELASTIC_", "MASTER_"};
constexpr std::array<std::string_view, 4> kLaunchNames{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
// NCCL's log slows every call, and would be mixed with the records.
constexpr std::string_view kLogPrefix = "NCCL_DEBUG";

bool is_inherited(const std::string& name) {
  return !name.starts_with(kLogPrefix) &&
         std::find(kLaunchNames.begin(), kLaunchNames.end(), name) == kLaunchNames.end() &&
         std::none_of(kLaunchPrefixes.begin(), kLaunchPrefixes.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::map<std::string, std::string> inherited_environment(const std::map<std::string, std::string>& environment) {
  std::map<std::string, std::string> inherited;
  for (const auto& [name, value] : environment)
    if (is_inherited(name)) inherited[name] = value;
  return inherited;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  const bool bound = fd >= 0 && bind(fd, plain, size) == 0 && getsockname(fd, plain, &size) == 0;
  if (fd >= 0) close(fd);
  if (!bound) throw Error(Cause::environment_missing, "no free port on 127.0.0.1", "a network namespace with loopback");
  return ntohs(address.sin_port);
}

std::vector<ChildCommand> as_ranks(const ChildCommand& command, int count) {
  std::vector<ChildCommand> ranks;
  const std::string port = std::to_string(free_port()), size = std::to_string(count);
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back(command);
    auto& variables = ranks.back().environment;
    variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
    variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = size;
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = port;
  }
  return ranks;
}

std::string reason_of_failure(const std::vector<ChildResult>& results, double seconds) {
  const auto late = [](const ChildResult& result) { return result.end == ChildResult::End::late; };
  for (const ChildResult& result : results) {
    const size_t at = result.err.find("error[");
    if (at == std::string::npos || late(result)) continue;
    return printable(result.err.substr(at, result.err.find('\n', at) - at), 400);
  }
  if (std::any_of(results.begin(), results.end(), late)) return fmt::format("not done within {:g} s", seconds);
  for (const ChildResult& result : results)
    if (result.end == ChildResult::End::signalled) return fmt::format("ended by signal {}", result.code);
  return fmt::format("exit code {}", results.front().code);
}

}  // namespace amdahl
