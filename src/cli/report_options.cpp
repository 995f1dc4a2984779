// Options of `amdahl report`.
#include <memory>

#include "cli/option_values.h"

namespace amdahl::cli {

Command define_report(CLI::App& app) {
  auto args = std::make_shared<ReportArgs>();
  CLI::App* report =
      app.add_subcommand("report", "Rebuild reports of runs from their records alone; one page of several");
  report->footer(
      "examples:\n  amdahl report results/my-run\n  amdahl report results/my-run --html report.html --open\n"
      "  amdahl report results/large results/medium --html study.html --md study.md\n"
      "  amdahl report results/fabric --html fabric.html\n"
      "Without --html and --md each run folder gets its text or Markdown report; with them only those files are "
      "written.");
  report->add_option("runs", args->page.runs, "Run folders, or folders of them")->required();
  report->add_option("--html", args->page.html,
                     "One HTML file about all runs, which opens from disk without a network");
  report->add_option("--md", args->page.markdown, "The same as Markdown, its pictures in FILE_charts beside it");
  report->add_flag("--open", args->open, "Open the HTML page; without --html it is RUN/report.html");
  add_talk(report, args->talk);
  offer_files(report, {"runs", "--html", "--md"});
  return {report, [args](const std::string&) { return report_command(*args); }};
}

}  // namespace amdahl::cli
