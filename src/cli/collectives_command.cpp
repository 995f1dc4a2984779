#include <fmt/format.h>

#include <cstdio>

#include "amdahl/export.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {

namespace {

constexpr int kWaived = 77;  // the exit code that test harnesses read as "skipped"

}  // namespace

int collectives_command(const CollectivesArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  const CollectivesOutcome outcome = run_collectives(args.config, observer);
  if (!outcome.waived.empty()) {
    show(stdout, fmt::format("waived: {}\n", outcome.waived));
    return kWaived;
  }
  if (!outcome.is_root || args.config.repeat.is_child()) return 0;
  if (!args.metrics.empty()) save_text(args.metrics, metrics_text(outcome.records));
  if (!args.json_file.empty()) save_text(args.json_file, to_json(outcome) + "\n");
  const bool json = args.talk.json || args.format == "json";
  if (json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, args.format == "nccl-tests" ? to_nccl_tests(outcome) : to_text(outcome));
  if (!args.curves.empty()) {
    const std::string curves = to_svg(outcome);
    if (curves.empty())
      throw Error(Cause::usage, "--curves has nothing to draw: no size has a bandwidth", "larger sizes than these");
    save_text(args.curves, curves);
  }
  if (!outcome.run_dir.empty()) show(json ? stderr : stdout, fmt::format("run: {}\n", outcome.run_dir));
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a collective gave wrong results, did not fit, or was impossibly fast",
              "the rows marked FAILED say which");
}

int arena_command(const ArenaArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  const ArenaOutcome outcome = run_arena(args.config, observer);
  if (!outcome.waived.empty()) {
    show(stdout, fmt::format("waived: {}\n", outcome.waived));
    return kWaived;
  }
  if (!args.metrics.empty()) save_text(args.metrics, metrics_text(outcome.records));
  if (!args.json_file.empty()) save_text(args.json_file, to_json(outcome) + "\n");
  if (!args.environment_file.empty()) save_text(args.environment_file, to_environment(outcome));
  const bool json = args.talk.json || args.format == "json";
  if (json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  if (!args.environment_file.empty())
    show(json ? stderr : stdout, fmt::format("environment: {}\n", args.environment_file));
  if (!outcome.run_dir.empty()) show(json ? stderr : stdout, fmt::format("run: {}\n", outcome.run_dir));
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a transport gave wrong results or did not come to its end, or none gave any",
              "the rows marked FAILED say which");
}

}  // namespace amdahl::cli
