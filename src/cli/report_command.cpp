// `amdahl report`: reports, pages, costs, exports and advice of runs that were measured.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "amdahl/report.h"
#include "cli/advise_options.h"
#include "cli/environment.h"
#include "cli/output.h"

extern char** environ;

namespace amdahl::cli {
namespace {

struct ReportArgs {
  PageConfig page;  // its runs are those of all reports
  std::string csv, jsonl, metrics, prices;
  AdviseOptions advice;
  std::string assume_devices;
  OutlookConfig outlook;
  bool open = false, write = false;
  OutputOptions output;
};

namespace fs = std::filesystem;

// The path of a program in PATH; empty when it is not found.
std::string find_program(const std::string& name) {
  const auto environment = process_environment();
  const auto found = environment.find("PATH");
  std::string path = found == environment.end() ? "/usr/bin:/bin" : found->second;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    std::error_code error;
    if (end > begin && fs::is_regular_file(candidate, error) && access(candidate.c_str(), X_OK) == 0)
      return candidate.string();
    begin = end + 1;
  }
  return {};
}

// Interpreters that may draw the pictures of Markdown: the requested one, otherwise this build's, then the one in PATH.
std::vector<std::string> picture_pythons() {
  const auto environment = process_environment();
  if (const auto chosen = environment.find("AMDAHL_CHART_PYTHON"); chosen != environment.end()) return {chosen->second};
  return {"", find_program("python3")};
}

// Starts the opener in the background, because some openers run until the browser is closed. A failing one ends within
// a second.
void open_page(const std::string& file) {
  std::string opener = find_program("xdg-open");
  if (opener.empty())
    throw Error(Cause::environment_missing, "--open: there is no xdg-open on this machine",
                fmt::format("open {} in a browser", file));
  std::string path = fs::absolute(file).string();
  char* arguments[] = {opener.data(), path.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, opener.c_str(), nullptr, nullptr, arguments, environ) != 0)
    throw Error(Cause::environment_missing, fmt::format("--open: {} cannot be started", opener),
                fmt::format("open {} in a browser", file));
  for (int i = 0; i < 100; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
      throw Error(Cause::environment_missing, fmt::format("--open: {} found no browser", opener),
                  fmt::format("open {} in one", file));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

int page_command(const ReportArgs& args) {
  if (args.output.json)
    throw Error(Cause::usage, "--json with --html, --md or --open",
                "the page holds the records as JSON, or two commands");
  PageConfig config = args.page;
  if (args.open && config.html.empty()) {
    const fs::path run(config.runs.front());
    config.html = ((fs::is_directory(run) ? run : run.parent_path()) / "report.html").string();
  }
  if (!config.markdown.empty()) config.picture_pythons = picture_pythons();
  const PageOutcome outcome = run_page_report(config);
  for (const std::string& note : outcome.notes) show(stderr, fmt::format("warning: {}\n", note));
  if (!args.output.quiet) {
    show(stdout, fmt::format("{}{}\n", outcome.title, outcome.qualifier.empty() ? "" : " (" + outcome.qualifier + ")"));
    show(stdout, fmt::format("{}\n", outcome.verdict));
  }
  for (const std::string& file : outcome.written) show(stdout, fmt::format("report: {}\n", file));
  std::fflush(stdout);
  if (outcome.problem) throw *outcome.problem;
  if (args.open) open_page(config.html);
  return 0;
}

void show_report(const std::string& run, const ReportArgs& args) {
  const ReportOutcome outcome = run_report(run, args.write, terminal_columns());
  for (const std::string& note : outcome.notes) show(stderr, fmt::format("warning: {}\n", note));
  if (args.output.json)
    show_data(outcome.json + "\n");
  else
    show(stdout, outcome.text);
  show_place("report", outcome.report_path, args.output);
}

/// The only run, for what reads one.
const std::string& one_run(const ReportArgs& args, const char* option) {
  if (args.page.runs.size() == 1) return args.page.runs.front();
  throw Error(Cause::usage, fmt::format("{} of {} runs", option, args.page.runs.size()), "one run");
}

void save_or_show(const std::string& file, const std::string& text) {
  if (file == "-")
    show_data(text);
  else
    save_text(file, text);
}

void export_records(const ReportArgs& args, const std::string& file, const char* option, ExportFormat format) {
  if (file.empty()) return;
  const ExportOutcome outcome = run_export(one_run(args, option), format);
  for (const std::string& note : outcome.notes) show(stderr, fmt::format("warning: {}\n", note));
  save_or_show(file, outcome.text);
}

int export_command(const ReportArgs& args) {
  if (!args.metrics.empty() && fs::path(args.metrics).extension() != ".prom" && !is_stream(args.metrics))
    throw Error(Cause::usage, fmt::format("--metrics {}: the collector reads no such name", printable(args.metrics)),
                "a name that ends in .prom");
  if (int{!args.csv.empty()} + int{!args.jsonl.empty()} + int{!args.metrics.empty()} > 1)
    throw Error(Cause::usage, "--csv, --jsonl and --metrics at once", "one of them; - is standard output");
  export_records(args, args.csv, "--csv", ExportFormat::csv);
  export_records(args, args.jsonl, "--jsonl", ExportFormat::jsonl);
  if (args.metrics.empty()) return 0;
  require_place("--metrics", args.metrics);
  save_text(args.metrics, run_metrics(one_run(args, "--metrics")));
  return 0;
}

int cost_command(const ReportArgs& args) {
  const bool markdown = args.page.markdown == "-";
  if (markdown && args.output.json) throw Error(Cause::usage, "--md with --json", "one of them");
  if (args.open) throw Error(Cause::usage, "--open with --prices", "--html FILE, and open it");
  const CostOutcome outcome = run_cost({args.page.runs, args.prices, args.page.html});
  if (markdown)
    show_data(to_markdown(outcome));
  else
    show_outcome(outcome, args.output);
  if (!args.page.markdown.empty() && !markdown) save_text(args.page.markdown, to_markdown(outcome));
  if (!args.page.html.empty()) show(stderr, fmt::format("page: {}\n", args.page.html));
  return 0;
}

int outlook_command(ReportArgs& args) {
  OutlookConfig& config = args.outlook;
  config.evidence = one_run(args, "--assume-devices");
  config.question.devices = parse_count_list(args.assume_devices, "--assume-devices");
  config.question.model = args.advice.config.model;
  show_outcome(run_outlook(config), args.output);
  return 0;
}

int advise_report(ReportArgs& args, const CLI::App& app) {
  args.advice.config.evidence = one_run(args, "--advise");
  if (app.count("--batch-size") > 0) args.advice.config.batch_size = args.outlook.question.global_batch;
  return show_advice(args.advice, args.output);
}

int text_command(const ReportArgs& args) {
  const std::vector<std::string> runs = find_runs(args.page.runs);
  if (args.output.json && runs.size() > 1)
    throw Error(Cause::usage, fmt::format("--json of {} runs", runs.size()), "one run, or --html FILE for all");
  std::optional<Error> problem;  // error of one run, while other runs have a report
  for (const std::string& run : runs) {
    try {
      show_report(run, args);
    } catch (const Error& error) {
      const bool of_run = error.cause() == Cause::usage || error.cause() == Cause::store_corrupt ||
                          error.cause() == Cause::version_refused;
      if (!of_run || runs.size() == 1) throw;
      if (problem) show(stderr, fmt::format("warning: {}\n", problem->what()));
      problem = error;
    }
  }
  if (!problem) return 0;
  std::fflush(stdout);
  throw *problem;
}

int run_parsed_report(ReportArgs& args, const CLI::App& app) {
  require_positive(app, "--batch-size", args.outlook.question.global_batch);
  const bool advise = app.count("--advise") > 0, assume = !args.assume_devices.empty();
  if (!advise) refuse_options(app, {"--params", "--machine"}, "without --advise", "both, or neither");
  if (!assume) refuse_options(app, {"--link", "--overlap"}, "is for predictions", "--assume-devices 2,4 beside it");
  if (!advise && !assume)
    refuse_options(app, {"--model", "--batch-size"}, "without --advise", "--advise, or --assume-devices");
  if (advise && assume) throw Error(Cause::usage, "--advise with --assume-devices", "one of them");
  if (advise) return advise_report(args, app);
  if (assume) return outlook_command(args);
  if (!args.csv.empty() || !args.jsonl.empty() || !args.metrics.empty()) return export_command(args);
  if (!args.prices.empty()) return cost_command(args);
  return args.open || !args.page.html.empty() || !args.page.markdown.empty() ? page_command(args) : text_command(args);
}

}  // namespace

Command define_report(CLI::App& app) {
  auto args = std::make_shared<ReportArgs>();
  CLI::App* report =
      app.add_subcommand("report", "Reports, pages, costs and exports of runs, from their records alone");
  report->footer(
      "examples:\n  amdahl report results/my-run\n  amdahl report results/my-run --html report.html --open\n"
      "  amdahl report results/large results/medium --html study.html --md study.md\n"
      "  amdahl report results/my-study --prices data/prices.toml\n"
      "  amdahl report results/my-run --csv samples.csv\n"
      "  amdahl report results/my-run --advise --model large --batch-size 512\n"
      "  amdahl report results/my-run --assume-devices 2,4 --link nvlink4\n"
      "data/prices.toml has examples to edit, not prices.");
  report
      ->add_option("runs", args->page.runs,
                   "Runs: folders, .jsonl(.gz) files, or folders with runs at any depth; with --prices also JSON files")
      ->required();
  report->add_option("--html", args->page.html,
                     "One HTML file about all runs, which opens from disk without a network");
  report->add_option("--md", args->page.markdown,
                     "The same as Markdown, its pictures in FILE_charts beside it; with --prices - is standard output");
  report->add_flag("--open", args->open, "Open the HTML page; without --html it is RUN/report.html");
  report->add_flag("--write", args->write, "Write report and summary again into the folder of each run");
  report->add_option("--csv", args->csv, "CSV file, one row per sample (RFC 4180); - is standard output");
  report->add_option("--jsonl", args->jsonl,
                     "JSON lines file, one line per record with its provenance; - is standard output");
  report->add_option("--metrics", args->metrics,
                     "Medians and means for Prometheus: FILE.prom in the folder of node_exporter's textfile collector");
  report->add_option("--prices", args->prices,
                     "What the work costs, and break-even sizes of several devices: TOML file like data/prices.toml");
  add_advise(report, args->advice);
  report->add_option("--model", args->advice.config.model, "With --advise or --assume-devices: preset or FILE.json");
  report->add_option("--batch-size", args->outlook.question.global_batch,
                     "Global batch (default: 64, or those measured)");
  report->add_option("--machine", args->advice.config.machine,
                     "With --advise: machine file of `amdahl calibrate`, for predictions where there are no records");
  report->add_option("--assume-devices", args->assume_devices,
                     "Predict that many devices from the one-GPU cells of the run, for example 2,4");
  report->add_option("--link", args->outlook.link,
                     "Between the assumed devices: nvlink4, pcie5, host, or a machine file of `amdahl links`");
  report->add_flag("--overlap", args->outlook.question.overlap, "Hide the assumed communication behind backward");
  add_output_options(report, args->output);
  offer(report, "--model", {"medium", "large", "medium-258k", "large-6.9m"});
  offer(report, "--link", {"nvlink4", "pcie5", "host"});
  offer_files(report, {"runs", "--html", "--md", "--csv", "--jsonl", "--metrics", "--prices", "--model", "--machine",
                       "--link"});
  offer_lists(report, {"--assume-devices"});
  arrange(report, {{"Output", "--html --md --open --write --csv --jsonl --metrics"},
                   {"Cost", "--prices"},
                   {"One device or several",
                    "--advise +--params --model --batch-size +--machine --assume-devices --link +--overlap"}});
  return {report, [args, report](const std::string&) { return run_parsed_report(*args, *report); }};
}

}  // namespace amdahl::cli
