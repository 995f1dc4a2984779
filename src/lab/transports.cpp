#include "lab/transports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "comm/world.h"
#include "device/device.h"
#include "ops/ops.h"

namespace amdahl {
namespace {

constexpr int kGraphCalls = 10;  // default number of calls per graph

Availability nccl_with_two_gpus() {
  Availability nccl = nccl_availability();
  if (!nccl.ok) return nccl;
  const size_t gpus = list_cuda_devices().size();
  if (gpus < 2) return {false, fmt::format("NCCL needs two GPUs and here is {}", gpus), "a machine with more GPUs"};
  return nccl;
}

constexpr const char* kMpirun = "/usr/bin/mpirun";

Availability mpi_with_mpirun() {
  Availability mpi = mpi_availability();
  if (!mpi.ok || access(kMpirun, X_OK) == 0) return mpi;
  return {false, fmt::format("{} is not there", kMpirun), "install an MPI's programs (Debian: openmpi-bin)"};
}

NcclSettings forced(const char* algorithm, const char* protocol) {
  return {{"NCCL_ALGO", algorithm}, {"NCCL_PROTO", protocol}};
}

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

/// A free port of this host.
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

/// The sweep configuration for a process with this transport.
CollectivesConfig sweep_on(const CollectivesConfig& given, const TransportRow& row, const TransportRun& run) {
  CollectivesConfig sweep = given;
  sweep.backend = row.backend;
  sweep.devices = run.devices;
  if (row.backend != "cuda") sweep.gpus.clear();
  if (run.asks()) sweep.iterations = 1, sweep.warmup = 0, sweep.check = false;
  sweep.registration = row.registration;
  sweep.graph = !row.graph ? 0 : sweep.graph > 0 ? sweep.graph : kGraphCalls;
  sweep.processes = row.mpirun ? "mpi" : "gloo";
  sweep.output_dir = run.run_dir;
  return sweep;
}

}  // namespace

const std::vector<TransportRow>& transport_table() {
  static const std::vector<TransportRow> rows{
      {.name = "nccl", .backend = "cuda", .chooses = true, .available = nccl_with_two_gpus},
      {.name = "nccl ring ll", .backend = "cuda", .settings = forced("Ring", "LL"), .available = nccl_with_two_gpus},
      {.name = "nccl ring ll128",
       .backend = "cuda",
       .settings = forced("Ring", "LL128"),
       .available = nccl_with_two_gpus},
      {.name = "nccl ring simple",
       .backend = "cuda",
       .settings = forced("Ring", "Simple"),
       .available = nccl_with_two_gpus},
      {.name = "nccl tree ll", .backend = "cuda", .settings = forced("Tree", "LL"), .available = nccl_with_two_gpus},
      {.name = "nccl tree ll128",
       .backend = "cuda",
       .settings = forced("Tree", "LL128"),
       .available = nccl_with_two_gpus},
      {.name = "nccl tree simple",
       .backend = "cuda",
       .settings = forced("Tree", "Simple"),
       .available = nccl_with_two_gpus},
      {.name = "nccl registered",
       .backend = "cuda",
       .registration = 1,
       .chooses = true,
       .available = nccl_with_two_gpus},
      {.name = "nccl symmetric",
       .backend = "cuda",
       .registration = 2,
       .chooses = true,
       .available = nccl_with_two_gpus},
      {.name = "nccl graph", .backend = "cuda", .graph = true, .available = nccl_with_two_gpus},
      {.name = "nccl graph symmetric",
       .backend = "cuda",
       .registration = 2,
       .graph = true,
       .available = nccl_with_two_gpus},
      {.name = "threads", .backend = "cpu", .available = cpu_ops_availability},
      {.name = "gloo", .backend = "cpu", .processes = true, .available = gloo_availability},
      {.name = "mpi", .backend = "cpu", .mpirun = true, .available = mpi_with_mpirun},
  };
  return rows;
}

std::vector<const TransportRow*> find_transports(const std::vector<std::string>& names, const std::string& backend) {
  std::vector<const TransportRow*> found;
  std::vector<std::string> known{"all"};
  for (const TransportRow& row : transport_table()) known.emplace_back(row.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(Cause::usage, fmt::format("unknown transport '{}'", name), choices_hint(name, known));
  for (const TransportRow& row : transport_table()) {
    const bool named = std::find(names.begin(), names.end(), row.name) != names.end();
    const bool all = std::find(names.begin(), names.end(), "all") != names.end();
    const bool of_backend = backend == "auto" || backend == row.backend;
    if (named && !of_backend)
      throw Error(Cause::usage, fmt::format("transport {} is not one of backend {}", row.name, backend),
                  "drop one of the two options");
    if (named || (all && of_backend)) found.push_back(&row);
  }
  return found;
}

std::vector<ChildCommand> transport_commands(const ArenaConfig& config, const TransportRow& row,
                                             const TransportRun& run) {
  ChildCommand command{config.program, config.arguments(sweep_on(config.sweep, row, run)), {}};
  for (const auto& [name, value] : config.sweep.environment)
    if (is_inherited(name)) command.environment[name] = value;
  for (const auto& [name, value] : row.settings) command.environment[name] = value;
  if (run.asks()) command.environment["NCCL_DEBUG"] = "INFO", command.environment["NCCL_DEBUG_SUBSYS"] = "TUNING";
  if (row.mpirun) {
    command.arguments.insert(command.arguments.begin(),
                             {"--oversubscribe", "-n", std::to_string(run.devices), config.program});
    if (geteuid() == 0) command.arguments.insert(command.arguments.begin(), "--allow-run-as-root");
    command.program = kMpirun;
    command.environment["MASTER_PORT"] = std::to_string(free_port());
    return {command};
  }
  if (!row.processes) return {command};
  std::vector<ChildCommand> ranks;
  const std::string port = std::to_string(free_port()), size = std::to_string(run.devices);
  for (int rank = 0; rank < run.devices; ++rank) {
    ranks.push_back(command);
    auto& variables = ranks.back().environment;
    variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
    variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = size;
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = port;
  }
  return ranks;
}

}  // namespace amdahl
