// Machine files: measured link data of a machine, for later commands.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "amdahl/report.h"
#include "files/output_place.h"
#include "files/whole_file.h"
#include "report/common/process_spread.h"
#include "spec/calibration_json.h"
#include "spec/json.h"
#include "topology/host_probe.h"

namespace amdahl {
namespace {

void require_host(const std::string& path, const MachineSpec& machine, const std::string& host,
                  const std::string& remedy) {
  if (machine.host == host) return;
  throw Error(Cause::usage, fmt::format("'{}' describes the host '{}' and this is '{}'", path, machine.host, host),
              remedy);
}

/// The machine that `path` describes; nullopt for a missing or empty file, a device or a pipe.
std::optional<MachineSpec> machine_there(const std::string& path) {
  const OutputPlace place = output_place(path);
  std::error_code error;
  if (place.kind != OutputPlace::Kind::file || !place.permissions || std::filesystem::file_size(place.path, error) == 0)
    return std::nullopt;
  try {
    return machine_from_json(read_file(path, Cause::usage), path);
  } catch (const Error& problem) {
    if (problem.cause() == Cause::version_refused) throw;
    throw Error(Cause::usage, fmt::format("{} is no machine file, and would be replaced: {}", path, problem.what()),
                "another name, or delete that file");
  }
}

std::string kind_of(const MachineSpec& machine, int index) {
  for (const DeviceSpec& device : machine.devices)
    if (device.index == index) return device.kind;
  return {};
}

/// Keeps earlier quarantines: a run that does not detect the fault does not disprove it.
void keep_quarantines(const MachineSpec& earlier, MachineSpec& machine, const std::string& path) {
  for (const LinkSpec& old : earlier.links) {
    if (old.quarantine.empty()) continue;
    const auto same = std::find_if(machine.links.begin(), machine.links.end(), [&](const LinkSpec& link) {
      return link.source == old.source && link.destination == old.destination &&
             kind_of(machine, link.source) == kind_of(earlier, old.source) &&
             kind_of(machine, link.destination) == kind_of(earlier, old.destination);
    });
    if (same == machine.links.end())
      throw Error(Cause::usage,
                  fmt::format("{}: {} to {} is quarantined there, and these devices have no such pair", path,
                              old.source, old.destination),
                  "another file for these devices");
    if (same->quarantine.empty()) same->quarantine = old.quarantine;
  }
}

}  // namespace

MachineSpec load_machine(const std::string& path) {
  MachineSpec machine = machine_from_json(read_file(path, Cause::usage), path);
  require_host(path, machine, probe_host().host, "a file of `links machine=FILE` on this one");
  return machine;
}

void check_machine_file(const std::string& path) {
  const std::optional<MachineSpec> earlier = machine_there(path);
  if (earlier) require_host(path, *earlier, probe_host().host, "another file for this one");
}

MachineSpec save_machine(const std::string& path, const MachineSpec& machine) {
  MachineSpec merged = machine;
  if (const std::optional<MachineSpec> earlier = machine_there(path)) {
    require_host(path, *earlier, machine.host, "another file for this one");
    merged.process_spreads = merge_spreads(earlier->process_spreads, machine.process_spreads);
    keep_quarantines(*earlier, merged, path);
  }
  std::string text = machine_to_json(merged);
  if (machine_there(path)) text = with_calibrations(text, calibrations_from_json(read_file(path, Cause::usage), path));
  save_text(path, text + "\n");
  return merged;
}

std::map<std::string, std::string> safe_environment(const MachineSpec& machine) {
  for (const LinkSpec& link : machine.links)
    if (!link.quarantine.empty()) return {{"NCCL_P2P_DISABLE", "1"}};  // NCCL cannot select single pairs
  return {};
}

}  // namespace amdahl
