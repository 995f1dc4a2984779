// Calibrate: the spread of processes that runs of several processes show, into the machine file.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "amdahl/amdahl.h"
#include "files/whole_file.h"
#include "report/common/aligned_table.h"
#include "report/common/process_spread.h"
#include "spec/json.h"
#include "spec/measurements.h"
#include "topology/machine_probe.h"

namespace amdahl {
namespace {

MachineSpec machine_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return run_topo({}).machine;
  return load_machine(path);
}

std::vector<ProcessSpread> spreads_of(const std::string& run, const std::string& host) {
  const Measurements found = read_measurements(run);
  for (const Record& record : found.records)
    if (record.provenance.host != host)
      throw Error(Cause::usage,
                  fmt::format("{} was measured on '{}', and this is '{}'", run, record.provenance.host, host),
                  "calibrate on the host that measures");
  std::vector<ProcessSpread> spreads = spreads_in(found.records);
  if (spreads.empty())
    throw Error(Cause::usage,
                fmt::format("{} has no cell that {} processes measured", run, kFewestCalibrationProcesses),
                "`processes=10` (study) or `repeat=10` (collectives, links, sensor bench)");
  return spreads;
}

/// The difference that five processes a side resolve: Welch's test at the significance of a verdict, in 8 of 10 trials.
std::string resolved(double relative_sd) {
  constexpr double kNoncentrality = 3.67;  // of Student's t with 8 degrees of freedom, 0.025 two-tailed, power 0.8
  return fmt::format("{:.1f} %", 100 * std::expm1(kNoncentrality * relative_sd * std::sqrt(2.0 / 5)));
}

std::string text_of(const std::vector<ProcessSpread>& spreads, const std::string& path) {
  std::vector<std::vector<std::string>> rows{
      {"cell", "processes", "samples each", "spread of medians", "5 processes per side resolve"}};
  for (const ProcessSpread& spread : spreads)
    rows.push_back({printable(spread.kind + " " + spread.cell, 160), std::to_string(spread.processes),
                    fmt::format("{:g}", spread.runs), fmt::format("{:.2f} %", 100 * spread.relative_sd),
                    resolved(spread.relative_sd)});
  return aligned_table(rows) + fmt::format("written to {}\n", path);
}

}  // namespace

CalibrateOutcome run_calibrate(const CalibrateConfig& config) {
  CalibrateOutcome outcome;
  outcome.machine = machine_of(config.machine);
  for (const std::string& run : config.runs)
    outcome.spreads = merge_spreads(std::move(outcome.spreads), spreads_of(run, outcome.machine.host));
  outcome.machine.process_spreads = merge_spreads(outcome.machine.process_spreads, outcome.spreads);
  outcome.json = machine_to_json(outcome.machine);
  save_machine(config.machine, outcome.machine);
  outcome.text = text_of(outcome.spreads, config.machine);
  return outcome;
}

}  // namespace amdahl
