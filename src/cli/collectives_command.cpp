#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/progress.h"

namespace amdahl::cli {

int collectives_command(const CollectivesArgs& args) {
  constexpr int kWaived = 77;  // what test harnesses read as "skipped"
  TerminalObserver observer(args.talk.quiet);
  const CollectivesOutcome outcome = run_collectives(args.config, observer);
  if (!outcome.waived.empty()) {
    fmt::print("waived: {}\n", outcome.waived);
    return kWaived;
  }
  if (!outcome.is_root) return 0;
  if (!args.json_file.empty()) save_text(args.json_file, outcome.json + "\n");
  const bool json = args.talk.json || args.format == "json";
  fmt::print("{}{}",
             json                          ? outcome.json
             : args.format == "nccl-tests" ? outcome.nccl_tests
                                           : outcome.text,
             json ? "\n" : "");
  if (!args.curves.empty()) {
    if (outcome.curves.empty())
      throw Error(Cause::usage, "--curves has nothing to draw: no size has a bandwidth", "larger sizes than these");
    save_text(args.curves, outcome.curves);
  }
  if (!outcome.run_dir.empty()) fmt::print(json ? stderr : stdout, "run: {}\n", outcome.run_dir);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a collective gave wrong results, did not fit, or was impossibly fast",
              "the rows marked FAILED say which");
}

}  // namespace amdahl::cli
