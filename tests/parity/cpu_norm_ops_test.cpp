// NormOps of the CPU against float64: layer normalisation with its residual addition, forward and backward.
#include "cpu_ops_fixture.h"
#include "errors.h"
#include "reference_sequence.h"

namespace amdahl::test {
namespace {

const int64_t kNormWidths[] = {1, 3, 8, 33, 64, 100, 192, 257, 1024};
constexpr int64_t kNormRows = 6;

TEST_F(CpuOpsTest, LayerNormForward) {
  for (const int64_t width : kNormWidths)
    for (const bool with_delta : {false, true})
      for (const int sum_to : {0, 1, 2}) {  // nowhere, a buffer, x itself
        SCOPED_TRACE(::testing::Message() << width << " delta " << with_delta << " sum " << sum_to);
        std::vector<float> x = random(kNormRows * width);
        const std::vector<float> before = x, delta = random(kNormRows * width), gamma = random(width);
        const std::vector<float> beta = random(width);
        std::vector<float> sum(x.size(), NAN), y = sum, mean(kNormRows), rstd(kNormRows);
        LayerNormForward call{x.data(),    with_delta ? delta.data() : nullptr,
                              nullptr,     gamma.data(),
                              beta.data(), y.data(),
                              mean.data(), rstd.data(),
                              kNormRows,   width};
        if (sum_to > 0) call.sum = sum_to == 1 ? sum.data() : x.data();
        ops_->norm().layer_norm_forward(*stream_, call);
        finish();
        std::vector<double> total = widened(before);
        if (with_delta) total = reference::sum_of(total, widened(delta));
        const reference::LayerNorm wanted = reference::layer_norm(total, widened(gamma), widened(beta));
        // A row of one element has y = beta, and a centred sum that is rounding alone, amplified by 1 / sqrt(epsilon).
        EXPECT_LT(error_of(y, wanted.y), width == 1 ? 1e-4 : kTolerance);
        EXPECT_LT(error_of(mean, wanted.mean), kTolerance);
        EXPECT_LT(error_of(rstd, wanted.rstd), kTolerance);
        if (sum_to == 0)
          EXPECT_EQ(x, before);
        else
          EXPECT_LT(error_of(sum_to == 1 ? sum : x, total), kTolerance);
      }
}

TEST_F(CpuOpsTest, LayerNormForwardWithoutY) {
  const std::vector<float> x = random(4 * 20), gamma(20, 1.0f);
  std::vector<float> mean(4), rstd(4);
  ops_->norm().layer_norm_forward(
      *stream_, {x.data(), nullptr, nullptr, gamma.data(), gamma.data(), nullptr, mean.data(), rstd.data(), 4, 20});
  finish();
  const std::vector<double> ones(20, 1.0);
  EXPECT_LT(error_of(rstd, reference::layer_norm(widened(x), ones, ones).rstd), kTolerance);
}

// Values of a large common part: the variance must come from the centred values, not from a difference of squares.
TEST_F(CpuOpsTest, LayerNormOfShiftedAndConstantRows) {
  constexpr int64_t kWidth = 96;
  std::vector<float> x = random(3 * kWidth);
  for (int64_t i = 0; i < kWidth; ++i) {
    x[static_cast<size_t>(i)] += 1000.0f;
    x[static_cast<size_t>(kWidth + i)] = 7.0f;        // variance zero: y = beta
    x[static_cast<size_t>(2 * kWidth + i)] *= 1e-8f;  // far below epsilon
  }
  const std::vector<float> gamma = random(kWidth), beta = random(kWidth);
  std::vector<float> y(x.size()), mean(3), rstd(3);
  ops_->norm().layer_norm_forward(
      *stream_, {x.data(), nullptr, nullptr, gamma.data(), beta.data(), y.data(), mean.data(), rstd.data(), 3, kWidth});
  finish();
  const reference::LayerNorm wanted = reference::layer_norm(widened(x), widened(gamma), widened(beta));
  EXPECT_LT(error_of(rstd, wanted.rstd), 1e-5);
  for (size_t i = 0; i < y.size(); ++i)  // the rounded mean of values of 1000 is off by up to 6e-5
    EXPECT_NEAR(y[i], wanted.y[i], i < kWidth ? 5e-4 : 1e-6) << i;
}

TEST_F(CpuOpsTest, LayerNormBackward) {
  for (const int64_t width : kNormWidths)
    for (const int64_t rows : {int64_t{1}, kNormRows, int64_t{37}})
      for (const int residual : {0, 1, 2})  // none, a buffer, dx itself
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << width << " residual " << residual << accumulate);
          const std::vector<float> x = random(rows * width), dy = random(rows * width), gamma = random(width);
          const std::vector<float> d_residual = random(rows * width);
          std::vector<float> dx = d_residual, copy(x.size(), NAN), dgamma = random(width), dbeta = random(width);
          const reference::LayerNorm forward =
              reference::layer_norm(widened(x), widened(gamma), reference::zeros(width));
          const std::vector<float> mean(forward.mean.begin(), forward.mean.end());
          const std::vector<float> rstd(forward.rstd.begin(), forward.rstd.end());
          reference::LayerNormGradients wanted =
              reference::layer_norm_gradients(widened(dy), widened(x), widened(gamma));
          if (residual > 0) wanted.dx = reference::sum_of(wanted.dx, widened(d_residual));
          if (accumulate) {
            wanted.dgamma = reference::sum_of(wanted.dgamma, widened(dgamma));
            wanted.dbeta = reference::sum_of(wanted.dbeta, widened(dbeta));
          }
          const float* d_residual_of_call = residual == 1 ? d_residual.data() : dx.data();
          const LayerNormBackward call{dy.data(),     x.data(),
                                       gamma.data(),  mean.data(),
                                       rstd.data(),   residual > 0 ? d_residual_of_call : nullptr,
                                       dx.data(),     rows != kNormRows ? copy.data() : nullptr,
                                       dgamma.data(), dbeta.data(),
                                       rows,          width,
                                       DType::f32,    DType::f32,
                                       accumulate};
          ops_->norm().layer_norm_backward(*stream_, call);
          finish();
          // Widths 1 and 3 cancel: dx is the small rest of terms of order rstd, which is up to 300 for width 1.
          if (width <= 3)
            for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], wanted.dx[i], 2e-4);
          else
            EXPECT_LT(error_of(dx, wanted.dx), 5e-6);
          if (call.dx_typed) {
            EXPECT_EQ(copy, dx);
          }
          // sums of 37 terms of both signs; the mean in f32 is off by 1e-7, which rstd of up to 300 amplifies
          for (size_t i = 0; i < dgamma.size(); ++i) EXPECT_NEAR(dgamma[i], wanted.dgamma[i], width == 1 ? 2e-3 : 1e-4);
          for (size_t i = 0; i < dbeta.size(); ++i) EXPECT_NEAR(dbeta[i], wanted.dbeta[i], 1e-5);
        }
}

// A model may begin with a normalisation: the gradient of its features is not wanted.
TEST_F(CpuOpsTest, LayerNormBackwardWithoutDx) {
  constexpr int64_t kRows = 5, kWidth = 21;
  const std::vector<float> x = random(kRows * kWidth), dy = random(kRows * kWidth), gamma = random(kWidth);
  const std::vector<float> mean = random(kRows), rstd = random(kRows);
  std::vector<std::vector<float>> runs;
  for (const bool with_dx : {true, false}) {
    std::vector<float> dx(x.size()), dgamma(kWidth), dbeta(kWidth);
    ops_->norm().layer_norm_backward(
        *stream_, {dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), nullptr, with_dx ? dx.data() : nullptr,
                   nullptr, dgamma.data(), dbeta.data(), kRows, kWidth});
    finish();
    dgamma.insert(dgamma.end(), dbeta.begin(), dbeta.end());
    runs.push_back(dgamma);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(CpuOpsTest, NormRerunsAreBitEqual) {
  constexpr int64_t kRows = 50, kWidth = 77;
  const std::vector<float> x = random(kRows * kWidth), gamma = random(kWidth), dy = random(kRows * kWidth);
  std::vector<std::vector<float>> runs;
  for (int run = 0; run < 2; ++run) {
    std::vector<float> y(x.size()), mean(kRows), rstd(kRows), dx(x.size()), dgamma(kWidth), dbeta(kWidth);
    ops_->norm().layer_norm_forward(*stream_, {x.data(), dy.data(), nullptr, gamma.data(), gamma.data(), y.data(),
                                               mean.data(), rstd.data(), kRows, kWidth});
    ops_->norm().layer_norm_backward(*stream_, {dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), nullptr,
                                                dx.data(), nullptr, dgamma.data(), dbeta.data(), kRows, kWidth});
    finish();
    for (const auto& part : {mean, rstd, dx, dgamma, dbeta}) y.insert(y.end(), part.begin(), part.end());
    runs.push_back(y);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(CpuOpsTest, ResidualAdd) {
  for (const int64_t count : {1, 7, 64, 1001}) {
    std::vector<float> x = random(count), y(x.size());
    const std::vector<float> delta = random(count);
    const std::vector<double> wanted = reference::sum_of(widened(x), widened(delta));
    ops_->norm().residual_add(*stream_, {x.data(), delta.data(), y.data(), count});
    ops_->norm().residual_add(*stream_, {x.data(), delta.data(), x.data(), count});
    finish();
    EXPECT_LT(error_of(y, wanted), kTolerance);
    EXPECT_EQ(x, y);
  }
}

TEST_F(CpuOpsTest, NormRefusesOtherTypes) {
  LayerNormForward forward{};
  forward.y_type = DType::bf16;
  LayerNormBackward backward{};
  backward.dy_type = DType::bf16;
  ResidualAdd addition{};
  addition.type = DType::f16;
  EXPECT_EQ(amdahl::error_of([&] { ops_->norm().layer_norm_forward(*stream_, forward); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->norm().layer_norm_backward(*stream_, backward); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->norm().residual_add(*stream_, addition); }).cause(), Cause::internal);
}

}  // namespace
}  // namespace amdahl::test
