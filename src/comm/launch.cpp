// Reads the environment variables of launchers, one table row per launcher family. The first family that is set is
// used, and all that are set must agree: otherwise N processes could each run as rank 0 of 1 and report wrong results
// (nccl-tests #213, #294).
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/digest.h"
#include "comm/world.h"

namespace amdahl {
namespace {

using Environment = std::map<std::string, std::string>;

struct FamilyRow {
  const char* family;
  const char* rank;
  const char* size;  // empty: the family has no such variable
  const char* local_rank;
  const char* local_size;
};

constexpr std::array<FamilyRow, 6> kFamilies{{
    {"amdahl", "AMDAHL_RANK", "AMDAHL_WORLD_SIZE", "AMDAHL_LOCAL_RANK", "AMDAHL_LOCAL_WORLD_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"pmi", "PMIX_RANK", "", "", ""},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
}};

constexpr int kMostRanks = 1 << 16, kMostPorts = 64;
constexpr const char* kRemedy =
    "start all ranks with one launcher (mpirun, torchrun or srun), or set AMDAHL_RANK and AMDAHL_WORLD_SIZE for each";

[[noreturn]] void refuse(const std::string& message) { throw Error(Cause::launcher_mismatch, message, kRemedy); }

std::optional<int> read_int(const Environment& environment, const char* name) {
  const auto found = *name ? environment.find(name) : environment.end();
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  const std::string& text = found->second;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    refuse(fmt::format("{}={} is not a number of 0 or more", name, text));
  return value;
}

std::string value_or(const Environment& environment, std::initializer_list<const char*> names, std::string fallback) {
  for (const char* name : names)
    if (const auto found = environment.find(name); found != environment.end() && !found->second.empty())
      return found->second;
  return fallback;
}

struct Seen {
  const FamilyRow* row;
  int rank;
  std::optional<int> size;
};

/// Processes that another launcher starts inside a Slurm job or step inherit Slurm's variables, which then describe
/// nodes or the batch script, not ranks.
bool slurm_only_hosts_another_launcher(const Environment& environment, const std::vector<Seen>& before) {
  if (before.empty() || !environment.count("SLURM_JOB_ID")) return false;
  const bool inside_a_step = environment.count("SLURM_STEP_ID") || environment.count("SLURM_STEPID");
  const auto nodes = read_int(environment, "SLURM_NNODES");
  return !inside_a_step || (nodes && nodes == read_int(environment, "SLURM_NTASKS"));
}

/// The shell of an allocation and the script of a batch job have Slurm's variables but are not ranks, which srun starts
/// in steps. The shell of an allocation may be a step with a special number (slurm.h: SLURM_INTERACTIVE_STEP and its
/// neighbours).
bool slurm_started_a_rank(const Environment& environment) {
  constexpr int64_t kFirstSpecialStep = 0xfffffffa;
  const auto rank = read_int(environment, "SLURM_PROCID");
  const std::string step = value_or(environment, {"SLURM_STEP_ID", "SLURM_STEPID"}, "");
  if (step.empty()) return rank && *rank > 0;
  int64_t number = 0;
  std::from_chars(step.data(), step.data() + step.size(), number);
  return rank && number < kFirstSpecialStep;
}

std::vector<Seen> find_families(const Environment& environment) {
  std::vector<Seen> seen;
  for (const FamilyRow& row : kFamilies) {
    const bool slurm = row.family == std::string_view("slurm");
    if (slurm && (!slurm_started_a_rank(environment) || slurm_only_hosts_another_launcher(environment, seen))) continue;
    const auto rank = read_int(environment, row.rank);
    const auto size = read_int(environment, row.size);
    if (!rank && (!size || size == 1)) continue;
    if (!rank)
      refuse(
          fmt::format("{}={} but {} is not set: this process looks alone among {}", row.size, *size, row.rank, *size));
    if (!size && *row.size) refuse(fmt::format("{}={} but {} is not set", row.rank, *rank, row.size));
    if (size && *size > kMostRanks) refuse(fmt::format("{}={}: at most {} ranks", row.size, *size, kMostRanks));
    if (size && *rank >= *size) refuse(fmt::format("{}={} is not below {}={}", row.rank, *rank, row.size, *size));
    seen.push_back({&row, *rank, size});
  }
  return seen;
}

void check_agreement(const std::vector<Seen>& seen) {
  const Seen& first = seen.front();
  for (const Seen& other : seen) {
    if (other.rank != first.rank)
      refuse(fmt::format("{}={} but {}={}", first.row->rank, first.rank, other.row->rank, other.rank));
    if (first.size && other.size && *other.size != *first.size)
      refuse(fmt::format("{}={} but {}={}", first.row->size, *first.size, other.row->size, *other.size));
  }
}

/// "29500", or a range "29500-29507".
std::pair<std::optional<int>, std::optional<int>> read_ports(const Environment& environment, const char* name) {
  const std::string text = value_or(environment, {name}, "");
  const size_t dash = text.find('-', 1);
  if (dash == std::string::npos) return {read_int(environment, name), read_int(environment, name)};
  const auto first = read_int({{name, text.substr(0, dash)}}, name);
  const auto last = read_int({{name, text.substr(dash + 1)}}, name);
  if (!first || !last || *last < *first || *last - *first >= kMostPorts || *last > 65535)
    refuse(fmt::format("{}={} is not a range of 1 to {} ports", name, text, kMostPorts));
  return {first, last};
}

/// What tells jobs apart that use the same port one after the other.
std::string job_of(const Environment& environment, const std::string& family) {
  std::string given = value_or(environment, {"AMDAHL_JOB"}, "");
  if (!given.empty() || family == "amdahl") return given;  // ranks started by hand may be in different jobs of Slurm
  return value_or(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"},
                  "");
}

/// A port derived from the launcher's job name: equal on all ranks of a job, probably different for two jobs on a host.
int port_of_job(const Environment& environment) {
  const std::string job = value_or(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"}, "");
  if (job.empty()) return 29500;                            // torchrun's default
  return 20000 + static_cast<int>(digest_of(job) % 12000);  // below Linux's ephemeral ports (from 32768)
}

void find_master(const Environment& environment, LaunchContext& launch) {
  const bool one_host = launch.local_world_size == launch.world_size;
  launch.master_address = value_or(environment, {"AMDAHL_MASTER_ADDR", "MASTER_ADDR"}, "");
  if (launch.master_address.empty()) {
    if (!one_host)
      throw Error(Cause::launcher_mismatch,
                  fmt::format("{} ranks on several hosts ({} on this one) and no address of rank 0", launch.world_size,
                              launch.local_world_size),
                  "set AMDAHL_MASTER_ADDR to the host of rank 0 for every rank (mpirun -x AMDAHL_MASTER_ADDR=HOST)");
    launch.master_address = "127.0.0.1";
  }
  const auto [own_port, last_port] = read_ports(environment, "AMDAHL_MASTER_PORT");
  const auto torch_port = read_int(environment, "MASTER_PORT");
  const int64_t port = own_port ? *own_port : torch_port ? *torch_port : port_of_job(environment);
  // torchrun's agent listens on MASTER_PORT itself, so the next port is used.
  const bool next = !own_port && torch_port && value_or(environment, {"TORCHELASTIC_USE_AGENT_STORE"}, "") == "True";
  if (port < 1 || port + next > 65535)
    refuse(fmt::format("port {} of the rendezvous is not between 1 and 65535", port + next));
  launch.master_port = static_cast<int>(port + next);
  launch.last_port = own_port ? *last_port : launch.master_port;
  launch.job = job_of(environment, launch.family);
}

}  // namespace

LaunchContext detect_launch(const Environment& environment) {
  LaunchContext launch;
  const std::vector<Seen> seen = find_families(environment);
  if (seen.empty()) return launch;
  check_agreement(seen);
  const Seen* sized = nullptr;  // PMIx alone gives a rank but no size
  for (const Seen& family : seen)
    if (!sized && family.size) sized = &family;
  if (!sized)
    refuse(fmt::format("{}={} but no launcher says how many ranks there are", seen[0].row->rank, seen[0].rank));

  launch.family = seen.front().row->family;
  launch.rank = seen.front().rank;
  launch.world_size = *sized->size;
  const auto local_size = read_int(environment, sized->row->local_size);
  launch.local_world_size = local_size ? *local_size : launch.world_size;  // one host unless told otherwise
  if (launch.family == "slurm") {
    const auto nodes = read_int(environment, "SLURM_NNODES");
    if (nodes && *nodes > 1) launch.local_world_size = 1 + (launch.world_size - 1) / *nodes;
  }
  if (launch.local_world_size < 1)
    refuse(fmt::format("{}={}: this rank is on its host", sized->row->local_size, launch.local_world_size));
  const auto local_rank = read_int(environment, sized->row->local_rank);
  launch.local_rank = local_rank ? *local_rank : launch.rank % launch.local_world_size;
  if (launch.local_rank >= launch.local_world_size)
    refuse(fmt::format("local rank {} is not below the {} ranks of this host", launch.local_rank,
                       launch.local_world_size));
  if (launch.multi_process()) find_master(environment, launch);
  return launch;
}

}  // namespace amdahl
