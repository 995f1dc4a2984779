// Time of a matrix product from its shape. Unit: us. Source: tiles over multiprocessors (wave quantisation), as in
// NVIDIA's matrix multiplication guide; the rate and its half value are fitted or measured.
#include <cmath>

#include "planner/terms.h"

namespace amdahl {
namespace {

constexpr double kFlopPerUsOfTflops = 1e6;

double product_us(double m, double n, double k, bool aligned, const Rates& rates) {
  const double tiles = std::ceil(m / rates.gemm_tile) * std::ceil(n / rates.gemm_tile);
  const double waves = tiles / rates.gemm_units;
  const double rate = rates.gemm_tflops * kFlopPerUsOfTflops * (aligned ? 1 : rates.unaligned_gemm);
  return 2 * m * n * k / rate * (1 + rates.gemm_half_waves / waves);
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
  return gemm_us(gemm, rates) + input + product_us(gemm.n, gemm.k, gemm.m, gemm.aligned, rates);
}

}  // namespace amdahl
