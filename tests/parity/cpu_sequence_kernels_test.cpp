// All builds of the CPU kernels of sequence models: errors of exp, GELU and its gradient in units in the last place,
// over their whole ranges, and agreement of the rest with float64.
#include "ops/sequence/cpu_sequence_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ops/cpu_scratch.h"
#include "reference_sequence.h"
#include "special_floats.h"

namespace amdahl::test {
namespace {

struct SequenceBuild {
  const char* name;
  const CpuSequenceKernels* kernels;
};
void PrintTo(const SequenceBuild& build, std::ostream* out) { *out << build.name; }

class CpuSequenceKernelsTest : public ::testing::TestWithParam<SequenceBuild> {
 protected:
  void SetUp() override {
#if defined(__x86_64__)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (GetParam().kernels == &kCpuSequenceKernelsAvx2 && !has_avx2) GTEST_SKIP() << "this CPU has no AVX2 with FMA";
    if (GetParam().kernels == &kCpuSequenceKernelsAvx512 && !has_avx512) GTEST_SKIP() << "this CPU has no AVX-512";
#endif
  }
  const CpuSequenceKernels& kernels() const { return *GetParam().kernels; }

  /// exp of values <= 0: of a row of scores whose largest is 0.
  std::vector<float> exponentials(std::vector<float> x) const {
    const size_t given = x.size();
    x.push_back(0.0f);
    const auto count = static_cast<int64_t>(x.size());
    x.resize(x.size() / kPadFloats * kPadFloats + kPadFloats, kNan);
    float log_sum = 0, inverse_sum = 0;
    kernels().softmax_rows({x.data(), 1, count, static_cast<int64_t>(x.size()), 0, false, 1.0f}, &log_sum,
                           &inverse_sum);
    x.resize(given);
    return x;
  }
  std::vector<float> gelu(const std::vector<float>& x) const {
    std::vector<float> aux(x.size()), y(x.size());
    const std::vector<float> bias(x.size(), 0.0f);
    Epilogue e = epilogue(x, y);
    e.aux = aux.data();
    e.bias = bias.data();
    kernels().bias_gelu(e);
    EXPECT_EQ(0, std::memcmp(aux.data(), x.data(), x.size() * sizeof(float)));
    return y;
  }
  std::vector<float> gelu_derivatives(std::vector<float> x) const {
    const std::vector<float> ones(x.size(), 1.0f);
    std::vector<float> d(x.size());
    Epilogue e = epilogue(ones, d);
    e.aux = x.data();
    kernels().gelu_gradient(e);
    return d;
  }
  static Epilogue epilogue(const std::vector<float>& product, std::vector<float>& c) {
    Epilogue e;
    e.product = product.data();
    e.c = c.data();
    e.rows = 1;
    e.width = e.stride_product = e.stride_c = e.stride_aux = static_cast<int64_t>(c.size());
    return e;
  }
};

/// Values from `first` to `last`, 200000 steps, with neighbouring bit patterns mixed in by the step's rounding.
std::vector<float> sweep(double first, double last) {
  constexpr int kSteps = 200003;
  std::vector<float> x(kSteps);
  for (int i = 0; i < kSteps; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(first + (last - first) * i / (kSteps - 1));
  return x;
}

/// |ours - wanted| in units in the last place of wanted, as f32.
double ulps(float ours, double wanted) {
  const int exponent = std::max(std::ilogb(wanted), -126);
  return std::abs(static_cast<double>(ours) - wanted) / std::ldexp(1.0, exponent - 23);
}

TEST_P(CpuSequenceKernelsTest, ExpIsWithinTwoUlp) {
  double worst = 0;
  for (const auto& [first, last] : {std::pair{-86.9, 0.0}, std::pair{-2.0, 0.0}, std::pair{-1e-3, 0.0}}) {
    const std::vector<float> x = sweep(first, last), e = exponentials(x);
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(e[i], std::exp(static_cast<double>(x[i]))));
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulps", std::to_string(worst));
  const std::vector<float> special = exponentials({-87.0f, -100.0f, -1e30f, -kInfinity, -0.0f, -1e-30f, 0, 0, 0});
  EXPECT_EQ(special, (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 1}));
}

// The relative error of gelu(x) = x / (1 + e^-z) is that of the sum and the division, and that of e^-z: the rounding of
// z, |z| / 2 + 2 units, where e^-z dominates. z = 1.6 x + 0.07 x^3.
TEST_P(CpuSequenceKernelsTest, GeluIsWithinItsBound) {
  for (const auto& [first, last] : {std::pair{-9.0, 9.0}, std::pair{-0.01, 0.01}, std::pair{9.0, 1e6}}) {
    const std::vector<float> x = sweep(first, last), y = gelu(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = static_cast<double>(x[i]), z = std::abs(1.5957691216 * v + 0.0713548163 * v * v * v);
      const double bound = 4 + (v < 0 ? 2.5 * z : std::min(2.5 * z, 1.0));
      ASSERT_LT(ulps(y[i], reference::gelu(v)), bound) << v;
    }
  }
  const std::vector<float> special = gelu({-1e3f, -1e30f, 1e30f, 0.0f, kNan, kInfinity});
  EXPECT_EQ(special[0], 0.0f);
  EXPECT_EQ(special[1], 0.0f);
  EXPECT_EQ(special[2], 1e30f);
  EXPECT_EQ(special[3], 0.0f);
  EXPECT_TRUE(std::isnan(special[4]));
  EXPECT_EQ(special[5], kInfinity);
}

/// GELU by erf is x Phi(x): its error is absolute for negative x, as that of 1 + erf in f32 is.
TEST_P(CpuSequenceKernelsTest, ExactGeluIsWithinItsBound) {
  for (const auto& [first, last] : {std::pair{-14.0, 14.0}, std::pair{-3.0, 3.0}, std::pair{-0.01, 0.01}}) {
    std::vector<float> x = sweep(first, last), y(x.size()), d(x.size());
    const std::vector<float> ones(x.size(), 1.0f);
    const auto width = static_cast<int64_t>(x.size());
    kernels().activate({HiddenActivation::exact_gelu, false, x.data(), y.data(), 1, width});
    kernels().activate_gradient({HiddenActivation::exact_gelu, false, x.data(), ones.data(), d.data(), 1, width});
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = static_cast<double>(x[i]);
      ASSERT_NEAR(y[i], reference::exact_gelu(v), 1.5e-7 + (v > 0 ? 3e-7 * v : 0)) << v;
      ASSERT_NEAR(d[i], reference::exact_gelu_derivative(v), 5e-7) << v;
    }
  }
  std::vector<float> x{-1e3f, -1e30f, 1e30f, 0.0f, kNan, kInfinity}, y(x.size());
  kernels().activate({HiddenActivation::exact_gelu, false, x.data(), y.data(), 1, 6});
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 4), (std::vector<float>{0, 0, 1e30f, 0}));
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], kInfinity);
}

// gelu' has zeros, so its error is absolute: its value is between -0.13 and 1.13, one unit there is 1.2e-7.
TEST_P(CpuSequenceKernelsTest, GeluGradientIsWithinItsBound) {
  for (const auto& [first, last] : {std::pair{-12.0, 12.0}, std::pair{-0.01, 0.01}, std::pair{9.0, 1e6}}) {
    const std::vector<float> x = sweep(first, last), d = gelu_derivatives(x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(d[i], reference::gelu_derivative(static_cast<double>(x[i])), 5e-7) << x[i];
  }
  const std::vector<float> special = gelu_derivatives({-1e3f, -1e6f, 1e6f, 0.0f, kNan});
  EXPECT_EQ(special[0], 0.0f);
  EXPECT_EQ(special[1], 0.0f);
  EXPECT_EQ(special[2], 1.0f);
  EXPECT_EQ(special[3], 0.5f);
  EXPECT_TRUE(std::isnan(special[4]));
}

TEST_P(CpuSequenceKernelsTest, CausalSoftmaxRows) {
  constexpr int64_t kRows = 5, kKeys = 37, kStride = 48, kFirst = 20;
  std::mt19937_64 generator(3);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> scores(kRows * kStride);
  for (float& score : scores) score = normal(generator);
  const std::vector<float> before = scores;
  std::vector<float> log_sums(kRows), inverse_sums(kRows);
  kernels().softmax_rows({scores.data(), kRows, kKeys, kStride, kFirst, true, 0.5f}, log_sums.data(),
                         inverse_sums.data());
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c <= kFirst + r; ++c)
      sum += std::exp(0.5 * static_cast<double>(before[reference::at(r * kStride + c)]));
    EXPECT_NEAR(log_sums[reference::at(r)], std::log(sum), 1e-6);
    for (int64_t c = 0; c < kKeys; ++c) {
      const size_t i = reference::at(r * kStride + c);
      const float p = scores[i] * inverse_sums[reference::at(r)];
      if (c <= kFirst + r)
        EXPECT_NEAR(p, std::exp(0.5 * static_cast<double>(before[i])) / sum, 1e-6);
      else
        EXPECT_EQ(scores[i], 0.0f);
    }
  }
}

TEST_P(CpuSequenceKernelsTest, LayerNormWithNegativeGamma) {
  for (const int64_t width : {2, 5, 8, 12, 33}) {
    std::vector<float> x(static_cast<size_t>(width)), gamma(x.size(), -2.0f), beta(x.size(), 0.5f), y = x;
    for (int64_t i = 0; i < width; ++i) x[reference::at(i)] = static_cast<float>(i * i % 7) - 3.0f;
    float mean = 0, rstd = 0;
    kernels().layer_norm_forward(
        {x.data(), nullptr, nullptr, gamma.data(), beta.data(), y.data(), &mean, &rstd, 1, width});
    const reference::LayerNorm wanted = reference::layer_norm({x.begin(), x.end()}, reference::Values(x.size(), -2.0),
                                                              reference::Values(x.size(), 0.5));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], wanted.y[i], 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Builds, CpuSequenceKernelsTest,
                         ::testing::Values(SequenceBuild{"baseline", &kCpuSequenceKernelsBaseline},
                                           SequenceBuild{"avx2", &kCpuSequenceKernelsAvx2},
                                           SequenceBuild{"avx512", &kCpuSequenceKernelsAvx512}),
                         [](const auto& build) { return build.param.name; });

}  // namespace
}  // namespace amdahl::test
