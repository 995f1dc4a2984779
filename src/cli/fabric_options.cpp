// Options of the commands that inspect and measure the fabric.
#include <algorithm>
#include <memory>

#include "cli/environment.h"
#include "cli/export_options.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

Command define_topo(CLI::App& app) {
  auto args = std::make_shared<TopoArgs>();
  CLI::App* topo = app.add_subcommand("topo", "Devices, links, PCIe paths and NUMA nodes; measures nothing");
  topo->footer("examples:\n  amdahl topo\n  amdahl topo --format svg --output machine.svg");
  topo->add_option("--format", args->format, "matrix, json, dot or svg")->capture_default_str();
  topo->add_flag("--json", args->json, "The same as --format json");
  topo->add_option("--output,-o", args->output, "File to write (default: standard output)");
  topo->add_option("--virtual", args->config.virtual_devices, "Describe this many CPU virtual devices, not the GPUs")
      ->check(kWhole);
  topo->add_option("--sysfs", args->config.sysfs, "Where the kernel shows its devices")->capture_default_str();
  offer(topo, "--format", {"matrix", "json", "dot", "svg"});
  offer_files(topo, {"--output", "--sysfs"});
  return {topo, [args, topo](const std::string&) {
            if (args->json && topo->count("--format") > 0 && args->format != "json")
              throw Error(Cause::usage, fmt::format("--json with --format {}", args->format), "one of them");
            if (args->json) args->format = "json";
            if (topo->count("--sysfs") > 0) require_folder("--sysfs", args->config.sysfs);
            require_one_of("--format", args->format, {"matrix", "json", "dot", "svg"});
            if (topo->count("--virtual") > 0 && args->config.virtual_devices < 1)
              throw Error(Cause::usage, fmt::format("--virtual is {}", args->config.virtual_devices), "at least 1");
            return topo_command(*args);
          }};
}

Command define_doctor(CLI::App& app) {
  auto args = std::make_shared<DoctorArgs>();
  auto gpus = std::make_shared<std::string>();
  DoctorConfig& config = args->config;
  CLI::App* sub = app.add_subcommand("doctor", "What is wrong with this machine, and the command that fixes it");
  sub->footer(
      "examples:\n  amdahl doctor\n  amdahl doctor --from my-study\n  amdahl doctor --json --min-gbps 230 && echo "
      "healthy");
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, or 2 virtual devices)")->check(kWhole);
  sub->add_option("--gpus", *gpus, "CUDA devices to use, for example 0,2 (default: all)");
  sub->add_option("--backend", config.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  sub->add_option("--min-gbps", config.min_gbps, "Fault for pairs below this, GB/s");
  sub->add_flag("!--no-peer-access", config.peer_access, "As on a machine without it: through host memory");
  sub->add_option("--machine", args->machine, "File for the machine with what was measured of its links");
  sub->add_option("--from", config.study, "Run folder of a study: judges how its training is set up, too");
  sub->add_option("--sysfs", config.sysfs, "Where the kernel shows its devices")->capture_default_str();
  sub->add_option("--shm", config.shm, "Where the host keeps shared memory")->capture_default_str();
  sub->add_option("-T,--timeout", config.timeout_seconds, "Seconds until a wait is given up")->capture_default_str();
  sub->add_option("--seed", config.seed, "Seed of the data")->check(kNatural)->capture_default_str();
  sub->add_option("--output-dir,-o", config.output_dir, "Run folder (default: none)");
  add_talk(sub, args->talk);
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
  offer_files(sub, {"--machine", "--from", "--sysfs", "--shm", "--output-dir"});
  offer_lists(sub, {"--gpus"});
  return {sub, [args, gpus, sub](const std::string& command_line) {
            if (sub->count("--devices") > 0 && args->config.devices < 1)
              throw Error(Cause::usage, fmt::format("--devices is {}", args->config.devices), "at least 1");
            args->config.gpus = parse_gpus(*gpus);
            if (sub->count("--sysfs") > 0) require_folder("--sysfs", args->config.sysfs);
            require_machine_place(args->machine);
            args->config.command_line = command_line;
            args->config.on_fatal = end_at_once;
            return doctor_command(*args);
          }};
}

struct ParsedLinks {
  LinksArgs args;
  std::vector<std::string> tests{"default"};
  std::string buffer_size, gpus;
};

/// Names of tests and groups of tests.
std::vector<std::string> names_of_tests() {
  std::vector<std::string> names{"default", "all"};
  for (const LinkTestInfo& test : list_link_tests())
    for (const std::string& name : {test.group, test.name})
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

Command define_links(CLI::App& app) {
  auto parsed = std::make_shared<ParsedLinks>();
  LinksConfig& config = parsed->args.config;
  CLI::App* sub = app.add_subcommand("links", "Bandwidth, latency and integrity between the memories of this machine");
  sub->footer(
      "examples:\n  amdahl links\n  amdahl links -t pairs,latency -i 5 --min-gbps 230\n  amdahl links -t integrity "
      "--inject-faults 10000");
  sub->add_option("-t,--test", parsed->tests, "Tests or groups of --list, default or all")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_flag("-l,--list", parsed->args.list, "List the tests");
  add_fresh_processes(sub, "--repeat", kRepeatHelp, config.repeat);
  sub->add_option("-i,--samples", config.samples, "Samples per cell; their median is shown")
      ->check(kWhole)
      ->capture_default_str();
  sub->add_option("-b,--buffer-size", parsed->buffer_size, "Bytes per copy, for example 64M (default: 512M, CPU 16M)");
  sub->add_option("--copies", config.copies, "Copies per sample (default: 16, CPU 4)")->check(kWhole);
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, or 2 virtual devices)")->check(kWhole);
  sub->add_option("--gpus", parsed->gpus, "CUDA devices to use, for example 0,2 (default: all)");
  sub->add_option("--backend", config.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  sub->add_option("--min-gbps", config.min_gbps, "Fail pairs below this, GB/s");
  sub->add_option("--inject-faults", config.injected_faults, "integrity: corruptions to make, all to be found")
      ->check(kWhole);
  sub->add_flag("!--no-check", config.check, "Do not verify what the copies brought");
  sub->add_flag("!--no-traffic", config.traffic, "integrity: on idle links only");
  sub->add_flag("!--no-peer-access", config.peer_access, "As on a machine without it: through host memory");
  sub->add_option("--machine", parsed->args.machine, "File for the machine with what was measured of its links");
  sub->add_option("--heat-map", parsed->args.heat_map, "SVG file of the pairs' bandwidth");
  sub->add_option("-T,--timeout", config.timeout_seconds, "Seconds until a wait is given up")->capture_default_str();
  sub->add_option("--seed", config.seed, "Seed of the data")->check(kNatural)->capture_default_str();
  sub->add_option("--output-dir,-o", config.output_dir, "Run folder (default: none)");
  add_metrics(sub, parsed->args.metrics);
  sub->add_flag("-j,--json", parsed->args.talk.json, "Machine-readable result on stdout");
  sub->add_flag("--quiet,-q", parsed->args.talk.quiet, "No progress");
  offer_several(sub, "--test", names_of_tests());
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
  offer_files(sub, {"--machine", "--heat-map", "--output-dir"});
  offer_lists(sub, {"--gpus"});
  return {sub, [parsed, sub](const std::string& command_line) {
            LinksConfig& chosen = parsed->args.config;
            chosen.tests = parsed->tests;
            if (!parsed->buffer_size.empty())
              chosen.buffer_bytes = parse_size_bytes(parsed->buffer_size, "--buffer-size");
            chosen.gpus = parse_gpus(parsed->gpus);
            if (sub->count("--devices") > 0 && chosen.devices < 1)
              throw Error(Cause::usage, fmt::format("--devices is {}", chosen.devices), "at least 1");
            chosen.environment = process_environment();
            chosen.command_line = command_line;
            chosen.on_fatal = end_at_once;
            finish_fresh_processes(*sub, chosen.repeat, chosen.output_dir, parsed->args.talk);
            require_metrics_place(parsed->args.metrics);
            require_machine_place(parsed->args.machine);
            require_place("--heat-map", parsed->args.heat_map);
            return links_command(parsed->args);
          }};
}

// Raw text values of the options of `collectives`, which use the same letters as nccl-tests.
struct CollectiveTexts {
  std::string names = "all_reduce", dtypes = "f32", ops = "sum", min_bytes = "8", max_bytes = "32M", step_bytes = "0",
              gpus, machine;
  int gpus_per_thread = 1, threads = 1, check = 1;
  std::string profile, transports = "all";
  std::vector<std::string> assignments;
  bool arena = false;
};

struct ParsedCollectives {
  CollectivesArgs args;
  ArenaArgs arena;  // its sweep is taken from `args`
  CollectiveTexts texts;
};

// NCCL reads its variables from the environment when it is opened: they must be set before any verb runs.
void apply_nccl_settings(const CollectiveTexts& texts, CollectivesConfig& config) {
  config.nccl_settings = nccl_settings(texts.profile, texts.assignments, process_environment());
  set_environment(config.nccl_settings);
  config.environment = process_environment();
}

int run_parsed_arena(const CLI::App& app, ParsedCollectives& parsed) {
  ArenaArgs& arena = parsed.arena;
  if (parsed.args.config.registration != 0 || parsed.args.format == "nccl-tests")
    throw Error(Cause::usage,
                fmt::format("{} with --arena", parsed.args.config.registration != 0 ? "-R" : "--format nccl-tests"),
                "the transports say how buffers are registered; --format table or json");
  if (app.count("--transports") == 0 && app.count("--arena") == 0)
    throw Error(Cause::usage, "--env-file and --transport-timeout are about transports against each other", "--arena");
  if (parsed.args.config.repeat.count > 1)
    throw Error(Cause::usage, "--repeat with --arena: the arena starts processes of its own", "one of the two");
  arena.config.sweep = parsed.args.config;
  arena.config.transports = split_list(parsed.texts.transports);
  arena.config.program = own_program();
  arena.config.arguments = collectives_arguments;
  arena.format = parsed.args.format;
  arena.json_file = parsed.args.json_file;
  arena.metrics = parsed.args.metrics;
  arena.talk = parsed.args.talk;
  return arena_command(arena);
}

int run_parsed_collectives(const CLI::App& app, ParsedCollectives& parsed, const std::string& command_line) {
  CollectivesConfig& config = parsed.args.config;
  CollectiveTexts& texts = parsed.texts;
  require_one_of("--processes", config.processes, {"gloo", "mpi"});
  require_one_of("--format", parsed.args.format, {"table", "nccl-tests", "json"});
  config.collectives = split_list(texts.names);
  config.dtypes = split_list(texts.dtypes);
  config.ops = split_list(texts.ops);
  config.min_bytes = parse_size_bytes(texts.min_bytes, "--min-bytes");
  config.max_bytes = parse_size_bytes(texts.max_bytes, "--max-bytes");
  config.step_bytes = parse_size_bytes(texts.step_bytes, "--step-bytes");
  config.check = texts.check != 0;
  config.gpus = parse_gpus(texts.gpus);
  use_machine(texts.machine, config.machine);
  const bool counted = app.count("--ngpus") + app.count("--nthreads") > 0;
  if (counted && app.count("--devices") > 0)
    throw Error(Cause::usage, "--devices and -g or -t both set the number of devices", "one of them");
  if (counted && (texts.gpus_per_thread < 1 || texts.threads < 1))
    throw Error(Cause::usage, fmt::format("-g is {} and -t is {}", texts.gpus_per_thread, texts.threads), "at least 1");
  if (counted) config.devices = texts.gpus_per_thread * texts.threads;
  if (app.count("--devices") > 0 && config.devices < 1)
    throw Error(Cause::usage, fmt::format("--devices is {}", config.devices), "at least 1");
  apply_nccl_settings(texts, config);
  config.command_line = command_line;
  config.on_fatal = end_at_once;
  require_metrics_place(parsed.args.metrics);
  require_place("--output-file", parsed.args.json_file);
  require_place("--curves", parsed.args.curves);
  require_place("--env-file", parsed.arena.environment_file);
  finish_fresh_processes(app, config.repeat, config.output_dir, parsed.args.talk);
  const bool arena =
      texts.arena || app.count("--transports") + app.count("--env-file") + app.count("--transport-timeout") > 0;
  return arena ? run_parsed_arena(app, parsed) : collectives_command(parsed.args);
}

void add_arena_options(CLI::App* sub, ParsedCollectives& parsed) {
  sub->add_option("--profile", parsed.texts.profile, "Named NCCL settings: pcie-host");
  sub->add_option("--set", parsed.texts.assignments, "A variable of NCCL, checked, for example NCCL_ALGO=Ring")
      ->expected(1)
      ->take_all();
  sub->add_flag("--arena", parsed.texts.arena, "Every transport over the same sweep, against each other");
  sub->add_option("--transports", parsed.texts.transports, "The same with some, for example nccl,nccl ring ll,gloo")
      ->capture_default_str();
  sub->add_option("--env-file", parsed.arena.environment_file, "Where the arena writes the best settings for a shell");
  sub->add_option("--transport-timeout", parsed.arena.config.transport_seconds, "Seconds until a transport is given up")
      ->capture_default_str();
}

void offer_fabric_values(CLI::App* sub) {
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
  offer(sub, "--processes", {"gloo", "mpi"});
  offer_several(sub, "--collective",
                {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter",
                 "sendrecv", "all"});
  offer_several(sub, "--datatype", {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "all"});
  offer_several(sub, "--op", {"sum", "prod", "min", "max", "avg", "all"});
  offer(sub, "--local-register", {"0", "1", "2"});
  offer(sub, "--format", {"table", "nccl-tests", "json"});
  offer(sub, "--profile", {"pcie-host"});
  offer_files(sub, {"--machine", "--output-file", "--curves", "--output-dir", "--env-file"});
  offer_lists(sub, {"--gpus", "--transports"});
}

Command define_collectives(CLI::App& app) {
  auto parsed = std::make_shared<ParsedCollectives>();
  CollectivesArgs& args = parsed->args;
  CollectiveTexts& texts = parsed->texts;
  CLI::App* sub = app.add_subcommand("collectives", "Collectives over a sweep of sizes, every element verified");
  sub->footer(
      "examples:\n  amdahl collectives -b 8 -e 128M -f 2 -g 4\n  mpirun -n 2 amdahl collectives --backend cpu "
      "--collective all_gather,broadcast --format nccl-tests\n  amdahl collectives --arena --env-file nccl.sh");
  CollectivesConfig& config = args.config;
  sub->add_option("--collective", texts.names,
                  "Names or nccl-tests' programs, for example all_reduce,all_to_all, or all")
      ->capture_default_str();
  sub->add_option("-b,--min-bytes", texts.min_bytes, "Smallest size; M is 2^20")->capture_default_str();
  sub->add_option("-e,--max-bytes", texts.max_bytes, "Largest size")->capture_default_str();
  sub->add_option("-i,--step-bytes", texts.step_bytes, "Fixed increment (default: --step-factor)");
  sub->add_option("-f,--step-factor", config.step_factor, "Factor between sizes")->check(kWhole)->capture_default_str();
  sub->add_option("-n,--iterations", config.iterations, "Timed calls per size")->check(kWhole)->capture_default_str();
  sub->add_option("-w,--warmup", config.warmup, "Untimed calls per size")->check(kWhole)->capture_default_str();
  sub->add_option("-c,--check", texts.check, "Verify every element once per size (0: never)")
      ->check(kWhole)
      ->capture_default_str();
  sub->add_option("-g,--ngpus", texts.gpus_per_thread, "Devices per thread; with -t the number of devices")
      ->check(kWhole);
  sub->add_option("-t,--nthreads", texts.threads, "Threads; devices = threads x devices per thread")->check(kWhole);
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, 2 virtual devices, or all ranks)")
      ->check(kWhole);
  sub->add_option("--machine", texts.machine, "Machine file of `amdahl links`: quarantined pairs are avoided");
  sub->add_option("--gpus", texts.gpus, "CUDA devices to use, for example 0,2 (default: all)");
  sub->add_option("--backend", config.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  sub->add_option("--processes", config.processes, "What CPU processes exchange data by: gloo or mpi")
      ->capture_default_str();
  add_comm(sub, config.comm, config.comm_table);
  sub->add_option("-d,--datatype", texts.dtypes, "Of f32, f64, f16, bf16, i32, i64, u8, or all")->capture_default_str();
  sub->add_option("-o,--op", texts.ops, "Of sum, prod, min, max, avg, or all")->capture_default_str();
  sub->add_option("-r,--root", config.root, "Root of rooted collectives")->check(kWhole)->capture_default_str();
  sub->add_option("-G,--graph", config.graph, "Calls per CUDA graph (default: eager)")->check(kWhole);
  sub->add_option("-R,--local-register", config.registration,
                  "NCCL buffers: 0 plain, 1 registered, 2 symmetric windows")
      ->check(kWhole)
      ->capture_default_str();
  sub->add_option("-T,--timeout", config.timeout_seconds, "Seconds until a wait is given up")->capture_default_str();
  sub->add_option("-J,--output-file", args.json_file, "JSON file of all records");
  sub->add_option("--curves", args.curves, "SVG file of bus bandwidth over size");
  add_fresh_processes(sub, "--repeat", kRepeatHelp, config.repeat);
  sub->add_option("--seed", config.seed, "Seed of the data")->check(kNatural)->capture_default_str();
  sub->add_option("--format", args.format, "table, nccl-tests or json")->capture_default_str();
  sub->add_option("--output-dir", config.output_dir, "Run folder (default: none)");
  add_metrics(sub, args.metrics);
  add_arena_options(sub, *parsed);
  add_talk(sub, args.talk);
  offer_fabric_values(sub);
  return {sub, [parsed, sub](const std::string& command_line) {
            return run_parsed_collectives(*sub, *parsed, command_line);
          }};
}

}  // namespace

std::vector<Command> define_fabric_commands(CLI::App& app) {
  return {define_topo(app),        define_doctor(app),   define_links(app),
          define_collectives(app), define_onesided(app), define_all(app)};
}

}  // namespace amdahl::cli
