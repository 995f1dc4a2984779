#include "lab/backends.h"

#include <fmt/format.h>

#include "device/device.h"
#include "ops/ops.h"

namespace amdahl {

const std::vector<BackendRow>& backend_table() {
  static const std::vector<BackendRow> rows{
      {"cuda", cuda_availability, make_cuda_fleet},
      {"cpu", cpu_ops_availability, make_cpu_fleet},
  };
  return rows;
}

const BackendRow& choose_backend(const EngineConfig& config) {
  if (!config.gpus.empty() && config.backend == "cpu")
    throw Error(Cause::usage, "--gpus names CUDA devices but the backend is cpu", "drop one of the two options");
  for (const BackendRow& row : backend_table()) {
    const bool wanted = config.backend == row.name || (!config.gpus.empty() && row.name == "cuda");
    if (!wanted && config.backend != "auto") continue;
    const Availability availability = row.availability();
    if (availability.ok) return row;
    if (wanted)
      throw Error(Cause::environment_missing,
                  fmt::format("backend {} is not available: {}", row.name, availability.reason), availability.remedy);
  }
  if (config.backend != "auto")
    throw Error(Cause::usage, fmt::format("unknown backend '{}'", config.backend),
                choices_hint(config.backend, {"auto", "cpu", "cuda"}));
  throw Error(Cause::environment_missing, "no backend is available", "amdahl info lists the reasons and remedies");
}

std::unique_ptr<Fleet> make_fleet(const EngineConfig& config, int max_devices) {
  return choose_backend(config).make_fleet(config, max_devices);
}

}  // namespace amdahl
