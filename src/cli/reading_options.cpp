// Options of the commands that measure nothing: they read records, rules, or this build.
#include <memory>

#include "cli/export_options.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

Command define_advise(CLI::App& app) {
  auto args = std::make_shared<AdviseArgs>();
  auto params = std::make_shared<std::string>();
  CLI::App* advise =
      app.add_subcommand("advise", "One device or several? From measured records, or by the study's rules");
  advise->footer(
      "examples:\n  amdahl advise --params 6.9M --batch 64 --policy study\n  amdahl advise --model large --batch 512 "
      "--from results/my-run");
  advise->add_option("--params", *params, "Number of parameters, for example 6.9M");
  advise->add_option("--model", args->config.model, "Preset or FILE.json instead of --params");
  advise->add_option("--batch", args->config.batch_size, "Global batch")->check(kWhole)->capture_default_str();
  advise->add_option("--policy", args->config.policy, "measured, or study: the published thresholds")
      ->capture_default_str();
  advise->add_option("--from", args->config.evidence, "Run folder with measured records");
  add_talk(advise, args->talk);
  return {advise, [args, params](const std::string&) {
            if (params->empty() == args->config.model.empty())
              throw Error(Cause::usage, "advise needs either --params or --model", "--params 6.9M, or --model large");
            if (!params->empty()) args->config.num_parameters = parse_count(*params, "--params");
            return advise_command(*args);
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
  return {define_advise(app), define_compare(app), define_cost(app),
          define_report(app), define_export(app),  define_info(app)};
}

}  // namespace amdahl::cli
