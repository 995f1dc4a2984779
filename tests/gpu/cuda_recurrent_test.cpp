// Recurrent layers on CUDA against a float64 reference: the persistent kernels (up to 256 units) and the steps of GEMM
// and kernel (above), in every precision. Outputs are poisoned, reruns and replays of a graph must be bit-equal.
#include <algorithm>
#include <limits>
#include <ostream>
#include <tuple>

#include "gpu_support.h"
#include "reference_recurrent.h"

namespace amdahl {
namespace {

struct RecurrentCase {
  RecurrentShape shape;
  MathMode math;
  int64_t skip = 0;  // floats by which the weights are shifted
};

std::ostream& operator<<(std::ostream& out, const RecurrentCase& c) {
  const RecurrentShape& s = c.shape;
  return out << (s.cell == RecurrentCell::lstm ? "lstm" : "gru") << " batch " << s.batch << " steps " << s.steps
             << " input " << s.input << " hidden " << s.hidden << (s.last_step_only ? " last" : "") << " "
             << to_string(c.math) << " " << to_string(s.type) << (c.skip ? " unaligned" : "");
}

/// Device copies of everything that one layer reads and writes.
struct DeviceLayer {
  DeviceLayer(Device& device, Stream& stream, const RecurrentShape& s, const test::RecurrentInputs<float>& in,
              int64_t saved_bytes, int64_t skip)
      : w_input(device, stream, in.w_input, skip),
        w_hidden(device, stream, in.w_hidden, skip),
        b_input(device, stream, in.b_input),
        b_hidden(device, stream, in.b_hidden),
        x(device, stream, in.x),
        dy(device, stream, in.dy),
        y(device, stream, test::output_elements(s)),
        saved(device, stream, saved_bytes),
        dw_input(device, stream, static_cast<int64_t>(in.w_input.size()), skip),
        dw_hidden(device, stream, static_cast<int64_t>(in.w_hidden.size()), skip),
        db_input(device, stream, static_cast<int64_t>(in.b_input.size())),
        db_hidden(device, stream, static_cast<int64_t>(in.b_hidden.size())),
        dx(device, stream, static_cast<int64_t>(in.x.size())) {}

  RecurrentForward forward(const RecurrentShape& s, bool keeps) {
    return {s, weights(), x.data(), y.data(), keeps ? saved.data() : nullptr};
  }
  RecurrentBackward backward(const RecurrentShape& s, bool with_dx, bool accumulate) {
    return {s,
            weights(),
            {dw_input.data(), dw_hidden.data(), db_input.data(), db_hidden.data()},
            x.data(),
            y.data(),
            dy.data(),
            saved.data(),
            with_dx ? dx.data() : nullptr,
            accumulate};
  }
  RecurrentWeights<const float> weights() { return {w_input.data(), w_hidden.data(), b_input.data(), b_hidden.data()}; }
  test::RecurrentInputs<float> gradients() {
    return {dw_input.get(), dw_hidden.get(), db_input.get(), db_hidden.get(), dx.get(), {}};
  }

  GpuArray<float> w_input, w_hidden, b_input, b_hidden, x, dy, y;
  GpuArray<char> saved;
  GpuArray<float> dw_input, dw_hidden, db_input, db_hidden, dx;
};

/// Inputs of a shape and their reference in float64, which takes longer than the kernels: kept for the cases that
/// differ in precision alone, which follow each other.
struct Referenced {
  test::RecurrentInputs<float> in;
  test::RecurrentResults want;
};
const Referenced& referenced(const RecurrentShape& shape) {
  static RecurrentShape last;
  static Referenced kept;
  const auto fields = [](const RecurrentShape& s) {
    return std::tuple(s.cell, s.batch, s.steps, s.input, s.hidden, s.last_step_only);
  };
  if (kept.want.y.empty() || fields(shape) != fields(last)) {
    last = shape;
    kept.in = test::random_recurrent(shape, 7);
    kept.want = test::recurrent_reference(shape, kept.in);
  }
  return kept;
}

bool equal_bits(const test::RecurrentInputs<float>& a, const test::RecurrentInputs<float>& b) {
  return a.w_input == b.w_input && a.w_hidden == b.w_hidden && a.b_input == b.b_input && a.b_hidden == b.b_hidden &&
         a.x == b.x;
}

class CudaRecurrentTest : public GpuTest, public ::testing::WithParamInterface<RecurrentCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device) ops = make_cuda_ops(*device, {GetParam().math});
  }
  const RecurrentShape& shape() const { return GetParam().shape; }
  RecurrentOps& recurrent() { return ops->recurrent(); }
  /// Of the norm: rounding of the operands, which enters again in every step. In fp32 the persistent kernels multiply
  /// three pairs of tf32 parts, with an error of 2^-21 of each product.
  double limit() const {
    if (shape().type == DType::bf16 || GetParam().math == MathMode::bf16) return 1.5e-2;
    return GetParam().math == MathMode::fp32 ? 1e-5 : 2e-3;
  }
  DeviceLayer upload(const test::RecurrentInputs<float>& in) {
    return {*device, *stream, shape(), in, recurrent().saved_bytes(shape()), GetParam().skip};
  }
  void expect_close(const test::RecurrentInputs<float>& got, const test::RecurrentInputs<double>& want) const {
    EXPECT_LT(relative_error(got.w_input, want.w_input), limit());
    EXPECT_LT(relative_error(got.w_hidden, want.w_hidden), limit());
    EXPECT_LT(relative_error(got.b_input, want.b_input), limit());
    EXPECT_LT(relative_error(got.b_hidden, want.b_hidden), limit());
  }
  std::unique_ptr<Ops> ops;
};

TEST_P(CudaRecurrentTest, OutputAndGradients) {
  const auto& [in, want] = referenced(shape());
  DeviceLayer layer = upload(in);
  recurrent().recurrent_forward(*stream, layer.forward(shape(), true));
  recurrent().recurrent_backward(*stream, layer.backward(shape(), true, false));
  const std::vector<float> y = layer.y.get();
  const auto got = layer.gradients();
  EXPECT_LT(relative_error(y, want.y), limit());
  expect_close(got, want.gradients);
  EXPECT_LT(relative_error(got.x, want.gradients.x), limit());

  // Again, into the same memory: bit-equal.
  recurrent().recurrent_forward(*stream, layer.forward(shape(), true));
  recurrent().recurrent_backward(*stream, layer.backward(shape(), true, false));
  EXPECT_EQ(layer.y.get(), y);
  EXPECT_TRUE(equal_bits(layer.gradients(), got));

  // Without what backward needs: the same output.
  layer.y.set(std::vector<float>(y.size(), std::numeric_limits<float>::quiet_NaN()));
  recurrent().recurrent_forward(*stream, layer.forward(shape(), false));
  EXPECT_EQ(layer.y.get(), y);

  // Added to what is there, without dx.
  const auto before = test::random_recurrent(shape(), 8);
  layer.dw_input.set(before.w_input), layer.dw_hidden.set(before.w_hidden);
  layer.db_input.set(before.b_input), layer.db_hidden.set(before.b_hidden);
  recurrent().recurrent_backward(*stream, layer.backward(shape(), false, true));
  test::RecurrentInputs<double> sums = want.gradients;
  const auto add = [](std::vector<double>& to, const std::vector<float>& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  add(sums.w_input, before.w_input), add(sums.w_hidden, before.w_hidden);
  add(sums.b_input, before.b_input), add(sums.b_hidden, before.b_hidden);
  expect_close(layer.gradients(), sums);
}

TEST_P(CudaRecurrentTest, GraphReplay) {
  const Feasibility graphs = device->supports_graphs();
  if (!graphs.ok) GTEST_SKIP() << graphs.reason;
  const auto in = test::random_recurrent(shape(), 9), other = test::random_recurrent(shape(), 10);
  DeviceLayer layer = upload(in);
  const auto step = [&] {
    recurrent().recurrent_forward(*stream, layer.forward(shape(), true));
    recurrent().recurrent_backward(*stream, layer.backward(shape(), true, false));
  };
  step();  // chooses algorithms
  const std::vector<float> y = layer.y.get();
  const auto eager = layer.gradients();
  const auto graph = device->capture(*stream, step);
  layer.x.set(other.x);
  graph->launch(*stream);
  EXPECT_NE(layer.y.get(), y);
  layer.x.set(in.x);
  graph->launch(*stream);
  EXPECT_EQ(layer.y.get(), y);
  EXPECT_TRUE(equal_bits(layer.gradients(), eager));
}

std::vector<RecurrentCase> recurrent_cases() {
  std::vector<RecurrentCase> cases;
  constexpr MathMode kModes[] = {MathMode::fp32, MathMode::tf32, MathMode::bf16};
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    const auto add = [&](int64_t batch, int64_t steps, int64_t input, int64_t hidden, bool last = false,
                         int64_t skip = 0) {
      for (const MathMode math : kModes) {
        const DType type = math == MathMode::bf16 ? DType::bf16 : DType::f32;
        cases.push_back({{cell, batch, steps, input, hidden, last, type}, math, skip});
      }
    };
    for (const int64_t batch : {1, 8, 32, 100}) add(batch, 7, 16, 256);
    add(8, 96, 50, 256, true);
    add(1024, 4, 16, 256);
    add(700, 3, 8, 128);
    add(2500, 3, 4, 40);  // more batch rows than the clusters of one wave hold
    add(1, 1, 1, 1);
    add(9, 5, 3, 37, true);
    add(5, 4, 7, 100, false, 1);
    add(17, 2, 64, 255);
    add(13, 6, 20, 200);
    add(9, 5, 100, 256);  // more inputs than the persistent kernel multiplies itself
    add(33, 4, 65, 120, true);
    add(260, 3, 256, 256);
    add(12, 5, 24, 300);  // more units than a cluster holds
    add(3, 4, 5, 513, true);
    add(64, 3, 32, 512);
  }
  // The type decides what the GEMMs multiply, whatever the math mode is.
  cases.push_back({{RecurrentCell::lstm, 8, 5, 16, 256, false, DType::bf16}, MathMode::tf32});
  cases.push_back({{RecurrentCell::gru, 8, 5, 16, 256, false, DType::f32}, MathMode::bf16});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaRecurrentTest, ::testing::ValuesIn(recurrent_cases()));

}  // namespace
}  // namespace amdahl
