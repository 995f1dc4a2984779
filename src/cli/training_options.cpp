// Options of study and train.
#include <algorithm>
#include <memory>

#include "cli/environment.h"
#include "cli/export_options.h"
#include "cli/file_options.h"
#include "cli/option_values.h"
#include "cli/trace_options.h"

namespace amdahl::cli {
namespace {

// Raw text values of options that are converted after parsing.
struct Texts {
  std::string machine;
  std::string plan;
  std::vector<std::string> plans;
  std::string gpus, speeds, devices, batch_sizes = "16,32,64,128", targets, ignored;
  std::string deterministic;
  std::string launch = "eager", math = "fp32", scaling = "strong", timeout = "60";
  TableTexts table;
  bool quick = false;
  TraceTexts trace;
};

template <class Args>
struct Parsed {
  Args args;
  Texts texts;
};

void add_engine(CLI::App* app, EngineConfig& engine, Texts& texts) {
  app->add_option("--backend", engine.backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  app->add_option("--gpus", texts.gpus, "CUDA devices to use, for example 0,2 (default: all)");
  app->add_option("--device-speeds", texts.speeds,
                  "Limit the devices to these fractions of their speed, for example 1,0.5 (virtual devices wait, GPUs "
                  "use that share of their SMs)");
  app->add_option(
      "--machine", texts.machine,
      "Machine file: quarantined pairs of `amdahl links` are avoided, and a study uses the calibration of `amdahl "
      "calibrate`");
  app->add_option("--launch", texts.launch, "eager, or graph: the whole step as one CUDA graph")->capture_default_str();
  app->add_option("--math", texts.math,
                  "Matrix products (GEMM) in fp32, tf32, bf16 or fp16 (with dynamic loss scaling)")
      ->capture_default_str();
  app->add_flag("--deterministic", texts.deterministic,
                "Only algorithms with bit-equal reruns; =any-devices: and equal bits on any number of devices "
                "(--plan shards12)");
  add_comm(app, engine.comm, engine.comm_table);
  app->add_option("--seed", engine.seed, "Seed of weights, dropout, data and order")
      ->check(kNatural)
      ->capture_default_str();
  app->add_option("-T,--timeout", texts.timeout,
                  "Seconds until a collective or device wait is given up, or auto: 60, and after warm-up 5 times the "
                  "longest step (at least 5)")
      ->capture_default_str();
  offer(app, "--backend", {"auto", "cpu", "cuda"});
  offer(app, "--launch", {"eager", "graph"});
  offer(app, "--math", {"fp32", "tf32", "bf16", "fp16"});
  offer_files(app, {"--machine"});
  offer_lists(app, {"--gpus", "--device-speeds"});
}

/// Whether a plan's text says its devices: "dp2.tp2,m4". One without, "zero1,m4", fits any number of them.
bool has_mesh(const std::string& plan) {
  for (const std::string& part : split_list(plan))
    if (part.size() > 2 && part[1] == 'p' && part.find_first_of("dtp") == 0 && part[2] >= '0' && part[2] <= '9')
      return true;
  return false;
}

ParallelPlan plan_on(int64_t devices, const std::string& text) {
  return parse_plan(has_mesh(text) ? text : fmt::format("dp{},{}", devices, text));
}

/// Strategy and fields of a plan that names no devices, for as many as there are.
void use_options(TrainingConfig& training, const std::string& text) {
  const ParallelPlan plan = plan_on(2, text);
  training.plan = plan;
  training.strategy = plan.strategy;
}

/// The plans of a study. Those that name no devices are measured on each of `devices`.
void take_plans(StudyConfig& config, const std::vector<std::string>& texts) {
  if (texts.size() == 1 && !has_mesh(texts.front())) return use_options(config.training, texts.front());
  const bool any_devices = !std::all_of(texts.begin(), texts.end(), has_mesh);
  if (any_devices && std::none_of(config.devices.begin(), config.devices.end(), [](int64_t n) { return n > 1; }))
    throw Error(Cause::usage, "plans to compare that name no devices", "--devices 2, or plans like dp2,zero1");
  for (const std::string& text : texts) {
    if (has_mesh(text)) config.plans.push_back(parse_plan(text));
    for (const int64_t devices : config.devices)
      if (!has_mesh(text) && devices > 1) config.plans.push_back(plan_on(devices, text));
  }
  if (any_devices && std::none_of(texts.begin(), texts.end(), has_mesh)) config.devices.clear();
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelSpec& preset : model_presets()) names.push_back(preset.name);
  return names;
}

void add_training(CLI::App* app, TrainingConfig& training, Texts& texts) {
  app->add_option("--model", training.model, fmt::format("{} or FILE.json", fmt::join(preset_names(), ", ")))
      ->capture_default_str();
  DataConfig& data = training.data;
  app->add_option("--data", data.data_path,
                  "CSV file, tokens (FILE.bin), text (FILE.txt) or images (FILE.npy) (default: the study's "
                  "synthetic data)");
  app->add_option("--target", texts.targets, "Target column or columns of the CSV file");
  app->add_option("--ignore", texts.ignored, "Columns of the CSV file to leave out, for example id,name");
  app->add_option("--missing", data.missing, "Missing values: refuse, drop (the row) or mean")->capture_default_str();
  add_table_options(app, texts.table, data.header);
  app->add_flag("--regression", data.regression, "Treat an integer target as a number, not as classes");
  app->add_option("--window", data.window,
                  "Consecutive rows of a CSV file per input, or tokens per row (default: what the model takes)")
      ->check(kWhole);
  app->add_option("--stride", data.stride,
                  "Rows or tokens from one window to the next (default: 1 in a CSV file, else --window)")
      ->check(kWhole);
  app->add_option("--tokenizer", data.tokenizer, "Of a text: bytes, or words between blanks")->capture_default_str();
  app->add_option("--vocabulary", data.vocabulary,
                  "The most words of a text; the last one stands for all others (default: the model's)")
      ->check(kWhole);
  app->add_option("--bin-type", data.bin_type, "Tokens of FILE.bin without a header: u16, u32 or u64 (default: u16)");
  app->add_option("--labels", data.labels_path, "Classes of the images, FILE.npy");
  app->add_option("--optimizer", training.optimizer, "adam, adamw or sgd")->capture_default_str();
  app->add_option("--learning-rate,--lr", training.learning_rate)->capture_default_str();
  app->add_option("--weight-decay", training.weight_decay, "Of adamw, for weights but not biases (default: 0.01)");
  app->add_option("--clip-norm", training.clip_norm, "Scale the whole gradient down to this L2 norm; 0: never")
      ->capture_default_str();
  app->add_option("--lr-schedule", training.lr_schedule, "constant, or linear or cosine: to 0 at the last step")
      ->capture_default_str();
  app->add_option("--lr-warmup-steps", training.lr_warmup_steps,
                  "Steps in which the learning rate rises linearly to its full value")
      ->check(kNatural)
      ->capture_default_str();
  offer(app, "--model", preset_names());
  offer(app, "--missing", {"refuse", "drop", "mean"});
  offer(app, "--bin-type", {"u16", "u32", "u64"});
  offer(app, "--optimizer", {"adam", "adamw", "sgd"});
  offer(app, "--lr-schedule", {"constant", "linear", "cosine"});
  offer(app, "--tokenizer", {"bytes", "words"});
  offer_files(app, {"--model", "--data", "--labels"});
  offer_lists(app, {"--target", "--ignore"});
}

void set_timeout(const std::string& text, EngineConfig& engine) {
  engine.auto_timeout = text == "auto";
  if (engine.auto_timeout) return;
  const std::optional<double> seconds = parse_decimal(text);
  if (!seconds)
    throw Error(Cause::usage, fmt::format("--timeout: '{}' is not a number written in decimal", text),
                "seconds, for example 60, or auto");
  engine.timeout_seconds = *seconds;
}

/// --deterministic, without a value or with one, for the plans that are to be run.
void use_deterministic(const std::string& given, EngineConfig& engine, const std::vector<PlanOptions*>& plans) {
  constexpr int64_t kShards = 12;  // as many on each of 1, 2, 3, 4 and 6 devices
  const bool any_devices = given == "any-devices";
  if (!given.empty() && given != "true" && !any_devices)
    throw Error(Cause::usage, fmt::format("--deterministic={}", printable(given, 40)),
                "--deterministic, or --deterministic=any-devices");
  engine.deterministic = !given.empty();
  for (PlanOptions* const plan : plans)
    if (any_devices && plan->virtual_shards == 0) plan->virtual_shards = kShards;
}

void finish_engine(EngineConfig& engine, const Texts& texts, const std::string& command_line) {
  set_timeout(texts.timeout, engine);
  engine.gpus = parse_gpus(texts.gpus);
  for (const std::string& part : split_list(texts.speeds)) {
    const std::optional<double> speed = parse_decimal(part);
    if (!speed)
      throw Error(Cause::usage, fmt::format("--device-speeds: '{}' is no number", printable(part, 40)), "1,0.5");
    engine.device_speeds.push_back(*speed);
  }
  use_machine(texts.machine, engine.machine);
  engine.launch =
      one_of<LaunchMode>("--launch", texts.launch, {{"eager", LaunchMode::eager}, {"graph", LaunchMode::graph}});
  engine.math = one_of<MathMode>(
      "--math", texts.math,
      {{"fp32", MathMode::fp32}, {"tf32", MathMode::tf32}, {"bf16", MathMode::bf16}, {"fp16", MathMode::fp16}});
  engine.environment = process_environment();
  engine.command_line = command_line;
  engine.on_fatal = end_at_once;
}

void finish_training(TrainingConfig& training, const Texts& texts) {
  training.data.targets = split_list(texts.targets);
  training.data.ignored = split_list(texts.ignored);
  finish_table_options(texts.table, training.data.delimiter, training.data.missing_values);
}

int run_parsed_study(Parsed<StudyArgs>& parsed, const CLI::App& app, const std::string& command_line) {
  Texts& texts = parsed.texts;
  StudyConfig& config = parsed.args.config;
  finish_engine(config.engine, texts, command_line);
  finish_training(config.training, texts);
  if (!texts.devices.empty()) config.devices = parse_count_list(texts.devices, "--devices");
  if (!texts.plans.empty()) take_plans(config, texts.plans);
  std::vector<PlanOptions*> plans{&config.training.plan};
  for (ParallelPlan& plan : config.plans) plans.push_back(&plan);
  use_deterministic(texts.deterministic, config.engine, plans);
  config.batch_sizes = parse_count_list(texts.batch_sizes, "--batch-sizes");
  config.calibration = texts.machine;
  config.scaling = one_of<Scaling>("--scaling", texts.scaling, {{"strong", Scaling::strong}, {"weak", Scaling::weak}});
  if (texts.quick && app.count("--runs") == 0) config.runs = 5;
  config.trace = parse_trace(app, texts.trace);
  if (parsed.args.dry_run && parsed.args.talk.json)
    throw Error(Cause::usage, "--dry-run prints its plan as text, not as --json", "drop one of the two options");
  if (config.resume && config.output_dir.empty())
    throw Error(Cause::usage, "--resume does not say which run", "--output-dir DIR of the run to go on with");
  if (config.output_dir.empty()) config.output_dir = default_run_dir("study");
  finish_fresh_processes(app, config.processes, config.output_dir, parsed.args.talk);
  require_metrics_place(parsed.args.metrics);
  if (!parsed.args.dry_run) set_interrupted_remedy("--resume to go on with the study");
  return study_command(parsed.args);
}

Command define_study(CLI::App& app) {
  auto parsed = std::make_shared<Parsed<StudyArgs>>();
  auto& [args, texts] = *parsed;
  CLI::App* study = app.add_subcommand("study", "Measure one device against several, with a verdict per batch size");
  study->footer(
      "examples:\n  amdahl study --quick\n  amdahl study --model large --devices 1,2,4 --launch graph --math tf32\n"
      "  amdahl study --quick --trace --trace-steps 10:13 --trace-cell batch=64,devices=2");
  StudyConfig& config = args.config;
  add_engine(study, config.engine, texts);
  add_training(study, config.training, texts);
  add_talk(study, args.talk);
  study->add_option(
      "--mode", config.mode,
      "multi (one device and several), single, or auto (ask the selector); default: multi where there are "
      "several devices, else single");
  study
      ->add_option("--variants", config.variants,
                   "On one device: auto (also its other launch and math modes, and half of each batch) or none")
      ->capture_default_str();
  study->add_option("--devices", texts.devices,
                    "Device counts, for example 1,2,4 (default: 1,2,4,... GPUs, or 1,2 virtual devices)");
  study->add_option(
      "--plan", texts.plans,
      "How devices share the work: parts of `amdahl plan --help`, as in zero1,m2 for all --devices; several "
      "plans are compared, with devices of their own as in dp2 tp2 pp2,1f1b,m4");
  study->add_option("--batch-sizes", texts.batch_sizes, "Global batches (weak scaling: per device)")
      ->capture_default_str();
  study->add_option("--scaling", texts.scaling, "strong: global batch fixed; weak: per-device batch fixed")
      ->capture_default_str();
  study->add_option("--runs", config.runs, "Runs of each cell: its samples")->check(kWhole)->capture_default_str();
  study->add_option("--warmup", config.warmup, "Untimed steps of a run")->check(kWhole)->capture_default_str();
  study->add_option("--steps", config.steps, "Timed steps of a run")->check(kWhole)->capture_default_str();
  study->add_flag("--quick", texts.quick, "5 runs, for a first look");
  add_fresh_processes(study, "--processes", "Fresh processes that the runs are spread over; compare needs several",
                      config.processes);
  study->add_option("--rel-ci", config.rel_ci,
                    "Stop a batch early once all intervals are this tight, for example 0.01");
  study->add_option("--from", config.evidence, "Run folder whose records the selector may use (mode auto)");
  study->add_option("--output-dir,-o", config.output_dir, "Run folder (default: results/local/study-TIME)");
  study->add_flag("--resume", config.resume, "Go on with the run in --output-dir");
  add_trace(study, texts.trace);
  add_metrics(study, args.metrics);
  study->add_flag("--dry-run", args.dry_run, "Print plan, memory and expected time, measure nothing");
  offer(study, "--mode", {"multi", "single", "auto"});
  offer(study, "--scaling", {"strong", "weak"});
  offer_files(study, {"--from", "--output-dir"});
  offer_lists(study, {"--devices", "--batch-sizes", "--trace-cell"});
  return {study,
          [parsed, study](const std::string& command_line) { return run_parsed_study(*parsed, *study, command_line); }};
}

Command define_train(CLI::App& app) {
  auto parsed = std::make_shared<Parsed<TrainArgs>>();
  auto& [args, texts] = *parsed;
  CLI::App* train = app.add_subcommand("train", "Train a model to an end");
  train->footer(
      "example:\n  amdahl train --model medium --data data/digits.csv --target label --devices 2 --epochs 30");
  TrainConfig& config = args.config;
  add_engine(train, config.engine, texts);
  add_training(train, config.training, texts);
  add_talk(train, args.talk);
  train->add_option("--devices", config.devices, "Number of devices (default: 1, or all ranks of a launched job)")
      ->check(kWhole);
  train->add_option("--plan", texts.plan,
                    "How devices share the work: parts of `amdahl plan --help`, as in zero1,m2 or dp2.pp2,1f1b,m4");
  train->add_option("--batch-size", config.batch_size, "Global batch")->check(kWhole)->capture_default_str();
  train->add_option("--epochs", config.epochs)->check(kWhole)->capture_default_str();
  train->add_option("--validation", config.validation_fraction, "Fraction of the rows held out for validation")
      ->capture_default_str();
  train
      ->add_option("--check-every", config.check_every,
                   "Steps between comparisons of the devices' weights, bit by bit; 0: after the last step alone")
      ->check(kNatural)
      ->capture_default_str();
  train->add_option("--output-dir,-o", config.output_dir, "Run folder (default: results/local/train-TIME)");
  train->add_option("--save", config.save, "File for the weights after the last epoch, FILE.safetensors");
  train->add_option("--checkpoint-every", config.checkpoint_every, "Steps between checkpoints (default: none)")
      ->check(kWhole);
  train->add_option("--checkpoint-dir", config.checkpoint_dir, "Folder of the checkpoints (default: in --output-dir)");
  train->add_flag("--resume", config.resume, "Go on from the newest intact checkpoint, if there is one");
  train
      ->add_option("--on-failure", config.on_failure,
                   "When a process of a launched job dies: stop, or shrink: the others go on from the last checkpoint "
                   "with a plan of fewer ranks")
      ->capture_default_str();
  add_metrics(train, args.metrics);
  offer(train, "--on-failure", {"stop", "shrink"});
  offer_files(train, {"--output-dir", "--save", "--checkpoint-dir"});
  return {train, [parsed, train](const std::string& command_line) {
            TrainConfig& chosen = parsed->args.config;
            if (train->count("--devices") > 0 && chosen.devices == 0)  // without the option: all ranks
              throw Error(Cause::usage, "--devices is 0", "at least 1");
            finish_engine(chosen.engine, parsed->texts, command_line);
            finish_training(chosen.training, parsed->texts);
            const std::string& plan = parsed->texts.plan;
            if (has_mesh(plan))
              use_plan(chosen.training, parse_plan(plan));
            else if (!plan.empty())
              use_options(chosen.training, plan);
            use_deterministic(parsed->texts.deterministic, chosen.engine, {&chosen.training.plan});
            if (chosen.resume && chosen.checkpoint_dir.empty() && chosen.output_dir.empty())
              throw Error(Cause::usage, "--resume does not say which training",
                          "--checkpoint-dir DIR, or --output-dir DIR of the run to go on with");
            chosen.rank_chose_output_dir = chosen.output_dir.empty();
            if (chosen.rank_chose_output_dir) chosen.output_dir = default_run_dir("train");
            require_metrics_place(parsed->args.metrics);
            return train_command(parsed->args);
          }};
}

}  // namespace

std::vector<Command> define_training_commands(CLI::App& app) { return {define_study(app), define_train(app)}; }

}  // namespace amdahl::cli
