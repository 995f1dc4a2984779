#include "verbs/fabric/collectives_setup.h"

#include <fmt/format.h>

#include "base/nvls.h"
#include "comm/nccl_settings.h"
#include "setup/backends.h"

namespace amdahl {
namespace {

/// Settings shared by all sweeps of a configuration.
SweepSettings common_settings(const CollectivesConfig& config, int devices) {
  static constexpr Registration kRegistrations[] = {Registration::none, Registration::buffer, Registration::window};
  SweepSettings settings;
  settings.root = config.root;
  settings.devices = devices;
  settings.sizes = sweep_sizes(config.min_bytes, config.max_bytes, config.step_bytes, config.step_factor);
  settings.iterations = config.iterations;
  settings.warmup = config.warmup;
  settings.check = config.check;
  settings.graph = config.graph;
  settings.registration = kRegistrations[config.registration];
  settings.seed = config.seed;
  settings.timeout_seconds = config.timeout_seconds;
  settings.make_transfer = make_transfer;
  return settings;
}

}  // namespace

void check_collectives(const CollectivesConfig& config) {
  constexpr int64_t kMostBytes = int64_t{1} << 40;
  constexpr int kMostIterations = 1'000'000;
  const auto within = [](int64_t value, int64_t low, int64_t high, const char* option) {
    if (value < low || value > high)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("{} to {}", low, high));
  };
  within(config.min_bytes, 1, kMostBytes, "`min_bytes`");
  within(config.max_bytes, 1, kMostBytes, "`max_bytes`");
  within(config.step_bytes, 0, kMostBytes, "`step_bytes`");
  within(config.step_factor, 2, 1 << 20, "`step_factor`");
  within(config.iterations, 1, kMostIterations, "`iterations`");
  within(config.warmup, 0, kMostIterations, "`warmup`");
  within(config.graph, 0, 10'000, "`graph`");
  within(config.devices, 0, 1 << 16, "`devices`");
  if (config.min_bytes > config.max_bytes)
    throw Error(Cause::usage, fmt::format("`min_bytes` {} is above `max_bytes` {}", config.min_bytes, config.max_bytes),
                "the smaller size first");
  if (config.collectives.empty()) throw Error(Cause::usage, "no collective was named", "`collectives=all_reduce`");
  if (config.dtypes.empty()) throw Error(Cause::usage, "no data type was named", "`dtypes=f32`");
  if (config.ops.empty()) throw Error(Cause::usage, "no operation was named", "`ops=sum`");
  within(config.registration, 0, 2, "`registration`");
  check_nccl_settings(config.environment, "the environment");
}

namespace {

/// Narrow types represent integers exactly only below 256; the sum of the test data over many ranks would exceed that.
void require_exact(const SweepSettings& settings) {
  const bool narrow = settings.type == DType::u8 || settings.type == DType::bf16;
  const bool adds = settings.op == ReduceOp::sum || settings.op == ReduceOp::avg;
  const int most = adds ? 255 : settings.devices;
  if (!settings.row->reduces || !settings.check || !narrow || settings.devices <= most) return;
  throw Error(Cause::usage,
              fmt::format("{} of {} has no exact answer over {} ranks", to_string(settings.op),
                          to_string(settings.type), settings.devices),
              fmt::format("`check=0`, a wider type, or at most {} ranks", most));
}

/// Ranks have shares of whole groups of elements: a call of less moves nothing.
void require_shares(const SweepSettings& settings) {
  if (count_pieces(settings) > 0) return;
  size_t elements = 1;
  while (settings.row->shape(elements, settings.devices).call == 0) elements *= 2;
  throw Error(Cause::usage,
              fmt::format("{} of at most {} bytes has no share for each of {} ranks", settings.row->name,
                          settings.sizes.back(), settings.devices),
              fmt::format("`max_bytes={}`", elements * size_of(settings.type)));
}

}  // namespace

std::vector<SweepSettings> sweeps_of(const CollectivesConfig& config, int devices) {
  if (config.root < 0 || config.root >= devices)
    throw Error(Cause::usage, fmt::format("`root` is {} and there are {} ranks", config.root, devices),
                fmt::format("0 to {}", devices - 1));
  std::vector<SweepSettings> sweeps;
  const std::vector<DType> types = parse_dtypes(config.dtypes);
  const std::vector<ReduceOp> ops = parse_reduce_ops(config.ops);
  SweepSettings settings = common_settings(config, devices);
  for (const CollectiveRow* row : find_collectives(config.collectives))
    for (const DType type : types)
      for (const ReduceOp op : row->reduces ? ops : std::vector<ReduceOp>{ReduceOp::sum}) {
        settings.row = row, settings.type = type, settings.op = op;
        require_exact(settings);
        require_shares(settings);
        sweeps.push_back(settings);
      }
  return sweeps;
}

void set_limit(const NvlinkFabric& fabric, const std::map<std::string, std::string>& environment,
               SweepSettings& sweep) {
  const bool windows = sweep.registration == Registration::window;
  const bool reduced = fabric.switches_reduce && sweep.row->name == "all_reduce" &&
                       nvls_refusal(environment, sweep.row->name, windows).empty();
  sweep.link_gbps = fabric.link_gbps;
  sweep.peak_gbps = reduced ? fabric.link_gbps * sweep.row->bus_factor(sweep.devices) : fabric.link_gbps;
}

std::map<std::string, std::string> collectives_identity(const CollectivesConfig& config, int devices) {
  return {{"collectives", fmt::format("{}", fmt::join(config.collectives, ","))},
          {"dtype", fmt::format("{}", fmt::join(config.dtypes, ","))},
          {"op", fmt::format("{}", fmt::join(config.ops, ","))},
          {"registration", std::to_string(config.registration)},
          {"devices", std::to_string(devices)},
          {"comm", config.comm},
          {"min_bytes", std::to_string(config.min_bytes)},
          {"max_bytes", std::to_string(config.max_bytes)},
          {"iterations", std::to_string(config.iterations)}};
}

JobFacts collectives_facts(const CollectivesConfig& config, int devices) {
  JobFacts facts = collectives_identity(config, devices);
  facts.insert({{"command", "collectives"},
                {"root", std::to_string(config.root)},
                {"step_bytes", std::to_string(config.step_bytes)},
                {"step_factor", std::to_string(config.step_factor)},
                {"warmup", std::to_string(config.warmup)},
                {"check", config.check ? "yes" : "no"},
                {"graph", std::to_string(config.graph)}});
  for (const auto& [name, value] : config.nccl_settings) facts[name] = value;
  return facts;
}

}  // namespace amdahl
