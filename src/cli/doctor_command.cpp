#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/nccl_log.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {

int doctor_command(DoctorArgs args) {
  args.config.environment = process_environment();  // the user's environment, before NcclLog sets its variables
  const NcclLog log;
  args.config.nccl_log = log.path();
  TerminalObserver observer(args.talk.quiet);
  const DoctorOutcome outcome = run_doctor(args.config, observer);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  if (!args.machine.empty()) save_measured(args.machine, outcome.machine);
  if (!outcome.run_dir.empty()) show(args.talk.json ? stderr : stdout, fmt::format("run: {}\n", outcome.run_dir));
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "this machine has faults or warnings", "the lines above say how to fix each");
}

}  // namespace amdahl::cli
