// Time of a matrix product from its shape. Unit: us. Source: tiles over multiprocessors (wave quantisation), as in
// NVIDIA's matrix multiplication guide; the rate and its half value are fitted or measured. Small products are bound by
// their operands, which a CPU's library also packs.
#include <algorithm>
#include <cmath>

#include "planner/terms.h"

namespace amdahl {
namespace {

constexpr double kFlopPerUsOfTflops = 1e6, kFloatBytes = 4;

// The part of the rate that kernels for few rows reach: of 4,096 x 4,096 weights on an H100 in bf16, 64 rows take 30 us
// more than 32, 107 TFLOP/s where large products have 370 (steps_h100_bf16.csv). They divide the weights, so that all
// multiprocessors have work.
constexpr double kFewRowsRate = 0.25;

// A library divides a long sum among multiprocessors that have no tile of their own, in parts of about so many terms:
// of 256, 512, 1,024 and 2,048 the one with the least error on steps_h100_bf16.csv and steps_h100_fp32.csv.
constexpr double kSplitTerms = 2048;

double waves_of(double m, double n, double k, bool splits_sums, const Rates& rates) {
  const double tiles = std::ceil(m / rates.gemm_tile) * std::ceil(n / rates.gemm_tile);
  const double parts = splits_sums ? tiles * std::max(1.0, k / kSplitTerms) : tiles;
  return std::max(tiles, std::min(rates.gemm_units, parts)) / rates.gemm_units;
}

// How full the tiles are. A tile that is not full takes as long, unless no tile is: libraries have smaller ones.
double filled(double m, double n, const Rates& rates) {
  const double tile = rates.gemm_tile;
  return std::max(1.0, m / tile) * std::max(1.0, n / tile) / (std::ceil(m / tile) * std::ceil(n / tile));
}

// The part of the rate that products reach whose operands are both strided along the sum: tensor cores read them by
// older instructions (ops/gemm/cuda_gemm.cpp). Of 0.5, 0.6, 0.7 and 1 the one with the least error on
// steps_h100_bf16.csv, where 4,096 x 4,096 weights have too many rows for a copy.
constexpr double kStridedRate = 0.6;

// The arithmetic of a product.
double product_us(double m, double n, double k, const GemmWork& gemm, const Rates& rates) {
  const double waves = waves_of(m, n, k, gemm.splits_sums, rates);
  const double rate = rates.gemm_tflops * kFlopPerUsOfTflops * (gemm.aligned ? 1 : rates.unaligned_gemm) *
                      (gemm.converts ? rates.converting_gemm : 1) * (gemm.few_rows ? kFewRowsRate : 1);
  const double idle = gemm.few_rows ? 0 : rates.gemm_half_waves / waves / (gemm.splits_sums ? filled(m, n, rates) : 1);
  return 2 * m * n * k / rate * (1 + idle);
}

double bytes_us(double bytes, double gbps) { return gbps > 0 ? bytes / (gbps * 1e3) : 0; }

// The rows of data and of results, which forward and both gradients read or write.
double rows_us(double rows, const GemmWork& gemm, const Rates& rates) {
  return bytes_us(gemm.element_bytes * rows * (gemm.k + gemm.n), rates.gemm_gbps);
}

// Arithmetic and operands: a CPU's library packs its operands first, multiprocessors read them while others compute.
double together_us(double arithmetic, double operands, const GemmWork& gemm) {
  return gemm.reads_ahead ? std::hypot(arithmetic, operands) : arithmetic + operands;
}

// Rows of weights that are a multiple of 8 KiB apart map to few cache sets and need a page each: a CPU's library packs
// them slowly, in forward (backward reads a copy, see ops/gemm/cpu_gemm.cpp), unless there are so few rows of data that
// it does not pack. Measured: 2.4 ns for each weight at 2,048 floats, less than 0.2 ns at 1,024.
double aliased_us(const GemmWork& gemm, const Rates& rates) {
  constexpr int64_t kFloats = 2048;
  constexpr double kFewestRows = 16, kUsPerPs = 1e-6;
  if (gemm.m < kFewestRows || static_cast<int64_t>(gemm.k) % kFloats != 0) return 0;
  return rates.alias_ps * kUsPerPs * gemm.k * gemm.n;
}

}  // namespace

double few_rows_us(const GemmWork& gemm, const Rates& rates) {
  constexpr double kKernels = 2, kUsPerNs = 1e-3;
  return gemm.few_rows ? kKernels * gemm.m * rates.few_row_ns * kUsPerNs : 0;
}

double gemm_waves(const GemmWork& gemm, const Rates& rates) {
  return waves_of(gemm.m, gemm.n, gemm.k, gemm.splits_sums, rates);
}

double gemm_us(const GemmWork& gemm, const Rates& rates) {
  return together_us(product_us(gemm.m, gemm.n, gemm.k, gemm, rates),
                     rows_us(gemm.m, gemm, rates) + bytes_us(gemm.element_bytes * gemm.k * gemm.n, rates.gemm_gbps),
                     gemm);
}

double gemm_step_us(const GemmWork& gemm, bool has_input_gradient, const Rates& rates, double weight_gbps) {
  const bool has_input = has_input_gradient && gemm.input_gradient;
  const bool together = gemm.weight_rows > 0;
  const double forward = gemm.forward ? gemm.count * product_us(gemm.m, gemm.n, gemm.k, gemm, rates) : 0;
  const double input = has_input ? gemm.count * product_us(gemm.m, gemm.k, gemm.n, gemm, rates) : 0;
  const double weights = (together ? product_us(gemm.n, gemm.k, gemm.weight_rows, gemm, rates)
                                   : gemm.count * product_us(gemm.n, gemm.k, gemm.m, gemm, rates)) /
                         (gemm.strided_weights ? kStridedRate : 1);
  // Products one after another with the same weights find them in the cache.
  const double rows = rows_us(gemm.count * gemm.m, gemm, rates);
  const double weight = bytes_us(gemm.k * gemm.n * (together ? 1 : gemm.count), weight_gbps);
  const double operands = rows + gemm.element_bytes * weight;
  return (gemm.forward ? together_us(forward, operands, gemm) : 0) +
         (has_input ? together_us(input, operands, gemm) : 0) +
         (gemm.weight_gradient ? together_us(weights, rows + kFloatBytes * weight, gemm) : 0) +
         gemm.count * aliased_us(gemm, rates) + few_rows_us(gemm, rates);
}

double gemm_step_us(const GemmWork& gemm, bool has_input_gradient, const Rates& rates) {
  return gemm_step_us(gemm, has_input_gradient, rates, rates.gemm_gbps);
}

}  // namespace amdahl
