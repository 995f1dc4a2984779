#include "cli/advise_options.h"

#include <cstdio>

#include "amdahl/comparison.h"
#include "cli/output.h"

namespace amdahl::cli {

void add_advise(CLI::App* app, AdviseOptions& options) {
  app->add_option("--advise", options.config.policy,
                  "One device or several, in one line: measured, or study (the published thresholds)")
      ->expected(0, 1)
      ->default_str("measured");
  app->add_option("--params", options.parameters,
                  "With --advise: number of parameters, for example 6.9M, not a --model");
  offer(app, "--advise", {"measured", "study"});
}

int show_advice(AdviseOptions& options, const OutputOptions& output) {
  if (options.parameters.empty() == options.config.model.empty())
    throw Error(Cause::usage, "--advise needs either --params or --model", "--params 6.9M, or --model large");
  if (!options.parameters.empty())
    options.config.num_parameters = parse_whole(options.parameters, Unit::count, "--params");
  const Advice advice = run_advise(options.config);
  if (output.json) {
    show_data(to_json(advice) + "\n");
    return 0;
  }
  show(stdout, fmt::format("{}: {}\n", advice.decision, advice.reason));
  for (const std::string& line : advice.evidence) show(stdout, fmt::format("  {}\n", line));
  if (!advice.command.empty()) show(stdout, fmt::format("measure it: {}\n", advice.command));
  return 0;
}

}  // namespace amdahl::cli
