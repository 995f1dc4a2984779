// Dense products against a double-precision reference: shapes, math modes, both ways of fusing, any alignment.
#include <algorithm>
#include <ostream>

#include "gpu_support.h"

namespace amdahl {
namespace {

struct Shape {
  int64_t batch, in, out;
  int64_t skip = 0;  // floats by which weights and their gradients miss the allocation's alignment
};

struct DenseCase {
  Shape shape;
  OpsOptions options;
};

std::ostream& operator<<(std::ostream& out, const DenseCase& c) {
  return out << c.shape.batch << "x" << c.shape.in << "x" << c.shape.out << "+" << c.shape.skip << " "
             << to_string(c.options.math) << (c.options.deterministic ? " deterministic" : "");
}

double tolerance(MathMode math) { return math == MathMode::fp32 ? 1e-5 : math == MathMode::tf32 ? 1.5e-3 : 1.5e-2; }

/// c[m,n] += a[m,k] b[k,n] in double.
std::vector<double> product(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t n, int64_t k,
                            bool transpose_a, bool transpose_b) {
  std::vector<double> c(static_cast<size_t>(m * n), 0.0), row_b(static_cast<size_t>(k * n));
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j)
      row_b[static_cast<size_t>(p * n + j)] = b[static_cast<size_t>(transpose_b ? j * k + p : p * n + j)];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      const double scale = a[static_cast<size_t>(transpose_a ? p * m + i : i * k + p)];
      double* out = &c[static_cast<size_t>(i * n)];
      const double* in = &row_b[static_cast<size_t>(p * n)];
      for (int64_t j = 0; j < n; ++j) out[j] += scale * in[j];
    }
  return c;
}

class CudaDenseTest : public GpuTest, public ::testing::WithParamInterface<DenseCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device) ops = make_cuda_ops(*device, GetParam().options);
  }
  double limit() const { return tolerance(GetParam().options.math); }
  /// Bits of the mask of an activation, row by row.
  std::vector<bool> mask_of(const std::vector<uint8_t>& bytes, int64_t batch, int64_t width) const {
    std::vector<bool> bits;
    for (int64_t row = 0; row < batch; ++row)
      for (int64_t column = 0; column < width; ++column) {
        const int64_t bit = row * mask_row_bits(width) + column;
        bits.push_back((bytes[static_cast<size_t>(bit / 8)] >> (bit % 8) & 1) != 0);
      }
    return bits;
  }
  std::unique_ptr<Ops> ops;
};

TEST_P(CudaDenseTest, Forward) {
  const auto [batch, in, out, skip] = GetParam().shape;
  const std::vector<float> x = random_floats(batch * in, 1), w = random_floats(out * in, 2),
                           bias = random_floats(out, 3);
  auto gx = floats(x), gw = floats(w, skip), gbias = floats(bias, skip);
  const std::vector<double> plain = product(x, w, batch, out, in, false, true);
  for (bool relu : {false, true})
    for (bool with_bias : {false, true}) {
      std::vector<double> want = plain;
      for (size_t i = 0; i < want.size(); ++i) {
        if (with_bias) want[i] += bias[i % static_cast<size_t>(out)];
        if (relu) want[i] = std::max(want[i], 0.0);
      }
      const int64_t mask_bytes = relu ? ops->gemm().mask_bytes(batch, out) : 0;
      GpuArray<uint8_t> mask(*device, *stream, std::max<int64_t>(mask_bytes, 1));
      auto y = floats(batch * out);
      ops->gemm().dense_forward(*stream, {gx.data(), gw.data(), with_bias ? gbias.data() : nullptr, y.data(), batch, in,
                                          out, relu, mask_bytes ? mask.data() : nullptr});
      const std::vector<float> got = y.get();
      EXPECT_LT(relative_error(got, want), limit()) << "relu " << relu << " bias " << with_bias;
      if (mask_bytes == 0) continue;
      const std::vector<bool> bits = mask_of(mask.get(), batch, out);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(bits[i], got[i] != 0.0f) << "element " << i;
    }
}

TEST_P(CudaDenseTest, BackwardInput) {
  const auto [batch, in, out, skip] = GetParam().shape;
  const float scale = 1.25f;
  const std::vector<float> dy = random_floats(batch * out, 4), w = random_floats(out * in, 5);
  auto gdy = floats(dy), gw = floats(w, skip), gactive = floats(batch * in);
  const int64_t mask_bytes = ops->gemm().mask_bytes(batch, in);
  GpuArray<uint8_t> mask(*device, *stream, std::max<int64_t>(mask_bytes, 1));
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{7});
  constexpr int64_t kBelow = 8;  // width of the layer below the one whose output masks
  auto below = floats(random_floats(batch * kBelow, 6)), below_w = floats(random_floats(in * kBelow, 12));
  ops->gemm().dense_forward(*stream, {below.data(),
                                      below_w.data(),
                                      nullptr,
                                      gactive.data(),
                                      batch,
                                      kBelow,
                                      in,
                                      true,
                                      mask_bytes ? mask.data() : nullptr,
                                      {0.2, 11, step.data(), 1, 0}});
  const std::vector<float> active = gactive.get();
  const std::vector<double> plain = product(dy, w, batch, in, out, false, false);
  for (bool masked : {false, true})
    for (bool use_mask : {false, true})
      for (bool sums : {false, true})
        for (bool accumulate : {false, true}) {
          if (use_mask && (!masked || mask_bytes == 0)) continue;
          const std::vector<float> before = random_floats(in, 9);
          std::vector<double> want(plain.size()), want_sums(static_cast<size_t>(in), 0.0);
          if (accumulate) want_sums.assign(before.begin(), before.end());
          for (size_t i = 0; i < want.size(); ++i) {
            want[i] = masked && active[i] == 0.0f ? 0.0 : scale * plain[i];
            want_sums[i % static_cast<size_t>(in)] += want[i];
          }
          auto dx = floats(batch * in), dbias = accumulate ? floats(before, skip) : floats(in, skip);
          ops->gemm().dense_backward_input(*stream, {gdy.data(), gw.data(), masked ? gactive.data() : nullptr,
                                                     dx.data(), sums ? dbias.data() : nullptr, batch, in, out, scale,
                                                     accumulate, use_mask ? mask.data() : nullptr});
          const std::string what = std::string(masked ? "masked " : "") + (use_mask ? "by bits " : "") +
                                   (sums ? "sums " : "") + (accumulate ? "accumulate" : "");
          EXPECT_LT(relative_error(dx.get(), want), limit()) << what;
          if (sums) {
            EXPECT_LT(relative_error(dbias.get(), want_sums), 4 * limit()) << what;
          }
        }
}

TEST_P(CudaDenseTest, BackwardWeight) {
  const auto [batch, in, out, skip] = GetParam().shape;
  const std::vector<float> x = random_floats(batch * in, 7), dy = random_floats(batch * out, 8);
  auto gx = floats(x), gdy = floats(dy);
  const std::vector<double> plain = product(dy, x, out, in, batch, true, false);
  for (bool sums : {false, true})
    for (bool accumulate : {false, true}) {
      const std::vector<float> before = random_floats(out * in, 10), before_sums = random_floats(out, 11);
      std::vector<double> want = plain, want_sums(static_cast<size_t>(out), 0.0);
      for (size_t i = 0; i < want.size() && accumulate; ++i) want[i] += before[i];
      for (size_t i = 0; i < dy.size(); ++i) want_sums[i % static_cast<size_t>(out)] += dy[i];
      for (size_t i = 0; i < want_sums.size() && accumulate; ++i) want_sums[i] += before_sums[i];
      auto dw = accumulate ? floats(before, skip) : floats(out * in, skip);
      auto dbias = accumulate ? floats(before_sums, skip) : floats(out, skip);
      ops->gemm().dense_backward_weight(
          *stream, {gx.data(), gdy.data(), dw.data(), sums ? dbias.data() : nullptr, batch, in, out, accumulate});
      EXPECT_LT(relative_error(dw.get(), want), limit()) << "sums " << sums << " accumulate " << accumulate;
      if (sums) {
        EXPECT_LT(relative_error(dbias.get(), want_sums), 4 * limit()) << "accumulate " << accumulate;
      }
      EXPECT_EQ(gdy.get(), dy) << "dy was written";
    }
  if (out < 2) return;
  const int64_t first = out / 2, part = out - first;  // the upper outputs by themselves
  for (const int reserved_sms : {0, 16}) {
    auto dw = floats(part * in);
    ops->gemm().dense_backward_weight(
        *stream, {gx.data(), gdy.data() + first, dw.data(), nullptr, batch, in, part, false, out, reserved_sms});
    EXPECT_LT(relative_error(dw.get(), {plain.begin() + first * in, plain.end()}), limit())
        << "a part of the outputs, " << reserved_sms << " multiprocessors reserved";
  }
}

TEST_P(CudaDenseTest, RerunsAreBitEqualWhenDeterministic) {
  if (!GetParam().options.deterministic) GTEST_SKIP() << "this case makes no promise about bits";
  const auto [batch, in, out, skip] = GetParam().shape;
  auto x = floats(random_floats(batch * in, 1)), w = floats(random_floats(out * in, 2), skip);
  auto dy = floats(random_floats(batch * out, 3));
  const auto run = [&](Ops& with) {
    auto y = floats(batch * out), dx = floats(batch * in), dw = floats(out * in), dbias = floats(out),
         sums = floats(in);
    with.gemm().dense_forward(*stream, {x.data(), w.data(), nullptr, y.data(), batch, in, out, true});
    with.gemm().dense_backward_input(
        *stream, {dy.data(), w.data(), x.data(), dx.data(), sums.data(), batch, in, out, 1.0f, false});
    with.gemm().dense_backward_weight(*stream, {x.data(), dy.data(), dw.data(), dbias.data(), batch, in, out, false});
    std::vector<float> all = y.get();
    for (auto* array : {&dx, &dw, &dbias, &sums})
      for (float value : array->get()) all.push_back(value);
    return all;
  };
  const std::vector<float> first = run(*ops);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(*ops), first);
  auto fresh = make_cuda_ops(*device, GetParam().options);
  EXPECT_EQ(run(*fresh), first);
}

std::vector<DenseCase> cases() {
  const std::vector<Shape> shapes{{1, 847, 256},   {1, 3, 1},         {64, 847, 256},   {64, 256, 128},
                                  {64, 64, 3},     {100, 128, 64},    {100, 50, 256},   {7, 5, 9},
                                  {8192, 64, 3},   {8192, 128, 64},   {64, 1024, 1024}, {64, 4800, 1024},
                                  {1000, 255, 33}, {64, 256, 128, 1}, {33, 64, 256, 3}, {3000, 4, 2},
                                  {1028, 516, 268}};  // the last: dy copied along the batch
  std::vector<DenseCase> all;
  for (const Shape& shape : shapes)
    for (MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::bf16})
      for (bool deterministic : {false, true}) all.push_back({shape, {math, deterministic}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaDenseTest, ::testing::ValuesIn(cases()));

}  // namespace
}  // namespace amdahl
