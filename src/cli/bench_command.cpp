// `amdahl bench`.
#include <memory>

#include "amdahl/bench.h"
#include "amdahl/report.h"
#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct BenchArgs {
  BenchConfig config;
  std::string names, limit, csv, markdown;  // files to write; "-": standard output
  OutputOptions output;
};

int bench_command(const BenchArgs& args) {
  TerminalObserver observer(args.output.quiet);
  const BenchOutcome outcome = run_bench(args.config, observer);
  if (args.markdown == "-")
    show_data(to_markdown(outcome));
  else if (args.csv == "-")
    show_data(to_csv(outcome));
  else
    show_outcome(outcome, args.output);
  if (!args.csv.empty() && args.csv != "-") save_text(args.csv, to_csv(outcome));
  if (!args.markdown.empty() && args.markdown != "-") save_text(args.markdown, to_markdown(outcome));
  OutputOptions beside = args.output;
  beside.json = beside.json || args.csv == "-" || args.markdown == "-";  // data on stdout
  show_run(args.config.output_dir, beside);
  return outcome.regression ? exit_code(Cause::check_failed) : 0;
}

int run_parsed_bench(BenchArgs& args, const std::string& command_line) {
  BenchConfig& config = args.config;
  if (!args.names.empty()) config.names = split_list(args.names);
  if (!args.limit.empty())
    config.fail_on_regression_percent = parse_quantity(args.limit, Unit::percent, "--fail-on-regression");
  if (args.output.json && (args.markdown == "-" || args.csv == "-"))
    throw Error(Cause::usage, fmt::format("{} - with --json", args.csv == "-" ? "--csv" : "--md"), "one of them");
  require_place("--csv", args.csv == "-" ? "" : args.csv);
  require_place("--md", args.markdown == "-" ? "" : args.markdown);
  finish_html(args.output, config.output_dir, "bench");
  if (config.output_dir.empty()) config.output_dir = default_run_dir("bench");
  config.environment = process_environment();
  config.command_line = command_line;
  return bench_command(args);
}

}  // namespace

Command define_bench(CLI::App& app) {
  auto args = std::make_shared<BenchArgs>();
  BenchConfig& config = args->config;
  CLI::App* sub = app.add_subcommand("bench", "Commands of any kind against the first: fresh processes, a verdict");
  sub->footer(
      "examples:\n  amdahl bench 'sleep 0.02' 'sleep 0.01'\n  amdahl bench --runs 20 --warmup 2 'sort -n "
      "data/prices.toml' "
      "'sort data/prices.toml' --names numbers,text\n  amdahl bench 'gzip -c README.md' 'gzip -1 -c README.md' --csv "
      "samples.csv --fail-on-regression 5%");
  sub->add_option("commands", config.commands,
                  "Commands, each in quotes; the first is the baseline. With characters of a shell (pipes, quotes, "
                  "variables, patterns): run by sh -c");
  sub->add_option("--names", args->names, "Names of the commands in the result (default: the commands)");
  sub->add_option("--prepare", config.prepare, "Command before every run, not timed");
  sub->add_flag("--ignore-failure", config.ignore_failure, "Count runs that end with another code than 0 too");
  sub->add_option("--runs", config.runs, "Runs of each command (default: at least 10, and 3 s of each command)");
  sub->add_option("--warmup", config.warmup, "Runs of each command that are not counted")->capture_default_str();
  add_timeout(sub, config.timeout_seconds);
  add_seed(sub, config.seed, "Seed of the order of the commands");
  sub->add_option("--fail-on-regression", args->limit,
                  "Exit 1 when a command is slower than the first by more than this percentage, 3 or 3%");
  sub->add_option("--csv", args->csv, "File with one row per run and quantity (RFC 4180); - is standard output");
  sub->add_option("--md", args->markdown, "File of the result as Markdown; - is standard output");
  add_output_dir(sub, config.output_dir, "results/local/bench-TIME");
  add_html(sub, args->output);
  add_output_options(sub, args->output);
  offer_lists(sub, {"--names"});
  offer_files(sub, {"--csv", "--md"});
  arrange(sub, {{"Commands", "--names --prepare --ignore-failure"},
                {"Sampling", "--runs --warmup +--timeout +--seed"},
                {"Output", "--fail-on-regression --csv --md --output-dir --html"}});
  return {sub, [args](const std::string& command_line) { return run_parsed_bench(*args, command_line); }};
}

}  // namespace amdahl::cli
