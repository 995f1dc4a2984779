// `amdahl study`.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/trace_options.h"
#include "cli/training_options.h"

namespace amdahl::cli {
namespace {

constexpr int kPublishedRuns = 50;

struct StudyArgs {
  StudyConfig config;
  TrainingTexts texts;
  std::vector<std::string> plans;
  std::string devices, batch_sizes = "16,32,64,128", scaling = "strong", trace;
  bool full = false, dry_run = false;
  OutputOptions output;
};

/// The plans of a study. Those that name no devices are measured on each of `devices`.
void take_plans(StudyConfig& config, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  if (texts.size() == 1 && !has_mesh(texts.front())) return use_options(config.training, texts.front());
  const bool any_devices = !std::all_of(texts.begin(), texts.end(), has_mesh);
  if (any_devices && std::none_of(config.devices.begin(), config.devices.end(), [](int64_t n) { return n > 1; }))
    throw Error(Cause::usage, "plans to compare that name no devices", "--devices 2, or plans like dp2,zero1");
  for (const std::string& text : texts) {
    if (has_mesh(text)) config.plans.push_back(parse_plan(text));
    for (const int64_t devices : config.devices)
      if (!has_mesh(text) && devices > 1) config.plans.push_back(plan_on(devices, text));
  }
  if (any_devices) config.devices.clear();
}

int study_command(const StudyArgs& args) {
  TerminalObserver observer(args.output.quiet);
  if (args.dry_run) {
    const StudyPlan plan = plan_study(args.config, observer);
    if (plan.is_root) show(stdout, plan_text(plan));
    return 0;
  }
  const StudyOutcome outcome = run_study(args.config, observer);
  if (!outcome.is_root || args.config.processes.is_child()) return 0;
  show_reported(outcome, args.output);
  if (!outcome.nothing_fitted) return 0;
  throw Error(Cause::out_of_memory, "no cell of the study fitted into memory",
              "smaller --batch-sizes, a smaller --model, or --plan zero1 over more devices");
}

int run_parsed_study(StudyArgs& args, const CLI::App& app, const std::string& command_line) {
  StudyConfig& config = args.config;
  if (!args.devices.empty()) config.devices = parse_count_list(args.devices, "--devices");
  take_plans(config, args.plans);
  finish_training_options(args.texts, command_line, config.engine, config.training, &config.plans);
  config.batch_sizes = parse_count_list(args.batch_sizes, "--batch-sizes");
  config.calibration = args.texts.machine;
  config.scaling = one_of<Scaling>("--scaling", args.scaling, {{"strong", Scaling::strong}, {"weak", Scaling::weak}});
  if (args.full && app.count("--runs") == 0) config.runs = kPublishedRuns;
  if (app.count("--trace") > 0) config.trace = parse_trace(args.trace);
  if (args.dry_run && args.output.json)
    throw Error(Cause::usage, "--dry-run prints its plan as text, not as --json", "drop one of the two options");
  if (config.resume && config.output_dir.empty())
    throw Error(Cause::usage, "--resume does not say which run", "--output-dir DIR of the run to go on with");
  if (config.output_dir.empty()) config.output_dir = default_run_dir("study");
  finish_html(args.output, config.output_dir, "study");
  finish_fresh_processes(app, config.processes, config.output_dir, args.output);
  if (!args.dry_run) set_interrupted_remedy("--resume to go on with the study");
  return study_command(args);
}

}  // namespace

Command define_study(CLI::App& app) {
  auto args = std::make_shared<StudyArgs>();
  StudyConfig& config = args->config;
  CLI::App* study = app.add_subcommand("study", "Measure one device against several, with a verdict per batch size");
  study->footer(
      "examples:\n  amdahl study\n  amdahl study --model large --devices 1,2,4 --launch graph --math tf32\n"
      "  amdahl study --devices 2 --plan ddp zero1\n"
      "  amdahl study --trace steps=10:13,batch=64,devices=2");
  add_training_options(study, config.training, args->texts);
  study->add_option("--devices", args->devices,
                    "Device counts, for example 1,2,4 (default: 1,2,4,... GPUs, or 1,2 virtual devices)");
  study->add_option(
      "--plan", args->plans,
      "How devices share the work (parts: amdahl plan --help-all): zero1,m2 for all --devices; several are "
      "compared, also with devices of their own: dp2 tp2 pp2,1f1b,m4");
  add_engine_options(study, config.engine, args->texts);
  study->add_option("--batch-sizes", args->batch_sizes, "Global batches (weak scaling: per device)")
      ->capture_default_str();
  study->add_option("--scaling", args->scaling, "strong: global batch fixed; weak: per-device batch fixed")
      ->capture_default_str();
  study->add_option(
      "--mode", config.mode,
      "multi (one device and several), single, or auto (ask the selector); default: multi where there are "
      "several devices, else single");
  study
      ->add_option("--variants", config.variants,
                   "On one device: auto (also its other launch and math modes, and half of each batch) or none")
      ->capture_default_str();
  study->add_option("--from", config.evidence, "Run folder whose records the selector may use (mode auto)");
  study->add_option("--runs", config.runs, "Runs of each cell: its samples")->capture_default_str();
  study->add_option("--warmup", config.warmup, "Untimed steps of a run")->capture_default_str();
  study->add_option("--steps", config.steps, "Timed steps of a run")->capture_default_str();
  study->add_flag("--full", args->full, "The published procedure: 50 runs of 100 steps");
  add_fresh_processes(study, config.processes, "Fresh processes that the runs are spread over; compare needs several");
  study->add_option("--rel-ci", config.rel_ci,
                    "Stop a batch early once all intervals are this tight, for example 0.01");
  add_output_dir(study, config.output_dir, "results/local/study-TIME");
  study->add_flag("--resume", config.resume, "Go on with the run in --output-dir");
  add_trace(study, args->trace);
  study->add_flag("--dry-run", args->dry_run,
                  "Print plan and memory, with --machine the expected time; measure nothing");
  add_output_options(study, args->output);
  add_html(study, args->output);
  offer(study, "--mode", {"multi", "single", "auto"});
  offer(study, "--scaling", {"strong", "weak"});
  offer_files(study, {"--from"});
  offer_lists(study, {"--devices", "--batch-sizes"});
  arrange(study, {{"Model", kModelOptions},
                  {"Data", kDataOptions},
                  {"Parallel", "--devices --plan"},
                  {"Parallel", kEngineOptions},
                  {"Sampling",
                   "--batch-sizes +--scaling +--mode +--variants +--from --runs +--warmup +--steps --full +--processes "
                   "+--rel-ci"},
                  {"Output", "--output-dir --html --resume --trace --dry-run"}});
  return {study,
          [args, study](const std::string& command_line) { return run_parsed_study(*args, *study, command_line); }};
}

}  // namespace amdahl::cli
