// ConvOps of the CPU against float64: convolutions, batch normalisation with ReLU and residual, average pooling.
#include "cpu_ops_fixture.h"
#include "ops/cpu_ops.h"
#include "reference_conv.h"

namespace amdahl::test {
namespace {

using reference::ConvSizes;
using reference::Values;

// Odd and even sizes, channels below, at and beside the multiples of 8 and 16 that blocked formats use, strides, no
// padding, 1 x 1 and 5 x 5 filters, and an input that padding alone makes larger than the filter.
const ConvSizes kConvSizes[] = {{2, 8, 8, 16, 32, 3, 1, 1}, {3, 7, 5, 3, 8, 3, 1, 1},    {1, 9, 9, 5, 7, 3, 2, 1},
                                {2, 6, 6, 16, 16, 1, 1, 0}, {2, 7, 9, 12, 20, 1, 2, 0},  {2, 6, 5, 4, 6, 3, 1, 0},
                                {1, 11, 8, 2, 3, 5, 2, 2},  {2, 2, 2, 8, 8, 3, 1, 1},    {1, 1, 1, 3, 5, 3, 1, 1},
                                {4, 8, 8, 32, 64, 3, 2, 1}, {1, 4, 4, 130, 33, 3, 1, 1}, {5, 3, 4, 1, 1, 3, 1, 1}};

ConvShape shape_of(const ConvSizes& s) {
  return {s.rows, s.height, s.width, s.in, s.out, s.kernel, s.stride, s.padding, DType::f32};
}
std::string text_of(const ConvSizes& s) {
  return ::testing::PrintToString(std::vector<int64_t>{s.rows, s.height, s.width, s.in, s.out, s.kernel, s.stride});
}
Values plus(Values a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += static_cast<double>(b[i]);
  return a;
}

TEST_F(CpuOpsTest, ConvolutionForward) {
  for (const ConvSizes& s : kConvSizes) {
    SCOPED_TRACE(text_of(s));
    const std::vector<float> x = random(s.x_values()), w = random(s.w_values());
    std::vector<float> y(static_cast<size_t>(s.y_values()), NAN);
    ops_->conv().conv_forward(*stream_, {shape_of(s), x.data(), w.data(), y.data()});
    finish();
    EXPECT_LT(error_of(y, reference::conv(s, widened(x), widened(w))), kTolerance);
  }
}

TEST_F(CpuOpsTest, ConvolutionBackwardData) {
  for (const ConvSizes& s : kConvSizes)
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(text_of(s));
      const std::vector<float> dy = random(s.y_values()), w = random(s.w_values()), before = random(s.x_values());
      std::vector<float> dx = accumulate ? before : std::vector<float>(before.size(), NAN);
      ops_->conv().conv_backward_data(*stream_, {shape_of(s), dy.data(), w.data(), dx.data(), accumulate});
      finish();
      const Values wanted = reference::conv_data_gradient(s, widened(dy), widened(w));
      EXPECT_LT(error_of(dx, accumulate ? plus(wanted, before) : wanted), kTolerance);
    }
}

TEST_F(CpuOpsTest, ConvolutionBackwardFilter) {
  for (const ConvSizes& s : kConvSizes)
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(text_of(s));
      const std::vector<float> x = random(s.x_values()), dy = random(s.y_values()), before = random(s.w_values());
      std::vector<float> dw = accumulate ? before : std::vector<float>(before.size(), NAN);
      ops_->conv().conv_backward_filter(*stream_, {shape_of(s), x.data(), dy.data(), dw.data(), accumulate});
      finish();
      const Values wanted = reference::conv_filter_gradient(s, widened(x), widened(dy));
      EXPECT_LT(error_of(dw, accumulate ? plus(wanted, before) : wanted), kTolerance);
    }
}

// Two streams of a device compute with the same primitives at the same time.
TEST_F(CpuOpsTest, ConvolutionsOfTwoStreamsDoNotDisturbEachOther) {
  const ConvSizes s{4, 12, 12, 24, 40, 3, 1, 1};
  const std::vector<float> x = random(s.x_values()), w = random(s.w_values()), dy = random(s.y_values());
  const auto run = [&](Stream& stream, std::vector<float>& y, std::vector<float>& dw) {
    for (int i = 0; i < 20; ++i) {
      ops_->conv().conv_forward(stream, {shape_of(s), x.data(), w.data(), y.data()});
      ops_->conv().conv_backward_filter(stream, {shape_of(s), x.data(), dy.data(), dw.data()});
    }
  };
  const auto other = devices_[0]->make_stream("other");
  std::vector<float> y1(static_cast<size_t>(s.y_values())), y2 = y1, dw1(w.size()), dw2 = dw1;
  run(*stream_, y1, dw1);
  run(*other, y2, dw2);
  finish();
  other->synchronize(Deadline::after_seconds(60));
  EXPECT_EQ(y1, y2);
  EXPECT_EQ(dw1, dw2);
  EXPECT_LT(error_of(y1, reference::conv(s, widened(x), widened(w))), kTolerance);
}

TEST_F(CpuOpsTest, OtherTypesOfImagesAreRefused) {
  std::vector<float> values(64);
  ConvShape shape{1, 2, 2, 4, 4};
  shape.type = DType::bf16;
  const auto call = [&] { ops_->conv().conv_forward(*stream_, {shape, values.data(), values.data(), values.data()}); };
  EXPECT_THROW(call(), Error);
}

struct NormCase {
  int64_t count, channels;
  bool relu, residual;
};
std::vector<NormCase> norm_cases() {
  std::vector<NormCase> all;
  for (const auto& [count, channels] :
       {std::pair<int64_t, int64_t>{4, 1}, {5, 3}, {64, 8}, {37, 20}, {1030, 16}, {4099, 5}, {9, 512}, {33, 257}})
    for (const bool relu : {false, true})
      for (const bool residual : {false, true}) all.push_back({count, channels, relu, residual});
  return all;
}

class CpuBatchNorm : public CpuOpsTest {
 protected:
  void draw(const NormCase& c) {
    x_ = random(c.count * c.channels), residual_ = random(c.count * c.channels);
    gamma_ = random(c.channels), beta_ = random(c.channels);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = 2 * x_[i] + 3;
    running_mean_ = random(c.channels);
    running_variance_ = random(c.channels);
    for (float& value : running_variance_) value = 0.5f + value * value;
    mean_.assign(gamma_.size(), NAN), rstd_ = mean_;
    y_.assign(x_.size(), NAN);
  }
  void forward(const NormCase& c, bool training) {
    ops_->conv().batch_norm_forward(*stream_, {.x = x_.data(),
                                               .residual = c.residual ? residual_.data() : nullptr,
                                               .y = y_.data(),
                                               .gamma = gamma_.data(),
                                               .beta = beta_.data(),
                                               .running_mean = running_mean_.data(),
                                               .running_variance = running_variance_.data(),
                                               .mean = mean_.data(),
                                               .rstd = rstd_.data(),
                                               .count = c.count,
                                               .channels = c.channels,
                                               .relu = c.relu,
                                               .training = training});
    finish();
  }
  Values expected(const NormCase& c, const reference::ChannelMoments& moments) const {
    return reference::normalise_channels(widened(x_), moments, widened(gamma_), widened(beta_),
                                         c.residual ? widened(residual_) : Values{}, c.relu);
  }

  std::vector<float> x_, residual_, gamma_, beta_, running_mean_, running_variance_, mean_, rstd_, y_;
};

TEST_F(CpuBatchNorm, ForwardInTraining) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(::testing::Message() << c.count << " x " << c.channels << c.relu << c.residual);
    draw(c);
    const std::vector<float> mean_before = running_mean_, variance_before = running_variance_;
    forward(c, true);
    const reference::ChannelMoments moments = reference::channel_moments(widened(x_), c.channels);
    EXPECT_LT(error_of(y_, expected(c, moments)), kTolerance);
    EXPECT_LT(error_of(mean_, moments.mean), kTolerance);
    const double n = static_cast<double>(c.count);
    Values rstd = moments.variance, mean = moments.mean, variance = moments.variance;
    for (size_t i = 0; i < rstd.size(); ++i) {
      rstd[i] = 1 / std::sqrt(moments.variance[i] + 1e-5);
      mean[i] = 0.9 * static_cast<double>(mean_before[i]) + 0.1 * moments.mean[i];
      variance[i] = 0.9 * static_cast<double>(variance_before[i]) + 0.1 * moments.variance[i] * n / (n - 1);
    }
    EXPECT_LT(error_of(rstd_, rstd), kTolerance);
    EXPECT_LT(error_of(running_mean_, mean), kTolerance);
    EXPECT_LT(error_of(running_variance_, variance), kTolerance);
  }
}

TEST_F(CpuBatchNorm, ForwardInEvaluationUsesTheRunningStatistics) {
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(::testing::Message() << c.count << " x " << c.channels << c.relu << c.residual);
    draw(c);
    const std::vector<float> mean_before = running_mean_, variance_before = running_variance_;
    forward(c, false);
    EXPECT_LT(error_of(y_, expected(c, {widened(mean_before), widened(variance_before)})), kTolerance);
    EXPECT_EQ(running_mean_, mean_before);
    EXPECT_EQ(running_variance_, variance_before);
  }
}

TEST_F(CpuBatchNorm, Backward) {
  for (const NormCase& c : norm_cases())
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(::testing::Message() << c.count << " x " << c.channels << c.relu << c.residual << accumulate);
      draw(c);
      forward(c, true);
      const std::vector<float> dy = random(c.count * c.channels), before = random(2 * c.channels);
      const std::vector<float> added = c.residual ? random(c.count * c.channels) : std::vector<float>{};
      const auto width = static_cast<std::ptrdiff_t>(c.channels);
      std::vector<float> dgamma(before.begin(), before.begin() + width), dbeta(before.begin() + width, before.end());
      // dx takes the memory of dy, and what passes the ReLU that of the second part of the gradient.
      std::vector<float> dx = dy, passed = added;
      ops_->conv().batch_norm_backward(*stream_, {.x = x_.data(),
                                                  .y = c.relu && c.residual ? y_.data() : nullptr,
                                                  .dy = dx.data(),
                                                  .gamma = gamma_.data(),
                                                  .mean = mean_.data(),
                                                  .rstd = rstd_.data(),
                                                  .dx = dx.data(),
                                                  .passed = c.residual ? passed.data() : nullptr,
                                                  .dy_added = c.residual ? passed.data() : nullptr,
                                                  .beta = c.relu && !c.residual ? beta_.data() : nullptr,
                                                  .dgamma = dgamma.data(),
                                                  .dbeta = dbeta.data(),
                                                  .count = c.count,
                                                  .channels = c.channels,
                                                  .relu = c.relu,
                                                  .accumulate = accumulate});
      finish();
      std::vector<float> sum = dy;
      for (size_t i = 0; i < added.size(); ++i) sum[i] += added[i];
      const Values wanted_passed = c.relu ? reference::relu_gradient(widened(sum), widened(y_)) : widened(sum);
      auto wanted = reference::batch_norm_gradients(wanted_passed, widened(x_), widened(gamma_));
      for (size_t i = 0; accumulate && i < dgamma.size(); ++i) {
        wanted.dgamma[i] += static_cast<double>(before[i]);
        wanted.dbeta[i] += static_cast<double>(before[dgamma.size() + i]);
      }
      // With few pixels per channel most of the gradient cancels; what is left has the rounding of the whole.
      EXPECT_LT(error_of(dx, wanted.dx), 1e-5);
      EXPECT_LT(error_of(dgamma, wanted.dgamma), 1e-5);
      EXPECT_LT(error_of(dbeta, wanted.dbeta), 1e-5);
      if (c.residual) {
        EXPECT_EQ(widened(passed), wanted_passed);
      }
    }
}

// The reference itself against central differences of sum(dy y).
TEST(ReferenceConv, GradientsEqualCentralDifferences) {
  std::mt19937_64 generator(3);
  std::normal_distribution<double> normal;
  const auto drawn = [&](int64_t count) {
    Values values(static_cast<size_t>(count));
    for (double& value : values) value = normal(generator);
    return values;
  };
  const auto expect_near = [](const Values& ours, const Values& wanted, const char* what) {
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(ours[i], wanted[i], 1e-7) << what << " " << i;
  };
  for (const ConvSizes& s : {ConvSizes{2, 5, 4, 3, 2, 3, 2, 1}, ConvSizes{1, 4, 4, 2, 3, 1, 2, 0}}) {
    const Values x = drawn(s.x_values()), w = drawn(s.w_values()), dy = drawn(s.y_values());
    const auto of_x = [&](const Values& v) { return reference::dot(dy, reference::conv(s, v, w)); };
    const auto of_w = [&](const Values& v) { return reference::dot(dy, reference::conv(s, x, v)); };
    expect_near(reference::conv_data_gradient(s, dy, w), reference::central_differences(of_x, x), "dx");
    expect_near(reference::conv_filter_gradient(s, x, dy), reference::central_differences(of_w, w), "dw");
  }
  const Values x = drawn(21), gamma = drawn(3), beta = drawn(3), dy = drawn(21);
  const auto y = [&](const Values& v, const Values& g, const Values& b) {
    return reference::dot(dy, reference::normalise_channels(v, reference::channel_moments(v, 3), g, b, {}, false));
  };
  const auto g = reference::batch_norm_gradients(dy, x, gamma);
  expect_near(g.dx, reference::central_differences([&](const Values& v) { return y(v, gamma, beta); }, x), "dx");
  expect_near(g.dgamma, reference::central_differences([&](const Values& v) { return y(x, v, beta); }, gamma),
              "dgamma");
  expect_near(g.dbeta, reference::central_differences([&](const Values& v) { return y(x, gamma, v); }, beta), "dbeta");
}

// A large common part: the variance must come from centred values.
TEST_F(CpuBatchNorm, ShiftedChannels) {
  const NormCase c{3000, 7, false, false};
  draw(c);
  for (float& value : x_) value += 1000.0f;
  forward(c, true);
  const reference::ChannelMoments moments = reference::channel_moments(widened(x_), c.channels);
  // Values of 1000 are multiples of 6e-5, of a deviation of 2: y is off by up to 3e-5 |gamma|.
  EXPECT_LT(error_of(y_, expected(c, moments)), 5e-5);
  for (size_t i = 0; i < rstd_.size(); ++i) EXPECT_NEAR(rstd_[i] * std::sqrt(moments.variance[i] + 1e-5), 1.0, 1e-5);
}

// The fixture computes with the build for this CPU; the other must agree with it.
TEST(CpuConvKernels, BothBuildsOfTheNormalisationAgree) {
  constexpr int64_t kCount = 700, kChannels = 21;
  const std::vector<float> gamma(kChannels, 1.5f), beta(kChannels, 0.25f);
  std::vector<float> x(kCount * kChannels);
  std::mt19937_64 generator(8);
  std::normal_distribution<float> normal(2.0f, 3.0f);
  for (float& value : x) value = normal(generator);
  std::vector<std::vector<float>> results;
  for (const CpuConvKernels* kernels : {&kCpuConvKernelsBaseline, &best_cpu_conv_kernels()}) {
    std::vector<double> sums(2 * kChannels);
    std::vector<float> values(3 * kChannels), y(x.size()), dx(x.size()), statistics(6 * kChannels);
    float* s = statistics.data();
    const BatchNormWork work{sums.data(), values.data()};
    kernels->batch_norm_forward({.x = x.data(),
                                 .y = y.data(),
                                 .gamma = gamma.data(),
                                 .beta = beta.data(),
                                 .running_mean = s,
                                 .running_variance = s + kChannels,
                                 .mean = s + 2 * kChannels,
                                 .rstd = s + 3 * kChannels,
                                 .count = kCount,
                                 .channels = kChannels},
                                work);
    kernels->batch_norm_backward({.x = x.data(),
                                  .y = y.data(),
                                  .dy = x.data(),
                                  .gamma = gamma.data(),
                                  .mean = s + 2 * kChannels,
                                  .rstd = s + 3 * kChannels,
                                  .dx = dx.data(),
                                  .dgamma = s + 4 * kChannels,
                                  .dbeta = s + 5 * kChannels,
                                  .count = kCount,
                                  .channels = kChannels},
                                 work);
    for (const std::vector<float>& part : {y, dx, statistics}) results.push_back(part);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(error_of(results[i], widened(results[3 + i])), kTolerance) << i;
}

TEST_F(CpuOpsTest, MaxPool) {
  for (const ConvSizes& s : {ConvSizes{2, 12, 9, 7, 7, 3, 2, 1},
                             {1, 5, 6, 21, 21, 3, 1, 1},
                             {3, 2, 1, 4, 4, 7, 2, 3},
                             {2, 8, 8, 3, 3, 1, 3, 0},
                             {1, 4, 11, 5, 5, 5, 4, 2}}) {
    SCOPED_TRACE(::testing::PrintToString(std::vector<int64_t>{s.height, s.width, s.in, s.kernel, s.stride}));
    std::vector<float> x = random(s.x_values());
    for (float& value : x) value = std::round(2 * value);  // many pixels are equal
    const std::vector<float> dy = random(s.rows * s.out_height() * s.out_width() * s.in), added = random(s.y_values());
    std::vector<float> y(dy.size(), NAN), dx(x.size(), NAN);
    std::vector<uint8_t> chosen(dy.size());
    const PoolWindows windows{s.rows, s.height, s.width, s.in, s.kernel, s.stride};
    ops_->conv().max_pool(*stream_, {windows, x.data(), y.data(), chosen.data()});
    ops_->conv().max_pool_gradient(*stream_, {windows, dy.data(), added.data(), chosen.data(), dx.data()});
    finish();
    EXPECT_EQ(widened(y), reference::max_pool(s, widened(x)));
    const Values passed = reference::sum_of(widened(dy), widened(added));
    EXPECT_LT(error_of(dx, reference::max_pool_gradient(s, widened(x), passed)), kTolerance);
  }
  std::vector<float> x{1, NAN, 3, 4}, y(1);
  std::vector<uint8_t> chosen(1);
  ops_->conv().max_pool(*stream_, {{1, 1, 4, 1, 7, 4}, x.data(), y.data(), chosen.data()});
  finish();
  EXPECT_TRUE(std::isnan(y[0])) << "a window with a NaN, as in PyTorch";
}

TEST_F(CpuOpsTest, AveragePool) {
  for (const auto& [pixels, channels] : {std::pair<int64_t, int64_t>{1, 1}, {16, 64}, {9, 13}, {49, 7}}) {
    SCOPED_TRACE(::testing::Message() << pixels << " x " << channels);
    constexpr int64_t kRows = 3;
    const std::vector<float> x = random(kRows * pixels * channels), dy = random(kRows * channels);
    std::vector<float> y(dy.size(), NAN), dx(x.size(), NAN);
    ops_->conv().average_pool(*stream_, x.data(), y.data(), kRows, pixels, channels, DType::f32);
    ops_->conv().average_pool_gradient(*stream_, dy.data(), dx.data(), kRows, pixels, channels, DType::f32);
    finish();
    EXPECT_LT(error_of(y, reference::average_pool(widened(x), kRows, pixels, channels)), kTolerance);
    EXPECT_LT(error_of(dx, reference::average_pool_gradient(widened(dy), kRows, pixels, channels)), kTolerance);
  }
}

}  // namespace
}  // namespace amdahl::test
