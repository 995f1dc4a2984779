// `amdahl plan`: predicts, lists and verifies plans; one device or several.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "amdahl/planner.h"
#include "cli/advise_options.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct PlanArgs {
  PlanConfig config;
  std::vector<std::string> plans;
  AdviseOptions advice;
  PlansConfig listed;
  bool list = false, verify = false, no_refit = false;
  std::string assume_devices;
  std::vector<std::string> validate;
  VerifyConfig verification;
  PlannerValidationConfig validation;
  OutputOptions output;
};

/// What a plan's text can say, for --help.
std::string plan_parts() {
  std::string text =
      "Parts of a plan, joined with commas, in any order:\n"
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

int list_command(PlanArgs& args) {
  PlansConfig& config = args.listed;
  if (!args.config.model.empty()) config.model = args.config.model;
  if (args.config.devices > 0) config.devices = args.config.devices;
  if (args.config.global_batch > 0) config.batch_size = args.config.global_batch;
  for (const std::string& text : args.plans) {
    const ParallelPlan plan = parse_plan(text);
    ParallelPlan alone;
    alone.recompute = config.recompute = plan.recompute;
    alone.strategy = plan.strategy;
    if (plan != alone) throw Error(Cause::usage, fmt::format("--list with --plan {}", text), "--plan recompute=block");
  }
  show_outcome(run_plans(config), args.output);
  return 0;
}

int verify_command(PlanArgs& args, const std::string& command_line) {
  args.verification.plan = args.config;
  args.verification.engine.command_line = command_line;
  if (args.verification.output_dir.empty()) args.verification.output_dir = default_run_dir("verify");
  for (const std::string& plan : args.plans) args.verification.plans.push_back(parse_plan(plan));
  args.verification.engine.environment = process_environment();
  args.verification.refit = !args.no_refit;
  TerminalObserver observer(args.output.quiet);
  show_outcome(run_plan_verification(args.verification, observer), args.output);
  show_run(args.verification.output_dir, args.output);
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

/// Takes "link=KIND" out of --what-if.
std::string take_link(std::string& what_if) {
  std::string link, others;
  for (const std::string& part : split_list(what_if)) {
    if (part.starts_with("link="))
      link = part.substr(5);
    else
      others += (others.empty() ? "" : ",") + part;
  }
  what_if = others;
  return link;
}

int thresholds_command(PlanArgs& args) {
  ThresholdsConfig config;
  config.machine = args.config.machine, config.math = args.config.math, config.what_if = args.config.what_if;
  config.link = take_link(config.what_if);
  config.devices = assumed_devices(args);
  show_outcome(run_thresholds(config), args.output);
  return 0;
}

int advise_command(PlanArgs& args) {
  args.advice.config.model = args.config.model;
  args.advice.config.machine = args.config.machine;
  args.advice.config.max_devices = args.config.devices;
  if (args.config.global_batch != 0) args.advice.config.batch_size = args.config.global_batch;
  return show_advice(args.advice, args.output);
}

int run_parsed_plan(PlanArgs& args, const CLI::App& app, const std::string& command_line) {
  PlanConfig& config = args.config;
  require_positive(app, "--batch-size", config.global_batch);
  if (!config.math.empty()) require_one_of("--math", config.math, {"fp32", "tf32", "bf16"});
  if (app.count("--devices") > 0 && args.list) args.listed.devices = config.devices;
  if (!args.validate.empty()) {
    args.validation.iterations = args.validate.front();
    if (args.validate.size() > 1) args.validation.also = args.validate.back();
    refuse_options(app, {"--model", "--machine"}, "with --validate", "one of them");
    TerminalObserver observer(args.output.quiet);
    show_outcome(run_planner_validation(args.validation, observer), args.output);
    return 0;
  }
  if (!args.list) refuse_options(app, {"--optimizer", "--all-schedules"}, "without --list", "both, or neither");
  if (!args.verify)
    refuse_options(app, {"--seconds", "--best", "--random", "--no-refit", "--output-dir"}, "without --verify",
                   "both, or neither");
  if (app.count("--advise") == 0)
    refuse_options(app, {"--params"}, "without --advise", "--advise, or --model");
  else
    return advise_command(args);
  if (args.list || config.model.empty())
    refuse_options(app, {"--html"}, "without a ranking of plans", "--model and --batch-size alone");
  require_place("--html", args.output.html);
  if (args.list) return list_command(args);
  if (!args.assume_devices.empty() && config.model.empty()) return thresholds_command(args);
  if (!args.assume_devices.empty()) {
    const std::vector<int> counts = assumed_devices(args);
    config.devices = *std::max_element(counts.begin(), counts.end());
  }
  if (config.model.empty() || (config.global_batch == 0 && !args.verify))
    throw Error(Cause::usage, "plan needs --model and --batch-size",
                "--model gpt2 --batch-size 64 --machine machine.json");
  if (args.verify) return verify_command(args, command_line);
  if (args.plans.size() > 1)
    throw Error(Cause::usage, fmt::format("{} plans to explain", args.plans.size()), "one --plan, or --verify");
  if (!args.plans.empty()) config.explain = args.plans.front();
  config.html = args.output.html;
  show_outcome(run_plan(config), args.output);
  show_place("page", config.html, args.output);
  return 0;
}

}  // namespace

Command define_plan(CLI::App& app) {
  auto args = std::make_shared<PlanArgs>();
  PlanConfig& config = args->config;
  VerifyConfig& verification = args->verification;
  CLI::App* plan =
      app.add_subcommand("plan", "Predict, rank, list and verify plans of parallelism; one device or several");
  plan->footer(
      "examples:\n  amdahl calibrate --machine machine.json\n  amdahl plan --model gpt2 --batch-size 64 --machine "
      "machine.json\n  amdahl plan --model gpt2 --batch-size 512 --what-if gpus=8,gpu=h200,link=pcie5 --math bf16\n  "
      "amdahl plan --model gpt2 --batch-size 512 --what-if gpus=8,gpu=h200 --plan dp4.tp2,m4\n  amdahl plan --list "
      "--model gpt2 --devices 8\n  amdahl plan --advise=study --params 6.9M --batch-size 64\n  amdahl plan "
      "--model medium --batch-size 256 --machine machine.json --verify\n  amdahl plan "
      "--validate tests/data/planner/measured_a100.csv");
  plan->add_option("--model", config.model, "Preset or FILE.json");
  plan->add_option("--batch-size", config.global_batch, "Rows of a step over all devices");
  plan->add_option("--machine", config.machine, "Machine file of `amdahl calibrate`");
  plan->add_option("--math", config.math, "fp32, tf32 or bf16; default: the fastest that was calibrated");
  plan->add_option("--devices", config.devices,
                   "At most so many devices (default: as many as the machine has; --list: 8)");
  plan->add_option("--plan", args->plans,
                   "Each term of a plan like dp4.tp2,m4; with --verify: run these plans; parts: see --help-all");
  plan->add_option("--what-if", config.what_if,
                   "Assume gpus=N, nodes=N, link=KIND, network=KIND (of a node: 4xnet200), gpu=KIND or gpu=FILE.toml, "
                   "memory-gb=N, joined with commas");
  plan->add_option("--assume-devices", args->assume_devices,
                   "Without --model: from which size on so many devices pay, for example 2,4,8");
  plan->add_option("--prices", config.prices, "TOML file of what devices cost, like data/prices.toml");
  plan->add_option("--top", config.top, "Plans in the ranking")->capture_default_str();
  plan->add_flag("--list", args->list,
                 "The plans that can be executed, with modelled memory: no times, no calibration");
  plan->add_option("--optimizer", args->listed.optimizer, "With --list: adam, adamw or sgd")->capture_default_str();
  plan->add_flag("--all-schedules", args->listed.all_schedules, "With --list: every pipeline schedule, not 1f1b alone");
  add_advise(plan, args->advice);
  plan->add_flag("--verify", args->verify, "Run the best plans and random ones on this machine, and compare");
  plan->add_option(
          "--seconds", verification.seconds,
          "With --verify: time for the runs, from which their number follows, and without --batch-size the batch")
      ->capture_default_str();
  plan->add_option("--best", verification.best, "With --verify: so many of the best plans")->capture_default_str();
  plan->add_option("--random", verification.random, "With --verify: so many random ones of the others")
      ->capture_default_str();
  plan->add_flag("--no-refit", args->no_refit, "With --verify: never correct the machine file");
  add_output_dir(plan, verification.output_dir, "results/local/verify-TIME; of --verify");
  plan->add_option(
          "--validate", args->validate,
          "Fit to a CSV of measured iterations and predict what is left out; a second CSV takes part in no fit")
      ->expected(1, 2);
  plan->add_option("--beside", args->validation.beside,
                   "With --validate: a CSV of the same iterations with times that another tool predicts");
  add_output_options(plan, args->output);
  add_html(plan, args->output);
  offer(plan, "--math", {"fp32", "tf32", "bf16"});
  offer(plan, "--optimizer", {"adam", "adamw", "sgd"});
  offer_lists(plan, {"--assume-devices"});
  offer_files(plan, {"--model", "--machine", "--prices", "--validate", "--beside"});
  arrange(plan, {{"Question",
                  "--model --batch-size --machine --math --devices --plan --what-if +--assume-devices --prices +--top"},
                 {"List", "--list +--optimizer +--all-schedules"},
                 {"One device or several", "--advise +--params"},
                 {"Verification", "--verify --seconds +--best +--random +--no-refit +--validate +--beside"},
                 {"Output", "--html --output-dir"}});
  add_details(plan, plan_parts());
  return {plan, [args, plan](const std::string& command_line) { return run_parsed_plan(*args, *plan, command_line); }};
}

}  // namespace amdahl::cli
