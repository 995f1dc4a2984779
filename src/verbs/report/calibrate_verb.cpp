// Calibrate: computes the spread between processes from runs of several processes and writes it to the machine file.
#include <fmt/format.h>

#include <filesystem>

#include "amdahl/comparison.h"
#include "files/whole_file.h"
#include "report/common/process_spread.h"
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
                "`processes=10` of the command that measured");
  return spreads;
}

}  // namespace

CalibrateOutcome run_calibrate(const CalibrateConfig& config) {
  CalibrateOutcome outcome;
  outcome.machine = machine_of(config.machine);
  for (const std::string& run : config.runs)
    outcome.spreads = merge_spreads(std::move(outcome.spreads), spreads_of(run, outcome.machine.host));
  outcome.machine.process_spreads = merge_spreads(outcome.machine.process_spreads, outcome.spreads);
  save_machine(config.machine, outcome.machine);
  outcome.machine_file = config.machine;
  return outcome;
}

}  // namespace amdahl
