// What forward of a pre-norm transformer block must compute, in float64, and the check of a kernel's results.
#pragma once

#include <gtest/gtest.h>

#include "reference_sequence.h"

namespace amdahl::test::reference {

/// Parameters, the input and all results of a block, as in ops/transformer_block_ops.h. Heads have 64 columns.
struct BlockValues {
  int64_t sequences, steps, heads;
  bool causal;
  Values x, gamma1, beta1, gamma2, beta2;
  Values qkv_weight, qkv_bias, out_weight, out_bias, up_weight, up_bias, down_weight, down_bias;
  Values norm1, qkv, attention, middle, norm2, up, gelu, out, mean1, rstd1, mean2, rstd2, log_sums;
};

/// ||got - want|| / ||want||; infinite when anything is not finite.
inline double distance(const Values& got, const Values& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

/// Expects every result to be that of the float64 operation on the kernel's own, rounded operands: an error in one
/// operation does not hide in the rounding of those before it. `unit`: the relative distance of neighbouring values of
/// the operands.
inline void expect_block_forward(const BlockValues& b, double unit) {
  const int64_t width = 64 * b.heads, hidden = 4 * width, tokens = b.sequences * b.steps;
  const auto product = [&](const Values& a, const Values& weight, const Values& bias, int64_t n, int64_t k) {
    return add_bias(matmul(a, weight, tokens, n, k, false, true), bias);
  };
  const auto expect = [](const char* what, const Values& got, const Values& want, double limit) {
    ASSERT_EQ(got.size(), want.size()) << what;
    EXPECT_LT(distance(got, want), limit) << what;
  };
  const LayerNorm norm1 = layer_norm(b.x, b.gamma1, b.beta1), norm2 = layer_norm(b.middle, b.gamma2, b.beta2);
  expect("norm1", b.norm1, norm1.y, unit);
  expect("mean1", b.mean1, norm1.mean, 1e-5), expect("rstd1", b.rstd1, norm1.rstd, 1e-5);
  expect("qkv", b.qkv, product(b.norm1, b.qkv_weight, b.qkv_bias, 3 * width, width), unit);
  const Attention attended = attention({b.sequences, b.steps, b.heads, 64, b.causal}, b.qkv);
  expect("attention", b.attention, attended.out, 2 * unit);  // the weights of keys are rounded as well
  expect("log_sums", b.log_sums, attended.log_sums, unit);
  expect("middle", b.middle, sum_of(product(b.attention, b.out_weight, b.out_bias, width, width), b.x), unit);
  expect("norm2", b.norm2, norm2.y, unit);
  expect("mean2", b.mean2, norm2.mean, 1e-5), expect("rstd2", b.rstd2, norm2.rstd, 1e-5);
  const Values up = product(b.norm2, b.up_weight, b.up_bias, hidden, width);
  expect("up", b.up, up, unit), expect("gelu", b.gelu, gelu(up), unit);
  expect("out", b.out, sum_of(product(b.gelu, b.down_weight, b.down_bias, width, hidden), b.middle), unit);
}

}  // namespace amdahl::test::reference
