// `amdahl links`.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct LinksArgs {
  LinksConfig config;
  bool list = false;
  std::string machine;  // file to write
  std::vector<std::string> tests{"default"};
  std::string gpus;
  OutputOptions output;
};

int list_tests() {
  std::string group;
  for (const LinkTestInfo& test : list_link_tests()) {
    if (test.group != group) fmt::print("{}\n", group = test.group);
    fmt::print("  {:<46} {}\n", test.name, test.summary);
  }
  return 0;
}

int links_command(const LinksArgs& args) {
  if (args.list) return list_tests();
  TerminalObserver observer(args.output.quiet);
  const LinksOutcome outcome = run_links(args.config, observer);
  if (args.config.repeat.is_child()) return 0;
  show_outcome(outcome, args.output);
  if (!args.machine.empty()) save_measured(args.machine, outcome.machine);
  show_run(outcome.run_dir, args.output);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a link corrupts data, is slow, or could not be measured",
              "the lines marked CORRUPT, SLOW or FAILED say which");
}

/// Names of tests and groups of tests.
std::vector<std::string> names_of_tests() {
  std::vector<std::string> names{"default", "all"};
  for (const LinkTestInfo& test : list_link_tests())
    for (const std::string& name : {test.group, test.name})
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

int run_parsed_links(LinksArgs& args, const CLI::App& app, const std::string& command_line) {
  LinksConfig& config = args.config;
  config.tests = args.tests;
  config.gpus = parse_gpus(args.gpus);
  require_positive(app, "--devices", config.devices);
  config.environment = process_environment();
  config.command_line = command_line;
  config.on_fatal = end_at_once;
  finish_html(args.output, config.output_dir, "links");
  finish_fresh_processes(app, config.repeat, config.output_dir, args.output);
  require_machine_place(args.machine);
  return links_command(args);
}

}  // namespace

Command define_links(CLI::App& app) {
  auto args = std::make_shared<LinksArgs>();
  LinksConfig& config = args->config;
  CLI::App* sub = app.add_subcommand("links", "Bandwidth, latency and integrity between the memories of this machine");
  sub->footer(
      "examples:\n  amdahl links\n  amdahl links -t pairs,latency -i 5 --min-gbps 230\n  amdahl links -t integrity "
      "--inject-faults 10000");
  sub->add_option("-t,--test", args->tests, "Tests or groups of --list, default or all")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_flag("-l,--list", args->list, "List the tests");
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, or 2 virtual devices)");
  add_backend(sub, config.backend, args->gpus);
  sub->add_flag("!--no-peer-access", config.peer_access, "As on a machine without it: through host memory");
  sub->add_option("-i,--samples", config.samples, "Samples per cell; their median is shown")->capture_default_str();
  sub->add_option("-b,--buffer-size", config.buffer_bytes, "Bytes per copy, for example 64M (default: 512M, CPU 16M)");
  sub->add_option("--copies", config.copies, "Copies per sample (default: 16, CPU 4)");
  add_fresh_processes(sub, config.repeat);
  sub->add_option("--min-gbps", config.min_gbps, "Fail pairs below this, GB/s");
  sub->add_option("--inject-faults", config.injected_faults, "integrity: corruptions to make, all to be found");
  sub->add_flag("!--no-check", config.check, "Do not verify what the copies brought");
  sub->add_flag("!--no-traffic", config.traffic, "integrity: on idle links only");
  add_timeout(sub, config.timeout_seconds);
  add_seed(sub, config.seed);
  sub->add_option("--machine", args->machine, "File for the machine with what was measured of its links");
  add_output_dir(sub, config.output_dir);
  add_html(sub, args->output);
  sub->add_flag("-j,--json", args->output.json, "Machine-readable result on stdout");
  sub->add_flag("--quiet,-q", args->output.quiet, "No progress");
  offer_several(sub, "--test", names_of_tests());
  offer_files(sub, {"--machine"});
  arrange(sub, {{"Tests", "--test --list --min-gbps +--inject-faults +--no-check +--no-traffic"},
                {"Devices", "--devices --backend --gpus +--no-peer-access"},
                {"Sampling", "--samples --buffer-size +--copies --processes +--timeout +--seed"},
                {"Output", "--machine --output-dir --html"}});
  return {sub, [args, sub](const std::string& command_line) { return run_parsed_links(*args, *sub, command_line); }};
}

}  // namespace amdahl::cli
