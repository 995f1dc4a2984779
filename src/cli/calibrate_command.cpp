// `amdahl calibrate`: the planner's constants on this machine, or the spread between fresh processes from runs.
#include <cstdio>
#include <memory>

#include "amdahl/planner.h"
#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct MeasureArgs {
  CalibrateArgs spread;
  CalibrationConfig config;
  std::string gpus, math;
};

int measure_command(MeasureArgs& args) {
  CalibrationConfig& config = args.config;
  config.machine = args.spread.config.machine;
  config.engine.environment = process_environment();
  config.engine.gpus = parse_gpus(args.gpus);
  const bool cpu = config.engine.backend == "cpu";
  config.engine.math = MathMode::fp32;
  if (!args.math.empty())
    config.engine.math = one_of<MathMode>(
        "--math", args.math, {{"fp32", MathMode::fp32}, {"tf32", MathMode::tf32}, {"bf16", MathMode::bf16}});
  if (cpu && config.engine.math != MathMode::fp32)
    throw Error(Cause::usage, "--math of CPU virtual devices is fp32", "--math fp32");
  TerminalObserver observer(args.spread.talk.quiet);
  const CalibrationOutcome outcome = run_calibration(config, observer);
  if (args.spread.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

}  // namespace

int calibrate_command(const CalibrateArgs& args) {
  const CalibrateOutcome outcome = run_calibrate(args.config);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

Command define_calibrate(CLI::App& app) {
  auto args = std::make_shared<MeasureArgs>();
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "Measure this machine for predictions; with runs: how far its fresh processes lie apart");
  calibrate->footer(
      "examples:\n  amdahl calibrate --machine machine.json\n  amdahl calibrate --backend cuda --math bf16 --machine "
      "machine.json\n"
      "  amdahl study --processes 10 --output-dir out/calibration\n"
      "  amdahl calibrate out/calibration --machine machine.json\n"
      "  amdahl compare a b --machine machine.json");
  calibrate->add_option("runs", args->spread.config.runs,
                        "Runs that five processes or more measured, for their spread; none: measure for predictions");
  calibrate->add_option("--machine", args->spread.config.machine, "Machine file; made when it is not there")
      ->required();
  calibrate->add_option("--backend", args->config.engine.backend, "auto, cpu (virtual devices) or cuda")
      ->capture_default_str();
  calibrate->add_option("--devices", args->config.devices, "At most so many devices; default: all GPUs, 4 virtual ones")
      ->check(kWhole);
  calibrate->add_option("--seconds", args->config.seconds,
                        "Time for the measurements; default: 40 with virtual devices, 85 with GPUs");
  calibrate->add_option("--gpus", args->gpus, "CUDA devices, for example 0,1");
  calibrate->add_option("--math", args->math, "fp32, tf32 or bf16; default: fp32");
  add_talk(calibrate, args->spread.talk);
  offer(calibrate, "--backend", {"auto", "cpu", "cuda"});
  offer(calibrate, "--math", {"fp32", "tf32", "bf16"});
  offer_files(calibrate, {"runs", "--machine"});
  offer_lists(calibrate, {"--gpus"});
  return {calibrate, [args, calibrate](const std::string&) {
            if (args->spread.config.runs.empty()) return measure_command(*args);
            for (const char* option : {"--backend", "--devices", "--seconds", "--gpus", "--math"})
              if (calibrate->count(option) > 0)
                throw Error(Cause::usage, fmt::format("{} with runs, whose spread is computed", option), "one of them");
            return calibrate_command(args->spread);
          }};
}

}  // namespace amdahl::cli
