#include "device/nvml.h"

#include <dlfcn.h>

#include <utility>

namespace amdahl {
namespace {

// The declarations of nvml.h that are used here; they are stable across drivers.
constexpr int kSuccess = 0;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kTemperatureGpu = 0;

struct Utilisation {
  unsigned gpu_percent, memory_percent;
};
struct Memory {
  unsigned long long total, free, used;
};

template <class Fn>
void load(void* library, const char* name, Fn& fn) {
  fn = reinterpret_cast<Fn>(dlsym(library, name));
}

}  // namespace

struct Nvml::Api {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_pci)(const char*, void**) = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  int (*throttle)(void*, unsigned long long*) = nullptr;
  int (*utilisation)(void*, Utilisation*) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  int (*processes)(void*, unsigned*, void*) = nullptr;
};

std::shared_ptr<Nvml> Nvml::open() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  auto api = std::make_unique<Api>();
  api->library = library;
  load(library, "nvmlInit_v2", api->init);
  load(library, "nvmlShutdown", api->shutdown);
  load(library, "nvmlSystemGetDriverVersion", api->driver_version);
  load(library, "nvmlDeviceGetHandleByPciBusId_v2", api->by_pci);
  load(library, "nvmlDeviceGetHandleByIndex_v2", api->by_index);
  load(library, "nvmlDeviceGetClockInfo", api->clock);
  load(library, "nvmlDeviceGetTemperature", api->temperature);
  load(library, "nvmlDeviceGetPowerUsage", api->power);
  load(library, "nvmlDeviceGetTotalEnergyConsumption", api->energy);
  load(library, "nvmlDeviceGetCurrentClocksThrottleReasons", api->throttle);
  load(library, "nvmlDeviceGetUtilizationRates", api->utilisation);
  load(library, "nvmlDeviceGetMemoryInfo", api->memory);
  load(library, "nvmlDeviceGetComputeRunningProcesses_v3", api->processes);
  if (!api->init || !api->shutdown || api->init() != kSuccess) {
    dlclose(library);
    return nullptr;
  }
  return std::shared_ptr<Nvml>(new Nvml(std::move(api)));
}

Nvml::Nvml(std::unique_ptr<Api> api) : api_(std::move(api)) {}

Nvml::~Nvml() {
  api_->shutdown();
  dlclose(api_->library);
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  if (!api_->driver_version || api_->driver_version(text, sizeof text - 1) != kSuccess) return {};
  return text;
}

void* Nvml::find_device(const std::string& pci_bus_id) const {
  void* device = nullptr;
  if (!api_->by_pci || api_->by_pci(pci_bus_id.c_str(), &device) != kSuccess) return nullptr;
  return device;
}

void* Nvml::device_at(unsigned index) const {
  void* device = nullptr;
  if (!api_->by_index || api_->by_index(index, &device) != kSuccess) return nullptr;
  return device;
}

void* Nvml::symbol(const char* name) const { return dlsym(api_->library, name); }

DeviceHealth Nvml::read_health(void* device) const {
  DeviceHealth health;
  if (!device) return health;
  unsigned value = 0;
  if (api_->clock && api_->clock(device, kClockSm, &value) == kSuccess) health.sm_clock_mhz = value;
  if (api_->clock && api_->clock(device, kClockMemory, &value) == kSuccess) health.memory_clock_mhz = value;
  if (api_->temperature && api_->temperature(device, kTemperatureGpu, &value) == kSuccess) health.temperature_c = value;
  if (api_->power && api_->power(device, &value) == kSuccess) health.power_w = value / 1000.0;
  Utilisation utilisation{};
  if (api_->utilisation && api_->utilisation(device, &utilisation) == kSuccess)
    health.utilisation_percent = utilisation.gpu_percent;
  unsigned long long millijoule = 0, reasons = 0;
  if (api_->energy && api_->energy(device, &millijoule) == kSuccess)
    health.energy_j = static_cast<double>(millijoule) / 1000;
  if (api_->throttle && api_->throttle(device, &reasons) == kSuccess) health.throttle_reasons = reasons;
  return health;
}

int Nvml::num_processes(void* device) const {
  constexpr int kInsufficientSize = 7;  // returned by the query of the number when there are any
  unsigned count = 0;
  if (!device || !api_->processes) return -1;
  const int code = api_->processes(device, &count, nullptr);
  return code == kSuccess || code == kInsufficientSize ? static_cast<int>(count) : -1;
}

int64_t Nvml::used_memory_bytes(void* device) const {
  Memory memory{};
  if (!device || !api_->memory || api_->memory(device, &memory) != kSuccess) return -1;
  return static_cast<int64_t>(memory.used);
}

}  // namespace amdahl
