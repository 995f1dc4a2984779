#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/progress.h"

namespace amdahl::cli {

int study_command(const StudyArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  if (args.dry_run) {
    fmt::print("{}", plan_text(plan_study(args.config, observer)));
    return 0;
  }
  const StudyOutcome outcome = run_study(args.config, observer);
  if (!outcome.is_root) return 0;
  fmt::print("{}", args.talk.json ? outcome.json : outcome.text);
  fmt::print(args.talk.json ? stderr : stdout, "report: {}\n", outcome.report_path);
  return 0;
}

}  // namespace amdahl::cli
