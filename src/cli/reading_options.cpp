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

/// Two runs, or sides of sensor runs: never both.
int run_parsed_compare(const CLI::App& app, CompareArgs& args) {
  std::string sensor_option;
  for (const char* option : {"--single", "--multi", "--hetero", "--prices", "--markdown"})
    if (app.count(option) > 0) sensor_option = option;
  const SensorCompareConfig& sensors = args.sensors;
  if (sensor_option.empty()) {
    if (args.config.a.empty() || args.config.b.empty())
      throw Error(Cause::usage, fmt::format("compare lacks {}", args.config.a.empty() ? "a and b" : "b"),
                  "amdahl compare BASELINE CANDIDATE, or --single RUN --multi RUN for sensor runs");
    return compare_command(args);
  }
  if (!args.config.a.empty() || app.count("--fail-on-regression") > 0)
    throw Error(Cause::usage,
                fmt::format("{} beside {}", args.config.a.empty() ? std::string("--fail-on-regression") : args.config.a,
                            sensor_option),
                "two runs of any kind, or --single, --multi and --hetero of sensor runs");
  if (sensors.single.empty() || (sensors.multi.empty() && sensors.hetero.empty()))
    throw Error(
        Cause::usage,
        fmt::format("{} without {}", sensor_option, sensors.single.empty() ? "--single" : "--multi or --hetero"),
        "--single RUN... and --multi RUN... or --hetero RUN..., of amdahl sensor bench");
  if (args.markdown && args.talk.json) throw Error(Cause::usage, "--markdown beside --json", "one of them");
  args.sensors.allow_unlike = args.config.allow_unlike;
  return sensor_compare_command(args);
}

Command define_compare(CLI::App& app) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* compare = app.add_subcommand("compare", "Two runs or two cells, verdict by statistics");
  compare->footer(
      "examples:\n  amdahl compare results/a results/b\n  amdahl compare results/a@batch=64,devices=1 "
      "results/a@batch=64,devices=2\n  amdahl compare nccl-tests.json results/collectives\n"
      "  amdahl compare --single one.json --multi two.json --hetero both.json --prices data/prices.toml\n"
      "A run is a folder, the JSON of amdahl collectives, links or sensor bench, of nccl-tests (-J) or of nvbandwidth "
      "(-j).");
  compare->add_option("a", args->config.a, "Baseline run, optionally RUN@axis=value,...");
  compare->add_option("b", args->config.b, "Candidate run");
  compare->add_option("--single", args->sensors.single, "Sensor runs on one device; the best is the baseline");
  compare->add_option("--multi", args->sensors.multi, "Sensor runs on several devices");
  compare->add_option("--hetero", args->sensors.hetero, "Sensor runs in mode hetero");
  compare->add_option("--prices", args->sensors.prices, "TOML file of what devices cost, like data/prices.toml");
  compare->add_flag("--markdown", args->markdown, "Sensor runs: Markdown on stdout");
  compare->add_flag("--allow-unlike", args->config.allow_unlike, "Compare although host, math or launch differ");
  compare->add_option("--fail-on-regression", args->config.fail_on_regression_percent,
                      "Exit 1 when B is slower by more than this percentage");
  add_talk(compare, args->talk);
  return {compare, [args, compare](const std::string&) { return run_parsed_compare(*compare, *args); }};
}

Command define_info(CLI::App& app) {
  auto args = std::make_shared<InfoArgs>();
  CLI::App* info = app.add_subcommand("info", "Version, build, devices and optional backends");
  add_talk(info, args->talk);
  return {info, [args](const std::string&) { return info_command(*args); }};
}

}  // namespace

std::vector<Command> define_reading_commands(CLI::App& app) {
  return {define_advise(app), define_compare(app), define_report(app), define_export(app), define_info(app)};
}

}  // namespace amdahl::cli
