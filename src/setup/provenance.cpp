#include "setup/provenance.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "base/limited_devices.h"
#include "comm/world.h"
#include "ops/ops.h"
#include "topology/host_probe.h"

namespace amdahl {
namespace {

bool is_recorded_variable(const std::string& name) {
  for (const char* prefix : {"NCCL_", "CUDA_", "OMP_", "MKL_", "DNNL_", "ONEDNN_", "GLOO_"})
    if (name.rfind(prefix, 0) == 0) return true;
  return false;
}

void add_device_facts(std::map<std::string, std::string>& facts, const std::vector<DeviceSpec>& devices) {
  for (const DeviceSpec& device : devices) {
    const std::string prefix = fmt::format("device.{}", device.index);
    facts[prefix] = device.name;
    if (!device.uuid.empty()) facts[prefix + ".uuid"] = device.uuid;
    if (device.sm_count > 0) facts[prefix + ".sm_count"] = std::to_string(device.sm_count);
    if (device.whole_sm_count > 0) facts[prefix + ".whole_sm_count"] = std::to_string(device.whole_sm_count);
    if (!device.compute_capability.empty()) facts[prefix + ".compute_capability"] = device.compute_capability;
  }
}

}  // namespace

std::string utc_text(std::time_t time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time)); }
std::string utc_now() { return utc_text(std::time(nullptr)); }

Provenance make_provenance(const EngineConfig& config, const Fleet& fleet) {
  Provenance provenance = make_provenance(config, fleet.device_kind(), fleet.devices());
  limit_devices(provenance, fleet.devices(), config.device_speeds);
  return provenance;
}

Provenance make_provenance(const EngineConfig& config, const std::string& device_kind,
                           const std::vector<DeviceSpec>& devices) {
  const MachineSpec host = probe_host();
  Provenance provenance;
  provenance.tool_version = version();
  provenance.commit = build_commit();
  provenance.command_line = config.command_line;
  provenance.start_time = utc_now();
  provenance.host = host.host;
  provenance.device_kind = device_kind;
  provenance.seed = config.seed;
  std::map<std::string, std::string>& facts = provenance.facts;
  facts["cpu"] = host.cpu_name;
  facts["cores"] = std::to_string(host.num_cores);
  if (host.cpu_limit > 0) facts["cpu_limit"] = fmt::format("{}", host.cpu_limit);
  facts["os"] = host.os;
  facts["kernel"] = host.versions.at("kernel");
  facts["math"] = to_string(config.math);
  facts["launch"] = to_string(config.launch);
  facts["deterministic"] = config.deterministic ? "yes" : "no";
  facts["cache"] = "hot";  // steps cycle over a few resident batches
  facts["processes"] = fmt::format("{} launch", detect_launch(config.environment).family);
  add_device_facts(facts, devices);
  const std::string onednn = cpu_ops_version();
  if (device_kind == "cpu-virtual" && !onednn.empty()) facts["onednn"] = onednn;
  if (device_kind == "cuda") {
    for (const auto& [name, value] : cuda_versions()) facts[name] = value;
    const std::string nccl = nccl_version();
    if (!nccl.empty()) facts["nccl"] = nccl;
  }
  for (const auto& [name, value] : config.environment)
    if (is_recorded_variable(name)) facts["env." + name] = value;
  return provenance;
}

}  // namespace amdahl
