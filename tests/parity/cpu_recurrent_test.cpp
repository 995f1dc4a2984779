// Recurrent layers on the CPU against a float64 reference, which is itself checked by central differences; and the
// activations of both builds of the kernels against float64.
#include <cmath>
#include <limits>
#include <ostream>

#include "cpu_ops_fixture.h"
#include "errors.h"
#include "ops/cpu_ops.h"
#include "ops/recurrent/cpu_recurrent_kernels.h"
#include "reference_recurrent.h"

namespace amdahl::test {
namespace {

// f32 against float64, relative in norm. A step adds a rounding error of about 1e-7 of the gates, and errors of earlier
// steps decay through the forget gates; weight gradients sum up to 400 rows.
constexpr double kRecurrentTolerance = 3e-6;

std::string text_of(const RecurrentShape& s) {
  return std::string(s.cell == RecurrentCell::lstm ? "lstm" : "gru") + " batch " + std::to_string(s.batch) + " steps " +
         std::to_string(s.steps) + " input " + std::to_string(s.input) + " hidden " + std::to_string(s.hidden) +
         (s.last_step_only ? " last step" : "");
}

/// What a test calls and reads: host memory is the device memory of CPU virtual devices.
struct Outcome {
  std::vector<float> y;
  std::vector<char> saved;
  RecurrentInputs<float> gradients;  // dx in `x`
};

class CpuRecurrentTest : public CpuOpsTest {
 protected:
  static RecurrentWeights<const float> weights_of(const RecurrentInputs<float>& in) {
    return {in.w_input.data(), in.w_hidden.data(), in.b_input.data(), in.b_hidden.data()};
  }
  /// Outputs start as NaN, or with accumulate as `before`.
  Outcome run(const RecurrentShape& s, const RecurrentInputs<float>& in, bool with_dx = true,
              const RecurrentInputs<float>* before = nullptr) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    RecurrentOps& recurrent = ops_->recurrent();
    Outcome r;
    r.y.assign(static_cast<size_t>(output_elements(s)), kNan);
    r.saved.assign(static_cast<size_t>(recurrent.saved_bytes(s)), '\xff');
    recurrent.recurrent_forward(*stream_, {s, weights_of(in), in.x.data(), r.y.data(), r.saved.data()});
    RecurrentInputs<float>& g = r.gradients;
    g = before ? *before : in;
    if (!before)
      for (auto* values : {&g.w_input, &g.w_hidden, &g.b_input, &g.b_hidden})
        std::fill(values->begin(), values->end(), kNan);
    std::fill(g.x.begin(), g.x.end(), kNan);
    recurrent.recurrent_backward(*stream_, {s,
                                            weights_of(in),
                                            {g.w_input.data(), g.w_hidden.data(), g.b_input.data(), g.b_hidden.data()},
                                            in.x.data(),
                                            r.y.data(),
                                            in.dy.data(),
                                            r.saved.data(),
                                            with_dx ? g.x.data() : nullptr,
                                            before != nullptr});
    finish();
    return r;
  }
  static void expect_close(const Outcome& ours, const RecurrentResults& wanted, const std::string& what) {
    const RecurrentInputs<float>& g = ours.gradients;
    const RecurrentInputs<double>& w = wanted.gradients;
    EXPECT_LT(error_of(ours.y, wanted.y), kRecurrentTolerance) << what << ": y";
    EXPECT_LT(error_of(g.w_input, w.w_input), kRecurrentTolerance) << what << ": w_input";
    EXPECT_LT(error_of(g.w_hidden, w.w_hidden), kRecurrentTolerance) << what << ": w_hidden";
    EXPECT_LT(error_of(g.b_input, w.b_input), kRecurrentTolerance) << what << ": b_input";
    EXPECT_LT(error_of(g.b_hidden, w.b_hidden), kRecurrentTolerance) << what << ": b_hidden";
  }
};

const RecurrentShape kRecurrentShapes[] = {
    // cell, batch, steps, input, hidden
    {RecurrentCell::lstm, 1, 1, 1, 1},      {RecurrentCell::gru, 1, 1, 1, 1},      {RecurrentCell::lstm, 1, 9, 3, 5},
    {RecurrentCell::gru, 1, 9, 3, 5},       {RecurrentCell::lstm, 7, 1, 4, 8},     {RecurrentCell::gru, 7, 1, 4, 8},
    {RecurrentCell::lstm, 5, 12, 1, 17},    {RecurrentCell::gru, 5, 12, 1, 17},    {RecurrentCell::lstm, 3, 6, 128, 33},
    {RecurrentCell::gru, 3, 6, 128, 33},    {RecurrentCell::lstm, 16, 8, 7, 128},  {RecurrentCell::gru, 16, 8, 7, 128},
    {RecurrentCell::lstm, 33, 12, 20, 100}, {RecurrentCell::gru, 33, 12, 20, 100}, {RecurrentCell::lstm, 2, 96, 16, 32},
    {RecurrentCell::gru, 2, 96, 16, 32},
};

TEST_F(CpuRecurrentTest, OutputAndGradients) {
  uint64_t seed = 1;
  for (RecurrentShape s : kRecurrentShapes)
    for (const bool last : {false, true}) {
      s.last_step_only = last;
      const auto in = random_recurrent(s, ++seed);
      const RecurrentResults wanted = recurrent_reference(s, in);
      const Outcome ours = run(s, in);
      expect_close(ours, wanted, text_of(s));
      EXPECT_LT(error_of(ours.gradients.x, wanted.gradients.x), kRecurrentTolerance) << text_of(s) << ": dx";
    }
}

TEST_F(CpuRecurrentTest, RandomShapes) {
  std::mt19937_64 generator(11);
  const auto up_to = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(generator); };
  for (int i = 0; i < 40; ++i) {
    const RecurrentShape s{
        i % 2 ? RecurrentCell::gru : RecurrentCell::lstm, up_to(20), up_to(20), up_to(40), up_to(70), up_to(2) == 1};
    const auto in = random_recurrent(s, generator());
    const RecurrentResults wanted = recurrent_reference(s, in);
    const Outcome ours = run(s, in);
    expect_close(ours, wanted, text_of(s));
    EXPECT_LT(error_of(ours.gradients.x, wanted.gradients.x), kRecurrentTolerance) << text_of(s) << ": dx";
  }
}

TEST_F(CpuRecurrentTest, AddsToGradientsAndLeavesDxOut) {
  for (const RecurrentShape& s : kRecurrentShapes) {
    const auto in = random_recurrent(s, 3), before = random_recurrent(s, 4);
    RecurrentResults wanted = recurrent_reference(s, in);
    const auto add = [](std::vector<double>& to, const std::vector<float>& from) {
      for (size_t i = 0; i < to.size(); ++i) to[i] += static_cast<double>(from[i]);
    };
    add(wanted.gradients.w_input, before.w_input), add(wanted.gradients.w_hidden, before.w_hidden);
    add(wanted.gradients.b_input, before.b_input), add(wanted.gradients.b_hidden, before.b_hidden);
    const Outcome ours = run(s, in, false, &before);
    expect_close(ours, wanted, text_of(s));
    for (const float value : ours.gradients.x) ASSERT_TRUE(std::isnan(value)) << text_of(s) << ": dx was written";
  }
}

TEST_F(CpuRecurrentTest, RerunsAndForwardWithoutBackwardAreBitEqual) {
  for (const RecurrentShape& s : kRecurrentShapes) {
    const auto in = random_recurrent(s, 5);
    const Outcome first = run(s, in), second = run(s, in);
    EXPECT_EQ(first.y, second.y) << text_of(s);
    EXPECT_EQ(first.gradients.w_input, second.gradients.w_input) << text_of(s);
    EXPECT_EQ(first.gradients.w_hidden, second.gradients.w_hidden) << text_of(s);
    EXPECT_EQ(first.gradients.b_input, second.gradients.b_input) << text_of(s);
    EXPECT_EQ(first.gradients.b_hidden, second.gradients.b_hidden) << text_of(s);
    EXPECT_EQ(first.gradients.x, second.gradients.x) << text_of(s);
    std::vector<float> y(first.y.size());
    ops_->recurrent().recurrent_forward(*stream_, {s, weights_of(in), in.x.data(), y.data(), nullptr});
    finish();
    EXPECT_EQ(first.y, y) << text_of(s);
  }
}

// Their arithmetic takes a hundred times longer; the operations after keep them.
TEST_F(CpuRecurrentTest, GradientsThatVanishAreZerosNotDenormals) {
  constexpr float kDenormal = 1e-39f;
  for (const auto cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    const RecurrentShape s{cell, 3, 6, 5, 9};
    auto in = random_recurrent(s, 6);
    for (float& value : in.dy) value *= kDenormal;
    const RecurrentInputs<float> gradients = run(s, in).gradients;
    for (const auto* values :
         {&gradients.w_input, &gradients.w_hidden, &gradients.b_input, &gradients.b_hidden, &gradients.x})
      EXPECT_EQ(*values, std::vector<float>(values->size())) << text_of(s);
    const std::vector<float> denormals(16, kDenormal);
    std::vector<float> sums(8);
    ops_->elementwise().sum_arrays(*stream_, {denormals.data(), 8, 2, sums.data(), 8});
    finish();
    EXPECT_EQ(sums, std::vector<float>(8, 2 * kDenormal));
  }
}

TEST_F(CpuRecurrentTest, OtherTypesAreRefused) {
  RecurrentShape s = kRecurrentShapes[0];
  s.type = DType::bf16;
  const Error error = amdahl::error_of([&] {
    ops_->recurrent().recurrent_forward(*stream_, {s, {}, nullptr, nullptr, nullptr});
  });
  EXPECT_EQ(error.cause(), Cause::internal);
}

// The reference: its gradients against central differences of its own output.
TEST(RecurrentReference, GradientsAgreeWithCentralDifferences) {
  constexpr double kStep = 1e-5;
  for (const auto cell : {RecurrentCell::lstm, RecurrentCell::gru})
    for (const bool last : {false, true}) {
      const RecurrentShape s{cell, 2, 4, 3, 5, last};
      const auto floats = random_recurrent(s, 17);
      RecurrentInputs<double> in{widened(floats.w_input),  widened(floats.w_hidden), widened(floats.b_input),
                                 widened(floats.b_hidden), widened(floats.x),        widened(floats.dy)};
      const RecurrentResults results = recurrent_reference(s, in);
      const auto loss = [&] {
        const auto y = recurrent_reference(s, in).y;
        double sum = 0;
        for (size_t i = 0; i < y.size(); ++i) sum += y[i] * in.dy[i];
        return sum;
      };
      const auto check = [&](std::vector<double>& values, const std::vector<double>& gradient, const char* what) {
        for (size_t i = 0; i < values.size(); ++i) {
          const double kept = values[i];
          values[i] = kept + kStep;
          const double above = loss();
          values[i] = kept - kStep;
          const double below = loss();
          values[i] = kept;
          EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-8) << text_of(s) << ": " << what << " " << i;
        }
      };
      check(in.w_input, results.gradients.w_input, "w_input");
      check(in.w_hidden, results.gradients.w_hidden, "w_hidden");
      check(in.b_input, results.gradients.b_input, "b_input");
      check(in.b_hidden, results.gradients.b_hidden, "b_hidden");
      check(in.x, results.gradients.x, "x");
    }
}

/// Error in units in the last place of the right result.
double recurrent_ulps(float ours, double wanted) {
  const float rounded = static_cast<float>(std::abs(wanted));
  const double unit = static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) -
                      static_cast<double>(rounded);
  return std::abs(static_cast<double>(ours) - wanted) / unit;
}

TEST(CpuRecurrentKernels, ActivationsAreAccurate) {
  std::vector<float> x;
  for (float magnitude = 1e-30f; magnitude < 86.9f; magnitude *= 1.0003f) x.insert(x.end(), {magnitude, -magnitude});
  std::vector<float> y(x.size());
  for (const CpuRecurrentKernels* kernels : {&kCpuRecurrentBaseline, &kCpuRecurrentAvx2}) {
    if (kernels == &kCpuRecurrentAvx2 && &best_cpu_kernels() != &kCpuKernelsAvx2) continue;  // this CPU lacks AVX2
    double worst_sigmoid = 0, worst_tanh = 0;
    kernels->sigmoid(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      worst_sigmoid = std::max(worst_sigmoid, recurrent_ulps(y[i], 1 / (1 + std::exp(-static_cast<double>(x[i])))));
    kernels->tanh(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      worst_tanh = std::max(worst_tanh, recurrent_ulps(y[i], std::tanh(static_cast<double>(x[i]))));
    EXPECT_LT(worst_sigmoid, 3.0);
    EXPECT_LT(worst_tanh, 3.0);
    RecordProperty(kernels == &kCpuRecurrentBaseline ? "baseline" : "avx2",
                   "sigmoid " + std::to_string(worst_sigmoid) + ", tanh " + std::to_string(worst_tanh) + " ulp");
  }
}

TEST(CpuRecurrentKernels, ActivationsOfSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{
      kInfinity, -kInfinity, 1e30f, -1e30f, 0.0f, -0.0f, 200.0f, -200.0f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> y(x.size());
  for (const CpuRecurrentKernels* kernels : {&kCpuRecurrentBaseline, &kCpuRecurrentAvx2}) {
    if (kernels == &kCpuRecurrentAvx2 && &best_cpu_kernels() != &kCpuKernelsAvx2) continue;  // this CPU lacks AVX2
    const auto count = static_cast<int64_t>(x.size());
    kernels->tanh(x.data(), y.data(), count);
    for (const size_t i : {size_t{0}, size_t{2}, size_t{6}}) EXPECT_EQ(y[i], 1.0f) << x[i];
    for (const size_t i : {size_t{1}, size_t{3}, size_t{7}}) EXPECT_EQ(y[i], -1.0f) << x[i];
    EXPECT_EQ(y[4], 0.0f);
    EXPECT_TRUE(y[5] == 0.0f && std::signbit(y[5]));
    EXPECT_TRUE(std::isnan(y[8]));
    kernels->sigmoid(x.data(), y.data(), count);
    for (const size_t i : {size_t{0}, size_t{2}, size_t{6}}) EXPECT_EQ(y[i], 1.0f) << x[i];
    for (const size_t i : {size_t{1}, size_t{3}, size_t{7}}) EXPECT_TRUE(y[i] >= 0.0f && y[i] < 2e-38f) << x[i];
    EXPECT_EQ(y[4], 0.5f);
    EXPECT_TRUE(std::isnan(y[8]));
  }
}

}  // namespace
}  // namespace amdahl::test
