// amdahl all: measures every part of a machine and writes one page.
#include "amdahl/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/environment.h"
#include "cli/nccl_log.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct AllArgs {
  AllConfig config;
  std::string gpus;
  bool quiet = false;
};

int all_command(AllArgs args, const std::string& command_line) {
  AllConfig& config = args.config;
  config.gpus = parse_gpus(args.gpus);
  require_place("--html", config.html);
  if (config.output_dir.empty()) config.output_dir = default_run_dir("all");
  config.user_environment = process_environment();
  const NcclLog log;
  config.nccl_log = log.path();
  config.environment = process_environment();
  config.command_line = command_line;
  config.on_fatal = end_at_once;
  AllOutcome outcome;
  {
    TerminalObserver observer(args.quiet);
    outcome = run_all(config, observer);
  }  // destroyed here, to clear its last line before the result
  show(stdout, text_of(outcome));
  if (!outcome.failed) return 0;
  std::vector<std::string> names;
  for (const AllPart& part : outcome.parts)
    if (part.end == AllPart::End::problems || part.end == AllPart::End::failed) names.push_back(part.name);
  std::fflush(stdout);
  throw Error(Cause::check_failed,
              fmt::format("{} of {} parts found problems or failed: {}", names.size(), outcome.parts.size(),
                          fmt::join(names, ", ")),
              "the lines above, and the reports in their folders");
}

}  // namespace

Command define_all(CLI::App& app) {
  auto args = std::make_shared<AllArgs>();
  AllConfig& config = args->config;
  CLI::App* sub =
      app.add_subcommand("all", "Topology, doctor, links, collectives, study and sensor bench, ending in one page");
  sub->footer("examples:\n  amdahl all --quick\n  amdahl all --devices 4 --output-dir results/local/this-machine");
  sub->add_flag("--quick", config.quick, "Fewer samples and sizes, for a first look");
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, or 2 virtual devices)");
  add_backend(sub, config.backend, args->gpus);
  add_timeout(sub, config.timeout_seconds);
  add_seed(sub, config.seed, "Seed of weights and data");
  sub->add_option("--html", config.html, "Page to write (default: report.html in the output folder)");
  add_output_dir(sub, config.output_dir, "results/local/all-TIME; of the parts' run folders and the page");
  sub->add_flag("--quiet,-q", args->quiet, "No progress");
  offer_files(sub, {"--html"});
  arrange(sub, {{"Sampling", "--quick +--timeout +--seed"},
                {"Devices", "--devices --backend --gpus"},
                {"Output", "--output-dir --html"}});
  return {sub, [args, sub](const std::string& command_line) {
            require_positive(*sub, "--devices", args->config.devices);
            return all_command(*args, command_line);
          }};
}

}  // namespace amdahl::cli
