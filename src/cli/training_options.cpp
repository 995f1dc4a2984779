// Options of study and train.
#include "cli/training_options.h"

#include <algorithm>

#include "cli/environment.h"

namespace amdahl::cli {
namespace {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelSpec& preset : model_presets()) names.push_back(preset.name);
  return names;
}

void set_timeout(const std::string& text, EngineConfig& engine) {
  engine.auto_timeout = text == "auto";
  if (engine.auto_timeout) return;
  try {
    engine.timeout_seconds = parse_quantity(text, Unit::seconds, "--timeout");
  } catch (const Error& error) {
    throw Error(error.cause(), error.what(), error.remedy() + ", or auto");
  }
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

}  // namespace

void add_engine_options(CLI::App* app, EngineConfig& engine, TrainingTexts& texts) {
  add_backend(app, engine.backend, texts.gpus);
  add_device_speeds(app, texts.speeds);
  app->add_option("--machine", texts.machine,
                  "Machine file: avoids quarantined pairs of `amdahl links`, and a study uses what `amdahl calibrate` "
                  "measured");
  app->add_option("--launch", texts.launch, "eager, or graph: the whole step as one CUDA graph")->capture_default_str();
  app->add_option("--math", texts.math,
                  "Matrix products (GEMM) in fp32, tf32, bf16 or fp16 (with dynamic loss scaling)")
      ->capture_default_str();
  app->add_flag("--deterministic", texts.deterministic,
                "Only algorithms with bit-equal reruns; =any-devices: and equal bits on any number of devices "
                "(--plan shards12)");
  add_comm(app, engine.comm);
  add_seed(app, engine.seed, "Seed of weights, dropout, data and order");
  app->add_option("-T,--timeout", texts.timeout,
                  "Seconds until a collective or device wait is given up, or auto: 60, and after warm-up 5 times the "
                  "longest step (at least 5)")
      ->capture_default_str();
  offer(app, "--launch", {"eager", "graph"});
  offer(app, "--math", {"fp32", "tf32", "bf16", "fp16"});
  offer_files(app, {"--machine"});
}

void add_training_options(CLI::App* app, TrainingConfig& training, TrainingTexts& texts) {
  app->add_option("--model", training.model, fmt::format("{} or FILE.json", fmt::join(preset_names(), ", ")))
      ->capture_default_str();
  app->add_option("--optimizer", training.optimizer, "adam, adamw or sgd")->capture_default_str();
  app->add_option("--learning-rate,--lr", training.learning_rate)->capture_default_str();
  app->add_option("--weight-decay", training.weight_decay, "Of adamw, for weights but not biases (default: 0.01)");
  app->add_option("--clip-norm", training.clip_norm, "Scale the whole gradient down to this L2 norm; 0: never")
      ->capture_default_str();
  app->add_option("--lr-schedule", training.lr_schedule, "constant, or linear or cosine: to 0 at the last step")
      ->capture_default_str();
  app->add_option("--lr-warmup-steps", training.lr_warmup_steps,
                  "Steps in which the learning rate rises linearly to its full value")
      ->capture_default_str();
  app->add_option("--data", training.data.data_path,
                  "CSV file, tokens (FILE.bin), text (FILE.txt) or images (FILE.npy) (default: the study's "
                  "synthetic data)");
  app->add_option("--target", texts.targets, "Target column or columns of the CSV file");
  add_data_options(app, texts.data_options, training_data_options(training.data));
  offer(app, "--model", preset_names());
  offer(app, "--optimizer", {"adam", "adamw", "sgd"});
  offer(app, "--lr-schedule", {"constant", "linear", "cosine"});
  offer_files(app, {"--model", "--data"});
  offer_lists(app, {"--target"});
}

bool has_mesh(const std::string& plan) {
  for (const std::string& part : split_list(plan))
    if (part.size() > 2 && part[1] == 'p' && part.find_first_of("dtp") == 0 && part[2] >= '0' && part[2] <= '9')
      return true;
  return false;
}

ParallelPlan plan_on(int64_t devices, const std::string& text) {
  return parse_plan(has_mesh(text) ? text : fmt::format("dp{},{}", devices, text));
}

void use_options(TrainingConfig& training, const std::string& text) {
  const ParallelPlan plan = plan_on(2, text);
  training.plan = plan;
  training.strategy = plan.strategy;
}

void finish_training_options(const TrainingTexts& texts, const std::string& command_line, EngineConfig& engine,
                             TrainingConfig& training, std::vector<ParallelPlan>* plans) {
  set_timeout(texts.timeout, engine);
  engine.gpus = parse_gpus(texts.gpus);
  engine.device_speeds = parse_speeds(texts.speeds);
  use_machine(texts.machine, engine.machine);
  engine.launch =
      one_of<LaunchMode>("--launch", texts.launch, {{"eager", LaunchMode::eager}, {"graph", LaunchMode::graph}});
  engine.math = one_of<MathMode>(
      "--math", texts.math,
      {{"fp32", MathMode::fp32}, {"tf32", MathMode::tf32}, {"bf16", MathMode::bf16}, {"fp16", MathMode::fp16}});
  finish_comm(engine.comm, engine.comm_table);
  engine.environment = process_environment();
  engine.command_line = command_line;
  engine.on_fatal = end_at_once;
  training.data.targets = split_list(texts.targets);
  read_data_options(texts.data_options, training_data_options(training.data));
  std::vector<PlanOptions*> all{&training.plan};
  if (plans)
    for (ParallelPlan& plan : *plans) all.push_back(&plan);
  use_deterministic(texts.deterministic, engine, all);
}

}  // namespace amdahl::cli
