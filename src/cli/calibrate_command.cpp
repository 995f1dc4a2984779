// `amdahl calibrate`: the planner's constants on this machine, or the spread between fresh processes from runs.
#include <cstdio>
#include <memory>

#include "amdahl/comparison.h"
#include "amdahl/planner.h"
#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct CalibrateArgs {
  CalibrateConfig spread;
  CalibrationConfig config;
  std::string gpus, math;
  OutputOptions output;
};

int measure_command(CalibrateArgs& args) {
  CalibrationConfig& config = args.config;
  config.machine = args.spread.machine;
  config.engine.environment = process_environment();
  config.engine.gpus = parse_gpus(args.gpus);
  const bool cpu = config.engine.backend == "cpu";
  config.engine.math = MathMode::fp32;
  if (!args.math.empty())
    config.engine.math = one_of<MathMode>(
        "--math", args.math, {{"fp32", MathMode::fp32}, {"tf32", MathMode::tf32}, {"bf16", MathMode::bf16}});
  if (cpu && config.engine.math != MathMode::fp32)
    throw Error(Cause::usage, "--math of CPU virtual devices is fp32", "--math fp32");
  require_place("--html", args.output.html);
  config.html = args.output.html;
  TerminalObserver observer(args.output.quiet);
  show_outcome(run_calibration(config, observer), args.output);
  show_place("page", config.html, args.output);
  return 0;
}

}  // namespace

Command define_calibrate(CLI::App& app) {
  auto args = std::make_shared<CalibrateArgs>();
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "Measure this machine for predictions; with runs: how far its fresh processes lie apart");
  calibrate->footer(
      "examples:\n  amdahl calibrate --machine machine.json\n  amdahl calibrate --backend cuda --math bf16 --machine "
      "machine.json\n"
      "  amdahl study --full --processes 10 --output-dir out/calibration\n"
      "  amdahl calibrate out/calibration --machine machine.json\n"
      "  amdahl compare a b --machine machine.json");
  calibrate->add_option("runs", args->spread.runs,
                        "Runs that five processes or more measured, for their spread; none: measure for predictions");
  calibrate->add_option("--machine", args->spread.machine, "Machine file; made when it is not there")->required();
  add_backend(calibrate, args->config.engine.backend, args->gpus);
  calibrate->add_option("--devices", args->config.devices,
                        "At most so many devices; default: all GPUs, 4 virtual ones");
  calibrate->add_option("--seconds", args->config.seconds,
                        "Time for the measurements; default: 40 with virtual devices, 85 with GPUs");
  calibrate->add_option("--math", args->math, "fp32, tf32 or bf16; default: fp32");
  add_output_options(calibrate, args->output);
  add_html(calibrate, args->output);
  offer(calibrate, "--math", {"fp32", "tf32", "bf16"});
  offer_files(calibrate, {"runs", "--machine"});
  arrange(calibrate, {{"Output", "--machine --html"}, {"Measurement", "--backend --gpus --devices --seconds --math"}});
  return {calibrate, [args, calibrate](const std::string&) {
            if (args->spread.runs.empty()) return measure_command(*args);
            refuse_options(*calibrate, {"--backend", "--devices", "--seconds", "--gpus", "--math", "--html"},
                           "with runs, whose spread is computed", "one of them");
            show_outcome(run_calibrate(args->spread), args->output);
            return 0;
          }};
}

}  // namespace amdahl::cli
