// MatMulOps of the CPU: every epilogue against float64, on random data of odd shapes and of shapes with aliasing rows.
#include "cpu_ops_fixture.h"
#include "errors.h"
#include "reference_sequence.h"

namespace amdahl::test {
namespace {

struct ProductShape {
  int64_t m, n, k;
};
// Tails of every vector width; several blocks of rows, columns and terms, and rows enough for a transposed copy.
const ProductShape kProductShapes[] = {{1, 1, 1},     {3, 7, 5},      {5, 33, 31},    {17, 65, 129},
                                       {64, 37, 512}, {16, 512, 512}, {300, 1030, 9}, {1026, 3, 513}};

/// A matrix stored with `stride` >= width, the padding filled with NaN, and its dense float64 copy.
struct Stored {
  std::vector<float> values;
  int64_t rows, width, stride;

  std::vector<double> dense() const {
    std::vector<double> result;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < width; ++i)
        result.push_back(static_cast<double>(values[static_cast<size_t>(r * stride + i)]));
    return result;
  }
  /// The padding as `from` had it: kernels must not write there.
  void expect_padding_kept() const {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = width; i < stride; ++i) EXPECT_TRUE(std::isnan(values[static_cast<size_t>(r * stride + i)]));
  }
};

class CpuMatMulTest : public CpuOpsTest {
 protected:
  Stored stored(int64_t rows, int64_t width, int64_t padding) {
    Stored result{std::vector<float>(static_cast<size_t>(rows * (width + padding)), NAN), rows, width, width + padding};
    const std::vector<float> drawn = random(rows * width);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(drawn.begin() + r * width, width, result.values.begin() + r * result.stride);
    return result;
  }
  void run(const MatMul& call) {
    ops_->matmul().matmul(*stream_, call);
    finish();
  }

  template <class Test>
  void for_each_product(const Test& test) {
    for (const ProductShape& s : kProductShapes)
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true})
          for (const int64_t padding : {0, 5}) {
            SCOPED_TRACE(::testing::Message() << s.m << " x " << s.n << " x " << s.k << (transpose_a ? " T" : " N")
                                              << (transpose_b ? "T" : "N") << " padding " << padding);
            const Stored a = transpose_a ? stored(s.k, s.m, padding) : stored(s.m, s.k, padding);
            const Stored b = transpose_b ? stored(s.n, s.k, padding) : stored(s.k, s.n, padding);
            Stored c = stored(s.m, s.n, padding);
            const std::vector<double> wanted =
                reference::matmul(a.dense(), b.dense(), s.m, s.n, s.k, transpose_a, transpose_b);
            MatMul call{a.values.data(), b.values.data(), c.values.data(), s.m, s.n, s.k, transpose_a, transpose_b};
            if (padding > 0) call.stride_a = a.stride, call.stride_b = b.stride, call.stride_c = c.stride;
            test(call, a, c, wanted);
            c.expect_padding_kept();
          }
  }
};

TEST_F(CpuMatMulTest, Plain) {
  for_each_product([&](MatMul call, const Stored&, Stored& c, const std::vector<double>& product) {
    for (const bool accumulate : {true, false}) {
      const std::vector<double> before = c.dense();
      call.accumulate = accumulate;
      run(call);
      std::vector<float> ours;
      for (const double value : c.dense()) ours.push_back(static_cast<float>(value));
      EXPECT_LT(error_of(ours, accumulate ? reference::sum_of(product, before) : product), kTolerance);
    }
  });
}

std::vector<float> narrowed(const std::vector<double>& values) { return {values.begin(), values.end()}; }

TEST_F(CpuMatMulTest, Bias) {
  for_each_product([&](MatMul call, const Stored&, Stored& c, const std::vector<double>& product) {
    const std::vector<float> bias = random(call.n);
    call.epilogue = MatMulEpilogue::bias;
    call.bias = bias.data();
    run(call);
    EXPECT_LT(error_of(narrowed(c.dense()), reference::add_bias(product, widened(bias))), kTolerance);
  });
}

TEST_F(CpuMatMulTest, BiasGelu) {
  for_each_product([&](MatMul call, const Stored&, Stored& c, const std::vector<double>& product) {
    const std::vector<float> bias = random(call.n);
    std::vector<float> aux(static_cast<size_t>(call.m * call.n), NAN);
    call.epilogue = MatMulEpilogue::bias_gelu;
    call.bias = bias.data();
    call.aux = aux.data();
    run(call);
    const std::vector<double> before = reference::add_bias(product, widened(bias));
    EXPECT_LT(error_of(aux, before), kTolerance);
    EXPECT_LT(error_of(narrowed(c.dense()), reference::gelu(before)), kTolerance);
  });
}

TEST_F(CpuMatMulTest, GeluGradient) {
  for_each_product([&](MatMul call, const Stored&, Stored& c, const std::vector<double>& product) {
    std::vector<float> aux = random(call.m * call.n), dbias = random(call.n);
    const std::vector<double> wanted = reference::gelu_gradient(product, widened(aux));
    call.epilogue = MatMulEpilogue::gelu_gradient;
    call.aux = aux.data();
    run(call);
    EXPECT_LT(error_of(narrowed(c.dense()), wanted), kTolerance);
    call.dbias = dbias.data();
    for (const bool accumulate : {true, false}) {
      const std::vector<double> before = accumulate ? widened(dbias) : reference::zeros(call.n);
      call.accumulate_dbias = accumulate;
      run(call);
      // sums of up to 1026 terms of both signs
      EXPECT_LT(error_of(dbias, reference::sum_of(before, reference::column_sums(wanted, call.n))), 2e-5);
    }
  });
}

TEST_F(CpuMatMulTest, SumRowsOfA) {
  for_each_product([&](MatMul call, const Stored& a, Stored& c, const std::vector<double>& product) {
    std::vector<float> dbias = random(call.m);
    const std::vector<double> ones(static_cast<size_t>(call.k), 1.0);
    const std::vector<double> sums = reference::matmul(a.dense(), ones, call.m, 1, call.k, call.transpose_a, false);
    call.epilogue = MatMulEpilogue::sum_rows_of_a;
    call.dbias = dbias.data();
    for (const bool accumulate : {true, false}) {
      const std::vector<double> before = c.dense(),
                                before_sums = accumulate ? widened(dbias) : reference::zeros(call.m);
      call.accumulate = call.accumulate_dbias = accumulate;
      run(call);
      EXPECT_LT(error_of(narrowed(c.dense()), accumulate ? reference::sum_of(product, before) : product), kTolerance);
      EXPECT_LT(error_of(dbias, reference::sum_of(before_sums, sums)), 2e-5);
    }
    call.dbias = nullptr;
    run(call);
  });
}

// Weights of more than one row block times many rows: the epilogue must reach every row.
TEST_F(CpuMatMulTest, ManyRows) {
  constexpr int64_t kRows = 1537, kIn = 24, kOut = 200;
  const std::vector<float> x = random(kRows * kIn), w = random(kOut * kIn), bias = random(kOut);
  std::vector<float> aux(static_cast<size_t>(kRows * kOut)), y = aux;
  MatMul call{x.data(), w.data(), y.data(), kRows, kOut, kIn, false, true};
  call.epilogue = MatMulEpilogue::bias_gelu;
  call.bias = bias.data();
  call.aux = aux.data();
  run(call);
  const std::vector<double> before =
      reference::add_bias(reference::matmul(widened(x), widened(w), kRows, kOut, kIn, false, true), widened(bias));
  EXPECT_LT(error_of(aux, before), kTolerance);
  EXPECT_LT(error_of(y, reference::gelu(before)), kTolerance);
  const std::vector<float> first_aux = aux, first = y;
  run(call);
  EXPECT_EQ(aux, first_aux);
  EXPECT_EQ(y, first);
}

TEST_F(CpuMatMulTest, ConvertAndColumnSums) {
  const std::vector<float> x = random(9 * 13);
  std::vector<float> copy(x.size()), sums = random(13);
  const std::vector<double> before = widened(sums);
  ops_->matmul().convert(*stream_, x.data(), copy.data(), DType::f32, 9 * 13);
  ops_->matmul().column_sums(*stream_, x.data(), DType::f32, sums.data(), 9, 13, true);
  finish();
  EXPECT_EQ(copy, x);
  const std::vector<double> wanted = reference::column_sums(widened(x), 13);
  EXPECT_LT(error_of(sums, reference::sum_of(wanted, before)), kTolerance);
  ops_->matmul().column_sums(*stream_, x.data(), DType::f32, sums.data(), 9, 13, false);
  finish();
  EXPECT_LT(error_of(sums, wanted), kTolerance);
}

TEST_F(CpuMatMulTest, RefusesOtherTypesAndAccumulatedEpilogues) {
  MatMul call{nullptr, nullptr, nullptr, 1, 1, 1};
  call.type = DType::bf16;
  EXPECT_EQ(amdahl::error_of([&] { run(call); }).cause(), Cause::internal);
  call.type = DType::f32;
  call.c_type = DType::f16;
  EXPECT_EQ(amdahl::error_of([&] { run(call); }).cause(), Cause::internal);
  call.c_type = DType::f32;
  call.accumulate = true;
  call.epilogue = MatMulEpilogue::bias;
  EXPECT_EQ(amdahl::error_of([&] { run(call); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->matmul().convert(*stream_, nullptr, nullptr, DType::bf16, 1); }).cause(),
            Cause::internal);
}

}  // namespace
}  // namespace amdahl::test
