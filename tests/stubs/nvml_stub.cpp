// A libnvidia-ml.so.1 for tests: says what the text file named by AMDAHL_NVML_STUB says. One fact a line:
//   gpu BUS_ID PCIE_GENERATION PCIE_LANES MEMORY_MB MAJOR MINOR NAME...
//   link GPU LINK up|down VERSION switch|BUS_ID
//   level GPU GPU LEVEL          nvmlDeviceGetTopologyCommonAncestor, both orders; absent: the call fails
//   state GPU KEY VALUE          a reading: temperature, slowdown, power, power_limit (W), processes, utilisation,
//                                used_mb, pcie_generation, pcie_lanes, throttle; absent: the call fails
//   peer GPU GPU READ ATOMICS    nvmlDeviceGetP2PStatus, this order
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6;

struct Link {
  bool up = false;
  unsigned version = 0;
  std::string remote;
};
struct Gpu {
  std::string bus_id, name;
  unsigned generation = 0, lanes = 0, memory_mb = 0;
  int major = 0, minor = 0;
  std::map<unsigned, Link> links;
  std::map<std::string, unsigned> state;
};
using Pair = std::pair<size_t, size_t>;

struct Machine {
  std::vector<Gpu> gpus;
  std::map<Pair, int> levels;
  std::map<Pair, std::pair<int, int>> peers;
};

Machine load() {
  Machine machine;
  const char* path = std::getenv("AMDAHL_NVML_STUB");
  std::ifstream file(path ? path : "");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "gpu") {
      Gpu gpu;
      words >> gpu.bus_id >> gpu.generation >> gpu.lanes >> gpu.memory_mb >> gpu.major >> gpu.minor >> std::ws;
      std::getline(words, gpu.name);
      machine.gpus.push_back(gpu);
    } else if (kind == "link") {
      size_t gpu = 0;
      unsigned index = 0;
      std::string state;
      Link link;
      words >> gpu >> index >> state >> link.version >> link.remote;
      link.up = state == "up";
      machine.gpus.at(gpu).links[index] = link;
    } else if (kind == "state") {
      size_t gpu = 0;
      std::string key;
      unsigned value = 0;
      words >> gpu >> key >> value;
      machine.gpus.at(gpu).state[key] = value;
    } else if (kind == "level") {
      size_t a = 0, b = 0;
      int level = 0;
      words >> a >> b >> level;
      machine.levels[{a, b}] = machine.levels[{b, a}] = level;
    } else if (kind == "peer") {
      size_t a = 0, b = 0;
      int read = 0, atomics = 0;
      words >> a >> b >> read >> atomics;
      machine.peers[{a, b}] = {read, atomics};
    }
  }
  return machine;
}

const Machine& machine() {
  static const Machine loaded = load();
  return loaded;
}

size_t index_of(void* device) { return reinterpret_cast<size_t>(device) - 1; }
const Gpu& gpu_of(void* device) { return machine().gpus.at(index_of(device)); }
void* handle_of(size_t index) { return reinterpret_cast<void*>(index + 1); }

int give(const std::string& text, char* out, unsigned size) {
  std::strncpy(out, text.c_str(), size);
  return kSuccess;
}

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};

const Link* link_of(void* device, unsigned link) {
  const auto found = gpu_of(device).links.find(link);
  return found == gpu_of(device).links.end() ? nullptr : &found->second;
}

template <class T>
int reading(void* device, const char* key, T* value, unsigned scale = 1) {
  const auto& state = gpu_of(device).state;
  const auto found = state.find(key);
  if (found == state.end()) return kNotSupported;
  *value = static_cast<T>(found->second * scale);
  return kSuccess;
}

}  // namespace

extern "C" {
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  for (size_t i = 0; i < machine().gpus.size(); ++i)
    if (machine().gpus[i].bus_id == bus_id) return *device = handle_of(i), kSuccess;
  return kNotFound;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* value) { return reading(device, "temperature", value); }
int nvmlDeviceGetTemperatureThreshold(void* device, int, unsigned* value) { return reading(device, "slowdown", value); }
int nvmlDeviceGetPowerUsage(void* device, unsigned* value) { return reading(device, "power", value, 1000); }
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* value) {
  return reading(device, "power_limit", value, 1000);
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* value) { return reading(device, "utilisation", value); }
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) {
  return reading(device, "pcie_generation", value);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) { return reading(device, "pcie_lanes", value); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* value) {
  return reading(device, "throttle", value);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void*) {
  constexpr int kInsufficientSize = 7;
  const int code = reading(device, "processes", count);
  return code == kSuccess && *count > 0 ? kInsufficientSize : code;
}
int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* out, unsigned size) { return give("999.1", out, size); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= machine().gpus.size()) return kNotFound;
  *device = handle_of(index);
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* out, unsigned size) { return give(gpu_of(device).name, out, size); }
int nvmlDeviceGetUUID(void* device, char* out, unsigned size) {
  return give("GPU-stub-" + std::to_string(index_of(device)), out, size);
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
  return give("0000" + gpu_of(device).bus_id, pci->bus_id, 31);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  total_free_used[0] = total_free_used[1] = gpu_of(device).memory_mb * 1000000ull;
  const auto used = gpu_of(device).state.find("used_mb");
  total_free_used[2] = used == gpu_of(device).state.end() ? 0 : used->second * 1000000ull;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) {
  return *value = gpu_of(device).generation, kSuccess;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) { return *value = gpu_of(device).lanes, kSuccess; }
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = gpu_of(device).major, *minor = gpu_of(device).minor;
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* state) {
  const Link* found = link_of(device, link);
  if (!found) return kNotSupported;
  *state = found->up;
  return kSuccess;
}
int nvmlDeviceGetNvLinkVersion(void* device, unsigned link, unsigned* version) {
  *version = link_of(device, link)->version;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* kind) {
  *kind = link_of(device, link)->remote == "switch" ? 2 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
  return give("0000" + link_of(device, link)->remote, pci->bus_id, 31);
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  const auto found = machine().levels.find({index_of(a), index_of(b)});
  if (found == machine().levels.end()) return kNotSupported;
  *level = found->second;
  return kSuccess;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status) {
  const auto found = machine().peers.find({index_of(a), index_of(b)});
  if (found == machine().peers.end()) return kNotSupported;
  *status = capability == 3 ? found->second.second : found->second.first;
  return kSuccess;
}
}
