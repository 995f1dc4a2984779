// `amdahl plan`: options and output.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "amdahl/planner.h"
#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct PlanArgs {
  PlanConfig config;
  bool verify = false;
  ThresholdsConfig thresholds;
  std::string assume_devices;
  VerifyConfig verification;
  std::vector<std::string> plans;
  bool no_refit = false;
  PlannerValidationConfig validation;
  Talk talk;
};

/// What a plan's text can say, for --help.
std::string plan_parts() {
  std::string text =
      "parts of a plan, joined with commas, in any order:\n"
      "  dp2.tp2.pp2         devices that divide the batch (dp), tensors (tp) and layers (pp)\n"
      "  ddp                 batch split, gradients all-reduced during backward (default)\n"
      "  zero1               as ddp, and each device updates its part of the parameters\n"
      "  zero2               and keeps the gradients of its part alone\n"
      "  zero3               and the parameters of its part: layers are gathered before they compute\n"
      "  dp                  naive DataParallel: device 0 scatters batch and weights, gathers gradients and updates "
      "alone\n"
      "  replicated          every device steps the full batch, no communication\n";
  for (const PlanField& field : plan_fields()) {
    const bool is_flag = std::holds_alternative<bool PlanOptions::*>(field.member);
    const std::string value = field.example.empty() ? "N" : std::string(field.example);
    const std::string part = is_flag || field.is_bare ? std::string(is_flag ? field.word : "1f1b")
                             : !field.prefix.empty()  ? fmt::format("{}N", field.prefix)
                             : field.choices.empty()  ? fmt::format("{}={}", field.word, value)
                                                      : fmt::format("{}={}", field.word, field.choices.back());
    const auto* number = std::get_if<int64_t PlanOptions::*>(&field.member);
    const std::string usual =
        field.option_unit == 1
            ? text_of(field, {})
            : fmt::format("{}", static_cast<double>(PlanOptions{}.**number) / static_cast<double>(field.option_unit));
    text += fmt::format("  {:<19} {}{}\n", part, field.help, is_flag ? "" : " (default: " + usual + ")");
  }
  return text;
}

int validate_command(const PlanArgs& args) {
  const PlanValidation validation = run_planner_validation(args.validation);
  if (args.talk.json)
    show_data(to_json(validation) + "\n");
  else
    show(stdout, to_text(validation));
  return 0;
}

int verify_command(PlanArgs& args, const std::string& command_line) {
  args.verification.plan = args.config;
  args.verification.engine.command_line = command_line;
  if (args.verification.output_dir.empty()) args.verification.output_dir = default_run_dir("verify");
  for (const std::string& plan : args.plans) args.verification.plans.push_back(parse_plan(plan));
  args.verification.engine.environment = process_environment();
  TerminalObserver observer(args.talk.quiet);
  const VerifyOutcome outcome = run_plan_verification(args.verification, observer);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

std::vector<int> assumed_devices(const PlanArgs& args) {
  std::vector<int> devices;
  for (const int64_t count : parse_count_list(args.assume_devices, "--assume-devices")) {
    if (count > std::numeric_limits<int>::max())
      throw Error(Cause::usage, fmt::format("--assume-devices has {}", count), "2,4,8");
    devices.push_back(static_cast<int>(count));
  }
  return devices;
}

int thresholds_command(PlanArgs& args) {
  ThresholdsConfig& config = args.thresholds;
  config.machine = args.config.machine, config.math = args.config.math, config.what_if = args.config.what_if;
  config.devices.clear();
  config.devices = assumed_devices(args);
  const ThresholdsOutcome outcome = run_thresholds(config);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

int plan_command(const PlanArgs& args) {
  const PlanOutcome outcome = run_plan(args.config);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

}  // namespace

Command define_plan(CLI::App& app) {
  auto args = std::make_shared<PlanArgs>();
  PlanConfig& config = args->config;
  CLI::App* plan = app.add_subcommand("plan", "Predict the step of plans of parallelism and rank them");
  plan->footer(
      "`amdahl plans` lists the plans that can be executed, with their memory: no times, no calibration.\n"
      "examples:\n  amdahl calibrate --machine machine.json\n  amdahl plan --model gpt2 --global-batch 64 --machine "
      "machine.json\n  amdahl plan --model gpt2 --global-batch 512 --what-if gpus=8,gpu=h200,link=pcie5 --math bf16\n  "
      "amdahl plan --model gpt2 --global-batch 512 --what-if gpus=8,gpu=h200 --explain dp4.tp2,m4\n  amdahl plan "
      "--model large --global-batch 256 --machine machine.json --verify\n  amdahl plan "
      "--validate tests/data/planner/measured_a100.csv\n" +
      plan_parts());
  plan->add_option("--model", config.model, "Preset or FILE.json");
  plan->add_option("--global-batch", config.global_batch, "Rows of a step over all devices")->check(kWhole);
  plan->add_option("--machine", config.machine, "Machine file of `amdahl calibrate`");
  plan->add_option("--math", config.math, "fp32, tf32 or bf16; default: the fastest that was calibrated");
  plan->add_option("--devices", config.devices, "At most so many devices; default: as many as the machine has")
      ->check(kWhole);
  plan->add_option("--what-if", config.what_if,
                   "Assume gpus=N, link=KIND, gpu=KIND or gpu=FILE.toml, memory-gb=N, joined with commas");
  plan->add_option("--explain", config.explain, "Each term of a plan like dp4.tp2,m4");
  plan->add_option("--prices", config.prices, "TOML file of what devices cost, like data/prices.toml");
  plan->add_option("--top", config.top, "Plans in the ranking")->check(kWhole)->capture_default_str();
  plan->add_option("--assume-devices", args->assume_devices,
                   "Without --model: from which size on so many devices pay, for example 2,4,8");
  plan->add_option("--link", args->thresholds.link, "Between the assumed devices: nvlink4, pcie5 and others");
  VerifyConfig& verification = args->verification;
  plan->add_flag("--verify", args->verify, "Run the best plans and random ones on this machine, and compare");
  plan->add_option(
          "--seconds", verification.seconds,
          "With --verify: time for the runs, from which their number follows; a global batch that takes too long "
          "is halved")
      ->capture_default_str();
  plan->add_option("--best", verification.best, "With --verify: so many of the best plans")
      ->check(kWhole)
      ->capture_default_str();
  plan->add_option("--random", verification.random, "With --verify: so many random ones of the others")
      ->check(kNatural)
      ->capture_default_str();
  plan->add_option("--plan", args->plans, "With --verify: these plans instead, for example dp1 dp2 tp2");
  plan->add_flag("--no-refit", args->no_refit, "With --verify: never correct the machine file");
  plan->add_option("--output-dir,-o", verification.output_dir,
                   "With --verify: run folder of the pairs (default: results/local/verify-TIME)");
  plan->add_option("--validate", args->validation.iterations,
                   "Fit to a CSV of measured iterations and predict what is left out");
  plan->add_option("--and-predict", args->validation.also,
                   "With --validate: a further CSV, which takes part in no fit");
  plan->add_option("--beside", args->validation.beside,
                   "With --validate: a CSV of the same iterations with times that another tool predicts");
  add_talk(plan, args->talk);
  offer(plan, "--math", {"fp32", "tf32", "bf16"});
  offer(plan, "--link", {"nvlink3", "nvlink4", "nvlink5", "pcie3", "pcie4", "pcie5", "host", "net200", "net400"});
  offer_lists(plan, {"--assume-devices"});
  offer_files(plan, {"--model", "--machine", "--prices", "--validate", "--and-predict", "--beside", "--output-dir"});
  return {plan, [args, plan](const std::string& command_line) {
            if (!args->validation.iterations.empty()) {
              if (plan->count("--model") + plan->count("--machine") > 0)
                throw Error(Cause::usage, "--validate with --model or --machine", "one of them");
              return validate_command(*args);
            }
            if (!args->assume_devices.empty() && args->config.model.empty()) return thresholds_command(*args);
            if (!args->assume_devices.empty()) {
              const std::vector<int> counts = assumed_devices(*args);
              args->config.devices = *std::max_element(counts.begin(), counts.end());
            }
            if (!args->thresholds.link.empty())
              args->config.what_if += (args->config.what_if.empty() ? "link=" : ",link=") + args->thresholds.link;
            for (const char* option : {"--seconds", "--best", "--random", "--plan", "--no-refit", "--output-dir"})
              if (!args->verify && plan->count(option) > 0)
                throw Error(Cause::usage, fmt::format("{} without --verify", option), "both, or neither");
            args->verification.refit = !args->no_refit;
            if (args->config.model.empty() || (args->config.global_batch == 0 && !args->verify))
              throw Error(Cause::usage, "plan needs --model and --global-batch",
                          "--model gpt2 --global-batch 64 --machine machine.json");
            return args->verify ? verify_command(*args, command_line) : plan_command(*args);
          }};
}

}  // namespace amdahl::cli
