// GEMMs of the CPU ops against plain loops in float64, on random data of odd shapes and of shapes with aliasing rows.
#include "cpu_ops_fixture.h"

namespace amdahl::test {
namespace {

struct Shape {
  int64_t batch, in, out;
};
// Tails of every vector width; 128, 512 and 1024 take the padded copies; few and many rows around their range.
const Shape kShapes[] = {{1, 1, 1},     {3, 7, 5},      {5, 33, 31},     {16, 50, 256},  {17, 129, 65},
                         {64, 512, 37}, {16, 512, 512}, {15, 1024, 130}, {40, 256, 128}, {770, 512, 3}};

template <class A, class B>
std::vector<double> product(int64_t m, int64_t n, int64_t k, const A& a, const B& b) {
  std::vector<double> c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      const double factor = a(i, p);
      for (int64_t j = 0; j < n; ++j) c[static_cast<size_t>(i * n + j)] += factor * b(p, j);
    }
  return c;
}

template <class T>
auto rows_of(const std::vector<T>& matrix, int64_t stride) {
  return [&matrix, stride](int64_t row, int64_t column) {
    return static_cast<double>(matrix[static_cast<size_t>(row * stride + column)]);
  };
}

TEST_F(CpuOpsTest, DenseForward) {
  for (const Shape& s : kShapes)
    for (const bool relu : {false, true})
      for (const bool with_bias : {false, true}) {
        const auto x = random(s.batch * s.in), w = random(s.out * s.in), bias = random(s.out);
        std::vector<float> y(static_cast<size_t>(s.batch * s.out), NAN);
        ops_->gemm().dense_forward(
            *stream_, {x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data(), s.batch, s.in, s.out, relu});
        finish();
        std::vector<double> wanted = product(s.batch, s.out, s.in, rows_of(x, s.in), [&](int64_t p, int64_t j) {
          return static_cast<double>(w[static_cast<size_t>(j * s.in + p)]);
        });
        for (size_t i = 0; i < wanted.size(); ++i) {
          if (with_bias) wanted[i] += static_cast<double>(bias[i % static_cast<size_t>(s.out)]);
          if (relu) wanted[i] = std::max(0.0, wanted[i]);
        }
        EXPECT_LT(error_of(y, wanted), kTolerance) << s.batch << " x " << s.in << " x " << s.out;
      }
}

TEST_F(CpuOpsTest, PaddedCopiesAreInTheDevicesAccount) {
  constexpr int64_t kBatch = 32, kIn = 512, kOut = 8;
  const auto x = random(kBatch * kIn), w = random(kOut * kIn);
  std::vector<float> y(static_cast<size_t>(kBatch * kOut));
  EXPECT_EQ(devices_[0]->allocated_bytes(), 0u);
  for (int repeat = 0; repeat < 2; ++repeat) {
    ops_->gemm().dense_forward(*stream_, {x.data(), w.data(), nullptr, y.data(), kBatch, kIn, kOut, false});
    finish();
    EXPECT_GE(devices_[0]->allocated_bytes(), static_cast<size_t>(kBatch * kIn) * sizeof(float));
    EXPECT_LT(devices_[0]->allocated_bytes(), 2 * static_cast<size_t>(kBatch * kIn) * sizeof(float));
  }
  stream_.reset();
  EXPECT_EQ(devices_[0]->allocated_bytes(), 0u);
}

TEST_F(CpuOpsTest, DenseBackwardInput) {
  for (const Shape& s : kShapes)
    for (const bool masked : {false, true})
      for (const bool accumulate : {false, true}) {
        const auto dy = random(s.batch * s.out), w = random(s.out * s.in), sums_before = random(s.in);
        auto activation = random(s.batch * s.in);
        for (float& v : activation) v = std::max(0.0f, v);
        const float scale = 1.25f;
        std::vector<float> dx(static_cast<size_t>(s.batch * s.in), NAN), sums = sums_before, unsummed = dx;
        DenseBackwardInput call{
            dy.data(), w.data(),  masked ? activation.data() : nullptr, dx.data(), sums.data(), s.batch, s.in, s.out,
            scale,     accumulate};
        ops_->gemm().dense_backward_input(*stream_, call);
        call.dx = unsummed.data();
        call.dbias = nullptr;
        ops_->gemm().dense_backward_input(*stream_, call);
        finish();
        std::vector<double> wanted = product(s.batch, s.in, s.out, rows_of(dy, s.out), rows_of(w, s.in));
        std::vector<double> wanted_sums = accumulate ? widened(sums_before) : std::vector<double>(sums.size(), 0.0);
        for (size_t i = 0; i < wanted.size(); ++i) {
          wanted[i] *= masked && activation[i] == 0.0f ? 0.0 : static_cast<double>(scale);
          wanted_sums[i % static_cast<size_t>(s.in)] += wanted[i];
        }
        EXPECT_LT(error_of(dx, wanted), kTolerance) << s.batch << " x " << s.in << " x " << s.out;
        EXPECT_LT(error_of(sums, wanted_sums), 1e-5) << s.batch << " x " << s.in << " x " << s.out;
        EXPECT_EQ(dx, unsummed);
      }
}

TEST_F(CpuOpsTest, DenseBackwardWeightWhole) {
  for (const Shape& s : kShapes)
    for (const bool accumulate : {false, true}) {
      const auto x = random(s.batch * s.in), dy = random(s.batch * s.out), dw_before = random(s.out * s.in),
                 db_before = random(s.out);
      std::vector<float> dw = dw_before, db = db_before;
      ops_->gemm().dense_backward_weight(*stream_,
                                         {x.data(), dy.data(), dw.data(), db.data(), s.batch, s.in, s.out, accumulate});
      finish();
      std::vector<double> wanted = product(
          s.out, s.in, s.batch,
          [&](int64_t i, int64_t p) { return static_cast<double>(dy[static_cast<size_t>(p * s.out + i)]); },
          rows_of(x, s.in));
      std::vector<double> sums(static_cast<size_t>(s.out), 0.0);
      for (size_t i = 0; i < dy.size(); ++i) sums[i % static_cast<size_t>(s.out)] += static_cast<double>(dy[i]);
      if (accumulate) {
        for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += static_cast<double>(dw_before[i]);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(db_before[i]);
      }
      EXPECT_LT(error_of(dw, wanted), kTolerance) << s.batch << " x " << s.in << " x " << s.out;
      EXPECT_LT(error_of(db, sums), 1e-5) << s.batch << " x " << s.in << " x " << s.out;
    }
}

// Some outputs of a layer by themselves: rows of dy further apart than the part is wide.
TEST_F(CpuOpsTest, DenseBackwardWeightInPartsEqualsTheWhole) {
  for (const int64_t stride : {100, 256, 300}) {
    const int64_t batch = 19, in = 45;
    const auto x = random(batch * in), dy = random(batch * stride);
    std::vector<float> whole(static_cast<size_t>(stride * in)), parts = whole, db(static_cast<size_t>(stride)),
                                                                db_parts = db;
    ops_->gemm().dense_backward_weight(*stream_,
                                       {x.data(), dy.data(), whole.data(), db.data(), batch, in, stride, false});
    for (int64_t begin = 0; begin < stride; begin += 64) {
      DenseBackwardWeight part{x.data(),
                               dy.data() + begin,
                               parts.data() + begin * in,
                               db_parts.data() + begin,
                               batch,
                               in,
                               std::min<int64_t>(64, stride - begin),
                               false,
                               stride};
      ops_->gemm().dense_backward_weight(*stream_, part);
    }
    finish();
    EXPECT_LT(error_of(parts, widened(whole)), kTolerance);
    EXPECT_EQ(db_parts, db);
  }
}

}  // namespace
}  // namespace amdahl::test
