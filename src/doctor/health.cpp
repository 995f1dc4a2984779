// Findings from the GPUs' sensor readings.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "doctor/findings.h"

namespace amdahl {
namespace {

Findings busy_gpu(const Evidence& evidence) {
  constexpr double kIdlePercent = 5;
  constexpr int64_t kIdleBytes = int64_t{4} << 30;  // the driver itself uses less than 1 GiB
  Findings found;
  for (const DeviceState& state : evidence.idle) {
    const bool busy =
        state.num_processes > 0 || state.utilisation_percent > kIdlePercent || state.used_memory_bytes > kIdleBytes;
    if (!busy) continue;
    found.push_back({"", kWarning, gpu_name(state.index),
                     fmt::format("{} programs, {} % busy, {} MiB used before anything was started",
                                 state.num_processes < 0 ? std::string("unknown") : std::to_string(state.num_processes),
                                 state.utilisation_percent < 0 ? std::string("unknown")
                                                               : fmt::format("{:.0f}", state.utilisation_percent),
                                 std::max<int64_t>(state.used_memory_bytes, 0) >> 20),
                     "an idle GPU", "what else runs there takes its share of everything measured",
                     fmt::format("nvidia-smi -i {}; end the programs, or `gpus` without it", state.index)});
  }
  return found;
}

Findings hot_gpu(const Evidence& evidence) {
  constexpr double kMargin = 5, kUsualSlowdown = 87;  // degrees Celsius
  Findings found;
  for (const auto* states : {&evidence.idle, &evidence.loaded})
    for (const DeviceState& state : *states) {
      const double limit = (state.slowdown_c > 0 ? state.slowdown_c : kUsualSlowdown) - kMargin;
      if (state.temperature_c < limit) continue;
      const bool known = std::any_of(found.begin(), found.end(),
                                     [&](const Finding& finding) { return finding.where == gpu_name(state.index); });
      if (known) continue;
      found.push_back({"", kWarning, gpu_name(state.index), fmt::format("{:.0f} C", state.temperature_c),
                       fmt::format("below {:.0f} C", limit), "a few degrees more and the card lowers its clock",
                       "check fans, airflow and inlet temperature; nvidia-smi -q -d TEMPERATURE"});
    }
  return found;
}

struct Reason {
  uint64_t bit;
  const char* text;
  Finding::Severity severity;
};
// nvmlClocksEventReasons of nvml.h. Idle, application clocks and synchronised boost are settings, not faults.
constexpr Reason kReasons[] = {{0x04, "power cap", kNotice},
                               {0x08, "hardware slowdown", kFault},
                               {0x20, "software thermal slowdown", kWarning},
                               {0x40, "hardware thermal slowdown", kFault},
                               {0x80, "hardware power brake", kFault}};

Findings throttled(const Evidence& evidence) {
  std::map<int, uint64_t> reasons;
  for (const auto* states : {&evidence.idle, &evidence.loaded})
    for (const DeviceState& state : *states) reasons[state.index] |= state.throttle_reasons;
  Findings found;
  for (const auto& [index, bits] : reasons)
    for (const Reason& reason : kReasons)
      if (bits & reason.bit)
        found.push_back({"", reason.severity, gpu_name(index), fmt::format("clocks are held by: {}", reason.text),
                         "no throttling", "the GPU runs below the clock it could have",
                         reason.bit == 0x04
                             ? "nvidia-smi -q -d POWER; expected of full matrix load, else raise the limit"
                             : "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; cooling and power supply"});
  return found;
}

Findings low_pcie(const Evidence& evidence) {
  Findings found;
  const bool loaded = !evidence.loaded.empty();
  for (const DeviceState& state : loaded ? evidence.loaded : evidence.idle)
    for (const DeviceSpec& device : evidence.machine.devices) {
      if (device.index != state.index) continue;
      const bool narrow = state.pcie_lanes > 0 && state.pcie_lanes < device.pcie_lanes;
      const bool slow = loaded && state.pcie_generation > 0 && state.pcie_generation < device.pcie_generation;
      if (!narrow && !slow) continue;
      found.push_back(
          {"", kFault, gpu_name(device.index),
           fmt::format("PCIe {}x{}", loaded ? fmt::format("{}.0 ", state.pcie_generation) : "", state.pcie_lanes),
           fmt::format("PCIe {}.0 x{}", device.pcie_generation, device.pcie_lanes),
           "the slot's link trained below what card and slot can do: copies to the host are slower",
           "reseat card or riser, check the slot's lanes in the firmware; lspci -vv shows LnkSta"});
    }
  return found;
}

}  // namespace

std::vector<FindingRow> health_findings() {
  const auto read = [](const Evidence& e) { return !e.idle.empty(); };
  return {{"busy-gpu", "other programs on the GPUs", busy_gpu, read},
          {"hot-gpu", "temperatures, idle and under load", hot_gpu, read},
          {"throttled", "reasons that hold the clocks, idle and under load", throttled, read},
          {"low-pcie", "width and generation of the PCIe links", low_pcie, read}};
}

}  // namespace amdahl
