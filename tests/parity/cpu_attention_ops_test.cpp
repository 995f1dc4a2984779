// AttentionOps of the CPU against float64, over sequences of one and of several blocks of queries.
#include "cpu_ops_fixture.h"
#include "errors.h"
#include "reference_sequence.h"

namespace amdahl::test {
namespace {

using reference::AttentionSizes;

struct AttentionRun {
  std::vector<float> out, log_sums, d_qkv;
};

class CpuAttentionTest : public CpuOpsTest {
 protected:
  AttentionRun run(const AttentionSizes& s, const std::vector<float>& qkv, const std::vector<float>& d_out) {
    AttentionRun result{std::vector<float>(d_out.size(), NAN),
                        std::vector<float>(reference::at(s.batch * s.heads * s.steps), NAN),
                        std::vector<float>(qkv.size(), NAN)};
    const AttentionShape shape{s.batch, s.steps, s.heads, s.head_width, s.causal};
    ops_->attention().attention_forward(*stream_, {shape, qkv.data(), result.out.data(), result.log_sums.data()});
    ops_->attention().attention_backward(
        *stream_, {shape, qkv.data(), result.out.data(), result.log_sums.data(), d_out.data(), result.d_qkv.data()});
    finish();
    return result;
  }
  static int64_t count(const AttentionSizes& s) { return s.batch * s.steps * s.heads * s.head_width; }
};

TEST_F(CpuAttentionTest, ForwardAndBackward) {
  for (const bool causal : {false, true})
    for (const AttentionSizes& s : {AttentionSizes{2, 1, 1, 1, causal}, AttentionSizes{1, 2, 3, 5, causal},
                                    AttentionSizes{3, 7, 1, 16, causal}, AttentionSizes{2, 33, 2, 13, causal},
                                    AttentionSizes{1, 96, 3, 64, causal}, AttentionSizes{1, 128, 2, 64, causal},
                                    AttentionSizes{1, 257, 2, 9, causal}, AttentionSizes{1, 700, 1, 32, causal}}) {
      SCOPED_TRACE(::testing::Message() << s.batch << " x " << s.steps << " steps, " << s.heads << " heads of "
                                        << s.head_width << (causal ? ", causal" : ""));
      const std::vector<float> qkv = random(3 * count(s)), d_out = random(count(s));
      const AttentionRun ours = run(s, qkv, d_out);
      const reference::Attention wanted = reference::attention(s, widened(qkv));
      EXPECT_LT(error_of(ours.out, wanted.out), kTolerance);
      for (size_t i = 0; i < ours.log_sums.size(); ++i) EXPECT_NEAR(ours.log_sums[i], wanted.log_sums[i], 5e-6);
      // p (d_p - dot) cancels where one key has nearly all weight
      EXPECT_LT(error_of(ours.d_qkv, reference::attention_gradient(s, widened(qkv), widened(d_out))), 5e-6);
    }
}

// Scores of several thousands: exp must not overflow, and the largest score takes all weight.
TEST_F(CpuAttentionTest, LargeScores) {
  for (const bool causal : {false, true}) {
    const AttentionSizes s{1, 40, 2, 8, causal};
    std::vector<float> qkv = random(3 * count(s));
    for (int64_t t = 0; t < s.steps; ++t)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.head_width; ++i)
          for (const int64_t part : {0, 1}) qkv[s.qkv(0, t, part, h, i)] *= 50.0f;
    const std::vector<float> d_out = random(count(s));
    const AttentionRun ours = run(s, qkv, d_out);
    const reference::Attention wanted = reference::attention(s, widened(qkv));
    // Scores are rounded to 3e-4 at 5000, and so are probabilities of keys that share the weight.
    EXPECT_LT(error_of(ours.out, wanted.out), 1e-3);
    EXPECT_LT(error_of(ours.log_sums, wanted.log_sums), 1e-6);
    EXPECT_LT(error_of(ours.d_qkv, reference::attention_gradient(s, widened(qkv), widened(d_out))), 1e-3);
  }
}

// A query must not depend on masked keys, whatever they hold.
TEST_F(CpuAttentionTest, CausalIgnoresLaterSteps) {
  const AttentionSizes s{1, 150, 1, 8, true};
  std::vector<float> qkv = random(3 * count(s));
  const std::vector<float> d_out = random(count(s));
  const AttentionRun before = run(s, qkv, d_out);
  for (int64_t i = 0; i < s.head_width; ++i) {
    qkv[s.qkv(0, 149, 1, 0, i)] = 3e4f;
    qkv[s.qkv(0, 149, 2, 0, i)] = -3e4f;
  }
  const AttentionRun after = run(s, qkv, d_out);
  for (size_t i = 0; i < reference::at(149 * s.head_width); ++i) EXPECT_EQ(before.out[i], after.out[i]) << i;
}

TEST_F(CpuAttentionTest, RerunsAreBitEqual) {
  for (const bool causal : {false, true}) {
    const AttentionSizes s{2, 300, 2, 24, causal};
    const std::vector<float> qkv = random(3 * count(s)), d_out = random(count(s));
    const AttentionRun first = run(s, qkv, d_out), second = run(s, qkv, d_out);
    EXPECT_EQ(first.out, second.out);
    EXPECT_EQ(first.log_sums, second.log_sums);
    EXPECT_EQ(first.d_qkv, second.d_qkv);
  }
}

// Scratch memory grows with a block of queries times the steps, not with the square of the steps.
TEST_F(CpuAttentionTest, MemoryOfLongSequences) {
  const AttentionSizes s{1, 4096, 1, 8, false};
  const std::vector<float> qkv = random(3 * count(s)), d_out = random(count(s));
  run(s, qkv, d_out);
  EXPECT_LT(devices_[0]->allocated_bytes(), size_t{4} << 20);  // the square: 64 MiB
}

TEST_F(CpuAttentionTest, RefusesOtherTypes) {
  AttentionForward forward{};
  forward.shape.type = DType::bf16;
  AttentionBackward backward{};
  backward.shape.type = DType::f16;
  EXPECT_EQ(amdahl::error_of([&] { ops_->attention().attention_forward(*stream_, forward); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->attention().attention_backward(*stream_, backward); }).cause(),
            Cause::internal);
}

}  // namespace
}  // namespace amdahl::test
