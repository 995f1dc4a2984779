// Capabilities of this build and machine.
#include "amdahl/machine.h"
#include "comm/world.h"
#include "device/device.h"
#include "files/npz.h"
#include "ops/ops.h"
#include "spec/json.h"
#include "topology/host_probe.h"
#include "verbs/build_commit.h"
#include "verbs/build_info.h"

namespace amdahl {

std::string version() { return kVersion; }
std::string build_commit() { return kCommit; }

InfoOutcome run_info(const std::map<std::string, std::string>& environment) {
  InfoOutcome outcome;
  outcome.machine = probe_host();
  outcome.machine.devices = list_cuda_devices();
  for (const auto& [name, value] : cuda_versions()) outcome.machine.versions[name] = value;
  const auto cuda = outcome.machine.versions.find("cuda");
  outcome.backends = {
      {"cpu", cpu_ops_availability(), cpu_ops_version().empty() ? "" : "oneDNN " + cpu_ops_version()},
      {"cuda", cuda_availability(), cuda == outcome.machine.versions.end() ? "" : "runtime " + cuda->second},
      {"threads", {true, {}, {}}, ""},
      {"gloo", gloo_availability(), ""},
      {"mpi", mpi_availability(), ""},
      {"nccl", nccl_availability(), nccl_version()},
      {"hwloc", hwloc_availability(), hwloc_version()},
      {"libzip", npz_availability(), npz_version()},
  };
  const LaunchContext launch = detect_launch(environment);
  outcome.machine.versions["launcher"] = launch.family;
  return outcome;
}

std::string to_json(const InfoOutcome& outcome) {
  return info_to_json(version(), build_commit(), outcome.machine, outcome.backends);
}

}  // namespace amdahl
