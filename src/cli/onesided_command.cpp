// `amdahl onesided`: its options, the command line of its child processes, and its output.
#include <fmt/format.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "amdahl/export.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/export_options.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct ParsedOneSided {
  OneSidedArgs args;
  std::string operations = "all", ranks = "threads,processes", min_bytes = "8", max_bytes = "64M", threads = "256",
              blocks = "1", gpus, peers, shapes, tiles = "1,4";
};

std::string text_of_sizes(const GemmSizes& sizes) { return fmt::format("{}x{}x{}", sizes.m, sizes.n, sizes.k); }

/// "8x4096,512x768": rows x width.
std::vector<NormSizes> parse_norm_sizes(const std::string& text) {
  std::vector<NormSizes> all;
  for (const std::string& word : split_list(text)) {
    NormSizes sizes;
    char after = 0;
    if (std::sscanf(word.c_str(), "%" SCNd64 "x%" SCNd64 "%c", &sizes.rows, &sizes.width, &after) != 2)
      throw Error(Cause::usage, fmt::format("--shapes: '{}' is no ROWSxWIDTH", word), "for example 8x4096");
    all.push_back(sizes);
  }
  return all;
}

/// "64x256x1024,512x1024x1024": M x N x K.
std::vector<GemmSizes> parse_gemm_sizes(const std::string& text) {
  std::vector<GemmSizes> all;
  for (const std::string& word : split_list(text)) {
    GemmSizes sizes;
    char after = 0;
    if (std::sscanf(word.c_str(), "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%c", &sizes.m, &sizes.n, &sizes.k, &after) != 3)
      throw Error(Cause::usage, fmt::format("--shapes: '{}' is no MxNxK", word), "for example 512x1024x1024");
    all.push_back(sizes);
  }
  return all;
}

std::vector<int> parse_counts(const std::string& text, const char* option) {
  std::vector<int> counts;
  for (const int64_t count : parse_count_list(text, option)) counts.push_back(static_cast<int>(count));
  return counts;
}

/// The inverse of the parser, for ranks as processes.
std::vector<std::string> onesided_arguments(const OneSidedConfig& config) {
  std::vector<std::string> words{"onesided", "--quiet"};
  const auto add = [&](const char* option, const auto& value) {
    words.emplace_back(option);
    words.push_back(fmt::format("{}", value));
  };
  add("--backend", config.backend);
  add("--devices", config.devices);
  add("--operations", fmt::format("{}", fmt::join(config.operations, ",")));
  if (config.patterns) words.emplace_back("--patterns");
  if (config.locality) words.emplace_back("--locality");
  if (config.gemm) words.emplace_back("--gemm");
  if (config.norm) words.emplace_back("--norm");
  std::vector<std::string> shapes;
  for (const GemmSizes& sizes : config.shapes) shapes.push_back(text_of_sizes(sizes));
  for (const NormSizes& sizes : config.norm_shapes) shapes.push_back(fmt::format("{}x{}", sizes.rows, sizes.width));
  if (!shapes.empty()) add("--shapes", fmt::format("{}", fmt::join(shapes, ",")));
  add("--tiles", fmt::format("{}", fmt::join(config.tiles, ",")));
  add("--min-bytes", config.min_bytes);
  add("--max-bytes", config.max_bytes);
  add("--threads", fmt::format("{}", fmt::join(config.threads, ",")));
  add("--blocks", fmt::format("{}", fmt::join(config.blocks, ",")));
  if (!config.gpus.empty()) add("--gpus", fmt::format("{}", fmt::join(config.gpus, ",")));
  add("--samples", config.samples);
  add("--least-sample-us", config.least_sample_us);
  add("--timeout", config.timeout_seconds);
  add("--seed", config.seed);
  if (!config.output_dir.empty()) add("--output-dir", config.output_dir);
  return words;
}

int onesided_command(const OneSidedArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  const OneSidedOutcome outcome = run_onesided(args.config, observer);
  if (!outcome.is_root) return 0;
  if (!args.metrics.empty()) save_text(args.metrics, metrics_text(outcome.records));
  if (!args.table.empty()) save_text(args.table, to_choice_json(outcome) + "\n");
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  FILE* const beside = args.talk.json ? stderr : stdout;
  if (!args.table.empty()) show(beside, fmt::format("table: {}\n", args.table));
  if (!outcome.run_dir.empty()) show(beside, fmt::format("run: {}\n", outcome.run_dir));
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "an operation moved wrong bytes", "the rows marked FAILED say which");
}

int run_parsed_onesided(const CLI::App& app, ParsedOneSided& parsed, const std::string& command_line) {
  OneSidedConfig& config = parsed.args.config;
  config.operations = split_list(parsed.operations);
  config.ranks = split_list(parsed.ranks);
  config.min_bytes = parse_size_bytes(parsed.min_bytes, "--min-bytes");
  config.max_bytes = parse_size_bytes(parsed.max_bytes, "--max-bytes");
  config.threads = parse_counts(parsed.threads, "--threads");
  config.blocks = parse_counts(parsed.blocks, "--blocks");
  if (config.norm)
    config.norm_shapes = parse_norm_sizes(parsed.shapes);
  else
    config.shapes = parse_gemm_sizes(parsed.shapes);
  config.tiles = parse_counts(parsed.tiles, "--tiles");
  config.peers = split_list(parsed.peers);
  config.gpus = parse_gpus(parsed.gpus);
  config.environment = process_environment();
  config.command_line = command_line;
  config.on_fatal = end_at_once;
  config.program = own_program();
  config.arguments = onesided_arguments;
  if (app.count("--partitions") > 0 && config.partitions < 2)
    throw Error(Cause::usage, fmt::format("--partitions is {}", config.partitions), "2 to 8");
  require_metrics_place(parsed.args.metrics);
  require_place("--table", parsed.args.table);
  return onesided_command(parsed.args);
}

}  // namespace

Command define_onesided(CLI::App& app) {
  auto parsed = std::make_shared<ParsedOneSided>();
  OneSidedConfig& config = parsed->args.config;
  CLI::App* sub = app.add_subcommand("onesided", "Put, get, signals and atomics against messages and collectives");
  sub->footer(
      "examples:\n  amdahl onesided --max-bytes 1M --table onesided.json\n  amdahl train --model medium --devices 2 "
      "--backend cpu --comm symmetric --comm-table onesided.json\n  amdahl onesided --partitions 4 --operations "
      "put_signal");
  sub->add_option("--operations", parsed->operations, "Of put, get, put_signal and others, or all")
      ->capture_default_str();
  sub->add_flag("--patterns", config.patterns, "Patterns of programs, each by both kinds of communication");
  sub->add_flag("--gemm", config.gemm, "GEMMs beside a collective, against tiles that are pushed as they finish");
  sub->add_flag("--norm", config.norm, "All-reduce and layer normalisation: two operations, against one kernel");
  sub->add_option("--shapes", parsed->shapes,
                  "MxNxK of --gemm, for example 512x1024x1024, or ROWSxWIDTH of --norm, 8x4096 (default: a few)");
  sub->add_option("--tiles", parsed->tiles, "Numbers of tiles of each rank's rows")->capture_default_str();
  sub->add_flag("--locality", config.locality, "A kernel on data in its own, a peer's and host memory");
  sub->add_option("--ranks", parsed->ranks,
                  "What ranks are: threads, processes (GPUs: only by itself, with NCCL), or both")
      ->capture_default_str();
  sub->add_option("--devices", config.devices, "Ranks, each a device")->check(kWhole)->capture_default_str();
  sub->add_option("--partitions", config.partitions, "Partitions of one GPU as ranks: emulated numbers")->check(kWhole);
  sub->add_option("-b,--min-bytes", parsed->min_bytes, "Smallest size; M is 2^20")->capture_default_str();
  sub->add_option("-e,--max-bytes", parsed->max_bytes, "Largest size, up to 1G")->capture_default_str();
  sub->add_option("--samples", config.samples, "Samples of each cell")->check(kWhole)->capture_default_str();
  sub->add_option("--least-sample-us", config.least_sample_us, "Operations are repeated until a sample takes as long")
      ->capture_default_str();
  sub->add_option("--threads", parsed->threads, "Threads per block of the kernels, for example 32,256,1024")
      ->capture_default_str();
  sub->add_option("--blocks", parsed->blocks, "Blocks of the kernels, for example 1,8,32")->capture_default_str();
  sub->add_option("--backend", config.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  sub->add_option("--gpus", parsed->gpus, "CUDA devices to use, for example 0,2 (default: all)");
  sub->add_option("--peers", parsed->peers, "Other libraries beside, between GPUs: nvshmem");
  sub->add_option("--table", parsed->args.table, "JSON file of the sizes at which methods change, for --comm-table");
  sub->add_option("-T,--timeout", config.timeout_seconds, "Seconds until a wait is given up")->capture_default_str();
  sub->add_option("--seed", config.seed, "Seed of the data")->check(kNatural)->capture_default_str();
  sub->add_option("--output-dir,-o", config.output_dir, "Run folder (default: none)");
  add_metrics(sub, parsed->args.metrics);
  add_talk(sub, parsed->args.talk);
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
  offer_several(sub, "--peers", {"nvshmem"});
  offer_several(sub, "--ranks", {"threads", "processes"});
  offer_several(sub, "--operations",
                {"put", "get", "put_signal", "put_fence", "put_quiet", "send_recv", "all_reduce", "signal", "fetch_add",
                 "contended_add", "barrier", "all"});
  offer_files(sub, {"--table", "--output-dir"});
  offer_lists(sub, {"--gpus", "--threads", "--blocks", "--shapes", "--tiles"});
  return {sub,
          [parsed, sub](const std::string& command_line) { return run_parsed_onesided(*sub, *parsed, command_line); }};
}

}  // namespace amdahl::cli
