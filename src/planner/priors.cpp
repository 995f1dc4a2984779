#include "planner/priors.h"

#include "planner/catalogue.h"

namespace amdahl {

Rates cpu_prior(int cores) {
  Rates rates;
  rates.gemm_tflops = 0.1, rates.batched_gemm_tflops = 0.06;
  rates.gemm_half_waves = 1, rates.gemm_units = 1, rates.gemm_tile = 16;
  rates.gemm_gbps = 15, rates.alias_ps = 2400, rates.crowd_us = 50, rates.cache_mb = 8, rates.spill = 4,
  rates.stream_spill = 0.3;
  rates.memory_gbps = 25, rates.optimizer_ps = 350;
  rates.few_row_ns = rates.recurrent_us = rates.event_us = 0;  // of GPUs
  rates.launch_us = rates.softmax_launch_us = 0.6, rates.head_us = 20, rates.input_us = 10, rates.step_us = 20;
  rates.queue_exponent = 1;  // one thread is host and device
  rates.collective_launch_us = 2, rates.collective_wait_us = 10;
  rates.tp_alpha_us = rates.dp_alpha_us = 50, rates.pp_alpha_us = 20;
  rates.tp_gbps = rates.pp_gbps = 3.5, rates.dp_gbps = 6;
  rates.interference = 0.5, rates.sharing = 0.05, rates.shared_cores = cores;
  return rates;
}

Rates gpu_prior(const std::string& device_name, const std::string& math) {
  const GpuKind* kind = gpu_kind_of(device_name);
  return rates_of_kind(kind ? *kind : find_gpu_kind("h100"), math);
}

}  // namespace amdahl
