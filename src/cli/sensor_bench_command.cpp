#include <fmt/format.h>

#include <cstdio>

#include "amdahl/export.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {

int sensor_bench_command(const SensorBenchArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  const SensorBenchOutcome outcome = run_sensor_bench(args.config, observer);
  if (!outcome.is_root || args.config.repeat.is_child()) return 0;
  if (!args.metrics.empty()) save_text(args.metrics, metrics_text(outcome.records));
  if (!args.json_file.empty()) save_text(args.json_file, to_json(outcome) + "\n");
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  if (!outcome.run_dir.empty()) show(args.talk.json ? stderr : stdout, fmt::format("run: {}\n", outcome.run_dir));
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "an operation gave a wrong result or did not fit",
              "the lines marked FAILED say which");
}

}  // namespace amdahl::cli
