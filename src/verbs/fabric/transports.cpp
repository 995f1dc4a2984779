#include "verbs/fabric/transports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "comm/world.h"
#include "device/device.h"
#include "ops/ops.h"
#include "setup/rank_processes.h"

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
  sweep.comm = row.comm;
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
      {.name = "symmetric threads", .backend = "cpu", .comm = "symmetric", .available = cpu_ops_availability},
      {.name = "symmetric", .backend = "cpu", .processes = true, .comm = "symmetric", .available = gloo_availability},
      {.name = "symmetric ll",
       .backend = "cpu",
       .processes = true,
       .comm = "symmetric-ll",
       .available = gloo_availability},
      {.name = "symmetric one-shot",
       .backend = "cpu",
       .processes = true,
       .comm = "symmetric-one-shot",
       .available = gloo_availability},
      {.name = "symmetric two-shot",
       .backend = "cpu",
       .processes = true,
       .comm = "symmetric-two-shot",
       .available = gloo_availability},
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
  command.environment = inherited_environment(config.sweep.environment);
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
  return as_ranks(command, run.devices);
}

}  // namespace amdahl
