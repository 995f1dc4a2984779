// The constants of a machine and program that predictions use, as one struct and one table of it. The table drives
// JSON, the fit, --explain and documentation.
#pragma once

#include <string_view>
#include <vector>

#include "amdahl/planner.h"

namespace amdahl {

/// Rates in TFLOP/s and GB/s (10^9 bytes), times in us.
struct Rates {
  double gemm_tflops = 250, gemm_half_waves = 0.4, batched_gemm_tflops = 100, unaligned_gemm = 0.5;
  double converting_gemm = 1;
  double gemm_gbps = 0;  // 0: operands take no time
  double alias_ps = 0;
  double memory_gbps = 1500, optimizer_ps = 20;
  double cache_mb = 0, spill = 0, stream_spill = 0;  // 0: no cache
  double few_row_ns = 12, recurrent_us = 0.9,
         event_us = 2;  // the former of kernels for few rows, the latter of persistent ones
  double launch_us = 50, softmax_launch_us = 50, head_us = 1500, input_us = 300, queue_exponent = 4;
  double collective_launch_us = 50, collective_wait_us = 30;
  double tp_alpha_us = 50, tp_gbps = 150, dp_alpha_us = 300, dp_gbps = 220, pp_alpha_us = 0, pp_gbps = 20;
  double hop_us = 0, ramp_us = 0, link_total_gbps = 0;
  double node_devices = 0;  // of a node; 0: all devices are in one
  double net_gbps = 100, net_us = 0;
  double step_us = 0;         // host time of a step that no layer has
  double interference = 0.1;  // part of hidden communication by which compute gets longer
  double sharing = 0;         // slowdown for each further device at work
  double shared_cores = 0;    // of virtual devices; 0: devices have their own
  double crowd_us = 0;
  double gemm_units = 108, gemm_tile = 128;  // multiprocessors and tile width
};

struct RateField {
  std::string_view name, unit, meaning;
  double Rates::*member;
  double prior_sd;      // standard deviation of the logarithm before a fit to Megatron's steps; 0: not fitted
  double own_prior_sd;  // the same before a fit to steps of this program
};
const std::vector<RateField>& rate_fields();

/// Unknown names throw Error{usage}; what the calibration lacks keeps its default.
Rates rates_of(const Calibration& calibration);
/// One constant per field of the table.
Calibration calibration_of(const Rates& rates, ConstantOrigin origin, const std::string& source);

}  // namespace amdahl
