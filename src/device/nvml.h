// NVML, loaded at run time: readings of a card. Optional: without the library, or for a reading that the card does not
// support, values stay negative or empty.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"

namespace amdahl {

/// The loaded library. Thread-safe, as NVML is. Device handles must not outlive it.
class Nvml {
 public:
  /// Null when libnvidia-ml.so.1 is missing or does not initialise.
  static std::shared_ptr<Nvml> open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;
  /// Handle of the card at a PCI address such as "0000:1b:00.0"; null when NVML does not know it.
  void* find_device(const std::string& pci_bus_id) const;
  DeviceHealth read_health(void* device) const;
  /// Handle of card `index` in the driver's order, by PCI address; null past the last one.
  void* device_at(unsigned index) const;
  /// A function of the library by name, for readings that this class does not offer; null when the driver lacks it.
  void* symbol(const char* name) const;
  /// Number of compute processes on the card, or -1.
  int num_processes(void* device) const;
  /// Bytes of the card's memory used by all processes, or -1.
  int64_t used_memory_bytes(void* device) const;

 private:
  struct Api;
  explicit Nvml(std::unique_ptr<Api> api);
  std::unique_ptr<Api> api_;
};

}  // namespace amdahl
