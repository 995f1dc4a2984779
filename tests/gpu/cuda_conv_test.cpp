// Convolutions, batch normalisation and pooling on a GPU against float64, for every type and math mode; graph
// replays; bit-equal reruns where they are promised.
#include <algorithm>

#include "reference_conv.h"
#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;
using reference::ConvSizes;

class CudaConvTest : public TypedOpsTest {
 protected:
  // Odd and even sizes, the channels of a first layer, strides, filters of 1, 3 and 5, no padding; the first has the
  // sizes of a layer that is trained.
  static std::vector<ConvSizes> sizes() {
    return {{16, 16, 16, 64, 64, 3, 1, 1}, {8, 32, 32, 3, 64, 3, 1, 1}, {3, 9, 7, 16, 24, 3, 2, 1},
            {4, 8, 8, 64, 128, 1, 2, 0},   {2, 6, 5, 8, 8, 3, 1, 0},    {2, 11, 8, 8, 16, 5, 2, 2},
            {1, 4, 4, 5, 7, 3, 1, 1},      {2, 2, 2, 32, 16, 3, 1, 1}};
  }
  ConvShape shape_of(const ConvSizes& s) const {
    return {s.rows, s.height, s.width, s.in, s.out, s.kernel, s.stride, s.padding, type()};
  }
  /// Products of inputs that the type represents, summed in f32; TF32 rounds them to 11 bits first. Winograd's
  /// transforms cost f32 a factor of about 10 of its rounding. The result is rounded to `result_type`.
  double limit(DType result_type) const {
    const double products = type() == DType::f32 && GetParam().math == MathMode::tf32 ? 1e-3 : 1e-5;
    return products + unit_of(result_type);
  }
  static std::string text_of(const ConvSizes& s) {
    return ::testing::PrintToString(std::vector<int64_t>{s.rows, s.height, s.width, s.in, s.out, s.kernel, s.stride});
  }
};

TEST_P(CudaConvTest, Forward) {
  for (const ConvSizes& s : sizes()) {
    const std::vector<float> x = typed_floats(s.x_values(), 1, type()), w = typed_floats(s.w_values(), 2, type());
    TypedArray gx = typed(x), gw = typed(w), y = typed(s.y_values());
    const auto work = [&] { ops->conv().conv_forward(*stream, {shape_of(s), gx.data(), gw.data(), y.data()}); };
    work();
    const Values wanted = reference::conv(s, to_doubles(x), to_doubles(w));
    EXPECT_LT(relative_error(y.get(), wanted), limit(type())) << text_of(s);
    y.set(std::vector<float>(static_cast<size_t>(s.y_values()), NAN));
    const auto graph = device->capture(*stream, work);
    graph->launch(*stream);
    EXPECT_LT(relative_error(y.get(), wanted), limit(type())) << text_of(s) << ", a replayed graph";
  }
}

TEST_P(CudaConvTest, BackwardData) {
  for (const ConvSizes& s : sizes())
    for (const bool accumulate : {false, true}) {
      const std::vector<float> dy = typed_floats(s.y_values(), 3, type()), w = typed_floats(s.w_values(), 4, type());
      const std::vector<float> old = typed_floats(s.x_values(), 5, type());
      TypedArray gdy = typed(dy), gw = typed(w), dx = accumulate ? typed(old) : typed(s.x_values());
      ops->conv().conv_backward_data(*stream, {shape_of(s), gdy.data(), gw.data(), dx.data(), accumulate});
      const Values wanted = reference::conv_data_gradient(s, to_doubles(dy), to_doubles(w));
      EXPECT_LT(relative_error(dx.get(), accumulate ? reference::sum_of(wanted, to_doubles(old)) : wanted),
                2 * limit(type()))
          << text_of(s) << " accumulate " << accumulate;
    }
}

TEST_P(CudaConvTest, BackwardFilter) {
  for (const ConvSizes& s : sizes())
    for (const bool accumulate : {false, true}) {
      const std::vector<float> x = typed_floats(s.x_values(), 6, type()), dy = typed_floats(s.y_values(), 7, type());
      const std::vector<float> old = random_floats(s.w_values(), 8);
      TypedArray gx = typed(x), gdy = typed(dy);
      auto dw = accumulate ? floats(old) : floats(s.w_values());
      ops->conv().conv_backward_filter(*stream, {shape_of(s), gx.data(), gdy.data(), dw.data(), accumulate});
      const Values wanted = reference::conv_filter_gradient(s, to_doubles(x), to_doubles(dy));
      // cuDNN may round a gradient of 16-bit images to their type.
      EXPECT_LT(relative_error(dw.get(), accumulate ? reference::sum_of(wanted, to_doubles(old)) : wanted),
                2 * limit(type()))
          << text_of(s) << " accumulate " << accumulate;
    }
}

TEST_P(CudaConvTest, DeterministicConvolutionsAreBitEqual) {
  if (!GetParam().deterministic) GTEST_SKIP() << "not promised in this mode";
  const ConvSizes s = sizes().front();
  TypedArray x = typed(typed_floats(s.x_values(), 1, type())), w = typed(typed_floats(s.w_values(), 2, type()));
  TypedArray dy = typed(typed_floats(s.y_values(), 3, type())), dx = typed(s.x_values());
  auto dw = floats(s.w_values());
  expect_equal_reruns(
      [&] {
        ops->conv().conv_backward_data(*stream, {shape_of(s), dy.data(), w.data(), dx.data()});
        ops->conv().conv_backward_filter(*stream, {shape_of(s), x.data(), dy.data(), dw.data()});
      },
      [&] {
        dx.set(std::vector<float>(static_cast<size_t>(s.x_values()), NAN));
        dw.set(std::vector<float>(static_cast<size_t>(s.w_values()), NAN));
      },
      [&] { return std::pair(dx.bits(), dw.get()); });
}

/// Batch normalisation of one shape, with its inputs on the host and on the GPU.
class CudaBatchNormTest : public TypedOpsTest {
 protected:
  struct Case {
    int64_t count, channels;
    bool relu, residual;
    DType y_type;
    int64_t skip = 0;  // elements that shift the alignment of x
  };
  // Channels that fill no vector, one, a part of a block's lanes, and several tiles; counts of one block and of many.
  std::vector<Case> cases() const {
    std::vector<Case> all;
    const std::vector<DType> y_types =
        type() == DType::f32 ? std::vector<DType>{DType::f32} : std::vector<DType>{type(), DType::f32};
    const std::pair<int64_t, int64_t> sizes[] = {{4, 1},    {37, 3},    {5000, 20},  {70'001, 64}, {1024, 512},
                                                 {33, 264}, {2050, 40}, {300, 1000}, {40'000, 8}};
    for (const auto& [count, channels] : sizes)
      for (const DType y_type : y_types)
        for (const bool relu : {false, true}) {
          const bool residual = relu == (channels % 8 == 0);  // either occurs with both
          all.push_back({count, channels, relu, residual, y_type, channels == 40 ? 1 : 0});
        }
    return all;
  }
  static std::string text_of(const Case& c) {
    return std::to_string(c.count) + "x" + std::to_string(c.channels) + (c.relu ? " relu" : "") +
           (c.residual ? " residual " : " ") + std::string(to_string(c.y_type));
  }

  struct Data {
    std::vector<float> x, residual, gamma, beta, mean, variance;
  };
  Data draw(const Case& c) const {
    return {typed_floats(c.count * c.channels, 1, type(), -2.0f, 6.0f),
            typed_floats(c.count * c.channels, 2, c.y_type),
            random_floats(c.channels, 3, 0.5f, 1.5f),
            random_floats(c.channels, 4),
            random_floats(c.channels, 5),
            random_floats(c.channels, 6, 0.5f, 2.0f)};
  }
  /// Arrays of a forward; running statistics start as in `d`.
  struct Arrays {
    TypedArray x, residual, y;
    GpuArray<float> gamma, beta, running_mean, running_variance, mean, rstd;
  };
  Arrays arrays(const Case& c, const Data& d) {
    return {typed(d.x, c.skip),
            typed(c.y_type, d.residual),
            typed(c.y_type, c.count * c.channels),
            floats(d.gamma),
            floats(d.beta),
            floats(d.mean),
            floats(d.variance),
            floats(c.channels),
            floats(c.channels)};
  }
  BatchNormForward forward_call(const Case& c, Arrays& a, bool training) const {
    BatchNormForward call{};
    call.x = a.x.data(), call.residual = c.residual ? a.residual.data() : nullptr, call.y = a.y.data();
    call.gamma = a.gamma.data(), call.beta = a.beta.data();
    call.running_mean = a.running_mean.data(), call.running_variance = a.running_variance.data();
    call.mean = a.mean.data(), call.rstd = a.rstd.data();
    call.count = c.count, call.channels = c.channels, call.relu = c.relu, call.training = training;
    call.type = type(), call.y_type = c.y_type;
    return call;
  }
  Values expected(const Case& c, const Data& d, const reference::ChannelMoments& moments) const {
    return reference::normalise_channels(to_doubles(d.x), moments, to_doubles(d.gamma), to_doubles(d.beta),
                                         c.residual ? to_doubles(d.residual) : Values{}, c.relu);
  }
};

// Sums in f32 of at most a few hundred values around their mean, combined in f64.
constexpr double kMomentLimit = 1e-6;

TEST_P(CudaBatchNormTest, ForwardInTraining) {
  for (const Case& c : cases()) {
    const Data d = draw(c);
    Arrays a = arrays(c, d);
    ops->conv().batch_norm_forward(*stream, forward_call(c, a, true));
    const reference::ChannelMoments moments = reference::channel_moments(to_doubles(d.x), c.channels);
    EXPECT_LT(relative_error(a.y.get(), expected(c, d, moments)), 2e-6 + unit_of(c.y_type)) << text_of(c);
    Values rstd = moments.variance, mean = moments.mean, variance = moments.variance;
    const auto count = static_cast<double>(c.count);
    for (size_t i = 0; i < rstd.size(); ++i) {
      rstd[i] = 1 / std::sqrt(moments.variance[i] + 1e-5);
      mean[i] = 0.9 * static_cast<double>(d.mean[i]) + 0.1 * moments.mean[i];
      variance[i] = 0.9 * static_cast<double>(d.variance[i]) + 0.1 * moments.variance[i] * count / (count - 1);
    }
    EXPECT_LT(relative_error(a.mean.get(), moments.mean), kMomentLimit) << text_of(c);
    EXPECT_LT(relative_error(a.rstd.get(), rstd), kMomentLimit) << text_of(c);
    EXPECT_LT(relative_error(a.running_mean.get(), mean), kMomentLimit) << text_of(c);
    EXPECT_LT(relative_error(a.running_variance.get(), variance), kMomentLimit) << text_of(c);
  }
}

TEST_P(CudaBatchNormTest, ForwardInEvaluation) {
  for (const Case& c : cases()) {
    const Data d = draw(c);
    Arrays a = arrays(c, d);
    ops->conv().batch_norm_forward(*stream, forward_call(c, a, false));
    const Values wanted = expected(c, d, {to_doubles(d.mean), to_doubles(d.variance)});
    EXPECT_LT(relative_error(a.y.get(), wanted), 2e-6 + unit_of(c.y_type)) << text_of(c);
    EXPECT_EQ(a.running_mean.get(), d.mean) << text_of(c);
    EXPECT_EQ(a.running_variance.get(), d.variance) << text_of(c);
  }
}

// The residual may be the memory of y; reruns and replayed graphs give the same bits.
TEST_P(CudaBatchNormTest, ForwardInPlaceAndRerun) {
  const Case c{70'001, 64, true, true, type()};
  const Data d = draw(c);
  Arrays a = arrays(c, d);
  BatchNormForward call = forward_call(c, a, true);
  call.y = a.residual.data();
  expect_equal_reruns([&] { ops->conv().batch_norm_forward(*stream, call); }, [&] { a.residual.set(d.residual); },
                      [&] { return std::pair(a.residual.bits(), a.mean.get()); });
  const Values wanted = expected(c, d, reference::channel_moments(to_doubles(d.x), c.channels));
  a.residual.set(d.residual);
  ops->conv().batch_norm_forward(*stream, call);
  EXPECT_LT(relative_error(a.residual.get(), wanted), 2e-6 + unit_of(type()));
}

// A mean far above the deviation costs no accuracy.
TEST_P(CudaBatchNormTest, ShiftedChannels) {
  const Case c{9000, 16, false, false, DType::f32};
  Data d = draw(c);
  for (float& value : d.x) value = rounded(value + 200.0f, type());
  Arrays a = arrays(c, d);
  ops->conv().batch_norm_forward(*stream, forward_call(c, a, true));
  const reference::ChannelMoments moments = reference::channel_moments(to_doubles(d.x), c.channels);
  Values rstd = moments.variance;
  for (double& value : rstd) value = 1 / std::sqrt(value + 1e-5);
  EXPECT_LT(relative_error(a.rstd.get(), rstd), 1e-5);
  EXPECT_LT(relative_error(a.y.get(), expected(c, d, moments)), 2e-5);  // the mean of 200 is rounded to f32
}

TEST_P(CudaBatchNormTest, Backward) {
  for (const Case& c : cases())
    for (const bool accumulate : {false, true}) {
      const Data d = draw(c);
      Arrays a = arrays(c, d);
      ops->conv().batch_norm_forward(*stream, forward_call(c, a, true));
      const std::vector<float> dy = typed_floats(c.count * c.channels, 7, c.y_type, -1.0f, 1.5f);
      const std::vector<float> second = typed_floats(c.count * c.channels, 9, c.y_type);
      const std::vector<float> old = random_floats(c.channels, 8);
      TypedArray gdy = typed(c.y_type, dy), gsecond = typed(c.y_type, second);
      TypedArray gpassed = typed(c.y_type, c.count * c.channels);
      TypedArray dx = typed(c.count * c.channels);
      auto dgamma = floats(old), dbeta = floats(old);
      BatchNormBackward call{};
      call.x = a.x.data(), call.y = c.relu && c.residual ? a.y.data() : nullptr, call.dy = gdy.data();
      call.beta = c.relu && !c.residual ? a.beta.data() : nullptr;
      call.gamma = a.gamma.data(), call.mean = a.mean.data(), call.rstd = a.rstd.data();
      call.dx = c.y_type == type() ? gdy.data() : dx.data();  // in place where the types are equal
      // With a second part of the gradient, what passes takes its memory.
      const bool two_parts = c.residual && accumulate;
      call.dy_added = two_parts ? gsecond.data() : nullptr;
      call.passed = two_parts ? gsecond.data() : c.residual ? gpassed.data() : nullptr;
      call.dgamma = dgamma.data(), call.dbeta = dbeta.data();
      call.count = c.count, call.channels = c.channels, call.relu = c.relu, call.accumulate = accumulate;
      call.type = type(), call.y_type = c.y_type;
      ops->conv().batch_norm_backward(*stream, call);
      std::vector<float> sum = dy;
      for (size_t i = 0; two_parts && i < sum.size(); ++i) sum[i] = rounded(sum[i] + second[i], c.y_type);
      const Values passed = c.relu ? reference::relu_gradient(to_doubles(sum), to_doubles(a.y.get())) : to_doubles(sum);
      auto wanted = reference::batch_norm_gradients(passed, to_doubles(d.x), to_doubles(d.gamma));
      const auto added = [&](const Values& gradient) {
        return accumulate ? reference::sum_of(gradient, to_doubles(old)) : gradient;
      };
      const std::vector<float> got = (c.y_type == type() ? gdy : dx).get();
      // With few pixels per channel most of the gradient cancels; what is left has the rounding of the whole.
      EXPECT_LT(relative_error(got, wanted.dx), 1e-5 + unit_of(type())) << text_of(c);
      EXPECT_LT(relative_error(dgamma.get(), added(wanted.dgamma)), 1e-5) << text_of(c);
      EXPECT_LT(relative_error(dbeta.get(), added(wanted.dbeta)), 1e-5) << text_of(c);
      if (c.residual) {
        EXPECT_EQ(to_doubles((two_parts ? gsecond : gpassed).get()), passed) << text_of(c);
      }
    }
}

TEST_P(CudaBatchNormTest, MaxPool) {
  const ConvSizes all[] = {{5, 56, 55, 64, 64, 3, 2, 1},
                           {3, 12, 9, 7, 7, 3, 2, 1},
                           {2, 5, 6, 24, 24, 3, 1, 1},
                           {3, 2, 1, 8, 8, 7, 2, 3},
                           {2, 8, 8, 16, 16, 1, 3, 0}};
  for (const ConvSizes& s : all)
    for (const DType other : {type(), DType::f32})
      for (const bool two_parts : {false, true}) {
        std::vector<float> x = typed_floats(s.x_values(), 1, type());
        for (float& value : x) value = std::round(2 * value);  // many pixels are equal
        const std::vector<float> dy = typed_floats(s.y_values(), 2, other), more = typed_floats(s.y_values(), 3, other);
        TypedArray gx = typed(x), dx = typed(s.x_values());
        TypedArray y(*device, *stream, other, s.y_values()), gdy(*device, *stream, other, dy),
            gmore(*device, *stream, other, more);
        const auto chosen = device->allocate(static_cast<size_t>(s.y_values()));
        const PoolWindows windows{s.rows, s.height, s.width, s.in, s.kernel, s.stride};
        auto* const places = chosen->as<uint8_t>();
        ops->conv().max_pool(*stream, {windows, gx.data(), y.data(), places, type(), other});
        ops->conv().max_pool_gradient(
            *stream, {windows, gdy.data(), two_parts ? gmore.data() : nullptr, places, dx.data(), type(), other});
        EXPECT_EQ(to_doubles(y.get()), reference::max_pool(s, to_doubles(x)));
        const Values passed = two_parts ? reference::sum_of(to_doubles(dy), to_doubles(more)) : to_doubles(dy);
        EXPECT_LT(relative_error(dx.get(), reference::max_pool_gradient(s, to_doubles(x), passed)),
                  1e-6 + unit_of(type()));
      }
}

TEST_P(CudaBatchNormTest, AveragePool) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {16, 512}, {9, 13}, {49, 24}};
  for (const auto& [pixels, channels] : sizes) {
    constexpr int64_t kRows = 67;
    const std::vector<float> x = typed_floats(kRows * pixels * channels, 1, type()),
                             dy = random_floats(kRows * channels, 2);
    TypedArray gx = typed(x), dx = typed(kRows * pixels * channels);
    auto gdy = floats(dy), y = floats(kRows * channels);
    ops->conv().average_pool(*stream, gx.data(), y.data(), kRows, pixels, channels, type());
    ops->conv().average_pool_gradient(*stream, gdy.data(), dx.data(), kRows, pixels, channels, type());
    EXPECT_LT(relative_error(y.get(), reference::average_pool(to_doubles(x), kRows, pixels, channels)), 1e-6);
    EXPECT_LT(relative_error(dx.get(), reference::average_pool_gradient(to_doubles(dy), kRows, pixels, channels)),
              1e-6 + unit_of(type()));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaConvTest, ::testing::ValuesIn(type_cases()));
INSTANTIATE_TEST_SUITE_P(Types, CudaBatchNormTest, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
