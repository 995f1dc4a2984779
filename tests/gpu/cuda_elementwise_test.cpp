// Dropout, losses, optimizers and data movement against host references; graph replay against eager calls.
#include <algorithm>
#include <numeric>

#include "base/philox.h"
#include "gpu_support.h"

namespace amdahl {
namespace {

class CudaOpsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device) ops = make_cuda_ops(*device, {});
  }
  std::unique_ptr<Ops> ops;
};

/// A layer of one input, which is 1: relu and dropout of its weights, the same in every row.
void dropout_rows(Ops& ops, Stream& stream, float* one, float* weights, float* y, int64_t rows, int64_t width,
                  const Dropout& dropout, uint8_t* mask) {
  ops.gemm().dense_forward(stream, {one, weights, nullptr, y, rows, 1, width, true, mask, dropout});
}

TEST_F(CudaOpsTest, DropoutDrawsTheHostsMask) {
  constexpr double kP = 0.3;
  constexpr uint64_t kSeed = 0x123456789abcdefull, kStep = 41;
  constexpr uint32_t kLayer = 3;
  constexpr int64_t kRowOffset = 17;
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{kStep});
  for (MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::bf16}) {
    auto with = make_cuda_ops(*device, {math, false});
    for (int64_t width : {1, 3, 4, 64, 100, 847, 1024})
      for (int64_t rows : {1, 5, 64, 1000})
        for (int64_t skip : {0, 1}) {
          // Multiples of 1/64 pass every precision unchanged.
          std::vector<float> before = random_floats(width, 5, 32.0f, 64.0f);
          for (float& value : before) value = std::floor(value) / 64.0f;
          auto weights = floats(before), one = floats(std::vector<float>(static_cast<size_t>(rows), 1.0f));
          auto y = floats(rows * width, skip);
          GpuArray<uint8_t> mask(*device, *stream, rows * mask_row_bits(width) / 8);
          dropout_rows(*with, *stream, one.data(), weights.data(), y.data(), rows, width,
                       {kP, kSeed, step.data(), kLayer, kRowOffset}, mask.data());
          const std::vector<float> got = y.get();
          const std::vector<uint8_t> bits = mask.get();
          const auto scale = static_cast<float>(1.0 / (1.0 - kP));
          for (int64_t row = 0; row < rows; ++row)
            for (int64_t column = 0; column < width; ++column) {
              const Philox4 draw = dropout_draw(kSeed, static_cast<uint32_t>(column / 4),
                                                static_cast<uint32_t>(kRowOffset + row), kStep, kLayer);
              const auto at = static_cast<size_t>(row * width + column);
              const bool kept = draw.v[column % 4] < dropout_keep_threshold(kP);
              ASSERT_EQ(got[at], kept ? before[static_cast<size_t>(column)] * scale : 0.0f)
                  << to_string(math) << " " << rows << "x" << width << " at " << row << "," << column;
              const int64_t bit = row * mask_row_bits(width) + column;
              ASSERT_EQ((bits[static_cast<size_t>(bit / 8)] >> (bit % 8)) & 1, kept ? 1 : 0) << row << "," << column;
            }
        }
  }
}

TEST_F(CudaOpsTest, DropoutDoesNotDependOnTheSplitOfTheBatch) {
  constexpr int64_t kRows = 96, kWidth = 130;
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{9});
  for (MathMode math : {MathMode::fp32, MathMode::tf32}) {  // the parts of tf32 go another way than the whole
    auto with = make_cuda_ops(*device, {math, false});
    auto weights = floats(std::vector<float>(kWidth, 0.5f)), one = floats(std::vector<float>(kRows, 1.0f));
    auto whole = floats(kRows * kWidth), parts = floats(kRows * kWidth);
    dropout_rows(*with, *stream, one.data(), weights.data(), whole.data(), kRows, kWidth, {0.5, 1, step.data(), 0, 0},
                 nullptr);
    for (int64_t first = 0; first < kRows; first += 24)
      dropout_rows(*with, *stream, one.data(), weights.data(), parts.data() + first * kWidth, 24, kWidth,
                   {0.5, 1, step.data(), 0, first}, nullptr);
    EXPECT_EQ(whole.get(), parts.get());
  }
}

// A layer's output finished after a sum over devices has the bits of one that its GEMM finished.
TEST_F(CudaOpsTest, BiasActivationEqualsTheLayersOwnInAnyPartOfTheColumns) {
  constexpr int64_t kRows = 37, kWidth = 132;
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{9});
  std::vector<float> values = random_floats(kWidth, 5, -32.0f, 32.0f), biases = random_floats(kWidth, 6, -8.0f, 8.0f);
  for (auto* each : {&values, &biases})
    for (float& value : *each) value = std::floor(value) / 4.0f;  // sums are exact
  auto weights = floats(values), bias = floats(biases), one = floats(std::vector<float>(kRows, 1.0f));
  for (const double p : {0.0, 0.5}) {
    auto whole = floats(kRows * kWidth);
    GpuArray<uint8_t> mask(*device, *stream, kRows * mask_row_bits(kWidth) / 8);
    ops->gemm().dense_forward(*stream, {one.data(),
                                        weights.data(),
                                        bias.data(),
                                        whole.data(),
                                        kRows,
                                        1,
                                        kWidth,
                                        true,
                                        mask.data(),
                                        {p, 3, step.data(), 1, 20}});
    const std::vector<float> wanted = whole.get();
    for (const int64_t begin : {0, 4, 60}) {
      const int64_t width = std::min<int64_t>(68, kWidth - begin);
      std::vector<float> product;
      for (int64_t r = 0; r < kRows; ++r)
        product.insert(product.end(), values.begin() + begin, values.begin() + begin + width);
      auto part = floats(product);
      GpuArray<uint8_t> bits(*device, *stream, kRows * mask_row_bits(width) / 8);
      ops->elementwise().bias_activation(
          *stream,
          {part.data(), bias.data() + begin, kRows, width, true, bits.data(), {p, 3, step.data(), 1, 20, begin}});
      const std::vector<float> got = part.get();
      const std::vector<uint8_t> set = bits.get();
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t c = 0; c < width; ++c) {
          const float value = got[static_cast<size_t>(r * width + c)];
          ASSERT_EQ(value, wanted[static_cast<size_t>(r * kWidth + begin + c)]) << p << ": " << r << "," << begin + c;
          const int64_t bit = r * mask_row_bits(width) + c;
          ASSERT_EQ((set[static_cast<size_t>(bit / 8)] >> (bit % 8)) & 1, value != 0.0f ? 1 : 0) << r << "," << c;
        }
    }
  }
}

TEST_F(CudaOpsTest, MaskAndSum) {
  constexpr int64_t kRows = 50, kWidth = 77;
  const std::vector<float> before = random_floats(kRows * kWidth, 5, -1.0f, 1.0f);
  std::vector<float> active = random_floats(kRows * kWidth, 6, -1.0f, 1.0f);
  for (float& value : active) value = std::max(0.0f, value);
  for (const bool masked : {false, true})
    for (const bool accumulate : {false, true}) {
      auto dx = floats(before), activation = floats(active), sums = floats(std::vector<float>(kWidth, 2.0f));
      ops->elementwise().mask_and_sum(
          *stream, {dx.data(), masked ? activation.data() : nullptr, nullptr, sums.data(), kRows, kWidth, accumulate});
      const std::vector<float> got = dx.get(), got_sums = sums.get();
      std::vector<double> wanted(kWidth, accumulate ? 2.0 : 0.0);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], masked && active[i] == 0.0f ? 0.0f : before[i]);
        wanted[i % kWidth] += static_cast<double>(got[i]);
      }
      for (size_t c = 0; c < wanted.size(); ++c) EXPECT_NEAR(got_sums[c], wanted[c], 1e-5);
    }
}

TEST_F(CudaOpsTest, MseLoss) {
  for (int64_t rows : {1, 64, 8192, 100'000}) {
    constexpr int64_t kWidth = 3;
    const std::vector<float> p = random_floats(rows * kWidth, 1), t = random_floats(rows * kWidth, 2);
    auto gp = floats(p), gt = floats(t), d = floats(rows * kWidth), stats = floats(2);
    const float scale = 1.0f / static_cast<float>(rows * kWidth);
    double loss = 0;
    std::vector<double> want(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double difference = double{p[i]} - double{t[i]};
      loss += difference * difference * scale;
      want[i] = 2.0 * scale * difference;
    }
    ops->loss().mse_loss(*stream, {gp.data(), gt.data(), d.data(), stats.data(), rows, kWidth, scale, false});
    EXPECT_LT(relative_error(d.get(), want), 1e-6);
    EXPECT_NEAR(stats.get()[0], loss, 1e-5 * loss);
    EXPECT_EQ(stats.get()[1], 0.0f);
    const std::vector<float> first = stats.get();
    ops->loss().mse_loss(*stream, {gp.data(), gt.data(), d.data(), stats.data(), rows, kWidth, scale, true});
    EXPECT_NEAR(stats.get()[0], 2 * loss, 2e-5 * loss);
    ops->loss().mse_loss(*stream, {gp.data(), gt.data(), d.data(), stats.data(), rows, kWidth, scale, false});
    EXPECT_EQ(stats.get(), first);
  }
}

TEST_F(CudaOpsTest, CrossEntropyLoss) {
  for (int64_t classes : {2, 3, 10, 33, 1000})
    for (int64_t rows : {1, 64, 5000}) {
      std::vector<float> logits = random_floats(rows * classes, 1, -5.0f, 5.0f), labels(static_cast<size_t>(rows));
      std::mt19937 engine(3);
      for (float& label : labels) label = static_cast<float>(engine() % static_cast<uint64_t>(classes));
      if (rows > 1) logits[1] = logits[0] = 6.0f;  // a tie: the first wins
      const float scale = 1.0f / static_cast<float>(rows);
      double loss = 0, correct = 0;
      std::vector<double> want(logits.size());
      for (int64_t row = 0; row < rows; ++row) {
        const float* z = &logits[static_cast<size_t>(row * classes)];
        const auto label = static_cast<int64_t>(labels[static_cast<size_t>(row)]);
        const int64_t best = std::max_element(z, z + classes) - z;
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(double{z[c]} - double{z[best]});
        for (int64_t c = 0; c < classes; ++c)
          want[static_cast<size_t>(row * classes + c)] =
              scale * (std::exp(double{z[c]} - double{z[best]}) / sum - (c == label ? 1.0 : 0.0));
        loss += scale * (std::log(sum) - (double{z[label]} - double{z[best]}));
        correct += best == label ? 1.0 : 0.0;
      }
      auto gz = floats(logits), glabels = floats(labels), d = floats(rows * classes), stats = floats(2);
      const CrossEntropyLoss call{gz.data(), glabels.data(), d.data(), stats.data(), rows, classes, scale, false};
      ops->loss().cross_entropy_loss(*stream, call);
      EXPECT_LT(relative_error(d.get(), want), 1e-5) << rows << "x" << classes;
      EXPECT_NEAR(stats.get()[0], loss, 1e-5 * loss);
      EXPECT_EQ(stats.get()[1], correct);
      CrossEntropyLoss again = call;
      again.accumulate = true;
      ops->loss().cross_entropy_loss(*stream, again);
      EXPECT_NEAR(stats.get()[0], 2 * loss, 2e-5 * loss);
      EXPECT_EQ(stats.get()[1], 2 * correct);
    }
}

TEST_F(CudaOpsTest, LabelsOutsideTheClassesAreNotFinite) {
  auto logits = floats(random_floats(6, 1)), labels = floats(std::vector<float>{1, 7}), d = floats(6),
       stats = floats(2);
  ops->loss().cross_entropy_loss(*stream, {logits.data(), labels.data(), d.data(), stats.data(), 2, 3, 1.0f, false});
  EXPECT_FALSE(std::isfinite(stats.get()[0]));
}

TEST_F(CudaOpsTest, AdamFollowsTheDoubleReference) {
  constexpr float kLr = 1e-2f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;
  for (int64_t n : {1, 3, 255, 100'003, 3'000'000})
    for (int64_t skip : {0, 1, 3}) {
      const std::vector<float> start = random_floats(n, 1);
      auto w = floats(start, skip), g = floats(n, skip), m = floats(std::vector<float>(static_cast<size_t>(n)), skip),
           v = floats(std::vector<float>(static_cast<size_t>(n)), skip);
      GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{0});
      std::vector<double> want(start.begin(), start.end()), wm(static_cast<size_t>(n)), wv(static_cast<size_t>(n));
      for (int t = 1; t <= 10; ++t) {
        const std::vector<float> grads = random_floats(n, static_cast<uint32_t>(10 + t));
        g.set(grads);
        ops->optimizer().adam_step(
            *stream, {w.data(), g.data(), m.data(), v.data(), n, step.data(), kLr, kBeta1, kBeta2, kEpsilon});
        ops->elementwise().increment(*stream, step.data());
        const double correction1 = 1 - std::pow(double{kBeta1}, t), correction2 = 1 - std::pow(double{kBeta2}, t);
        for (size_t i = 0; i < want.size(); ++i) {
          wm[i] = double{kBeta1} * wm[i] + (1 - double{kBeta1}) * double{grads[i]};
          wv[i] = double{kBeta2} * wv[i] + (1 - double{kBeta2}) * double{grads[i]} * double{grads[i]};
          want[i] -= double{kLr} * (wm[i] / correction1) / (std::sqrt(wv[i] / correction2) + double{kEpsilon});
        }
      }
      EXPECT_EQ(step.get()[0], 10u);
      EXPECT_LT(relative_error(w.get(), want), 1e-5) << n << " skip " << skip;
      if (n > 1'000'000) break;
    }
}

TEST_F(CudaOpsTest, SgdWithMomentum) {
  for (int64_t n : {1, 1001, 300'000}) {
    const std::vector<float> start = random_floats(n, 1), grads = random_floats(n, 2);
    auto w = floats(start), g = floats(grads), u = floats(std::vector<float>(static_cast<size_t>(n)));
    std::vector<double> want(start.begin(), start.end()), wu(static_cast<size_t>(n));
    for (int t = 0; t < 5; ++t) {
      ops->optimizer().sgd_step(*stream, {w.data(), g.data(), u.data(), n, 0.1f, 0.9f});
      for (size_t i = 0; i < want.size(); ++i) {
        wu[i] = double{0.9f} * wu[i] + grads[i];
        want[i] -= double{0.1f} * wu[i];
      }
    }
    EXPECT_LT(relative_error(w.get(), want), 1e-5);
  }
}

TEST_F(CudaOpsTest, GathersRows) {
  for (int64_t width : {1, 3, 4, 50, 847, 4800})
    for (int64_t rows : {1, 64, 8192}) {
      constexpr int64_t kTableRows = 500;
      const std::vector<float> table = random_floats(kTableRows * width, 1);
      std::vector<int32_t> indices(static_cast<size_t>(rows));
      std::mt19937 engine(1);
      for (int32_t& index : indices) index = static_cast<int32_t>(engine() % kTableRows);
      auto gtable = floats(table), out = floats(rows * width);
      GpuArray<int32_t> gindices(*device, *stream, indices);
      ops->elementwise().gather_rows(*stream, gtable.data(), gindices.data(), out.data(), rows, width);
      const std::vector<float> got = out.get();
      for (int64_t row = 0; row < rows; ++row)
        ASSERT_TRUE(std::equal(&got[static_cast<size_t>(row * width)], &got[static_cast<size_t>(row * width)] + width,
                               &table[static_cast<size_t>(indices[static_cast<size_t>(row)] * width)]))
            << rows << "x" << width << " row " << row;
    }
}

// A small training step, so that every op meets every other inside one graph.
TEST_F(CudaOpsTest, GraphReplayEqualsEagerCalls) {
  constexpr int64_t kBatch = 64, kIn = 50, kHidden = 96, kOut = 3;
  constexpr int64_t kParams = kHidden * kIn + kHidden + kOut * kHidden + kOut;
  const std::vector<float> start = random_floats(kParams, 1, -0.1f, 0.1f), zeros(static_cast<size_t>(kParams));
  auto x = floats(random_floats(kBatch * kIn, 2)), target = floats(random_floats(kBatch * kOut, 3));
  auto w = floats(start), g = floats(kParams), m = floats(zeros), v = floats(zeros);
  auto h = floats(kBatch * kHidden), y = floats(kBatch * kOut), dh = floats(kBatch * kHidden),
       dy = floats(kBatch * kOut);
  auto stats = floats(2);
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{0});
  const int64_t mask_bytes = ops->gemm().mask_bytes(kBatch, kHidden);
  GpuArray<uint8_t> mask(*device, *stream, std::max<int64_t>(mask_bytes, 1));
  uint8_t* bits = mask_bytes ? mask.data() : nullptr;
  float* w1 = w.data();
  float* b1 = w1 + kHidden * kIn;
  float* w2 = b1 + kHidden;
  float* b2 = w2 + kOut * kHidden;
  const auto grad = [&](float* p) { return g.data() + (p - w.data()); };
  const auto train = [&] {
    ops->gemm().dense_forward(
        *stream, {x.data(), w1, b1, h.data(), kBatch, kIn, kHidden, true, bits, {0.25, 5, step.data(), 0, 0}});
    ops->gemm().dense_forward(*stream, {h.data(), w2, b2, y.data(), kBatch, kHidden, kOut, false});
    ops->loss().mse_loss(
        *stream, {y.data(), target.data(), dy.data(), stats.data(), kBatch, kOut, 1.0f / (kBatch * kOut), false});
    ops->gemm().dense_backward_weight(*stream, {h.data(), dy.data(), grad(w2), grad(b2), kBatch, kHidden, kOut, false});
    ops->gemm().dense_backward_input(
        *stream, {dy.data(), w2, h.data(), dh.data(), grad(b1), kBatch, kHidden, kOut, 1.0f / 0.75f, false, bits});
    ops->gemm().dense_backward_weight(*stream, {x.data(), dh.data(), grad(w1), nullptr, kBatch, kIn, kHidden, false});
    ops->optimizer().adam_step(
        *stream, {w.data(), g.data(), m.data(), v.data(), kParams, step.data(), 1e-3f, 0.9f, 0.999f, 1e-8f});
    ops->elementwise().increment(*stream, step.data());
  };
  const auto reset = [&] { w.set(start), m.set(zeros), v.set(zeros), step.set({0}); };
  train();  // chooses algorithms
  finish();
  reset();
  for (int i = 0; i < 5; ++i) train();
  const std::vector<float> eager = w.get();
  const float eager_loss = stats.get()[0];
  reset();
  auto graph = device->capture(*stream, train);
  EXPECT_EQ(w.get(), start) << "a capture ran the work";
  for (int i = 0; i < 5; ++i) graph->launch(*stream);
  EXPECT_EQ(w.get(), eager);
  EXPECT_EQ(stats.get()[0], eager_loss);
  EXPECT_EQ(step.get()[0], 5u);
}

TEST_F(CudaOpsTest, FirstUseInsideACaptureWorks) {
  auto x = floats(random_floats(64 * 32, 1)), w = floats(random_floats(16 * 32, 2)), y = floats(64 * 16);
  auto fresh = device->make_stream("fresh");
  auto graph = device->capture(*fresh, [&] {
    ops->gemm().dense_forward(*fresh, {x.data(), w.data(), nullptr, y.data(), 64, 32, 16, true});
  });
  graph->launch(*fresh);
  fresh->synchronize(Deadline::after_seconds(60));
  const std::vector<float> captured = y.get();
  ops->gemm().dense_forward(*stream, {x.data(), w.data(), nullptr, y.data(), 64, 32, 16, true});
  EXPECT_LT(relative_error(captured, std::vector<double>(captured.begin(), captured.end())), 1e-6);
  const std::vector<float> eager = y.get();
  EXPECT_LT(relative_error(captured, std::vector<double>(eager.begin(), eager.end())), 1e-5);
}

}  // namespace
}  // namespace amdahl
