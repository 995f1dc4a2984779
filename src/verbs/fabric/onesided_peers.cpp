#include "verbs/fabric/onesided_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "measure/onesided/bench.h"
#include "setup/rank_processes.h"
#include "setup/temporary_folder.h"

namespace amdahl {
namespace {

constexpr const char* kNvshmem = "nvshmem";
constexpr double kPeerSeconds = 1800;

std::string peer_program(const OneSidedConfig& config) {
  const std::filesystem::path program = std::filesystem::path(config.program).parent_path() / "amdahl-nvshmem";
  if (config.program.empty() || !std::filesystem::exists(program))
    throw Error(Cause::environment_missing, fmt::format("nvshmem: there is no program {}", program.string()),
                "a build with -DAMDAHL_NVSHMEM=FOLDER, the folder of NVSHMEM's include and lib");
  return program.string();
}

/// A line that the program prints: operation, bytes, threads, wrong bytes, samples in us.
Record record_of_line(const std::string& line, const Record& like, int devices) {
  std::istringstream words(line);
  std::string operation;
  int64_t bytes = 0, threads = 0;
  double wrong = 0, us = 0;
  Series latency{"latency", "us", {}}, bandwidth{"bandwidth", "GB/s", {}};
  words >> operation >> bytes >> threads >> wrong;
  while (words >> us) latency.samples.push_back(us);
  if (!words.eof() || latency.samples.empty())
    throw Error(Cause::internal, fmt::format("amdahl-nvshmem printed '{}'", line));
  for (const double each : latency.samples) bandwidth.samples.push_back(static_cast<double>(bytes) / each * 1e-3);
  Record record;
  record.kind = "onesided";
  record.provenance = like.provenance;
  record.origin = like.origin;
  record.axes = {{"operation", operation},      {"transport", std::string(kNvshmem)}, {"bytes", bytes},
                 {"devices", int64_t{devices}}, {"ranks", like.axes.at("ranks")},     {"threads", threads},
                 {"blocks", int64_t{1}}};
  const bool sized = operation.starts_with("put") || operation == "get";
  record.series.push_back(std::move(latency));
  if (sized) record.series.push_back(std::move(bandwidth));
  record.series.push_back({"wrong", "bytes", {wrong}});
  if (wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} bytes are wrong", wrong)};
  return record;
}

}  // namespace

void check_onesided_peers(const OneSidedConfig& config) {
  for (const std::string& peer : config.peers)
    if (peer != kNvshmem)
      throw Error(Cause::usage, fmt::format("unknown peer '{}'", peer), choices_hint(peer, {kNvshmem}));
  if (!config.peers.empty() &&
      (config.patterns || config.gemm || config.norm || config.locality || config.partitions > 0))
    throw Error(Cause::usage, "`peers` beside patterns, GEMMs, localities or partitions",
                "operations between several GPUs");
}

void measure_onesided_peers(const OneSidedConfig& config, const Record& like,
                            const std::function<void(const Record&)>& sink, Observer& observer) {
  if (config.peers.empty()) return;
  const std::string program = peer_program(config);
  const TemporaryFolder folder(config.environment);
  std::vector<ChildCommand> commands;
  const std::vector<int64_t> sizes = one_sided_sizes(config.min_bytes, config.max_bytes);
  for (int rank = 0; rank < config.devices; ++rank)
    commands.push_back({program,
                        {std::to_string(rank), std::to_string(config.devices), (folder.path() / "id").string(),
                         std::to_string(config.samples), fmt::format("{}", config.least_sample_us),
                         std::to_string(config.threads.front()), fmt::format("{}", fmt::join(sizes, ","))},
                        inherited_environment(config.environment)});
  constexpr int64_t kSmallObjects = int64_t{64} << 20;
  for (ChildCommand& command : commands)
    command.environment.try_emplace("NVSHMEM_SYMMETRIC_SIZE", std::to_string(2 * config.max_bytes + kSmallObjects));
  if (!config.gpus.empty())
    for (ChildCommand& command : commands)
      command.environment["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(config.gpus, ","));
  observer.note(fmt::format("measuring NVSHMEM on {} GPUs", config.devices));
  const std::vector<ChildResult> results =
      run_children(commands, Deadline::after_seconds(kPeerSeconds), [&observer] { return observer.cancelled(); });
  for (const ChildResult& result : results)
    if (result.end != ChildResult::End::exited || result.code != 0)
      throw Error(Cause::environment_missing, "nvshmem: " + reason_of_failure(results, kPeerSeconds),
                  "libnvshmem_host.so.3 on LD_LIBRARY_PATH and GPUs that reach each other, or no `peers`");
  std::istringstream lines(results.front().out);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) sink(record_of_line(line, like, config.devices));
}

}  // namespace amdahl
