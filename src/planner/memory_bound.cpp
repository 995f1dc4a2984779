// Time of kernels that only move memory, and of the optimizer. Unit: us. 1 GB/s moves 1000 bytes per us.
#include "planner/terms.h"

namespace amdahl {

double memory_us(double bytes, const Rates& rates) { return bytes / (rates.memory_gbps * 1e3); }

double optimizer_us(double parameters, const Rates& rates) { return parameters * rates.optimizer_ps * 1e-6; }

}  // namespace amdahl
