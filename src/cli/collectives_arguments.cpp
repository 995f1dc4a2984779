// Writes the command line of a collectives sweep: the inverse of the parser in collectives_command.cpp.
#include <fmt/format.h>

#include "cli/commands.h"

namespace amdahl::cli {

std::vector<std::string> collectives_arguments(const CollectivesConfig& sweep) {
  std::vector<std::string> words{"collectives", "--quiet"};
  const auto add = [&](const char* option, const auto& value) {
    words.emplace_back(option);
    words.push_back(fmt::format("{}", value));
  };
  const auto add_list = [&](const char* option, const auto& values) {
    add(option, fmt::format("{}", fmt::join(values, ",")));
  };
  add("--backend", sweep.backend);
  add("--devices", sweep.devices);
  if (!sweep.gpus.empty()) add_list("--gpus", sweep.gpus);
  add_list("--collective", sweep.collectives);
  add_list("--datatype", sweep.dtypes);
  add_list("--op", sweep.ops);
  add("--root", sweep.root);
  add("--min-bytes", sweep.min_bytes);
  add("--max-bytes", sweep.max_bytes);
  add("--step-bytes", sweep.step_bytes);
  add("--step-factor", sweep.step_factor);
  add("--samples", sweep.iterations);
  add("--warmup", sweep.warmup);
  add("--check", sweep.check ? 1 : 0);
  add("--local-register", sweep.registration);
  if (sweep.graph > 0) add("--graph", sweep.graph);
  const std::string& comm = sweep.comm == "auto" ? sweep.processes : sweep.comm;
  add("--comm", sweep.comm_table.empty() ? comm : sweep.comm_table);
  add("--timeout", sweep.timeout_seconds);
  add("--seed", sweep.seed);
  if (!sweep.output_dir.empty()) add("--output-dir", sweep.output_dir);
  return words;
}

}  // namespace amdahl::cli
