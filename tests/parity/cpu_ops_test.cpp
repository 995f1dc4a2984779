// The other CPU ops against plain loops in float64, on random data.
#include "base/philox.h"
#include "cpu_ops_fixture.h"

namespace amdahl::test {
namespace {

TEST_F(CpuOpsTest, DropoutIsPhiloxAndKnowsNoRowSplit) {
  constexpr uint64_t kSeed = 0x123456789abcdefull, kStep = 41;
  constexpr uint32_t kLayer = 3;
  for (const double p : {0.2, 0.5, 0.9})
    for (const int64_t out : {1, 3, 4, 31, 32, 33, 100, 256}) {
      const int64_t batch = 23, in = 6, offset = 1000;
      std::vector<float> x = random(batch * in), w = random(out * in);
      for (float& v : x) v = std::abs(v) + 0.1f;  // everything kept is positive: zeros are dropped elements
      for (float& v : w) v = std::abs(v) + 0.1f;
      std::vector<float> plain(static_cast<size_t>(batch * out)), whole = plain, split = plain;
      const uint64_t step = kStep;
      DenseForward call{x.data(), w.data(), nullptr, plain.data(), batch, in, out, true};
      ops_->gemm().dense_forward(*stream_, call);
      call.y = whole.data();
      call.dropout = {p, kSeed, &step, kLayer, offset};
      ops_->gemm().dense_forward(*stream_, call);
      for (int64_t begin = 0, rows = 1; begin < batch; begin += rows, rows = std::min(batch - begin, 2 * rows)) {
        DenseForward part = call;
        part.x += begin * in;
        part.y = split.data() + begin * out;
        part.batch = rows;
        part.dropout.row_offset = offset + begin;
        ops_->gemm().dense_forward(*stream_, part);
      }
      finish();
      const uint32_t threshold = dropout_keep_threshold(p);
      const auto scale = static_cast<float>(1.0 / (1.0 - p));
      for (int64_t r = 0; r < batch; ++r)
        for (int64_t c = 0; c < out; ++c) {
          const size_t i = static_cast<size_t>(r * out + c);
          const Philox4 draw =
              dropout_draw(kSeed, static_cast<uint32_t>(c / 4), static_cast<uint32_t>(offset + r), kStep, kLayer);
          const bool kept = draw.v[c % 4] < threshold;
          ASSERT_EQ(whole[i], kept ? plain[i] * scale : 0.0f) << "row " << r << " column " << c;
          ASSERT_EQ(split[i] != 0.0f, kept) << "row " << r << " column " << c;
          ASSERT_NEAR(split[i], whole[i], 1e-5f * std::abs(whole[i]));
        }
    }
}

// What a GEMM does on the way and what is done after it give the same bits, whatever part of the columns is there.
TEST_F(CpuOpsTest, BiasActivationEqualsTheLayersOwnInAnyPartOfTheColumns) {
  constexpr int64_t kBatch = 19, kIn = 7, kOut = 50;
  const auto x = random(kBatch * kIn), w = random(kOut * kIn), bias = random(kOut);
  const uint64_t step = 5;
  for (const bool relu : {false, true})
    for (const double p : {0.0, 0.4}) {
      if (p > 0 && !relu) continue;
      std::vector<float> whole(static_cast<size_t>(kBatch * kOut)), product(whole);
      DenseForward call{x.data(), w.data(), bias.data(), whole.data(), kBatch, kIn, kOut, relu};
      call.dropout = {p, 99, &step, 2, 100};
      ops_->gemm().dense_forward(*stream_, call);
      ops_->gemm().dense_forward(*stream_, {x.data(), w.data(), nullptr, product.data(), kBatch, kIn, kOut, false});
      finish();
      for (const int64_t begin : {0, 4, 28}) {
        const int64_t width = std::min<int64_t>(24, kOut - begin);
        std::vector<float> part;
        for (int64_t r = 0; r < kBatch; ++r)
          part.insert(part.end(), product.begin() + r * kOut + begin, product.begin() + r * kOut + begin + width);
        ops_->elementwise().bias_activation(
            *stream_, {part.data(), bias.data() + begin, kBatch, width, relu, nullptr, {p, 99, &step, 2, 100, begin}});
        finish();
        for (int64_t r = 0; r < kBatch; ++r)
          for (int64_t c = 0; c < width; ++c)
            ASSERT_EQ(part[static_cast<size_t>(r * width + c)], whole[static_cast<size_t>(r * kOut + begin + c)])
                << "row " << r << " column " << begin + c;
      }
    }
}

TEST_F(CpuOpsTest, MaskAndSum) {
  constexpr int64_t kBatch = 21, kWidth = 45;
  for (const bool masked : {false, true})
    for (const bool summed : {false, true})
      for (const bool accumulate : {false, true}) {
        const auto before = random(kBatch * kWidth), sums_before = random(kWidth);
        auto activation = random(kBatch * kWidth), dx = before, sums = sums_before;
        for (float& v : activation) v = std::max(0.0f, v);
        ops_->elementwise().mask_and_sum(*stream_, {dx.data(), masked ? activation.data() : nullptr, nullptr,
                                                    summed ? sums.data() : nullptr, kBatch, kWidth, accumulate});
        finish();
        std::vector<double> wanted = accumulate ? widened(sums_before) : std::vector<double>(kWidth, 0.0);
        for (size_t i = 0; i < dx.size(); ++i) {
          const float kept = masked && activation[i] == 0.0f ? 0.0f : before[i];
          ASSERT_EQ(dx[i], kept);
          wanted[i % kWidth] += static_cast<double>(kept);
        }
        if (summed)
          EXPECT_LT(error_of(sums, wanted), 1e-6);
        else
          EXPECT_EQ(sums, sums_before);
      }
}

TEST_F(CpuOpsTest, MseLoss) {
  for (const auto& [batch, out] : {std::pair<int64_t, int64_t>{1, 1}, {7, 3}, {33, 17}})
    for (const bool accumulate : {false, true}) {
      const auto prediction = random(batch * out), target = random(batch * out);
      std::vector<float> gradient(prediction.size()), stats{2.5f, 4.0f};
      const float scale = 1.0f / static_cast<float>(batch * out);
      ops_->loss().mse_loss(
          *stream_, {prediction.data(), target.data(), gradient.data(), stats.data(), batch, out, scale, accumulate});
      finish();
      double loss = accumulate ? 2.5 : 0.0;
      std::vector<double> wanted;
      for (size_t i = 0; i < prediction.size(); ++i) {
        const double difference = static_cast<double>(prediction[i]) - static_cast<double>(target[i]);
        loss += difference * difference * static_cast<double>(scale);
        wanted.push_back(2 * difference * static_cast<double>(scale));
      }
      EXPECT_NEAR(stats[0], loss, 1e-6 * loss);
      EXPECT_EQ(stats[1], accumulate ? 4.0f : 0.0f);
      EXPECT_LT(error_of(gradient, wanted), kTolerance);
    }
}

struct CrossEntropy {
  double loss = 0;
  float correct = 0;
  std::vector<double> gradient;
};

CrossEntropy plain_cross_entropy(const std::vector<float>& logits, const std::vector<float>& labels, int64_t classes,
                                 double scale) {
  CrossEntropy result;
  for (size_t row = 0; row < labels.size(); ++row) {
    const float* line = logits.data() + row * static_cast<size_t>(classes);
    const auto label = static_cast<int64_t>(labels[row]);
    const float* largest = std::max_element(line, line + classes);
    result.correct += largest - line == label ? 1.0f : 0.0f;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(line[c]) - static_cast<double>(*largest));
    result.loss += scale * (std::log(sum) + static_cast<double>(*largest) - static_cast<double>(line[label]));
    for (int64_t c = 0; c < classes; ++c)
      result.gradient.push_back(
          scale * (std::exp(static_cast<double>(line[c]) - static_cast<double>(*largest)) / sum - (c == label)));
  }
  return result;
}

TEST_F(CpuOpsTest, CrossEntropyLoss) {
  for (const int64_t classes : {2, 3, 10, 37})
    for (const float spread : {1.0f, 30.0f, 1e4f}) {
      const int64_t batch = 29;
      auto logits = random(batch * classes);
      for (float& v : logits) v *= spread;
      std::vector<float> labels(static_cast<size_t>(batch)), gradient(logits.size()), stats{0.5f, 3.0f};
      for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i % static_cast<size_t>(classes));
      const float scale = 1.0f / static_cast<float>(batch);
      ops_->loss().cross_entropy_loss(
          *stream_, {logits.data(), labels.data(), gradient.data(), stats.data(), batch, classes, scale, true});
      finish();
      const CrossEntropy wanted = plain_cross_entropy(logits, labels, classes, static_cast<double>(scale));
      EXPECT_NEAR(stats[0], 0.5 + wanted.loss, 1e-6 * (0.5 + wanted.loss));
      EXPECT_EQ(stats[1], 3.0f + wanted.correct);
      EXPECT_LT(error_of(gradient, wanted.gradient), kTolerance);
    }
}

TEST_F(CpuOpsTest, CrossEntropyTiesCountTheFirstAndConfidentRowsKeepDigits) {
  const std::vector<float> logits{1, 1, 0, /**/ 1, 1, 0, /**/ 40, 0, 0, /**/ 0, 0, 3e38f};
  const std::vector<float> labels{0, 1, 0, 2};
  std::vector<float> gradient(logits.size()), stats{9, 9};
  ops_->loss().cross_entropy_loss(*stream_,
                                  {logits.data(), labels.data(), gradient.data(), stats.data(), 4, 3, 1.0f, false});
  finish();
  EXPECT_EQ(stats[1], 3.0f);  // the tie goes to class 0: row 0 is right, row 1 is not
  EXPECT_NEAR(gradient[6], -2 * std::exp(-40.0), 1e-6 * std::exp(-40.0));  // p - 1 without cancellation
  EXPECT_EQ(gradient[11], 0.0f);
  for (float g : gradient) EXPECT_TRUE(std::isfinite(g));
}

TEST_F(CpuOpsTest, AdamTenSteps) {
  for (const int64_t n : {1, 7, 64, 1003}) {
    auto params = random(n);
    std::vector<float> m(params.size(), 0.0f), v = m;
    std::vector<double> p = widened(params), pm(params.size(), 0.0), pv = pm;
    uint64_t step = 0;
    const float lr = 1e-2f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    for (int t = 1; t <= 10; ++t) {
      const auto grads = random(n);
      ops_->optimizer().adam_step(
          *stream_, {params.data(), grads.data(), m.data(), v.data(), n, &step, lr, beta1, beta2, epsilon});
      ops_->elementwise().increment(*stream_, &step);
      finish();
      for (size_t i = 0; i < p.size(); ++i) {
        const double g = static_cast<double>(grads[i]), b1 = static_cast<double>(beta1),
                     b2 = static_cast<double>(beta2);
        pm[i] = b1 * pm[i] + (1 - b1) * g;
        pv[i] = b2 * pv[i] + (1 - b2) * g * g;
        p[i] -= static_cast<double>(lr) * (pm[i] / (1 - std::pow(b1, t))) /
                (std::sqrt(pv[i] / (1 - std::pow(b2, t))) + static_cast<double>(epsilon));
      }
    }
    EXPECT_EQ(step, 10u);
    EXPECT_LT(error_of(params, p), kTolerance) << n;
    EXPECT_LT(error_of(m, pm), kTolerance) << n;
    EXPECT_LT(error_of(v, pv), 2e-5) << n;  // 1 - beta2 carries the rounding of 0.999f
  }
}

TEST_F(CpuOpsTest, SgdTenSteps) {
  for (const int64_t n : {1, 7, 64, 1003}) {
    auto params = random(n);
    std::vector<float> velocity(params.size(), 0.0f);
    std::vector<double> p = widened(params), u(params.size(), 0.0);
    const float lr = 0.05f, momentum = 0.9f;
    for (int t = 0; t < 10; ++t) {
      const auto grads = random(n);
      ops_->optimizer().sgd_step(*stream_, {params.data(), grads.data(), velocity.data(), n, lr, momentum});
      finish();
      for (size_t i = 0; i < p.size(); ++i) {
        u[i] = static_cast<double>(momentum) * u[i] + static_cast<double>(grads[i]);
        p[i] -= static_cast<double>(lr) * u[i];
      }
    }
    EXPECT_LT(error_of(params, p), kTolerance) << n;
    EXPECT_LT(error_of(velocity, u), kTolerance) << n;
  }
}

TEST_F(CpuOpsTest, GatherRows) {
  const int64_t width = 13;
  const auto table = random(50 * width);
  const std::vector<int32_t> indices{49, 0, 0, 17, 3};
  std::vector<float> out(indices.size() * static_cast<size_t>(width));
  ops_->elementwise().gather_rows(*stream_, table.data(), indices.data(), out.data(),
                                  static_cast<int64_t>(indices.size()), width);
  finish();
  for (size_t i = 0; i < indices.size(); ++i)
    for (int64_t c = 0; c < width; ++c)
      EXPECT_EQ(out[i * static_cast<size_t>(width) + static_cast<size_t>(c)],
                table[static_cast<size_t>(indices[i] * width + c)]);
}

}  // namespace
}  // namespace amdahl::test
