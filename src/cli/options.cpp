// The command line. The only file that sees CLI11, which is slow to compile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <ctime>

#include "cli/commands.h"
#include "cli/environment.h"

namespace amdahl::cli {
namespace {

// Text forms of options that become richer values once parsing is done.
struct Texts {
  std::string gpus, devices, batch_sizes = "16,32,64,128", targets, ignored;
  std::string launch = "eager", math = "fp32", scaling = "strong", params, delimiter;
  double bucket_mb = 25;
  bool no_overlap = false, quick = false;
  bool runs_given = false;
};

// "id,name" to its items. As in the file itself, quotes keep the comma of a name: '"price, net",id'.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  bool quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i == 0) items.emplace_back();
    if (list[i] == '"')
      quoted = !quoted;
    else if (list[i] == ',' && !quoted)
      items.emplace_back();
    else
      items.back() += list[i];
  }
  return items;
}

// CLI11 alone reads 010 as 8, 0x10 as 16, and what is too large as the largest number that fits.
template <class T>
std::string refuse_unless_whole(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && text == std::to_string(value)) return {};
  return fmt::format("'{}' is not a whole number{}", text,
                     error == std::errc::result_out_of_range ? " of 64 bits" : " written in decimal");
}

const CLI::Validator kWhole(refuse_unless_whole<int64_t>, "", "whole");
const CLI::Validator kNatural(refuse_unless_whole<uint64_t>, "", "natural");

template <class T>
T one_of(const std::string& option, const std::string& text, const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  throw Error(Cause::usage, fmt::format("{}: unknown value '{}'", option, text), choices_hint(text, names));
}

void add_talk(CLI::App* app, Talk& talk) {
  app->add_flag("--json", talk.json, "Machine-readable result on stdout");
  app->add_flag("--quiet,-q", talk.quiet, "No plan and no progress");
}

void add_engine(CLI::App* app, EngineConfig& engine, Texts& texts) {
  app->add_option("--backend", engine.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  app->add_option("--gpus", texts.gpus, "CUDA devices to use, for example 0,2 (default: all)");
  app->add_option("--launch", texts.launch, "eager, or graph: the whole step as one CUDA graph")->capture_default_str();
  app->add_option("--math", texts.math, "fp32, tf32 or bf16 matrix products")->capture_default_str();
  app->add_flag("--deterministic", engine.deterministic, "Only algorithms with bit-equal reruns");
  app->add_option("--seed", engine.seed, "Seed of weights, dropout, data and order")
      ->check(kNatural)
      ->capture_default_str();
  app->add_option("--timeout", engine.timeout_seconds, "Seconds until a collective or device wait is given up")
      ->capture_default_str();
}

void add_training(CLI::App* app, TrainingConfig& training, Texts& texts) {
  app->add_option("--model", training.model, "medium, large, medium-258k, large-6.9m or FILE.json")
      ->capture_default_str();
  app->add_option("--data", training.data.csv_path, "CSV file (default: the study's synthetic data)");
  app->add_option("--target", texts.targets, "Target column or columns of the CSV file");
  app->add_option("--ignore", texts.ignored, "Columns of the CSV file to leave out, for example id,name");
  app->add_option("--missing", training.data.missing, "Missing values: refuse, drop (the row) or mean")
      ->capture_default_str();
  app->add_option("--delimiter", texts.delimiter, "Field delimiter (default: found out)");
  app->add_flag("--regression", training.data.regression, "Treat an integer target as a number, not as classes");
  app->add_option("--strategy", training.strategy, "ddp, zero1, dp or replicated")->capture_default_str();
  app->add_option("--optimizer", training.optimizer, "adam or sgd")->capture_default_str();
  app->add_option("--learning-rate,--lr", training.learning_rate)->capture_default_str();
  app->add_option("--bucket-mb", texts.bucket_mb, "All-reduce bucket size in MiB")->capture_default_str();
  app->add_option("--peer-blocks", training.peer_blocks,
                  "zero1 on GPUs: thread blocks of an update across them beside backward, 0: chosen")
      ->check(kNatural)
      ->capture_default_str();
  app->add_flag("--no-overlap", texts.no_overlap, "All-reduce after backward instead of during it");
  app->add_option("--accumulate", training.accumulate, "Micro-batches per optimizer step")
      ->check(kWhole)
      ->capture_default_str();
}

void end_at_once(const Error& error) {
  std::fprintf(stderr, "%s\n", error.line().c_str());
  const bool asked = error.cause() == Cause::interrupted && signal_exit_code() != 0;
  std::_Exit(asked ? signal_exit_code() : exit_code(error.cause()));
}

void finish_engine(EngineConfig& engine, const Texts& texts, const std::string& command_line) {
  if (!texts.gpus.empty())
    for (int64_t gpu : parse_count_list(texts.gpus, "--gpus", 0)) engine.gpus.push_back(static_cast<int>(gpu));
  engine.launch =
      one_of<LaunchMode>("--launch", texts.launch, {{"eager", LaunchMode::eager}, {"graph", LaunchMode::graph}});
  engine.math = one_of<MathMode>("--math", texts.math,
                                 {{"fp32", MathMode::fp32}, {"tf32", MathMode::tf32}, {"bf16", MathMode::bf16}});
  engine.environment = process_environment();
  engine.command_line = command_line;
  engine.on_fatal = end_at_once;
}

void finish_training(TrainingConfig& training, const Texts& texts) {
  training.data.targets = split(texts.targets);
  training.data.ignored = split(texts.ignored);
  if (texts.delimiter.size() > 1 && texts.delimiter != "\\t" && texts.delimiter != "tab")
    throw Error(Cause::usage, fmt::format("--delimiter '{}' is more than one character", texts.delimiter), "; or tab");
  if (!texts.delimiter.empty()) training.data.delimiter = texts.delimiter.size() > 1 ? '\t' : texts.delimiter[0];
  constexpr double kLargestBucketMb = 1 << 20;
  if (!(texts.bucket_mb > 0 && texts.bucket_mb <= kLargestBucketMb))
    throw Error(Cause::usage, fmt::format("--bucket-mb is {}", texts.bucket_mb),
                fmt::format("more than 0 and at most {:.0f} MiB, for example 25", kLargestBucketMb));
  training.bucket_bytes = static_cast<int64_t>(texts.bucket_mb * 1024 * 1024);
  training.overlap = !texts.no_overlap;
}

std::string default_run_dir(const char* verb) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &utc);
  return fmt::format("results/{}-{}", verb, stamp);
}

// Text forms of the options of `collectives`, which keep the letters of nccl-tests.
struct CollectiveTexts {
  std::string names = "all_reduce", min_bytes = "8", max_bytes = "32M", step_bytes = "0";
  int gpus_per_thread = 1, threads = 1, check = 1;
};

struct Commands {
  StudyArgs study;
  TrainArgs train;
  AdviseArgs advise;
  CompareArgs compare;
  ReportArgs report;
  InfoArgs info;
  TopoArgs topo;
  CollectivesArgs collectives;
  CollectiveTexts collective_texts;
  Texts texts;
  bool version = false;
};

void define_study(CLI::App& app, Commands& c) {
  CLI::App* study = app.add_subcommand("study", "Measure one device against several, with a verdict per batch size");
  study->footer(
      "examples:\n  amdahl study --quick\n  amdahl study --model large --devices 1,2,4 --launch graph --math tf32");
  StudyConfig& config = c.study.config;
  add_engine(study, config.engine, c.texts);
  add_training(study, config.training, c.texts);
  add_talk(study, c.study.talk);
  study->add_option("--mode", config.mode, "multi (one device and several), single, or auto (ask the selector)")
      ->capture_default_str();
  study->add_option("--devices", c.texts.devices,
                    "Device counts, for example 1,2,4 (default: 1,2,4,... GPUs, or 1,2 virtual devices)");
  study->add_option("--batch-sizes", c.texts.batch_sizes, "Global batches (weak scaling: per device)")
      ->capture_default_str();
  study->add_option("--scaling", c.texts.scaling, "strong: global batch fixed; weak: per-device batch fixed")
      ->capture_default_str();
  study->add_option("--runs", config.runs, "Runs of each cell: its samples")->check(kWhole)->capture_default_str();
  study->add_option("--warmup", config.warmup, "Untimed steps of a run")->check(kWhole)->capture_default_str();
  study->add_option("--steps", config.steps, "Timed steps of a run")->check(kWhole)->capture_default_str();
  study->add_flag("--quick", c.texts.quick, "5 runs, for a first look");
  study->add_option("--rel-ci", config.rel_ci,
                    "Stop a batch early once all intervals are this tight, for example 0.01");
  study->add_option("--from", config.evidence, "Run folder whose records the selector may use (mode auto)");
  study->add_option("--output-dir,-o", config.output_dir, "Run folder (default: results/study-TIME)");
  study->add_flag("--resume", config.resume, "Go on with the run in --output-dir");
  study->add_flag("--dry-run", c.study.dry_run, "Print plan, memory and expected time, measure nothing");
}

void define_train(CLI::App& app, Commands& c) {
  CLI::App* train = app.add_subcommand("train", "Train a model to an end");
  train->footer(
      "example:\n  amdahl train --model medium --data data/digits.csv --target label --devices 2 --epochs 30");
  TrainConfig& config = c.train.config;
  add_engine(train, config.engine, c.texts);
  add_training(train, config.training, c.texts);
  add_talk(train, c.train.talk);
  train->add_option("--devices", config.devices, "Number of devices")->check(kWhole)->capture_default_str();
  train->add_option("--batch-size", config.batch_size, "Global batch")->check(kWhole)->capture_default_str();
  train->add_option("--epochs", config.epochs)->check(kWhole)->capture_default_str();
  train->add_option("--validation", config.validation_fraction, "Part of the rows held out")->capture_default_str();
  train->add_option("--output-dir,-o", config.output_dir, "Run folder (default: results/train-TIME)");
}

void define_readers(CLI::App& app, Commands& c) {
  CLI::App* advise =
      app.add_subcommand("advise", "One device or several? From measured records, or by the study's rules");
  advise->footer(
      "examples:\n  amdahl advise --params 6.9M --batch 64 --policy study\n  amdahl advise --model large --batch 512 "
      "--from results/my-run");
  advise->add_option("--params", c.texts.params, "Number of parameters, for example 6.9M");
  advise->add_option("--model", c.advise.config.model, "Preset or FILE.json instead of --params");
  advise->add_option("--batch", c.advise.config.batch_size, "Global batch")->check(kWhole)->capture_default_str();
  advise->add_option("--policy", c.advise.config.policy, "measured, or study: the published thresholds")
      ->capture_default_str();
  advise->add_option("--from", c.advise.config.evidence, "Run folder with measured records");
  add_talk(advise, c.advise.talk);

  CLI::App* compare = app.add_subcommand("compare", "Two runs or two cells, verdict by statistics");
  compare->footer(
      "examples:\n  amdahl compare results/a results/b\n  amdahl compare results/a@batch=64,devices=1 "
      "results/a@batch=64,devices=2");
  compare->add_option("a", c.compare.config.a, "Baseline run, optionally DIR@axis=value,...")->required();
  compare->add_option("b", c.compare.config.b, "Candidate run")->required();
  compare->add_flag("--allow-unlike", c.compare.config.allow_unlike, "Compare although host, math or launch differ");
  compare->add_option("--fail-on-regression", c.compare.config.fail_on_regression_percent,
                      "Exit 1 when B is slower by more than this percentage");
  add_talk(compare, c.compare.talk);

  CLI::App* report = app.add_subcommand("report", "Rebuild report.md and summary.json from a run folder alone");
  report->add_option("run", c.report.run_dir, "Run folder")->required();
  add_talk(report, c.report.talk);

  CLI::App* info = app.add_subcommand("info", "Version, build, devices and optional backends");
  add_talk(info, c.info.talk);
}

void define_fabric(CLI::App& app, Commands& c) {
  CLI::App* topo = app.add_subcommand("topo", "Devices, links, PCIe paths and NUMA nodes; measures nothing");
  topo->footer("examples:\n  amdahl topo\n  amdahl topo --format svg --output machine.svg");
  topo->add_option("--format", c.topo.format, "matrix, json, dot or svg")->capture_default_str();
  topo->add_option("--output,-o", c.topo.output, "File to write (default: standard output)");
  topo->add_option("--virtual", c.topo.config.virtual_devices, "Describe this many CPU virtual devices, not the GPUs")
      ->check(kWhole);
  topo->add_option("--sysfs", c.topo.config.sysfs, "Where the kernel shows its devices")->capture_default_str();
}

void define_collectives(CLI::App& app, Commands& c) {
  CLI::App* sub = app.add_subcommand("collectives", "Collectives over a sweep of sizes, every element verified");
  sub->footer(
      "examples:\n  amdahl collectives -b 8 -e 128M -f 2 -g 4\n  mpirun -n 2 amdahl collectives --backend cpu "
      "--collective all_gather,broadcast --format nccl-tests");
  CollectivesConfig& config = c.collectives.config;
  CollectiveTexts& texts = c.collective_texts;
  sub->add_option("--collective", texts.names, "Names or nccl-tests' programs, for example all_reduce,all_to_all")
      ->capture_default_str();
  sub->add_option("-b,--min-bytes", texts.min_bytes, "Smallest size; M is 2^20")->capture_default_str();
  sub->add_option("-e,--max-bytes", texts.max_bytes, "Largest size")->capture_default_str();
  sub->add_option("-i,--step-bytes", texts.step_bytes, "Fixed increment (default: --step-factor)");
  sub->add_option("-f,--step-factor", config.step_factor, "Factor between sizes")->check(kWhole)->capture_default_str();
  sub->add_option("-n,--iterations", config.iterations, "Timed calls a size")->check(kWhole)->capture_default_str();
  sub->add_option("-w,--warmup", config.warmup, "Untimed calls a size")->check(kWhole)->capture_default_str();
  sub->add_option("-c,--check", texts.check, "Verify every element once per size (0: never)")->capture_default_str();
  sub->add_option("-g,--ngpus", texts.gpus_per_thread, "Devices a thread; with -t the number of devices");
  sub->add_option("-t,--nthreads", texts.threads, "Threads; devices = threads x devices a thread");
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, 2 virtual devices, or all ranks)")
      ->check(kWhole);
  sub->add_option("--gpus", c.texts.gpus, "CUDA devices to use, for example 0,2 (default: all)");
  sub->add_option("--backend", config.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  sub->add_option("-d,--datatype", config.dtype, "f32, f64, f16, bf16, i32, i64, u8")->capture_default_str();
  sub->add_option("-o,--op", config.op, "sum, prod, min, max or avg")->capture_default_str();
  sub->add_option("-r,--root", config.root, "Root of rooted collectives")->check(kWhole)->capture_default_str();
  sub->add_option("-G,--graph", config.graph, "Calls a CUDA graph (default: eager)")->check(kWhole);
  sub->add_option("-T,--timeout", config.timeout_seconds, "Seconds until a wait is given up")->capture_default_str();
  sub->add_option("-J,--output-file", c.collectives.json_file, "JSON file of all records");
  sub->add_option("--seed", config.seed, "Seed of the data")->check(kNatural)->capture_default_str();
  sub->add_option("--format", c.collectives.format, "table, nccl-tests or json")->capture_default_str();
  sub->add_option("--output-dir", config.output_dir, "Run folder (default: none)");
  add_talk(sub, c.collectives.talk);
}

int run_collectives_parsed(const CLI::App& app, Commands& c, const std::string& command_line) {
  CollectivesConfig& config = c.collectives.config;
  CollectiveTexts& texts = c.collective_texts;
  one_of<int>("--format", c.collectives.format, {{"table", 0}, {"nccl-tests", 0}, {"json", 0}});
  config.collectives = split(texts.names);
  config.min_bytes = parse_size_bytes(texts.min_bytes, "--min-bytes");
  config.max_bytes = parse_size_bytes(texts.max_bytes, "--max-bytes");
  config.step_bytes = parse_size_bytes(texts.step_bytes, "--step-bytes");
  config.check = texts.check != 0;
  if (!c.texts.gpus.empty())
    for (int64_t gpu : parse_count_list(c.texts.gpus, "--gpus", 0)) config.gpus.push_back(static_cast<int>(gpu));
  const bool counted = app.count("--ngpus") + app.count("--nthreads") > 0;
  if (counted && app.count("--devices") > 0)
    throw Error(Cause::usage, "--devices beside -g or -t: two ways to say how many", "one of them");
  if (counted && (texts.gpus_per_thread < 1 || texts.threads < 1))
    throw Error(Cause::usage, fmt::format("-g is {} and -t is {}", texts.gpus_per_thread, texts.threads), "at least 1");
  if (counted) config.devices = texts.gpus_per_thread * texts.threads;
  if (app.count("--devices") > 0 && config.devices < 1)
    throw Error(Cause::usage, fmt::format("--devices is {}", config.devices), "at least 1");
  config.environment = process_environment();
  config.command_line = command_line;
  config.on_fatal = end_at_once;
  return collectives_command(c.collectives);
}

// A word that no command or option knows, with the nearest one that exists.
Error unknown_word(const CLI::App& app) {
  std::string word = app.remaining(true).front();
  word = word.substr(0, word.find('='));
  const std::vector<CLI::App*> used = app.get_subcommands();
  std::vector<std::string> known;
  if (used.empty() && !word.starts_with('-')) {
    for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
    return Error(Cause::usage, fmt::format("unknown command '{}'", word), choices_hint(word, known));
  }
  const CLI::App& command = used.empty() ? app : *used.front();
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::string near = word.starts_with('-') ? nearest_name(word, known) : "";
  const std::string called = used.empty() ? "amdahl" : "amdahl " + command.get_name();
  return Error(Cause::usage, fmt::format("{} does not know '{}'", called, word),
               fmt::format("{}{} --help", near.empty() ? "" : near + "? or ", called));
}

// `--data "$FILE"` with an unset variable must not quietly mean no file.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands())
    for (const CLI::Option* option : command->get_options())
      for (const std::string& value : option->results())
        if (value.empty())
          throw Error(Cause::usage, fmt::format("{} is empty", option->get_name()),
                      option->get_positional() ? "the path of a run folder" : "a value, or leave the option out");
}

int run_parsed(CLI::App& app, Commands& c, const std::string& command_line) {
  Texts& texts = c.texts;
  if (c.version) {
    fmt::print("amdahl {} ({})\n", version(), build_commit());
    return 0;
  }
  if (app.got_subcommand("study")) {
    StudyConfig& config = c.study.config;
    finish_engine(config.engine, texts, command_line);
    finish_training(config.training, texts);
    if (!texts.devices.empty()) config.devices = parse_count_list(texts.devices, "--devices");
    config.batch_sizes = parse_count_list(texts.batch_sizes, "--batch-sizes");
    config.scaling =
        one_of<Scaling>("--scaling", texts.scaling, {{"strong", Scaling::strong}, {"weak", Scaling::weak}});
    if (texts.quick && app.get_subcommand("study")->count("--runs") == 0) config.runs = 5;
    if (c.study.dry_run && c.study.talk.json)
      throw Error(Cause::usage, "--dry-run prints its plan as text, not as --json", "drop one of the two options");
    if (config.resume && config.output_dir.empty())
      throw Error(Cause::usage, "--resume does not say which run", "--output-dir DIR of the run to go on with");
    if (config.output_dir.empty()) config.output_dir = default_run_dir("study");
    return study_command(c.study);
  }
  if (app.got_subcommand("train")) {
    finish_engine(c.train.config.engine, texts, command_line);
    finish_training(c.train.config.training, texts);
    if (c.train.config.output_dir.empty()) c.train.config.output_dir = default_run_dir("train");
    return train_command(c.train);
  }
  if (app.got_subcommand("advise")) {
    if (texts.params.empty() == c.advise.config.model.empty())
      throw Error(Cause::usage, "advise needs either --params or --model", "--params 6.9M, or --model large");
    if (!texts.params.empty()) c.advise.config.num_parameters = parse_count(texts.params, "--params");
    return advise_command(c.advise);
  }
  if (app.got_subcommand("compare")) return compare_command(c.compare);
  if (app.got_subcommand("report")) return report_command(c.report);
  if (app.got_subcommand("info")) return info_command(c.info);
  if (app.got_subcommand("collectives"))
    return run_collectives_parsed(*app.get_subcommand("collectives"), c, command_line);
  if (app.got_subcommand("topo")) {
    one_of<int>("--format", c.topo.format, {{"matrix", 0}, {"json", 0}, {"dot", 0}, {"svg", 0}});
    if (app.get_subcommand("topo")->count("--virtual") > 0 && c.topo.config.virtual_devices < 1)
      throw Error(Cause::usage, fmt::format("--virtual is {}", c.topo.config.virtual_devices), "at least 1");
    return topo_command(c.topo);
  }
  fmt::print("{}", app.help());
  return 0;
}

}  // namespace

int parse_and_run(int argc, char** argv) {
  CLI::App app{"amdahl: measures what more GPUs buy, and says so with statistics behind it"};
  app.require_subcommand(0, 1);
  Commands commands;
  app.add_flag("--version", commands.version, "Version and commit");
  define_study(app, commands);
  define_train(app, commands);
  define_readers(app, commands);
  define_fabric(app, commands);
  define_collectives(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ExtrasError&) {
    throw unknown_word(app);
  } catch (const CLI::ParseError& error) {
    throw Error(Cause::usage, error.what(), "amdahl --help, or amdahl COMMAND --help");
  }
  refuse_empty_values(app);
  std::string command_line;
  for (int i = 0; i < argc; ++i) command_line += (i ? " " : "") + std::string(i ? argv[i] : "amdahl");
  return run_parsed(app, commands, command_line);
}

}  // namespace amdahl::cli
