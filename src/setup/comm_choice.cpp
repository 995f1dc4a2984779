#include "setup/comm_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "amdahl/error.h"
#include "comm/world.h"
#include "files/whole_file.h"
#include "spec/json.h"

namespace amdahl {
namespace {

constexpr std::array<CommRow, 6> kComms{{{"auto"},
                                         {"symmetric", true},
                                         {"symmetric-ll", true, SymmetricAlgorithm::flagged},
                                         {"symmetric-ll128", true, SymmetricAlgorithm::lines},
                                         {"symmetric-one-shot", true, SymmetricAlgorithm::one_shot},
                                         {"symmetric-two-shot", true, SymmetricAlgorithm::two_shot}}};

}  // namespace

const CommRow& find_comm(std::string_view name) {
  const auto* const row =
      std::find_if(kComms.begin(), kComms.end(), [&](const CommRow& each) { return each.name == name; });
  if (row != kComms.end()) return *row;
  std::vector<std::string> names;
  for (const CommRow& each : kComms) names.emplace_back(each.name);
  throw Error(Cause::usage, fmt::format("`comm`: unknown value '{}'", name), choices_hint(std::string(name), names));
}

std::optional<SymmetricOptions> symmetric_options(const EngineConfig& config, const std::string& device_kind) {
  const CommRow& row = find_comm(config.comm);
  if (!row.symmetric) {
    if (!config.comm_table.empty())
      throw Error(Cause::usage, fmt::format("`comm_table` with `comm={}`", config.comm), "`comm=symmetric`");
    return std::nullopt;
  }
  SymmetricOptions options = default_symmetric_options(device_kind == "cuda" ? BackendKind::cuda : BackendKind::cpu);
  options.all_reduce = row.all_reduce;
  if (config.comm_table.empty()) return options;
  const bool processes = detect_launch(config.environment).multi_process();
  const char* const ranks = processes ? "processes" : "threads";
  const std::vector<OneSidedChoice> choices =
      choices_from_json(read_file(config.comm_table, Cause::usage), config.comm_table);
  for (const OneSidedChoice& choice : choices) {
    if (choice.ranks != ranks || choice.device_kind != device_kind || choice.one_shot_bytes == 0) continue;
    options.flagged_bytes = static_cast<size_t>(choice.flagged_bytes);
    options.line_bytes = static_cast<size_t>(choice.line_bytes);
    options.one_shot_bytes = options.one_shot_bytes_of_many = static_cast<size_t>(choice.one_shot_bytes);
    return options;
  }
  throw Error(Cause::usage, fmt::format("{} has no all_reduce between {} of {}", config.comm_table, ranks, device_kind),
              "onesided.json, which one-sided collectives on this machine write");
}

}  // namespace amdahl
