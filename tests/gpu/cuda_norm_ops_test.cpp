// Layer normalisation and residual additions against float64 references, for every type and pair of types.
#include <algorithm>

#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;

struct NormShape {
  int64_t rows, width, skip = 0;
};

class CudaNormOpsTest : public TypedOpsTest {
 protected:
  // Widths on both sides of every change of the kernel, and rows that do not fill the last block.
  static std::vector<NormShape> shapes() {
    return {{1, 8},    {3, 5},     {700, 768}, {33, 1024},     {19, 1032}, {9, 4096},   {5, 4104},
            {3, 8192}, {17, 2047}, {6, 2051},  {2500, 192, 1}, {4, 8191},  {20'000, 64}};
  }
  std::vector<DType> types() const {
    return type() == DType::f32 ? std::vector<DType>{DType::f32} : std::vector<DType>{type(), DType::f32};
  }
};

// Sums of up to 8,192 f32 values in parts of at most 256, each sum within 1e-6 of its terms' magnitude.
constexpr double kSumLimit = 2e-6;

TEST_P(CudaNormOpsTest, Forward) {
  for (const NormShape& s : shapes())
    for (const DType y_type : types())
      for (const int which : {0, 1, 2}) {  // without delta; with it; with it, in place
        const std::vector<float> x = random_floats(s.rows * s.width, 1, -3.0f, 5.0f),
                                 delta = typed_floats(s.rows * s.width, 2, type()), gamma = random_floats(s.width, 3),
                                 beta = random_floats(s.width, 4);
        auto gx = floats(x, s.skip), ggamma = floats(gamma), gbeta = floats(beta), sum = floats(s.rows * s.width);
        auto mean = floats(s.rows), rstd = floats(s.rows);
        TypedArray gdelta = typed(delta), y = typed(y_type, s.rows * s.width);
        LayerNormForward call{};
        call.x = gx.data(), call.gamma = ggamma.data(), call.beta = gbeta.data(), call.y = y.data();
        call.mean = mean.data(), call.rstd = rstd.data();
        call.rows = s.rows, call.width = s.width, call.y_type = y_type;
        if (which > 0) call.delta = gdelta.data(), call.type = type(), call.sum = which == 2 ? gx.data() : sum.data();
        ops->norm().layer_norm_forward(*stream, call);
        Values want_sum = to_doubles(x);
        if (which > 0) want_sum = reference::sum_of(want_sum, to_doubles(delta));
        const auto want = reference::layer_norm(want_sum, to_doubles(gamma), to_doubles(beta));
        const std::string what =
            std::to_string(s.rows) + "x" + std::to_string(s.width) + " case " + std::to_string(which);
        EXPECT_LT(relative_error(y.get(), want.y), 1e-5 + unit_of(y_type)) << what;
        EXPECT_LT(relative_error(mean.get(), want.mean), kSumLimit) << what;
        EXPECT_LT(relative_error(rstd.get(), want.rstd), kSumLimit) << what;
        if (which > 0) {
          EXPECT_LT(relative_error((which == 2 ? gx : sum).get(), want_sum), 1e-7) << what;
        }
      }
}

TEST_P(CudaNormOpsTest, Backward) {
  for (const NormShape& s : shapes())
    for (const DType dy_type : types())
      for (const int which : {0, 1, 2, 3}) {  // bits: a residual in place and a typed copy; accumulate
        const bool residual = (which & 1) != 0, accumulate = (which & 2) != 0;
        const std::vector<float> x = random_floats(s.rows * s.width, 1, -3.0f, 5.0f), gamma = random_floats(s.width, 3),
                                 dy = typed_floats(s.rows * s.width, 5, dy_type),
                                 d_residual = random_floats(s.rows * s.width, 6), old = random_floats(s.width, 7);
        const auto forward = reference::layer_norm(to_doubles(x), Values(gamma.size(), 1.0), Values(gamma.size(), 0.0));
        auto gx = floats(x, s.skip), ggamma = floats(gamma), dgamma = floats(old), dbeta = floats(old);
        auto mean = floats(std::vector<float>(forward.mean.begin(), forward.mean.end())),
             rstd = floats(std::vector<float>(forward.rstd.begin(), forward.rstd.end()));
        auto dx = residual ? floats(d_residual) : floats(s.rows * s.width);
        TypedArray gdy = typed(dy_type, dy), copy = typed(s.rows * s.width);
        LayerNormBackward call{};
        call.dy = gdy.data(), call.x = gx.data(), call.gamma = ggamma.data(), call.mean = mean.data();
        call.rstd = rstd.data(), call.dx = dx.data(), call.dgamma = dgamma.data(), call.dbeta = dbeta.data();
        call.rows = s.rows, call.width = s.width, call.type = type(), call.dy_type = dy_type;
        call.accumulate = accumulate;
        if (residual) call.d_residual = dx.data(), call.dx_typed = copy.data();
        ops->norm().layer_norm_backward(*stream, call);
        auto want = reference::layer_norm_gradients(to_doubles(dy), to_doubles(x), to_doubles(gamma));
        if (residual) want.dx = reference::sum_of(want.dx, to_doubles(d_residual));
        if (accumulate) {
          want.dgamma = reference::sum_of(want.dgamma, to_doubles(old));
          want.dbeta = reference::sum_of(want.dbeta, to_doubles(old));
        }
        const std::string what =
            std::to_string(s.rows) + "x" + std::to_string(s.width) + " case " + std::to_string(which);
        EXPECT_LT(relative_error(dx.get(), want.dx), 1e-5) << what;
        if (residual) {
          EXPECT_LT(relative_error(copy.get(), want.dx), 1e-5 + unit_of(type())) << what;
        }
        EXPECT_LT(relative_error(dgamma.get(), want.dgamma), 1e-5) << what;
        EXPECT_LT(relative_error(dbeta.get(), want.dbeta), 1e-5) << what;
      }
}

// A model may begin with a normalisation: the gradient of its features is not wanted.
TEST_P(CudaNormOpsTest, BackwardWithoutDx) {
  constexpr int64_t kRows = 37, kWidth = 100;
  auto x = floats(random_floats(kRows * kWidth, 1)), gamma = floats(random_floats(kWidth, 2));
  auto mean = floats(random_floats(kRows, 3)), rstd = floats(random_floats(kRows, 4));
  TypedArray dy = typed(typed_floats(kRows * kWidth, 5, type()));
  auto dx = floats(kRows * kWidth);
  std::vector<std::vector<float>> runs;
  for (const bool with_dx : {true, false}) {
    auto dgamma = floats(kWidth), dbeta = floats(kWidth);
    LayerNormBackward call{};
    call.dy = dy.data(), call.x = x.data(), call.gamma = gamma.data(), call.mean = mean.data();
    call.rstd = rstd.data(), call.dx = with_dx ? dx.data() : nullptr;
    call.dgamma = dgamma.data(), call.dbeta = dbeta.data(), call.rows = kRows, call.width = kWidth;
    call.dy_type = type();
    ops->norm().layer_norm_backward(*stream, call);
    runs.push_back(dgamma.get());
    runs.push_back(dbeta.get());
  }
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_EQ(runs[1], runs[3]);
}

TEST_P(CudaNormOpsTest, ResidualAdd) {
  for (const int64_t count : {1, 8, 1001, 3'000'000})
    for (const int64_t skip : {0, 1}) {
      const std::vector<float> x = random_floats(count, 1), delta = typed_floats(count, 2, type());
      auto gx = floats(x, skip);
      TypedArray gdelta = typed(delta, skip);
      ops->norm().residual_add(*stream, {gx.data(), gdelta.data(), gx.data(), count, type()});
      std::vector<float> want = x;
      for (size_t i = 0; i < want.size(); ++i) want[i] += delta[i];
      EXPECT_EQ(gx.get(), want) << count;
    }
}

TEST_P(CudaNormOpsTest, RerunsAndGraphsAreBitEqual) {
  constexpr int64_t kRows = 3000, kWidth = 768;
  auto x = floats(random_floats(kRows * kWidth, 1)), gamma = floats(random_floats(kWidth, 2)),
       beta = floats(random_floats(kWidth, 3)), mean = floats(kRows), rstd = floats(kRows), dx = floats(kRows * kWidth),
       dgamma = floats(kWidth), dbeta = floats(kWidth);
  TypedArray y = typed(kRows * kWidth);
  LayerNormForward forward{};
  forward.x = x.data(), forward.gamma = gamma.data(), forward.beta = beta.data(), forward.y = y.data();
  forward.mean = mean.data(), forward.rstd = rstd.data();
  forward.rows = kRows, forward.width = kWidth, forward.y_type = type();
  LayerNormBackward backward{};
  backward.dy = y.data(), backward.x = x.data(), backward.gamma = gamma.data(), backward.mean = mean.data();
  backward.rstd = rstd.data(), backward.dx = dx.data(), backward.dgamma = dgamma.data(), backward.dbeta = dbeta.data();
  backward.rows = kRows, backward.width = kWidth, backward.dy_type = type();
  const auto work = [&] {
    ops->norm().layer_norm_forward(*stream, forward);
    ops->norm().layer_norm_backward(*stream, backward);
  };
  const auto clear = [&] {
    dgamma.set(std::vector<float>(kWidth, 7.0f));
    dx.set(std::vector<float>(kRows * kWidth, 7.0f));
  };
  expect_equal_reruns(work, clear, [&] {
    std::vector<float> all = y.get();
    for (const std::vector<float>& each : {dx.get(), dgamma.get(), dbeta.get(), mean.get(), rstd.get()})
      all.insert(all.end(), each.begin(), each.end());
    return all;
  });
}

TEST_P(CudaNormOpsTest, RowsThatAreTooWideAreRefused) {
  auto x = floats(8200);
  LayerNormForward call{};
  call.x = call.gamma = call.beta = x.data(), call.mean = call.rstd = x.data(), call.rows = 1, call.width = 8200;
  EXPECT_THROW(ops->norm().layer_norm_forward(*stream, call), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaNormOpsTest, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
