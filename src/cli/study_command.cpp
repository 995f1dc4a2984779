#include <fmt/format.h>

#include <cstdio>

#include "amdahl/export.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {

int study_command(const StudyArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  if (args.dry_run) {
    const StudyPlan plan = plan_study(args.config, observer);
    if (plan.is_root) show(stdout, plan_text(plan));
    return 0;
  }
  const StudyOutcome outcome = run_study(args.config, observer);
  if (!outcome.is_root || args.config.processes.is_child()) return 0;
  if (!args.metrics.empty()) save_text(args.metrics, run_metrics(outcome.run_dir));
  if (args.talk.json)
    show_data(to_json(outcome));
  else
    show(stdout, to_text(outcome));
  show(args.talk.json ? stderr : stdout, fmt::format("report: {}\n", outcome.report_path));
  if (!outcome.nothing_fitted) return 0;
  throw Error(Cause::out_of_memory, "no cell of the study fitted into memory",
              "smaller --batch-sizes, a smaller --model, or --plan zero1 over more devices");
}

}  // namespace amdahl::cli
