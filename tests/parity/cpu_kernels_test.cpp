// Both builds of the element-wise CPU kernels, whichever this machine would choose, against float64.
#include "ops/cpu_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/philox.h"

namespace amdahl {
namespace {

constexpr double kTolerance = 1e-6;                                   // relative, in norm
const int64_t kWidths[] = {1, 3, 7, 8, 9, 31, 32, 33, 64, 100, 257};  // tails of every vector width

struct Variant {
  const char* name;
  const CpuKernels* kernels;
};

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;  // both builds are the same
#endif
}

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class CpuKernelsTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (GetParam().kernels == &kCpuKernelsAvx2 && !has_avx2()) GTEST_SKIP() << "this CPU has no AVX2 with FMA";
  }
  const CpuKernels& kernels() const { return *GetParam().kernels; }

  std::vector<float> random(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(generator_);
    return values;
  }
  // For sums: values of both signs cancel, and the rest has few right digits in any order of addition.
  std::vector<float> positive(int64_t count) {
    std::vector<float> values = random(count);
    for (float& value : values) value = std::abs(value);
    return values;
  }
  static void expect_near(const std::vector<float>& ours, const std::vector<double>& wanted) {
    ASSERT_EQ(ours.size(), wanted.size());
    double difference = 0, norm = 1e-30;
    for (size_t i = 0; i < wanted.size(); ++i) {
      difference += (ours[i] - wanted[i]) * (ours[i] - wanted[i]);
      norm += wanted[i] * wanted[i];
    }
    EXPECT_LT(std::sqrt(difference / norm), kTolerance);
  }

  std::mt19937_64 generator_{5};
};

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST_P(CpuKernelsTest, FinishForward) {
  constexpr int64_t kBatch = 5, kOffset = 900;
  constexpr uint64_t kSeed = 0xfedcba987654321ull, kStep = 17;
  for (const int64_t out : kWidths)
    for (const bool with_bias : {false, true})
      for (const double p : {0.0, 0.25, 0.9}) {
        const auto bias = random(out);
        std::vector<float> y = random(kBatch * out);
        std::vector<double> wanted = widened(y);
        for (int64_t i = 0; i < kBatch * out; ++i) {
          const auto column = static_cast<uint32_t>(i % out), row = static_cast<uint32_t>(kOffset + i / out);
          double& value = wanted[static_cast<size_t>(i)];
          value = std::max(0.0, value + (with_bias ? static_cast<double>(bias[column]) : 0.0));
          const Philox4 draw = dropout_draw(kSeed, column / 4, row, kStep, 2);
          if (p > 0) value = draw.v[column % 4] < dropout_keep_threshold(p) ? value / (1 - p) : 0.0;
        }
        DenseForward call{nullptr, nullptr, with_bias ? bias.data() : nullptr, y.data(), kBatch, 1, out, true};
        call.dropout = {p, kSeed, nullptr, 2, kOffset};
        kernels().finish_forward(call, kStep);
        expect_near(y, wanted);
      }
}

TEST_P(CpuKernelsTest, MaskAndColumnSums) {
  constexpr int64_t kBatch = 6;
  for (const int64_t width : kWidths)
    for (const bool masked : {false, true})
      for (const bool sums : {false, true})
        for (const bool accumulate : {false, true}) {
          std::vector<float> dx = positive(kBatch * width), activation = random(kBatch * width),
                             dbias = positive(width);
          for (float& value : activation) value = std::max(0.0f, value);
          std::vector<double> wanted = widened(dx), wanted_sums = widened(dbias);
          if (!accumulate) std::fill(wanted_sums.begin(), wanted_sums.end(), 0.0);
          for (size_t i = 0; i < wanted.size(); ++i) {
            wanted[i] = masked && activation[i] == 0.0f ? 0.0 : 1.25 * wanted[i];
            wanted_sums[i % static_cast<size_t>(width)] += wanted[i];
          }
          kernels().mask_and_column_sums({nullptr, nullptr, masked ? activation.data() : nullptr, dx.data(),
                                          sums ? dbias.data() : nullptr, kBatch, width, 1, 1.25f, accumulate});
          expect_near(dx, wanted);
          if (sums) expect_near(dbias, wanted_sums);
        }
}

TEST_P(CpuKernelsTest, ColumnSumsOfAPart) {
  constexpr int64_t kRows = 9;
  for (const int64_t columns : kWidths)
    for (const bool accumulate : {false, true}) {
      const int64_t stride = columns + 5;
      const auto matrix = positive(kRows * stride);
      std::vector<float> sums = positive(columns);
      std::vector<double> wanted = widened(sums);
      for (int64_t c = 0; c < columns; ++c) {
        double& sum = wanted[static_cast<size_t>(c)];
        if (!accumulate) sum = 0;
        for (int64_t r = 0; r < kRows; ++r) sum += static_cast<double>(matrix[static_cast<size_t>(r * stride + c)]);
      }
      kernels().column_sums(matrix.data(), sums.data(), kRows, columns, stride, accumulate);
      expect_near(sums, wanted);
    }
}

TEST_P(CpuKernelsTest, MseLoss) {
  for (const int64_t out : kWidths) {
    const auto prediction = random(4 * out), target = random(4 * out);
    std::vector<float> gradient(prediction.size());
    std::vector<double> wanted(prediction.size());
    double loss = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double difference = static_cast<double>(prediction[i]) - static_cast<double>(target[i]);
      loss += 0.125 * difference * difference;
      wanted[i] = 0.25 * difference;
    }
    std::vector<float> stats{10, 3};
    for (const bool accumulate : {true, false}) {
      kernels().mse_loss({prediction.data(), target.data(), gradient.data(), stats.data(), 4, out, 0.125f, accumulate});
      expect_near(gradient, wanted);
      expect_near(stats, accumulate ? std::vector<double>{loss + 10, 3} : std::vector<double>{loss, 0});
    }
  }
}

TEST_P(CpuKernelsTest, Optimizers) {
  constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kMomentum = 0.8;
  for (const int64_t n : kWidths) {
    const auto grads = random(n);
    std::vector<float> params = random(n), m = random(n), v = positive(n), velocity = m;
    std::vector<double> wanted = widened(params), wanted_m = widened(m), wanted_v = widened(v), sgd = wanted;
    std::vector<float> sgd_params = params;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double g = static_cast<double>(grads[i]);
      sgd[i] -= kRate * (kMomentum * wanted_m[i] + g);
      wanted_m[i] = kBeta1 * wanted_m[i] + (1 - kBeta1) * g;
      wanted_v[i] = kBeta2 * wanted_v[i] + (1 - kBeta2) * g * g;
      const double m_hat = wanted_m[i] / (1 - std::pow(kBeta1, 8)), v_hat = wanted_v[i] / (1 - std::pow(kBeta2, 8));
      wanted[i] -= kRate * m_hat / (std::sqrt(v_hat) + kEpsilon);
    }
    kernels().adam_step({params.data(), grads.data(), m.data(), v.data(), n, nullptr, kRate, kBeta1, kBeta2, kEpsilon},
                        7);
    expect_near(m, wanted_m);
    expect_near(v, wanted_v);
    expect_near(params, wanted);
    kernels().sgd_step({sgd_params.data(), grads.data(), velocity.data(), n, kRate, kMomentum});
    expect_near(sgd_params, sgd);
  }
}

// Replicas on machines with and without AVX2 must drop the same elements.
TEST(CpuKernels, BothBuildsDrawTheSameMask) {
  if (!has_avx2()) GTEST_SKIP() << "this CPU has no AVX2 with FMA";
  for (const int64_t out : kWidths) {
    std::vector<float> plain(static_cast<size_t>(3 * out), 1.0f), fast = plain;
    DenseForward call{nullptr, nullptr, nullptr, plain.data(), 3, 1, out, true};
    call.dropout = {0.5, 99, nullptr, 1, 12345};
    kCpuKernelsBaseline.finish_forward(call, 3);
    call.y = fast.data();
    kCpuKernelsAvx2.finish_forward(call, 3);
    EXPECT_EQ(plain, fast) << out;
  }
}

INSTANTIATE_TEST_SUITE_P(Builds, CpuKernelsTest,
                         ::testing::Values(Variant{"baseline", &kCpuKernelsBaseline},
                                           Variant{"avx2", &kCpuKernelsAvx2}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace amdahl
