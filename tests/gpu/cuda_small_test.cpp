// Layers of few rows: forward with dropout and both gradients at once, against a double reference, for every row count
// that rounds differently and every width of the study's models. Outputs are poisoned, reruns must be bit-equal.
#include <algorithm>
#include <ostream>

#include "base/philox.h"
#include "gpu_support.h"

namespace amdahl {
namespace {

struct SmallCase {
  int64_t batch, in, out;
  MathMode math;
};

std::ostream& operator<<(std::ostream& out, const SmallCase& c) {
  return out << c.batch << "x" << c.in << "x" << c.out << " " << to_string(c.math);
}

constexpr double kDropout = 0.25;
constexpr uint64_t kSeed = 99, kStep = 5;
constexpr uint32_t kLayer = 2;
constexpr int64_t kRowOffset = 40;

class CudaSmallTest : public GpuTest, public ::testing::WithParamInterface<SmallCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device) ops = make_cuda_ops(*device, {GetParam().math, true});
  }
  /// Of the norm: rounding of both operands, and what cancellation makes of it in a result of few elements.
  double limit() const {
    const double rounding = GetParam().math == MathMode::tf32 ? 1.5e-3 : 1e-2;
    const auto [batch, in, out, math] = GetParam();
    return std::min({in * out, batch * in, batch * out}) < 16 ? 4 * rounding : rounding;
  }
  std::unique_ptr<Ops> ops;
};

/// Sum over k of a[i, k] b[j, k], given the distances between neighbours in both directions, in double.
std::vector<double> product(const float* a, int64_t a_i, int64_t a_k, const float* b, int64_t b_j, int64_t b_k,
                            int64_t m, int64_t n, int64_t num_k) {
  std::vector<double> c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < num_k; ++k) {
      const double scale = a[i * a_i + k * a_k];
      for (int64_t j = 0; j < n; ++j) c[static_cast<size_t>(i * n + j)] += scale * b[j * b_j + k * b_k];
    }
  return c;
}

TEST_P(CudaSmallTest, ForwardWithDropout) {
  const auto [batch, in, out, math] = GetParam();
  ASSERT_TRUE(ops->gemm().fuses_backward(batch));
  const std::vector<float> x = random_floats(batch * in, 1), w = random_floats(out * in, 2),
                           bias = random_floats(out, 3);
  auto gx = floats(x), gw = floats(w), gbias = floats(bias);
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{kStep});
  const std::vector<double> plain = product(x.data(), in, 1, w.data(), in, 1, batch, out, in);
  for (bool relu : {false, true})
    for (bool dropout : {false, true})
      for (bool with_bias : {false, true}) {
        if (dropout && !relu) continue;
        std::vector<double> want = plain;
        for (int64_t i = 0; i < batch * out; ++i) {
          const int64_t row = i / out, column = i % out;
          double& value = want[static_cast<size_t>(i)];
          if (with_bias) value += bias[static_cast<size_t>(column)];
          if (relu) value = std::max(value, 0.0);
          if (!dropout) continue;
          const Philox4 draw = dropout_draw(kSeed, static_cast<uint32_t>(column / 4),
                                            static_cast<uint32_t>(kRowOffset + row), kStep, kLayer);
          value = draw.v[column % 4] < dropout_keep_threshold(kDropout) ? value / (1 - kDropout) : 0.0;
        }
        DenseForward call{gx.data(), gw.data(), with_bias ? gbias.data() : nullptr, nullptr, batch, in, out, relu};
        if (dropout) call.dropout = {kDropout, kSeed, step.data(), kLayer, kRowOffset};
        auto first = floats(batch * out), second = floats(batch * out);
        GpuArray<uint8_t> mask(*device, *stream, batch * mask_row_bits(out) / 8);
        call.mask = relu ? mask.data() : nullptr;
        call.y = first.data();
        ops->gemm().dense_forward(*stream, call);
        call.y = second.data();
        ops->gemm().dense_forward(*stream, call);
        const std::vector<float> got = first.get();
        EXPECT_LT(relative_error(got, want), limit())
            << "relu " << relu << " dropout " << dropout << " bias " << with_bias;
        EXPECT_EQ(second.get(), got);
        if (!relu) continue;
        const std::vector<uint8_t> bits = mask.get();
        for (int64_t i = 0; i < batch * out; ++i) {
          const int64_t bit = i / out * mask_row_bits(out) + i % out;
          ASSERT_EQ((bits[static_cast<size_t>(bit / 8)] >> (bit % 8) & 1) != 0, got[static_cast<size_t>(i)] != 0.0f)
              << i;
        }
      }
}

struct BackwardPaths {
  bool input, masked, input_sums, weight_sums, accumulate;
};

TEST_P(CudaSmallTest, Backward) {
  const auto [batch, in, out, math] = GetParam();
  const float scale = 1.25f;
  const std::vector<float> x = random_floats(batch * in, 4), dy = random_floats(batch * out, 5),
                           w = random_floats(out * in, 6);
  std::vector<float> active = random_floats(batch * in, 7);
  for (float& value : active) value = std::max(value, 0.0f);
  const std::vector<float> old_dw = random_floats(out * in, 8), old_dw_sums = random_floats(out, 9),
                           old_dx_sums = random_floats(in, 10);
  auto gx = floats(x), gdy = floats(dy), gw = floats(w), gactive = floats(active);
  const std::vector<double> dw_product = product(dy.data(), 1, out, x.data(), 1, in, out, in, batch);
  const std::vector<double> dx_product = product(dy.data(), out, 1, w.data(), 1, in, batch, in, out);
  for (const BackwardPaths methods :
       {BackwardPaths{true, true, true, false, false}, BackwardPaths{true, true, true, true, true},
        BackwardPaths{true, false, false, true, false}, BackwardPaths{false, false, false, true, false},
        BackwardPaths{false, false, false, false, true}, BackwardPaths{true, true, false, false, true}}) {
    std::vector<double> dw = dw_product, dx = dx_product, dw_sums(static_cast<size_t>(out)),
                        dx_sums(static_cast<size_t>(in));
    for (size_t i = 0; i < dx.size(); ++i) {
      dx[i] = methods.masked && active[i] == 0.0f ? 0.0 : scale * dx[i];
      dx_sums[i % static_cast<size_t>(in)] += dx[i];
    }
    for (size_t i = 0; i < dy.size(); ++i) dw_sums[i % static_cast<size_t>(out)] += dy[i];
    if (methods.accumulate) {
      for (size_t i = 0; i < dw.size(); ++i) dw[i] += old_dw[i];
      for (size_t i = 0; i < dw_sums.size(); ++i) dw_sums[i] += old_dw_sums[i];
      for (size_t i = 0; i < dx_sums.size(); ++i) dx_sums[i] += old_dx_sums[i];
    }
    std::vector<std::vector<float>> runs;
    for (int run = 0; run < 2; ++run) {
      auto gdw = methods.accumulate ? floats(old_dw) : floats(out * in), gdx = floats(batch * in);
      auto gdw_sums = methods.accumulate ? floats(old_dw_sums) : floats(out);
      auto gdx_sums = methods.accumulate ? floats(old_dx_sums) : floats(in);
      const DenseBackwardWeight weight{
          gx.data(), gdy.data(), gdw.data(), methods.weight_sums ? gdw_sums.data() : nullptr,
          batch,     in,         out,        methods.accumulate};
      const DenseBackwardInput input{gdy.data(),
                                     gw.data(),
                                     methods.masked ? gactive.data() : nullptr,
                                     gdx.data(),
                                     methods.input_sums ? gdx_sums.data() : nullptr,
                                     batch,
                                     in,
                                     out,
                                     scale,
                                     methods.accumulate};
      ops->gemm().dense_backward(*stream, weight, methods.input ? &input : nullptr);
      std::vector<float> all;
      const auto compare = [&](GpuArray<float>& got, const std::vector<double>& want, double within, const char* what) {
        const std::vector<float> values = got.get();
        EXPECT_LT(relative_error(values, want), within)
            << what << " masked " << methods.masked << " accumulate " << methods.accumulate;
        all.insert(all.end(), values.begin(), values.end());
      };
      compare(gdw, dw, limit(), "dw");
      if (methods.weight_sums) compare(gdw_sums, dw_sums, 1e-5, "sums of dy");
      if (methods.input) compare(gdx, dx, limit(), "dx");
      if (methods.input && methods.input_sums) compare(gdx_sums, dx_sums, 3 * limit(), "sums of dx");
      runs.push_back(all);
    }
    EXPECT_EQ(runs[0], runs[1]) << "reruns differ";
  }
}

// A part of a layer's outputs: rows of dy lie further apart than they are long.
TEST_P(CudaSmallTest, WeightGradientOfAPart) {
  const auto [batch, in, out, math] = GetParam();
  if (out < 8) GTEST_SKIP() << "too narrow to be split";
  const int64_t begin = out / 8 * 4, part = out - begin;
  const std::vector<float> x = random_floats(batch * in, 11), dy = random_floats(batch * out, 12);
  auto gx = floats(x), gdy = floats(dy), dw = floats(part * in);
  const std::vector<double> want = product(dy.data() + begin, 1, out, x.data(), 1, in, part, in, batch);
  ops->gemm().dense_backward_weight(*stream,
                                    {gx.data(), gdy.data() + begin, dw.data(), nullptr, batch, in, part, false, out});
  EXPECT_LT(relative_error(dw.get(), want), limit());
}

std::vector<SmallCase> cases() {
  constexpr int64_t kShapes[][2] = {{847, 256}, {256, 128}, {128, 64},  {64, 3},  {50, 256},   {13, 37},
                                    {37, 66},   {66, 19},   {19, 5},    {1, 1},   {5, 9},      {4, 4},
                                    {33, 100},  {100, 33},  {512, 256}, {256, 3}, {1024, 512}, {512, 512}};
  std::vector<SmallCase> all;
  for (const MathMode math : {MathMode::tf32, MathMode::bf16})
    for (const int64_t batch : {1, 3, 13, 16, 26, 33, 64})
      for (const auto& [in, out] : kShapes) all.push_back({batch, in, out, math});
  for (const int64_t batch : {16, 33, 64}) {  // the reference takes its time
    all.push_back({batch, 1024, 1024, MathMode::tf32});
    all.push_back({batch, 4800, 1024, MathMode::tf32});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaSmallTest, ::testing::ValuesIn(cases()));

}  // namespace
}  // namespace amdahl
