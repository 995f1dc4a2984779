// Attention against float64 references: every head width, steps on both sides of each tile, causal or not, every type.
#include <algorithm>

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
    return 3 * unit_of(type());
  }
  double gradient_limit() const { return 3 * limit(); }  // errors of out and of weights enter a difference
};

std::string named(const Sizes& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.steps) + " " + std::to_string(s.heads) + " heads of " +
         std::to_string(s.head_width) + (s.causal ? " causal" : "");
}

TEST_P(CudaAttentionTest, ForwardAndBackward) {
  for (const Sizes& s : shapes()) {
    const int64_t out_count = s.batch * s.steps * s.heads * s.head_width, rows = s.batch * s.heads * s.steps;
    const std::vector<float> qkv = typed_floats(3 * out_count, 1, type(), -2.0f, 2.0f),
                             d_out = typed_floats(out_count, 2, type());
    TypedArray gqkv = typed(qkv), gd_out = typed(d_out), out = typed(out_count), d_qkv = typed(3 * out_count);
    auto log_sums = floats(rows);
    ops->attention().attention_forward(*stream, {shape_of(s), gqkv.data(), out.data(), log_sums.data()});
    ops->attention().attention_backward(
        *stream, {shape_of(s), gqkv.data(), out.data(), log_sums.data(), gd_out.data(), d_qkv.data()});
    const reference::Attention want = reference::attention(s, to_doubles(qkv));
    EXPECT_LT(relative_error(out.get(), want.out), limit()) << named(s);
    EXPECT_LT(relative_error(log_sums.get(), want.log_sums), type() == DType::f32 ? limit() : 1e-5) << named(s);
    // Of q, k and v by themselves: their gradients have different magnitudes.
    const Values gradient = reference::attention_gradient(s, to_doubles(qkv), to_doubles(d_out));
    const std::vector<float> got = d_qkv.get();
    for (int64_t part = 0; part < 3; ++part) {
      std::vector<float> own;
      Values own_want;
      for (int64_t row = 0; row < s.batch * s.steps; ++row)
        for (int64_t i = 0; i < s.heads * s.head_width; ++i) {
          const auto at = static_cast<size_t>((row * 3 + part) * s.heads * s.head_width + i);
          own.push_back(got[at]);
          own_want.push_back(gradient[at]);
        }
      double norm = 0;
      for (const double value : own_want) norm += value * value;
      if (norm < 1e-20) continue;  // one key: its weight is 1 whatever q and k are
      EXPECT_LT(relative_error(own, own_want), gradient_limit()) << named(s) << " part " << part;
    }
  }
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
    expect_equal_reruns(work, clear, [&] {
      std::vector<float> all = out.get();
      for (const std::vector<float>& each : {d_qkv.get(), log_sums.get()})
        all.insert(all.end(), each.begin(), each.end());
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
