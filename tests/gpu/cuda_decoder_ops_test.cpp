// Operations for today's decoders on a GPU against float64 references, for every type: grouped attention with a window
// by own kernels and by whatever Ops choose, root-mean-square normalisation, changes of heads, activations.
#include <algorithm>
#include <bit>
#include <cmath>

#include "device/cuda_device.h"
#include "ops/attention/cuda_attention.h"
#include "reference_decoder.h"
#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;
using Sizes = reference::AttentionSizes;

class CudaDecoderOps : public TypedOpsTest {
 protected:
  AttentionShape shape_of(const Sizes& s) const {
    return {s.batch, s.steps, s.heads, s.head_width, s.causal, type(), s.kv_heads, s.window};
  }
  /// As in cuda_attention_test.cpp.
  double limit() const {
    if (type() == DType::f32) return GetParam().math == MathMode::fp32 ? 1e-5 : 2e-3;
    return 2 * unit_of(type());
  }
  KernelLaunch launch() { return {as_cuda(*stream), device->spec().index, device->spec().sm_count, false, {}}; }
};

// Windows of one step, within a tile, over several tiles, and longer than the sequence; documents of single steps,
// within a tile and over several tiles, with and without a window.
TEST_P(CudaDecoderOps, GroupedAttention) {
  for (const Sizes& s :
       {Sizes{2, 70, 4, 16, true, 2}, Sizes{1, 197, 6, 64, false, 3}, Sizes{1, 300, 8, 128, true, 1},
        Sizes{1, 130, 4, 8, true, 2, 1}, Sizes{2, 300, 2, 64, true, 0, 13}, Sizes{1, 500, 4, 40, true, 2, 64},
        Sizes{1, 700, 3, 128, true, 1, 201}, Sizes{1, 200, 2, 64, true, 1, 500},
        reference::of_documents({3, 70, 4, 16, true, 2}, 2), reference::of_documents({2, 300, 8, 128, true, 1}, 9),
        reference::of_documents({2, 500, 4, 40, true, 2, 64}, 50),
        reference::of_documents({2, 1000, 3, 64, true}, 300)})
    for (const bool own : {true, false}) {
      SCOPED_TRACE(::testing::Message() << s.steps << " steps, " << s.heads << ":" << s.kv_heads << " heads of "
                                        << s.head_width << ", window " << s.window << (own ? " own" : ""));
      const int64_t out_count = s.batch * s.steps * s.heads * s.head_width, rows = s.batch * s.heads * s.steps;
      const std::vector<float> qkv = typed_floats(s.packed(), 1, type(), -2.0f, 2.0f),
                               d_values = typed_floats(out_count, 2, type());
      TypedArray gqkv = typed(qkv), d_out = typed(d_values), out = typed(out_count), d_qkv = typed(s.packed());
      auto log_sums = floats(rows), deltas = floats(rows);
      std::vector<float> begins;  // the bits of the integers
      for (const int32_t start : s.starts) begins.push_back(std::bit_cast<float>(start));
      auto starts = floats(begins);
      AttentionShape shape = shape_of(s);
      if (!begins.empty()) shape.starts = reinterpret_cast<const int32_t*>(starts.data());
      const AttentionForward forward{shape, gqkv.data(), out.data(), log_sums.data()};
      const AttentionBackward backward{shape, gqkv.data(), out.data(), log_sums.data(), d_out.data(), d_qkv.data()};
      if (own) {
        launch_attention(launch(), GetParam().math, forward);
        launch_attention_gradient(launch(), {deltas.data(), size_t{1} << 30}, GetParam().math, backward);
        finish();
      } else {
        ops->attention().attention_forward(*stream, forward);
        ops->attention().attention_backward(*stream, backward);
      }
      const reference::Attention want = reference::attention(s, to_doubles(qkv));
      EXPECT_LT(relative_error(out.get(), want.out), limit());
      EXPECT_LT(relative_error(log_sums.get(), want.log_sums), type() == DType::f32 ? limit() : 1e-5);
      EXPECT_LT(relative_error(d_qkv.get(), reference::attention_gradient(s, to_doubles(qkv), to_doubles(d_values))),
                3 * limit());
    }
}

TEST_P(CudaDecoderOps, RmsNorm) {
  constexpr float kEpsilon = 1e-3f;
  constexpr int64_t kRows = 37;
  for (const int64_t width : {5, 64, 768, 1032, 2047, 4096, 8192}) {
    SCOPED_TRACE(width);
    const std::vector<float> x = random_floats(kRows * width, 1), delta = typed_floats(kRows * width, 2, type()),
                             gamma = random_floats(width, 3), dy = typed_floats(kRows * width, 4, type());
    auto gx = floats(x), ggamma = floats(gamma), sum = floats(kRows * width), rstd = floats(kRows);
    auto dx = floats(kRows * width), dgamma = floats(width);
    TypedArray gdelta = typed(delta), y = typed(kRows * width), gdy = typed(dy);
    ops->norm().layer_norm_forward(*stream, {.x = gx.data(),
                                             .delta = gdelta.data(),
                                             .sum = sum.data(),
                                             .gamma = ggamma.data(),
                                             .beta = nullptr,
                                             .y = y.data(),
                                             .mean = nullptr,
                                             .rstd = rstd.data(),
                                             .rows = kRows,
                                             .width = width,
                                             .epsilon = kEpsilon,
                                             .type = type(),
                                             .y_type = type()});
    ops->norm().layer_norm_backward(*stream, {.dy = gdy.data(),
                                              .x = sum.data(),
                                              .gamma = ggamma.data(),
                                              .mean = nullptr,
                                              .rstd = rstd.data(),
                                              .dx = dx.data(),
                                              .dgamma = dgamma.data(),
                                              .dbeta = nullptr,
                                              .rows = kRows,
                                              .width = width,
                                              .type = type(),
                                              .dy_type = type()});
    const Values total = reference::sum_of(to_doubles(x), to_doubles(delta));
    const auto want = reference::rms_norm_gradients(to_doubles(dy), total, to_doubles(gamma), kEpsilon);
    EXPECT_LT(relative_error(y.get(), reference::rms_norm(total, to_doubles(gamma), kEpsilon)), 1e-5 + unit_of(type()));
    EXPECT_LT(relative_error(dx.get(), want.dx), 1e-5);
    EXPECT_LT(relative_error(dgamma.get(), want.dgamma), 1e-5);
  }
}

TEST_P(CudaDecoderOps, Heads) {
  for (const int64_t width : {2, 8, 34, 64, 128})
    for (const bool normalised : {false, true})
      for (const bool turned : {false, true})
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(::testing::Message() << width << " normalised " << normalised << " turned " << turned);
          const Sizes s{3, 41, 4, width, true, 2};
          const std::vector<float> before = typed_floats(s.packed(), 1, type()),
                                   d_y = typed_floats(s.packed(), 2, type()), q = random_floats(width, 3),
                                   k = random_floats(width, 4), sums = random_floats(2 * width, 5);
          reference::Heads heads;
          heads.epsilon = 1e-3;
          if (normalised) heads.q_weight = to_doubles(q), heads.k_weight = to_doubles(k);
          std::vector<float> table;
          for (int64_t t = 0; turned && t < s.steps; ++t) {
            const std::vector<float> angles = random_floats(width / 2, 6 + static_cast<uint32_t>(t), -3.0f, 3.0f);
            for (const float angle : angles) table.push_back(std::cos(angle));
            for (const float angle : angles) table.push_back(std::sin(angle));
            for (const float angle : angles) heads.angles.push_back(static_cast<double>(angle));
          }
          TypedArray qkv = typed(before), d_qkv = typed(d_y), kept = typed(s.batch * s.steps * 6 * width);
          auto gq = floats(q), gk = floats(k), gsums = floats(sums), gtable = floats(table);
          HeadsForward forward{shape_of(s), qkv.data()};
          HeadsBackward backward{shape_of(s), d_qkv.data()};
          if (normalised) {
            forward.q_weight = backward.q_weight = gq.data(), forward.k_weight = backward.k_weight = gk.data();
            forward.kept = kept.data(), backward.kept = kept.data();
            backward.dq_weight = gsums.data(), backward.dk_weight = gsums.data() + width;
          }
          if (turned) forward.rotation = backward.rotation = gtable.data();
          forward.epsilon = backward.epsilon = 1e-3f;
          backward.accumulate = accumulate;
          ops->attention().heads_forward(*stream, forward);
          ops->attention().heads_backward(*stream, backward);
          const double rounding = 1e-5 + unit_of(type());
          EXPECT_LT(relative_error(qkv.get(), reference::heads_forward(s, to_doubles(before), heads)), rounding);
          const auto want = reference::heads_gradients(s, to_doubles(before), to_doubles(d_y), heads);
          EXPECT_LT(relative_error(d_qkv.get(), want.d_qkv), rounding);
          Values want_sums = want.dq_weight;
          want_sums.insert(want_sums.end(), want.dk_weight.begin(), want.dk_weight.end());
          if (!normalised) std::fill(want_sums.begin(), want_sums.end(), 0.0);
          if (accumulate || !normalised) want_sums = reference::sum_of(want_sums, to_doubles(sums));
          EXPECT_LT(relative_error(gsums.get(), want_sums), 1e-5);
        }
}

TEST_P(CudaDecoderOps, Activations) {
  constexpr int64_t kRows = 37;
  for (const HiddenActivation kind : {HiddenActivation::gelu, HiddenActivation::silu, HiddenActivation::exact_gelu})
    for (const bool gated : {false, true})
      for (const int64_t width : {1, 7, 64, 1000}) {
        SCOPED_TRACE(::testing::Message() << width << " gated " << gated);
        const auto act = static_cast<reference::Act>(kind);
        const std::vector<float> x = typed_floats(kRows * width * (gated ? 2 : 1), 1, type(), -6.0f, 6.0f),
                                 d_y = typed_floats(kRows * width, 2, type());
        TypedArray gx = typed(x), y = typed(kRows * width), gd_y = typed(d_y);
        ops->matmul().activate(*stream, {kind, gated, gx.data(), y.data(), kRows, width, type()});
        ops->matmul().activate_gradient(*stream,
                                        {kind, gated, gx.data(), gd_y.data(), gx.data(), kRows, width, type()});
        const double rounding = 1e-5 + unit_of(type());
        EXPECT_LT(relative_error(y.get(), reference::activate(to_doubles(x), width, act, gated)), rounding);
        EXPECT_LT(
            relative_error(gx.get(), reference::activate_gradient(to_doubles(d_y), to_doubles(x), width, act, gated)),
            rounding);
      }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaDecoderOps, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
