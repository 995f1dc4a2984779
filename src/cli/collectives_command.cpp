// `amdahl collectives`: a sweep, every transport over the same sweep (--arena), or one-sided calls (--onesided).
#include <cstdio>
#include <memory>

#include "amdahl/report.h"
#include "cli/environment.h"
#include "cli/onesided_command.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct CollectivesArgs {
  CollectivesConfig config;
  // Raw texts of options that use the same letters as nccl-tests.
  std::string names = "all_reduce", dtypes = "f32", ops = "sum", gpus, machine;
  int check = 1;
  std::string format = "table";  // table, nccl-tests
  std::vector<std::string> nccl;
  std::string transports = "all";
  ArenaConfig arena;
  OneSidedArgs onesided;
  std::string environment_file;  // file to write
  OutputOptions output;
};

constexpr int kWaived = 77;  // the exit code that test harnesses read as "skipped"

int collectives_command(const CollectivesArgs& args) {
  TerminalObserver observer(args.output.quiet);
  const CollectivesOutcome outcome = run_collectives(args.config, observer);
  if (!outcome.waived.empty()) {
    show(stdout, fmt::format("waived: {}\n", outcome.waived));
    return kWaived;
  }
  if (!outcome.is_root || args.config.repeat.is_child()) return 0;
  if (!args.output.json && args.format == "nccl-tests")
    show_data(to_nccl_tests(outcome));
  else
    show_outcome(outcome, args.output);
  show_run(outcome.run_dir, args.output);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a collective gave wrong results, did not fit, or was impossibly fast",
              "the rows marked FAILED say which");
}

int arena_command(const ArenaConfig& config, const CollectivesArgs& args) {
  TerminalObserver observer(args.output.quiet);
  const ArenaOutcome outcome = run_arena(config, observer);
  if (!outcome.waived.empty()) {
    show(stdout, fmt::format("waived: {}\n", outcome.waived));
    return kWaived;
  }
  if (!args.environment_file.empty()) save_text(args.environment_file, to_environment(outcome));
  show_outcome(outcome, args.output);
  show_place("environment", args.environment_file, args.output);
  show_run(outcome.run_dir, args.output);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a transport gave wrong results or did not come to its end, or none gave any",
              "the rows marked FAILED say which");
}

/// NCCL reads its variables from the environment when it is opened: they must be set before any verb runs. A word
/// without an equals sign names a profile.
void apply_nccl_settings(const std::vector<std::string>& words, CollectivesConfig& config) {
  std::string profile;
  std::vector<std::string> assignments;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos)
      assignments.push_back(word);
    else if (profile.empty())
      profile = word;
    else
      throw Error(Cause::usage, fmt::format("--nccl {} and {}", profile, word), "one profile, and NAME=VALUE");
  }
  config.nccl_settings = nccl_settings(profile, assignments, process_environment());
  set_environment(config.nccl_settings);
  config.environment = process_environment();
}

int run_parsed_arena(const CLI::App& app, CollectivesArgs& args) {
  if (args.config.registration != 0 || args.format == "nccl-tests")
    throw Error(Cause::usage,
                fmt::format("{} with --arena", args.config.registration != 0 ? "-R" : "--format nccl-tests"),
                "the transports say how buffers are registered; --format table or --json");
  if (app.count("--arena") == 0)
    throw Error(Cause::usage, "--env-file and --transport-timeout are about transports against each other", "--arena");
  if (args.config.repeat.count > 1)
    throw Error(Cause::usage, "--processes with --arena: the arena starts processes of its own", "one of the two");
  args.arena.sweep = args.config;
  args.arena.transports = split_list(args.transports);
  args.arena.program = own_program();
  args.arena.arguments = collectives_arguments;
  return arena_command(args.arena, args);
}

int run_parsed_collectives(const CLI::App& app, CollectivesArgs& args, const std::string& command_line) {
  CollectivesConfig& config = args.config;
  config.gpus = parse_gpus(args.gpus);
  require_positive(app, "--devices", config.devices);
  config.command_line = command_line;
  config.on_fatal = end_at_once;
  finish_html(args.output, config.output_dir, "collectives");
  if (app.count("--onesided") > 0) return run_parsed_onesided(app, args.onesided, config, args.output);
  refuse_options(app,
                 {"--operations", "--shapes", "--tiles", "--ranks", "--partitions", "--least-sample-us", "--threads",
                  "--blocks", "--peers", "--table"},
                 "without --onesided", "both, or neither");
  require_one_of("--format", args.format, {"table", "nccl-tests"});
  config.collectives = split_list(args.names);
  config.dtypes = split_list(args.dtypes);
  config.ops = split_list(args.ops);
  config.check = args.check != 0;
  if (config.comm == "gloo" || config.comm == "mpi") config.processes = std::exchange(config.comm, "auto");
  finish_comm(config.comm, config.comm_table);
  use_machine(args.machine, config.machine);
  apply_nccl_settings(args.nccl, config);
  require_place("--env-file", args.environment_file);
  finish_fresh_processes(app, config.repeat, config.output_dir, args.output);
  const bool arena = app.count("--arena") + app.count("--env-file") + app.count("--transport-timeout") > 0;
  return arena ? run_parsed_arena(app, args) : collectives_command(args);
}

void add_arena_options(CLI::App* sub, CollectivesArgs& args) {
  sub->add_option("--nccl", args.nccl,
                  "Settings of NCCL, checked: the profile pcie-host, or NCCL_ALGO=Ring; may be repeated")
      ->expected(1)
      ->take_all();
  sub->add_option("--arena", args.transports,
                  "Every transport over the same sweep, against each other, or some: nccl,nccl ring ll,gloo")
      ->expected(0, 1)
      ->default_str("all");
  sub->add_option("--env-file", args.environment_file, "Where the arena writes the best settings for a shell");
  sub->add_option("--transport-timeout", args.arena.transport_seconds, "Seconds until a transport is given up")
      ->capture_default_str();
}

void offer_collectives_values(CLI::App* sub) {
  offer(sub, "--comm", {"gloo", "mpi"});
  offer_several(sub, "--collective",
                {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter",
                 "sendrecv", "all"});
  offer_several(sub, "--datatype", {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "all"});
  offer_several(sub, "--op", {"sum", "prod", "min", "max", "avg", "all"});
  offer(sub, "--local-register", {"0", "1", "2"});
  offer(sub, "--format", {"table", "nccl-tests"});
  offer(sub, "--nccl", {"pcie-host"});
  offer_files(sub, {"--machine", "--env-file"});
  offer_lists(sub, {"--arena"});
}

}  // namespace

Command define_collectives(CLI::App& app) {
  auto args = std::make_shared<CollectivesArgs>();
  CollectivesConfig& config = args->config;
  CLI::App* sub =
      app.add_subcommand("collectives", "Collectives over a sweep of sizes, every element verified; one-sided calls");
  sub->footer(
      "examples:\n  amdahl collectives -b 8 -e 128M -f 2 -g 4\n  mpirun -n 2 amdahl collectives --backend cpu "
      "--collective all_gather,broadcast --format nccl-tests\n  amdahl collectives --arena --env-file nccl.sh\n"
      "  amdahl collectives --onesided -e 1M --table onesided.json\n"
      "  amdahl train --model medium --devices 2 --backend cpu --comm onesided.json");
  sub->add_option("--collective", args->names,
                  "Names or nccl-tests' programs, for example all_reduce,all_to_all, or all")
      ->capture_default_str();
  sub->add_option("-b,--min-bytes", config.min_bytes, "Smallest size; M is 2^20")->default_str("8");
  sub->add_option("-e,--max-bytes", config.max_bytes, "Largest size (--onesided: 64M)")->default_str("32M");
  sub->add_option("-i,--step-bytes", config.step_bytes, "Fixed increment (default: --step-factor)");
  sub->add_option("-f,--step-factor", config.step_factor, "Factor between sizes")->capture_default_str();
  sub->add_option("-d,--datatype", args->dtypes, "Of f32, f64, f16, bf16, i32, i64, u8, or all")->capture_default_str();
  sub->add_option("--op", args->ops, "Of sum, prod, min, max, avg, or all")->capture_default_str();
  sub->add_option("-r,--root", config.root, "Root of rooted collectives")->capture_default_str();
  sub->add_option("-g,--devices", config.devices, "Devices (default: all GPUs, 2 virtual devices, or all ranks)");
  add_backend(sub, config.backend, args->gpus);
  sub->add_option("--machine", args->machine, "Machine file of `amdahl links`: quarantined pairs are avoided");
  add_comm(sub, config.comm);
  sub->get_option("--comm")->description("As in train, or what CPU processes exchange data by: gloo or mpi");
  sub->add_option("-n,--samples", config.iterations, "Timed calls per size")->capture_default_str();
  sub->add_option("-w,--warmup", config.warmup, "Untimed calls per size")->capture_default_str();
  sub->add_option("-c,--check", args->check, "Verify every element once per size (0: never)")->capture_default_str();
  sub->add_option("-G,--graph", config.graph, "Calls per CUDA graph (default: eager)");
  sub->add_option("-R,--local-register", config.registration,
                  "NCCL buffers: 0 plain, 1 registered, 2 symmetric windows")
      ->capture_default_str();
  add_fresh_processes(sub, config.repeat);
  add_timeout(sub, config.timeout_seconds);
  add_seed(sub, config.seed);
  add_arena_options(sub, *args);
  add_onesided_options(sub, args->onesided);
  sub->add_option("--format", args->format, "table or nccl-tests")->capture_default_str();
  add_output_dir(sub, config.output_dir);
  add_output_options(sub, args->output);
  add_html(sub, args->output);
  offer_collectives_values(sub);
  arrange(sub, {{"Sweep", "--collective --min-bytes --max-bytes +--step-bytes --step-factor --datatype --op +--root"},
                {"Devices", "--devices --backend --gpus +--machine +--comm"},
                {"Sampling", "--samples --warmup --check +--graph +--local-register --processes +--timeout +--seed"},
                {"Transports", "--nccl --arena +--env-file +--transport-timeout"},
                {"One-sided", kOneSidedOptions},
                {"Output", "--format --output-dir --html"}});
  return {sub,
          [args, sub](const std::string& command_line) { return run_parsed_collectives(*sub, *args, command_line); }};
}

}  // namespace amdahl::cli
