// Time of a matrix product from its shape. Unit: us. Source: tiles over multiprocessors (wave quantisation), as in
// NVIDIA's matrix multiplication guide; the rate and its half value are fitted or measured. Small products are bound by
// their operands, which a CPU's library also packs.
#include <cmath>

#include "planner/terms.h"

namespace amdahl {
namespace {

constexpr double kFlopPerUsOfTflops = 1e6, kElementBytes = 4;

double product_us(double m, double n, double k, bool aligned, const Rates& rates) {
  const double tiles = std::ceil(m / rates.gemm_tile) * std::ceil(n / rates.gemm_tile);
  const double waves = tiles / rates.gemm_units;
  const double rate = rates.gemm_tflops * kFlopPerUsOfTflops * (aligned ? 1 : rates.unaligned_gemm);
  const double operands = rates.gemm_gbps > 0 ? kElementBytes * (m * k + k * n + m * n) / (rates.gemm_gbps * 1e3) : 0;
  return 2 * m * n * k / rate * (1 + rates.gemm_half_waves / waves) + operands;
}

// Rows of weights that are a multiple of 8 KiB apart map to few cache sets and need a page each: a CPU's library packs
// them slowly, in forward (backward reads a copy, see ops/cpu_gemm.cpp), unless there are so few rows of data that it
// does not pack. Measured: 2.4 ns for each weight at 2,048 floats, less than 0.2 ns at 1,024.
double aliased_us(const GemmWork& gemm, const Rates& rates) {
  constexpr int64_t kFloats = 2048;
  constexpr double kFewestRows = 16, kUsPerPs = 1e-6;
  if (gemm.m < kFewestRows || static_cast<int64_t>(gemm.k) % kFloats != 0) return 0;
  return rates.alias_ps * kUsPerPs * gemm.k * gemm.n;
}

}  // namespace

double gemm_waves(const GemmWork& gemm, const Rates& rates) {
  return std::ceil(gemm.m / rates.gemm_tile) * std::ceil(gemm.n / rates.gemm_tile) / rates.gemm_units;
}

double gemm_us(const GemmWork& gemm, const Rates& rates) {
  return product_us(gemm.m, gemm.n, gemm.k, gemm.aligned, rates);
}

double gemm_step_us(const GemmWork& gemm, bool has_input_gradient, const Rates& rates) {
  const double input = has_input_gradient ? product_us(gemm.m, gemm.k, gemm.n, gemm.aligned, rates) : 0;
  return gemm.count * (gemm_us(gemm, rates) + aliased_us(gemm, rates) + input +
                       product_us(gemm.n, gemm.k, gemm.m, gemm.aligned, rates));
}

}  // namespace amdahl
