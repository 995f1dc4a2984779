// Speed of all devices of a fleet measured at the same time: GEMMs, and copies within device memory.
#pragma once

#include <functional>
#include <vector>

#include "amdahl/record.h"
#include "measure/fleet.h"

namespace amdahl {

struct SpeedSettings {
  int devices = 1;
  int64_t matrix = 8192;  // M, N and K of the GEMM
  size_t copy_bytes = size_t{512} << 20;
  double seconds = 0.4;  // duration of each GEMM sample
  int samples = 5;
  double timeout_seconds = 60;
  Provenance provenance;
};

/// One Record of kind "device-speed" per device: axis device (DeviceSpec::index); series matrix_rate (TFLOP/s, dense
/// GEMMs in the fleet's math mode) and copy_rate (GB/s, bytes read plus bytes written). `loaded` is called on the
/// thread of each rank while its GEMMs run.
std::vector<Record> measure_device_speed(Fleet& fleet, const SpeedSettings& settings,
                                         const std::function<void(const DeviceSpec& device)>& loaded);

}  // namespace amdahl
