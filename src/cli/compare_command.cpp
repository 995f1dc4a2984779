// `amdahl compare`: runs against a baseline, or sides of sensor runs.
#include <cstdio>
#include <memory>

#include "amdahl/comparison.h"
#include "amdahl/report.h"
#include "cli/option_values.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

struct CompareArgs {
  CompareConfig config;
  SensorCompareConfig sensors;  // with --single, --multi or --hetero
  std::string markdown;         // file to write; "-": standard output
  OutputOptions output;
  std::string limit;  // value of --fail-on-regression: "3" or "3%"
  std::vector<std::string> pairs;
};

/// Parses "strategy=ddp:zero1".
std::vector<AxisPair> parse_pairs(const std::vector<std::string>& texts) {
  std::vector<AxisPair> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('='), colon = text.find(':', equals == std::string::npos ? 0 : equals);
    if (equals == std::string::npos || equals == 0 || colon == std::string::npos || colon == equals + 1 ||
        colon + 1 == text.size())
      throw Error(Cause::usage, fmt::format("--pair '{}' is not AXIS=A:B", printable(text, 60)),
                  "--pair strategy=ddp:zero1: what the axis is in the baseline, and in the others");
    const std::string axis = text.substr(0, equals);
    pairs.push_back(
        {axis == "batch" ? "global_batch" : axis, text.substr(equals + 1, colon - equals - 1), text.substr(colon + 1)});
  }
  return pairs;
}

template <class Outcome>
void show_comparison(const Outcome& outcome, const CompareArgs& args) {
  if (args.markdown == "-")
    show_data(to_markdown(outcome));
  else
    show_outcome(outcome, args.output);
  if (!args.markdown.empty() && args.markdown != "-") save_text(args.markdown, to_markdown(outcome));
}

int compare_command(const CompareArgs& args) {
  const CompareOutcome outcome = run_compare(args.config);
  show_comparison(outcome, args);
  if (!args.config.html.empty()) show(stderr, fmt::format("page: {}\n", args.config.html));
  return outcome.regression ? exit_code(Cause::check_failed) : 0;
}

/// Compares runs with the first, or sides of sensor runs, never both.
int run_parsed_compare(const CLI::App& app, CompareArgs& args) {
  std::string sensor_option;
  for (const char* option : {"--single", "--multi", "--hetero", "--prices"})
    if (app.count(option) > 0) sensor_option = option;
  const SensorCompareConfig& sensors = args.sensors;
  if (args.markdown == "-" && args.output.json) throw Error(Cause::usage, "--md with --json", "one of them");
  if (sensor_option.empty()) {
    if (args.config.runs.size() < 2)
      throw Error(Cause::usage, fmt::format("compare lacks {}", args.config.runs.empty() ? "a and b" : "b"),
                  "amdahl compare BASELINE CANDIDATE..., or --single RUN --multi RUN for sensor runs");
    args.config.pairs = parse_pairs(args.pairs);
    if (!args.limit.empty())
      args.config.fail_on_regression_percent = parse_quantity(args.limit, Unit::percent, "--fail-on-regression");
    return compare_command(args);
  }
  std::string other;  // options that only apply to runs against a baseline
  if (!args.config.machine.empty()) other = "--machine";
  if (!args.limit.empty()) other = "--fail-on-regression";
  if (!args.pairs.empty()) other = "--pair";
  if (!args.config.runs.empty()) other = args.config.runs.front();
  if (!other.empty())
    throw Error(Cause::usage, fmt::format("{} with {}", other, sensor_option),
                "runs of any kind, or --single, --multi and --hetero of sensor runs");
  if (sensors.single.empty() || (sensors.multi.empty() && sensors.hetero.empty()))
    throw Error(
        Cause::usage,
        fmt::format("{} without {}", sensor_option, sensors.single.empty() ? "--single" : "--multi or --hetero"),
        "--single RUN... and --multi RUN... or --hetero RUN..., of amdahl sensor bench");
  args.sensors.allow_unlike = args.config.allow_unlike;
  args.sensors.html = args.config.html;
  show_comparison(run_sensor_compare(args.sensors), args);
  if (!args.sensors.html.empty()) show(stderr, fmt::format("page: {}\n", args.sensors.html));
  return 0;
}

}  // namespace

Command define_compare(CLI::App& app) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* compare = app.add_subcommand("compare", "Runs or cells against a baseline, verdict by statistics");
  compare->footer(
      "examples:\n  amdahl compare results/a results/b results/c\n  amdahl compare results/a@batch=64,devices=1 "
      "results/a@batch=64,devices=2\n  amdahl compare nccl-tests.json results/collectives\n"
      "  amdahl compare results/a results/b --md - --fail-on-regression 3%\n"
      "  amdahl compare results/ddp results/zero1 --pair strategy=ddp:zero1\n"
      "  amdahl compare --single one.json --multi two.json --hetero both.json --prices data/prices.toml\n"
      "A run is a folder, a study's summary.json, the JSON of amdahl collectives, links or sensor bench, of nccl-tests "
      "(-J), nvbandwidth (-j), RoboCache's benchmarks, or of the published training study.");
  compare->add_option(
      "runs", args->config.runs,
      "Baseline run, then those it is compared with; also RUN@axis=value,... for a cell, A1+A2+A3 for several runs of "
      "one side");
  compare->add_option("--single", args->sensors.single, "Sensor runs on one device; the best is the baseline");
  compare->add_option("--multi", args->sensors.multi, "Sensor runs on several devices");
  compare->add_option("--hetero", args->sensors.hetero, "Sensor runs in mode hetero");
  compare->add_option("--prices", args->sensors.prices, "TOML file of what devices cost, like data/prices.toml");
  compare->add_option("--md", args->markdown,
                      "File of the result as Markdown, the verdict first; - is standard output");
  compare->add_option("--html", args->config.html, "Page to write, one file that needs no network");
  compare->add_option("--machine", args->config.machine,
                      "Machine file of `amdahl calibrate`: judges runs of one process by the spread it holds");
  compare
      ->add_option(
          "--pair", args->pairs,
          "AXIS=A:B: compare cells that have A in this axis of the baseline with those that have B in it of the "
          "others, for example strategy=ddp:zero1; may be repeated")
      ->allow_extra_args(false);
  compare->add_flag("--allow-unlike", args->config.allow_unlike, "Compare although host, math or launch differ");
  compare->add_option("--fail-on-regression", args->limit,
                      "Exit 1 when a run is slower than the baseline by more than this percentage, 3 or 3%");
  add_output_options(compare, args->output);
  offer_files(compare, {"runs", "--single", "--multi", "--hetero", "--prices", "--html", "--md", "--machine"});
  arrange(compare,
          {{"Runs", "+--single +--multi +--hetero --prices --pair --machine --allow-unlike --fail-on-regression"},
           {"Output", "--md --html"}});
  return {compare, [args, compare](const std::string&) { return run_parsed_compare(*compare, *args); }};
}

}  // namespace amdahl::cli
