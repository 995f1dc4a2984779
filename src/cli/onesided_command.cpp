#include "cli/onesided_command.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "amdahl/report.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

/// What is measured instead of operations.
struct OneSidedKind {
  const char* name;
  bool OneSidedConfig::*chosen;
};
constexpr std::array<OneSidedKind, 4> kKinds{{{"patterns", &OneSidedConfig::patterns},
                                              {"gemm", &OneSidedConfig::gemm},
                                              {"norm", &OneSidedConfig::norm},
                                              {"locality", &OneSidedConfig::locality}}};

std::string kind_of(const OneSidedConfig& config) {
  for (const OneSidedKind& kind : kKinds)
    if (config.*kind.chosen) return kind.name;
  return "operations";
}

std::string text_of_sizes(const GemmSizes& sizes) { return fmt::format("{}x{}x{}", sizes.m, sizes.n, sizes.k); }

/// "8x4096,512x768": rows x width.
std::vector<NormSizes> parse_norm_sizes(const std::string& text) {
  std::vector<NormSizes> all;
  for (const std::string& word : split_list(text)) {
    const std::vector<int64_t> sizes = parse_like("8x4096", word, "--shapes");
    all.push_back({sizes[0], sizes[1]});
  }
  return all;
}

/// "64x256x1024,512x1024x1024": M x N x K.
std::vector<GemmSizes> parse_gemm_sizes(const std::string& text) {
  std::vector<GemmSizes> all;
  for (const std::string& word : split_list(text)) {
    const std::vector<int64_t> sizes = parse_like("512x1024x1024", word, "--shapes");
    all.push_back({sizes[0], sizes[1], sizes[2]});
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
  std::vector<std::string> words{"collectives", "--quiet", "--onesided=" + kind_of(config)};
  const auto add = [&](const char* option, const auto& value) {
    words.emplace_back(option);
    words.push_back(fmt::format("{}", value));
  };
  add("--backend", config.backend);
  add("--devices", config.devices);
  add("--operations", fmt::format("{}", fmt::join(config.operations, ",")));
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

int onesided_command(const OneSidedArgs& args, const OutputOptions& output) {
  TerminalObserver observer(output.quiet);
  const OneSidedOutcome outcome = run_onesided(args.config, observer);
  if (!outcome.is_root) return 0;
  if (!args.table.empty()) save_text(args.table, to_choice_json(outcome) + "\n");
  show_outcome(outcome, output);
  show_place("table", args.table, output);
  show_run(outcome.run_dir, output);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "an operation moved wrong bytes", "the rows marked FAILED say which");
}

}  // namespace

int run_parsed_onesided(const CLI::App& app, OneSidedArgs& args, const CollectivesConfig& sweep,
                        const OutputOptions& output) {
  refuse_options(app,
                 {"--collective", "--datatype", "--op", "--root", "--step-bytes", "--step-factor", "--warmup",
                  "--check", "--graph", "--local-register", "--machine", "--comm", "--nccl", "--arena", "--env-file",
                  "--transport-timeout", "--processes", "--format"},
                 "with --onesided, which measures no sweep of collectives", "one of them");
  OneSidedConfig& config = args.config;
  require_one_of("--onesided", args.kind, {"operations", "patterns", "gemm", "norm", "locality"});
  for (const OneSidedKind& kind : kKinds) config.*kind.chosen = args.kind == kind.name;
  config.backend = sweep.backend, config.gpus = sweep.gpus;
  if (app.count("--devices") > 0) config.devices = sweep.devices;
  if (app.count("--min-bytes") > 0) config.min_bytes = sweep.min_bytes;
  if (app.count("--max-bytes") > 0) config.max_bytes = sweep.max_bytes;
  if (app.count("--samples") > 0) config.samples = sweep.iterations;
  config.timeout_seconds = sweep.timeout_seconds, config.seed = sweep.seed, config.output_dir = sweep.output_dir;
  config.operations = split_list(args.operations);
  config.ranks = split_list(args.ranks);
  config.threads = parse_counts(args.threads, "--threads");
  config.blocks = parse_counts(args.blocks, "--blocks");
  if (config.norm)
    config.norm_shapes = parse_norm_sizes(args.shapes);
  else
    config.shapes = parse_gemm_sizes(args.shapes);
  config.tiles = parse_counts(args.tiles, "--tiles");
  config.peers = split_list(args.peers);
  config.environment = process_environment();
  config.command_line = sweep.command_line;
  config.on_fatal = end_at_once;
  config.program = own_program();
  config.arguments = onesided_arguments;
  if (app.count("--partitions") > 0 && config.partitions < 2)
    throw Error(Cause::usage, fmt::format("--partitions is {}", config.partitions), "2 to 8");
  require_place("--table", args.table);
  return onesided_command(args, output);
}

void add_onesided_options(CLI::App* app, OneSidedArgs& args) {
  OneSidedConfig& config = args.config;
  app->add_option("--onesided", args.kind,
                  "Instead, one-sided communication against messages and collectives: operations (put, get, signals, "
                  "atomics), patterns of programs, gemm (beside a collective, against pushed tiles), norm (after an "
                  "all-reduce, against one kernel) or locality (a kernel on data in its own, a peer's and host memory)")
      ->expected(0, 1)
      ->default_str("operations");
  app->add_option("--operations", args.operations, "Of put, get, put_signal and others, or all")->capture_default_str();
  app->add_option("--shapes", args.shapes,
                  "MxNxK of gemm, for example 512x1024x1024, or ROWSxWIDTH of norm, 8x4096 (default: a few)");
  app->add_option("--tiles", args.tiles, "gemm: numbers of tiles of each rank's rows")->capture_default_str();
  app->add_option("--ranks", args.ranks,
                  "What ranks are: threads, processes (GPUs: only by itself, with NCCL), or both")
      ->capture_default_str();
  app->add_option("--partitions", config.partitions, "Partitions of one GPU as ranks: emulated numbers");
  app->add_option("--least-sample-us", config.least_sample_us, "Operations are repeated until a sample takes as long")
      ->capture_default_str();
  app->add_option("--threads", args.threads, "Threads per block of the kernels, for example 32,256,1024")
      ->capture_default_str();
  app->add_option("--blocks", args.blocks, "Blocks of the kernels, for example 1,8,32")->capture_default_str();
  app->add_option("--peers", args.peers, "Other libraries beside, between GPUs: nvshmem");
  app->add_option("--table", args.table, "JSON file of the sizes at which methods change, for --comm");
  offer(app, "--onesided", {"operations", "patterns", "gemm", "norm", "locality"});
  offer_several(app, "--peers", {"nvshmem"});
  offer_several(app, "--ranks", {"threads", "processes"});
  offer_several(app, "--operations",
                {"put", "get", "put_signal", "put_fence", "put_quiet", "send_recv", "all_reduce", "signal", "fetch_add",
                 "contended_add", "barrier", "all"});
  offer_files(app, {"--table"});
  offer_lists(app, {"--threads", "--blocks", "--shapes", "--tiles"});
}

}  // namespace amdahl::cli
