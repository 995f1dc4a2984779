// Operations of the CPU for today's decoders against float64, on random data of odd shapes: grouped attention with a
// window, root-mean-square normalisation, changes of heads, activations.
#include "cpu_ops_fixture.h"
#include "errors.h"
#include "ops/cpu_scratch.h"
#include "reference_decoder.h"

namespace amdahl::test {
namespace {

using reference::AttentionSizes;
using reference::of_documents;

class CpuDecoderOps : public CpuOpsTest {};

AttentionShape shape_of(const AttentionSizes& s) {
  return {s.batch,      s.steps,  s.heads,
          s.head_width, s.causal, DType::f32,
          s.kv_heads,   s.window, s.starts.empty() ? nullptr : s.starts.data()};
}

// Sequences of one and of several blocks of queries; windows of one step, within a block, over several, and longer than
// the sequence; documents of single steps, within a block and over several.
TEST_F(CpuDecoderOps, GroupedAttention) {
  for (const AttentionSizes& s :
       {AttentionSizes{2, 9, 4, 5, true, 2}, AttentionSizes{1, 33, 6, 7, false, 3},
        AttentionSizes{2, 150, 6, 16, true, 1}, AttentionSizes{1, 40, 4, 8, true, 2, 1},
        AttentionSizes{2, 75, 2, 9, true, 0, 13}, AttentionSizes{1, 300, 4, 13, true, 2, 64},
        AttentionSizes{1, 700, 3, 8, true, 1, 201}, AttentionSizes{1, 200, 2, 8, true, 1, 500},
        of_documents({3, 9, 2, 5, true}, 2), of_documents({2, 150, 6, 16, true, 1}, 7),
        of_documents({2, 300, 4, 13, true, 2, 64}, 40), of_documents({1, 700, 3, 8, true}, 300)}) {
    SCOPED_TRACE(::testing::Message() << s.steps << " steps, " << s.heads << ":" << s.kv_heads << " heads, window "
                                      << s.window);
    const std::vector<float> qkv = random(s.packed());
    const std::vector<float> d_out = random(s.batch * s.steps * s.heads * s.head_width);
    std::vector<float> out(d_out.size(), NAN), log_sums(static_cast<size_t>(s.batch * s.heads * s.steps), NAN);
    std::vector<std::vector<float>> gradients;
    for (int run = 0; run < 2; ++run) {
      std::vector<float> d_qkv(qkv.size(), NAN);
      ops_->attention().attention_forward(*stream_, {shape_of(s), qkv.data(), out.data(), log_sums.data()});
      ops_->attention().attention_backward(
          *stream_, {shape_of(s), qkv.data(), out.data(), log_sums.data(), d_out.data(), d_qkv.data()});
      finish();
      gradients.push_back(d_qkv);
    }
    const reference::Attention wanted = reference::attention(s, widened(qkv));
    EXPECT_LT(error_of(out, wanted.out), kTolerance);
    for (size_t i = 0; i < log_sums.size(); ++i) EXPECT_NEAR(log_sums[i], wanted.log_sums[i], 5e-6);
    EXPECT_LT(error_of(gradients[0], reference::attention_gradient(s, widened(qkv), widened(d_out))), 5e-6);
    EXPECT_EQ(gradients[0], gradients[1]);
  }
}

// With a window, scratch memory grows with the window, not with the steps.
TEST_F(CpuDecoderOps, ScratchOfAWindow) {
  const AttentionSizes all{1, 2048, 1, 8, true}, window{1, 2048, 1, 8, true, 0, 64};
  const AttentionBackward whole{shape_of(all), nullptr, nullptr, nullptr, nullptr, nullptr};
  AttentionBackward part = whole;
  part.shape = shape_of(window);
  EXPECT_LT(scratch_of(part).total(), scratch_of(whole).total() / 8);
}

TEST_F(CpuDecoderOps, RmsNorm) {
  constexpr float kEpsilon = 1e-2f;
  for (const int64_t width : {1, 3, 8, 33, 64, 257})
    for (const bool fused : {false, true})  // with a delta, a residual, and sums that are added to
      for (const int64_t rows : {1, 37}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width << (fused ? " fused" : ""));
        const std::vector<float> x = random(rows * width), delta = random(rows * width), gamma = random(width);
        const std::vector<float> dy = random(rows * width), d_residual = random(rows * width), before = random(width);
        std::vector<float> sum(x.size(), NAN), y = sum, dx = sum, rstd(static_cast<size_t>(rows)), dgamma = before;
        ops_->norm().layer_norm_forward(*stream_, {.x = x.data(),
                                                   .delta = fused ? delta.data() : nullptr,
                                                   .sum = fused ? sum.data() : nullptr,
                                                   .gamma = gamma.data(),
                                                   .beta = nullptr,
                                                   .y = y.data(),
                                                   .mean = nullptr,
                                                   .rstd = rstd.data(),
                                                   .rows = rows,
                                                   .width = width,
                                                   .epsilon = kEpsilon});
        ops_->norm().layer_norm_backward(*stream_, {.dy = dy.data(),
                                                    .x = fused ? sum.data() : x.data(),
                                                    .gamma = gamma.data(),
                                                    .mean = nullptr,
                                                    .rstd = rstd.data(),
                                                    .d_residual = fused ? d_residual.data() : nullptr,
                                                    .dx = dx.data(),
                                                    .dgamma = dgamma.data(),
                                                    .dbeta = nullptr,
                                                    .rows = rows,
                                                    .width = width,
                                                    .accumulate = fused});
        finish();
        std::vector<double> total = widened(x);
        if (fused) total = reference::sum_of(total, widened(delta));
        reference::RmsGradients wanted = reference::rms_norm_gradients(widened(dy), total, widened(gamma), kEpsilon);
        if (fused) {
          wanted.dx = reference::sum_of(wanted.dx, widened(d_residual));
          wanted.dgamma = reference::sum_of(wanted.dgamma, widened(before));
          EXPECT_LT(error_of(sum, total), kTolerance);
        }
        EXPECT_LT(error_of(y, reference::rms_norm(total, widened(gamma), kEpsilon)), kTolerance);
        EXPECT_LT(error_of(dgamma, wanted.dgamma), 5e-6);
        if (width > 1)
          EXPECT_LT(error_of(dx, wanted.dx), 5e-6);
        else  // what is left of terms that cancel
          for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], wanted.dx[i], 2e-5);
      }
}

TEST_F(CpuDecoderOps, Heads) {
  for (const int64_t width : {2, 6, 16, 34, 128})
    for (const bool normalised : {false, true})
      for (const bool turned : {false, true})
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(::testing::Message() << width << " normalised " << normalised << " turned " << turned);
          const AttentionSizes s{3, 5, 4, width, true, 2};
          const std::vector<float> before = random(s.packed()), d_y = random(s.packed());
          const std::vector<float> q = random(width), k = random(width), dq_before = random(width);
          std::vector<float> qkv = before, d_qkv = d_y, dq = dq_before, dk = dq_before, rotation;
          reference::Heads heads;
          heads.epsilon = 1e-3, heads.factor = 1.25;
          if (normalised) heads.q_weight = widened(q), heads.k_weight = widened(k);
          for (int64_t t = 0; turned && t < s.steps; ++t) {
            const std::vector<float> angles = random(width / 2);
            for (const bool sines : {false, true})
              for (const float angle : angles) rotation.push_back(1.25f * (sines ? std::sin(angle) : std::cos(angle)));
            for (const float angle : angles) heads.angles.push_back(static_cast<double>(angle));
          }
          std::vector<float> kept(static_cast<size_t>(s.batch * s.steps * 6 * width), NAN);
          HeadsForward forward{shape_of(s), qkv.data()};
          HeadsBackward backward{shape_of(s), d_qkv.data()};
          if (normalised) {
            forward.q_weight = backward.q_weight = q.data(), forward.k_weight = backward.k_weight = k.data();
            forward.kept = kept.data(), backward.kept = kept.data();
            backward.dq_weight = dq.data(), backward.dk_weight = dk.data();
          }
          if (turned) forward.rotation = backward.rotation = rotation.data();
          forward.epsilon = backward.epsilon = 1e-3f;
          backward.accumulate = accumulate;
          ops_->attention().heads_forward(*stream_, forward);
          ops_->attention().heads_backward(*stream_, backward);
          finish();
          EXPECT_LT(error_of(qkv, reference::heads_forward(s, widened(before), heads)), kTolerance);
          reference::HeadsGradients wanted = reference::heads_gradients(s, widened(before), widened(d_y), heads);
          EXPECT_LT(error_of(d_qkv, wanted.d_qkv), 5e-6);
          if (!normalised) {
            EXPECT_EQ(dq, dq_before);
            continue;
          }
          for (auto* sums : {&wanted.dq_weight, &wanted.dk_weight})
            if (accumulate) *sums = reference::sum_of(*sums, widened(dq_before));
          EXPECT_LT(error_of(dq, wanted.dq_weight), 5e-6);
          EXPECT_LT(error_of(dk, wanted.dk_weight), 5e-6);
        }
}

TEST_F(CpuDecoderOps, Activations) {
  for (const HiddenActivation kind : {HiddenActivation::gelu, HiddenActivation::silu, HiddenActivation::exact_gelu})
    for (const bool gated : {false, true})
      for (const int64_t width : {1, 7, 64, 257})
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(::testing::Message() << width << " gated " << gated << " in place " << in_place);
          constexpr int64_t kRows = 5;
          const auto act = static_cast<reference::Act>(kind);
          std::vector<float> x = random(kRows * width * (gated ? 2 : 1));
          x[0] = -90.0f, x[x.size() / 2] = 60.0f;  // both ends of the sigmoid
          const std::vector<float> before = x, d_y = random(kRows * width);
          std::vector<float> y(d_y.size(), NAN), dx(x.size(), NAN);
          ops_->matmul().activate(*stream_, {kind, gated, x.data(), y.data(), kRows, width});
          ops_->matmul().activate_gradient(
              *stream_, {kind, gated, x.data(), d_y.data(), in_place ? x.data() : dx.data(), kRows, width});
          finish();
          EXPECT_LT(error_of(y, reference::activate(widened(before), width, act, gated)), kTolerance);
          EXPECT_LT(error_of(in_place ? x : dx,
                             reference::activate_gradient(widened(d_y), widened(before), width, act, gated)),
                    kTolerance);
        }
}

TEST_F(CpuDecoderOps, RefusesOtherTypes) {
  HeadsForward heads{};
  heads.shape.type = DType::bf16;
  HeadsBackward gradient{};
  gradient.shape.type = DType::bf16;
  Activate activation{};
  activation.type = DType::bf16;
  ActivateGradient slope{};
  slope.type = DType::bf16;
  EXPECT_EQ(amdahl::error_of([&] { ops_->attention().heads_forward(*stream_, heads); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->attention().heads_backward(*stream_, gradient); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->matmul().activate(*stream_, activation); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->matmul().activate_gradient(*stream_, slope); }).cause(), Cause::internal);
}

}  // namespace
}  // namespace amdahl::test
