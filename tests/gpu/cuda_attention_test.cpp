// Attention against float64 references: every head width, steps on both sides of each tile, causal or not, every type.
#include <algorithm>

#include "device/cuda_device.h"
#include "ops/attention/cuda_attention.h"
#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;
using Sizes = reference::AttentionSizes;

class CudaAttentionTest : public TypedOpsTest {
 protected:
  /// Small sizes with every width, and a few with many tiles.
  static std::vector<Sizes> shapes() {
    std::vector<Sizes> all{{2, 1, 1, 64, false},   {1, 2, 3, 8, true},   {1, 300, 2, 64, true},  {2, 197, 3, 64, false},
                           {1, 256, 1, 128, true}, {3, 64, 2, 32, true}, {1, 129, 2, 128, false}};
    for (int64_t width = 8; width <= 128; width += 8)
      for (const bool causal : {false, true}) all.push_back({1, 60 + width, 2, width, causal});
    return all;
  }
  AttentionShape shape_of(const Sizes& s) const { return {s.batch, s.steps, s.heads, s.head_width, s.causal, type()}; }
  /// Weights and their gradients are rounded to the operands' precision before the products that use them: the error of
  /// a result is about one such rounding of its terms, and one of itself.
  double limit() const {
    if (type() == DType::f32) return GetParam().math == MathMode::fp32 ? 1e-5 : 2e-3;
    return 2 * unit_of(type());
  }
  double gradient_limit() const { return 3 * limit(); }  // errors of out and of weights enter a difference
  bool is_half() const { return type() != DType::f32; }

  /// By the own kernels, also where Ops may prefer cuDNN's.
  void own_forward(const AttentionForward& a) { launch_attention(launch(), GetParam().math, a); }
  void own_backward(const AttentionBackward& a) {
    auto deltas = floats(a.shape.batch * a.shape.heads * a.shape.steps);
    launch_attention_gradient(launch(), {deltas.data(), size_t{1} << 30}, GetParam().math, a);
    finish();
  }
  KernelLaunch launch() { return {as_cuda(*stream), device->spec().index, device->spec().sm_count, false, {}}; }

  /// Both directions against the reference.
  void expect_reference(const Sizes& s, bool own);
};

std::string named(const Sizes& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.steps) + " " + std::to_string(s.heads) + " heads of " +
         std::to_string(s.head_width) + (s.causal ? " causal" : "");
}

void CudaAttentionTest::expect_reference(const Sizes& s, bool own) {
  const int64_t out_count = s.batch * s.steps * s.heads * s.head_width, rows = s.batch * s.heads * s.steps;
  const std::vector<float> qkv = typed_floats(3 * out_count, 1, type(), -2.0f, 2.0f),
                           d_values = typed_floats(out_count, 2, type());
  TypedArray gqkv = typed(qkv), d_out = typed(d_values), out = typed(out_count), d_qkv = typed(3 * out_count);
  auto log_sums = floats(rows);
  const AttentionForward forward{shape_of(s), gqkv.data(), out.data(), log_sums.data()};
  const AttentionBackward backward{shape_of(s), gqkv.data(), out.data(), log_sums.data(), d_out.data(), d_qkv.data()};
  if (own) {
    own_forward(forward);
    own_backward(backward);
  } else {
    ops->attention().attention_forward(*stream, forward);
    ops->attention().attention_backward(*stream, backward);
  }
  const reference::Attention want = reference::attention(s, to_doubles(qkv));
  EXPECT_LT(relative_error(out.get(), want.out), limit()) << named(s);
  EXPECT_LT(relative_error(log_sums.get(), want.log_sums), type() == DType::f32 ? limit() : 1e-5) << named(s);
  // Of q, k and v by themselves: their gradients have different magnitudes.
  const Values gradient = reference::attention_gradient(s, to_doubles(qkv), to_doubles(d_values));
  const std::vector<float> got = d_qkv.get();
  for (int64_t part = 0; part < 3; ++part) {
    std::vector<float> part_got;
    Values part_want;
    for (int64_t row = 0; row < s.batch * s.steps; ++row)
      for (int64_t i = 0; i < s.heads * s.head_width; ++i) {
        const auto at = static_cast<size_t>((row * 3 + part) * s.heads * s.head_width + i);
        part_got.push_back(got[at]);
        part_want.push_back(gradient[at]);
      }
    double norm = 0;
    for (const double value : part_want) norm += value * value;
    if (norm < 1e-20) continue;  // one key: its weight is 1 whatever q and k are
    EXPECT_LT(relative_error(part_got, part_want), gradient_limit()) << named(s) << " part " << part;
  }
}

TEST_P(CudaAttentionTest, ForwardAndBackward) {
  for (const Sizes& s : shapes()) expect_reference(s, false);
}

TEST_P(CudaAttentionTest, OwnKernels) {
  if (!is_half()) GTEST_SKIP() << "ForwardAndBackward has tested them";
  for (const Sizes& s : shapes()) expect_reference(s, true);
}

TEST_P(CudaAttentionTest, LargeScoresDoNotOverflow) {
  const Sizes s{1, 100, 1, 64, true};
  const std::vector<float> qkv =
      typed_floats(3 * s.steps * s.head_width, 1, type(), 20.0f, 40.0f);  // scores near 7,000
  TypedArray gqkv = typed(qkv), out = typed(s.steps * s.head_width);
  auto log_sums = floats(s.steps);
  ops->attention().attention_forward(*stream, {shape_of(s), gqkv.data(), out.data(), log_sums.data()});
  const reference::Attention want = reference::attention(s, to_doubles(qkv));
  EXPECT_LT(relative_error(log_sums.get(), want.log_sums), 1e-3);
  for (const float value : out.get()) ASSERT_TRUE(value >= 19.0f && value <= 41.0f) << value;
}

TEST_P(CudaAttentionTest, RerunsAndGraphsAreBitEqual) {
  for (const bool causal : {false, true}) {
    const Sizes s{4, 333, 4, 64, causal};
    const int64_t count = s.batch * s.steps * s.heads * s.head_width;
    TypedArray qkv = typed(typed_floats(3 * count, 1, type())), d_out = typed(typed_floats(count, 2, type())),
               out = typed(count), d_qkv = typed(3 * count);
    auto log_sums = floats(s.batch * s.heads * s.steps);
    const auto work = [&] {
      ops->attention().attention_forward(*stream, {shape_of(s), qkv.data(), out.data(), log_sums.data()});
      ops->attention().attention_backward(
          *stream, {shape_of(s), qkv.data(), out.data(), log_sums.data(), d_out.data(), d_qkv.data()});
    };
    const auto clear = [&] {
      out.set(std::vector<float>(static_cast<size_t>(count), 7.0f));
      d_qkv.set(std::vector<float>(static_cast<size_t>(3 * count), 7.0f));
    };
    // The order of cuDNN's sums in a gradient may change, unless deterministic algorithms are asked for.
    const bool same_gradients = !is_half() || GetParam().deterministic;
    expect_equal_reruns(work, clear, [&] {
      std::vector<float> all = out.get();
      const std::vector<float> sums = log_sums.get(), gradients = d_qkv.get();
      all.insert(all.end(), sums.begin(), sums.end());
      if (same_gradients) all.insert(all.end(), gradients.begin(), gradients.end());
      return all;
    });
  }
}

TEST_P(CudaAttentionTest, OtherHeadWidthsAreRefused) {
  TypedArray qkv = typed(3 * 136), out = typed(136);
  auto log_sums = floats(1);
  for (const int64_t width : {4, 12, 136})
    EXPECT_THROW(ops->attention().attention_forward(
                     *stream, {{1, 1, 1, width, false, type()}, qkv.data(), out.data(), log_sums.data()}),
                 Error);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaAttentionTest, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
