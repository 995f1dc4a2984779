// Options of the commands that measure nothing: they read records, rules, or information on this build.
#include <memory>

#include "cli/export_options.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

// Rejects options of advise that the selected variant does not use.
void refuse_other_half(const CLI::App& advise, bool assume) {
  for (const char* option : {"--params", "--policy", "--machine", "--devices"})
    if (assume && advise.count(option) > 0)
      throw Error(Cause::usage, fmt::format("{} with --assume-devices, which predicts from measured steps", option),
                  "--from DIR, --link and, if wanted, --model and --batch");
  for (const char* option : {"--link", "--overlap"})
    if (!assume && advise.count(option) > 0)
      throw Error(Cause::usage, fmt::format("{} is for predictions", option), "--assume-devices 2,4 beside it");
}

Command define_advise(CLI::App& app) {
  auto args = std::make_shared<AdviseArgs>();
  auto params = std::make_shared<std::string>();
  CLI::App* advise =
      app.add_subcommand("advise", "One device or several? From measured records, or by the study's rules");
  advise->footer(
      "examples:\n  amdahl advise --params 6.9M --batch 64 --policy study\n  amdahl advise --model large --batch 512 "
      "--from results/my-run\n"
      "  amdahl advise --from results/my-run --assume-devices 2,4 --link nvlink4");
  advise->add_option("--params", *params, "Number of parameters, for example 6.9M");
  advise->add_option("--model", args->config.model, "Preset or FILE.json instead of --params");
  advise->add_option("--batch", args->config.batch_size, "Global batch")->check(kWhole)->capture_default_str();
  advise->add_option("--policy", args->config.policy, "measured, or study: the published thresholds")
      ->capture_default_str();
  advise->add_option("--from", args->config.evidence, "Run folder with measured records");
  advise->add_option("--machine", args->config.machine,
                     "Machine file of `amdahl calibrate`: predictions where there are no records");
  advise->add_option("--devices", args->config.max_devices, "With --machine: at most so many devices")->check(kWhole);
  auto devices = std::make_shared<std::string>();
  advise->add_option("--assume-devices", *devices,
                     "Predict that many devices from the one-GPU cells of --from, for example 2,4");
  advise->add_option("--link", args->outlook.link,
                     "Between the assumed devices: nvlink4, pcie5, host, or a machine file of `amdahl links`");
  advise->add_flag("--overlap", args->outlook.question.overlap, "Hide the assumed communication behind backward");
  add_talk(advise, args->talk);
  offer(advise, "--model", {"medium", "large", "medium-258k", "large-6.9m"});
  offer(advise, "--policy", {"measured", "study"});
  offer(advise, "--link", {"nvlink4", "pcie5", "host"});
  offer_files(advise, {"--model", "--from", "--machine", "--link"});
  offer_lists(advise, {"--assume-devices"});
  return {advise, [args, params, devices, advise](const std::string&) {
            refuse_other_half(*advise, !devices->empty());
            if (!devices->empty()) {
              OutlookConfig& outlook = args->outlook;
              outlook.evidence = args->config.evidence;
              outlook.question.devices = parse_count_list(*devices, "--assume-devices");
              outlook.question.model = args->config.model;
              outlook.question.global_batch = advise->count("--batch") > 0 ? args->config.batch_size : 0;
              return outlook_command(*args);
            }
            if (params->empty() == args->config.model.empty())
              throw Error(Cause::usage, "advise needs either --params or --model", "--params 6.9M, or --model large");
            if (!params->empty()) args->config.num_parameters = parse_count(*params, "--params");
            return advise_command(*args);
          }};
}

Command define_plans(CLI::App& app) {
  auto args = std::make_shared<PlansArgs>();
  auto recompute = std::make_shared<std::string>("none");
  CLI::App* plans = app.add_subcommand("plans", "Parallel plans of a model that can be executed, with modelled memory");
  plans->footer(
      "`amdahl plan` predicts the steps of all of them on a calibrated machine, and ranks them.\nexamples:\n  amdahl "
      "plans --devices 8 --model gpt2\n  amdahl plans --devices 4 --model large --json");
  PlansConfig& config = args->config;
  plans->add_option("--model", config.model, "Preset or FILE.json")->capture_default_str();
  plans->add_option("--devices", config.devices, "Number of devices")->check(kWhole)->capture_default_str();
  plans->add_option("--batch-size", config.batch_size, "Global batch")->check(kWhole)->capture_default_str();
  plans->add_option("--optimizer", config.optimizer, "adam, adamw or sgd")->capture_default_str();
  plans->add_option("--recompute", *recompute, "none, block or selective")->capture_default_str();
  plans->add_flag("--all-schedules", config.all_schedules, "Every pipeline schedule, not 1f1b alone");
  add_talk(plans, args->talk);
  offer(plans, "--optimizer", {"adam", "adamw", "sgd"});
  offer(plans, "--recompute", {"none", "block", "selective"});
  offer_files(plans, {"--model"});
  return {plans, [args, recompute](const std::string&) {
            args->config.recompute =
                one_of<int64_t>("--recompute", *recompute, {{"none", 0}, {"block", 1}, {"selective", 2}});
            return plans_command(*args);
          }};
}

Command define_info(CLI::App& app) {
  auto args = std::make_shared<InfoArgs>();
  CLI::App* info = app.add_subcommand("info", "Version, build, devices and optional backends");
  add_talk(info, args->talk);
  return {info, [args](const std::string&) { return info_command(*args); }};
}

}  // namespace

std::vector<Command> define_reading_commands(CLI::App& app) {
  return {define_advise(app), define_plan(app),   define_plans(app),  define_compare(app), define_calibrate(app),
          define_cost(app),   define_report(app), define_export(app), define_info(app)};
}

}  // namespace amdahl::cli
