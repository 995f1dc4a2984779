// `amdahl run`.
#include <filesystem>
#include <memory>

#include "amdahl/report.h"
#include "amdahl/study.h"
#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct RunArgs {
  ScriptStudyConfig config;
  std::string devices, wraps, batch_sizes;
  OutputOptions output;
};

/// The folder of amdahl_lab that is installed beside this program; empty where there is none.
std::string own_package() {
  const std::filesystem::path folder =
      std::filesystem::path(own_program()).parent_path().parent_path() / "share" / "amdahl" / "python";
  std::error_code error;
  return std::filesystem::is_directory(folder / "amdahl_lab", error) ? folder.string() : std::string();
}

int run_parsed_run(RunArgs& args, const std::string& command_line) {
  ScriptStudyConfig& config = args.config;
  if (!args.devices.empty()) config.devices = parse_count_list(args.devices, "--devices");
  if (!args.batch_sizes.empty()) config.batch_sizes = parse_count_list(args.batch_sizes, "--batch-sizes");
  if (!args.wraps.empty()) config.wraps = split_list(args.wraps);
  config.environment = process_environment();
  config.command_line = command_line;
  config.package_dir = own_package();
  finish_html(args.output, config.output_dir, "run");
  if (config.output_dir.empty()) config.output_dir = default_run_dir("run");
  TerminalObserver observer(args.output.quiet);
  show_reported(run_script_study(config, observer), args.output);
  return 0;
}

}  // namespace

Command define_run(CLI::App& app) {
  auto args = std::make_shared<RunArgs>();
  ScriptStudyConfig& config = args->config;
  CLI::App* sub = app.add_subcommand("run", "Your own training script on one GPU and on several, with a verdict");
  sub->footer(
      "examples:\n  amdahl run train.py --lr 0.1\n  amdahl run --devices 1,2,4 --steps 100 train.py\n"
      "  amdahl run --backend cpu --devices 1,2 -m my.training\n"
      "The script is started as torchrun does, by python3, and ends after its steps. A step is the body of `with "
      "amdahl_lab.step():`, or where the script has none, from one optimizer step to the next.");
  sub->add_option("script", config.script,
                  "A Python file, or -m and a module, with arguments of its own; its name without .py: after --");
  sub->add_option("--devices,--gpus", args->devices,
                  "Numbers of processes, one GPU each, for example 1,2,4 (default: 1,2,4,... GPUs, or 1,2 on CPU); "
                  "CUDA_VISIBLE_DEVICES chooses GPUs");
  sub->add_option("--backend", config.backend, "auto, cpu (no GPU is shown to the script) or cuda")
      ->capture_default_str();
  sub->add_option("--python", config.python, "Interpreter (default: python3 of PATH)");
  sub->add_option("--wrap", args->wraps, "Told to a script that asks for it: ddp, fsdp2, each a cell");
  sub->add_option("--batch-sizes", args->batch_sizes,
                  "Global batches, told to a script that asks for them (default: its own)");
  sub->add_option("--runs", config.runs, "Runs of each number of devices, each in fresh processes")
      ->capture_default_str();
  sub->add_option("--warmup", config.warmup, "Untimed steps of a run")->capture_default_str();
  sub->add_option("--steps", config.steps, "Timed steps of a run")->capture_default_str();
  sub->add_option("--account-steps", config.account_steps,
                  "Steps of a run that are accounted for, after the timed ones")
      ->capture_default_str();
  add_timeout(sub, config.timeout_seconds);
  add_output_dir(sub, config.output_dir, "results/local/run-TIME");
  add_html(sub, args->output);
  add_output_options(sub, args->output);
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
  offer_lists(sub, {"--devices", "--wrap", "--batch-sizes"});
  offer_files(sub, {"--python"});
  arrange(sub, {{"Script", "--devices --backend +--python +--wrap +--batch-sizes"},
                {"Sampling", "--runs --warmup --steps +--account-steps +--timeout"},
                {"Output", "--output-dir --html"}});
  return {sub, [args](const std::string& command_line) { return run_parsed_run(*args, command_line); }};
}

}  // namespace amdahl::cli
