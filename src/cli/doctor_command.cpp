// `amdahl doctor`.
#include <cstdio>
#include <memory>

#include "cli/environment.h"
#include "cli/nccl_log.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct DoctorArgs {
  DoctorConfig config;
  std::string machine;  // file to write
  std::string gpus;
  OutputOptions output;
};

int doctor_command(DoctorArgs& args) {
  args.config.environment = process_environment();  // the user's environment, before NcclLog sets its variables
  const NcclLog log;
  args.config.nccl_log = log.path();
  TerminalObserver observer(args.output.quiet);
  const DoctorOutcome outcome = run_doctor(args.config, observer);
  show_outcome(outcome, args.output);
  if (!args.machine.empty()) save_measured(args.machine, outcome.machine);
  show_run(outcome.run_dir, args.output);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "this machine has faults or warnings", "the lines above say how to fix each");
}

}  // namespace

Command define_doctor(CLI::App& app) {
  auto args = std::make_shared<DoctorArgs>();
  DoctorConfig& config = args->config;
  CLI::App* sub = app.add_subcommand("doctor", "What is wrong with this machine, and the command that fixes it");
  sub->footer(
      "examples:\n  amdahl doctor\n  amdahl doctor --from my-study\n  amdahl doctor --json --min-gbps 230 && echo "
      "healthy");
  sub->add_option("--devices", config.devices, "Devices (default: all GPUs, or 2 virtual devices)");
  add_backend(sub, config.backend, args->gpus);
  sub->add_option("--min-gbps", config.min_gbps, "Fault for pairs below this, GB/s");
  sub->add_flag("!--no-peer-access", config.peer_access, "As on a machine without it: through host memory");
  sub->add_option("--from", config.study, "Run folder of a study: judges how its training is set up, too");
  sub->add_option("--sysfs", config.sysfs, "Where the kernel shows its devices; a copy in tests")->group("");
  sub->add_option("--shm", config.shm, "Where the host keeps shared memory; a copy in tests")->group("");
  add_timeout(sub, config.timeout_seconds);
  add_seed(sub, config.seed);
  sub->add_option("--machine", args->machine, "File for the machine with what was measured of its links");
  add_output_dir(sub, config.output_dir);
  add_output_options(sub, args->output);
  add_html(sub, args->output);
  offer_files(sub, {"--machine", "--from"});
  arrange(sub, {{"Devices", "--devices --backend --gpus"},
                {"Checks", "--min-gbps --no-peer-access --from +--timeout +--seed"},
                {"Output", "--machine --output-dir --html"}});
  return {sub, [args, sub](const std::string& command_line) {
            require_positive(*sub, "--devices", args->config.devices);
            finish_html(args->output, args->config.output_dir, "doctor");
            args->config.gpus = parse_gpus(args->gpus);
            if (sub->count("--sysfs") > 0) require_folder("--sysfs", args->config.sysfs);
            require_machine_place(args->machine);
            args->config.command_line = command_line;
            args->config.on_fatal = end_at_once;
            return doctor_command(*args);
          }};
}

}  // namespace amdahl::cli
