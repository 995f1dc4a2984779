// Launches of sensor kernels of a team.
#pragma once

#include "sensor/cuda_kernels.h"
#include "symmetric/cuda_team.h"

namespace amdahl {

inline SensorLaunch launch_of(CudaTeam& team, Stream& stream, const ChipLimits& limits) {
  const DeviceSpec& spec = team.device().spec();
  return {team.use(stream), spec.index, spec.sm_count, limits};
}

}  // namespace amdahl
