// SequenceOps of the CPU against float64: embeddings, positions, pooling and losses.
#include <cstring>

#include "cpu_ops_fixture.h"
#include "errors.h"
#include "reference_sequence.h"
#include "special_floats.h"

namespace amdahl::test {
namespace {

using reference::Values;

class CpuSequenceTest : public CpuOpsTest {
 protected:
  std::vector<float> indices(int64_t count, int64_t limit) {
    std::uniform_int_distribution<int64_t> index(0, limit - 1);
    std::vector<float> values(reference::at(count));
    for (float& value : values) value = static_cast<float>(index(generator_));
    return values;
  }
};

struct SequenceShape {
  int64_t rows, steps, width, vocabulary;
};
const SequenceShape kSequenceShapes[] = {{1, 1, 1, 1}, {2, 1, 7, 3}, {3, 5, 8, 4}, {4, 9, 33, 50}, {5, 16, 192, 11}};

TEST_F(CpuSequenceTest, EmbeddingForward) {
  for (const SequenceShape& s : kSequenceShapes)
    for (const bool with_positions : {false, true})
      for (const bool with_common : {false, true}) {
        const std::vector<float> tokens = indices(s.rows * s.steps, s.vocabulary);
        const std::vector<float> table = random(s.vocabulary * s.width), positions = random(s.steps * s.width);
        const std::vector<float> common = random(s.width);
        std::vector<float> out(reference::at(s.rows * s.steps * s.width), NAN);
        ops_->sequence().embedding_forward(
            *stream_, {tokens.data(), table.data(), with_positions ? positions.data() : nullptr,
                       with_common ? common.data() : nullptr, out.data(), s.rows, s.steps, s.width, s.vocabulary});
        finish();
        EXPECT_LT(error_of(out, reference::embedding(widened(tokens), widened(table),
                                                     with_positions ? widened(positions) : Values{},
                                                     with_common ? widened(common) : Values{}, s.steps, s.width)),
                  kTolerance);
      }
}

TEST_F(CpuSequenceTest, EmbeddingBackward) {
  for (const SequenceShape& s : kSequenceShapes)
    for (const bool accumulate : {false, true})
      for (const bool others : {false, true}) {
        const std::vector<float> tokens = indices(s.rows * s.steps, s.vocabulary);
        const std::vector<float> d_out = random(s.rows * s.steps * s.width);
        std::vector<float> table = random(s.vocabulary * s.width), positions = random(s.steps * s.width);
        std::vector<float> common = random(s.width);
        reference::EmbeddingGradients wanted =
            reference::embedding_gradients(widened(tokens), widened(d_out), s.vocabulary, s.steps, s.width);
        wanted.table = reference::sum_of(wanted.table, widened(table));
        if (accumulate) {
          wanted.positions = reference::sum_of(wanted.positions, widened(positions));
          wanted.common = reference::sum_of(wanted.common, widened(common));
        }
        const std::vector<float> table_before = table;
        const auto call = [&] {
          ops_->sequence().embedding_backward(
              *stream_, {tokens.data(), d_out.data(), table.data(), others ? positions.data() : nullptr,
                         others ? common.data() : nullptr, s.rows, s.steps, s.width, s.vocabulary, accumulate});
          finish();
        };
        call();
        const std::vector<float> first = table;
        EXPECT_LT(error_of(table, wanted.table), kTolerance);
        if (others) {
          EXPECT_LT(error_of(positions, wanted.positions), kTolerance);
          EXPECT_LT(error_of(common, wanted.common), 1e-5);  // up to 80 terms of both signs
        }
        table = table_before;
        call();
        EXPECT_EQ(table, first);
      }
}

TEST_F(CpuSequenceTest, PositionsOfDocuments) {
  for (const SequenceShape& s : kSequenceShapes)
    for (const bool accumulate : {false, true}) {
      const std::vector<float> tokens = indices(s.rows * s.steps, std::min<int64_t>(s.vocabulary, 5));
      const std::vector<float> d_out = random(s.rows * s.steps * s.width), table = random(s.vocabulary * s.width);
      const std::vector<float> positions = random(s.steps * s.width);
      std::vector<int32_t> starts(tokens.size(), -1);
      std::vector<float> out(d_out.size(), NAN), d_table(table.size(), 0), d_positions = positions;
      ops_->sequence().document_starts(*stream_, {tokens.data(), starts.data(), s.rows, s.steps, 0});
      ops_->sequence().embedding_forward(*stream_, {.tokens = tokens.data(),
                                                    .table = table.data(),
                                                    .positions = positions.data(),
                                                    .common = nullptr,
                                                    .out = out.data(),
                                                    .rows = s.rows,
                                                    .steps = s.steps,
                                                    .width = s.width,
                                                    .vocabulary = s.vocabulary,
                                                    .starts = starts.data()});
      ops_->sequence().embedding_backward(*stream_, {.tokens = tokens.data(),
                                                     .d_out = d_out.data(),
                                                     .d_table = d_table.data(),
                                                     .d_positions = d_positions.data(),
                                                     .d_common = nullptr,
                                                     .rows = s.rows,
                                                     .steps = s.steps,
                                                     .width = s.width,
                                                     .vocabulary = s.vocabulary,
                                                     .accumulate = accumulate,
                                                     .starts = starts.data()});
      finish();
      const std::vector<int32_t> begins = reference::document_starts(widened(tokens), s.steps, 0);
      EXPECT_EQ(starts, begins);
      EXPECT_LT(error_of(out, reference::embedding(widened(tokens), widened(table), widened(positions), {}, s.steps,
                                                   s.width, begins)),
                kTolerance);
      Values wanted =
          reference::embedding_gradients(widened(tokens), widened(d_out), s.vocabulary, s.steps, s.width, begins)
              .positions;
      if (accumulate) wanted = reference::sum_of(wanted, widened(positions));
      EXPECT_LT(error_of(d_positions, wanted), 1e-5);  // up to 80 terms of both signs
    }
}

TEST_F(CpuSequenceTest, Positions) {
  for (const SequenceShape& s : kSequenceShapes) {
    const int64_t count = s.rows * s.steps * s.width;
    const std::vector<float> x = random(count), positions = random(s.steps * s.width);
    std::vector<float> y(x.size(), NAN), in_place = x, converted = y;
    AddPositions call{x.data(), positions.data(), y.data(), s.rows, s.steps, s.width};
    ops_->sequence().add_positions(*stream_, call);
    call.x = call.y = in_place.data();
    ops_->sequence().add_positions(*stream_, call);
    ops_->sequence().add_positions(*stream_, {x.data(), nullptr, converted.data(), s.rows, s.steps, s.width});
    finish();
    Values wanted = widened(x);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += static_cast<double>(positions[i % positions.size()]);
    EXPECT_LT(error_of(y, wanted), kTolerance);
    EXPECT_EQ(in_place, y);
    EXPECT_EQ(converted, x);
    for (const bool accumulate : {true, false}) {
      std::vector<float> gradient = positions;
      Values sums = reference::positions_gradient(widened(x), s.steps, s.width);
      if (accumulate) sums = reference::sum_of(sums, widened(positions));
      ops_->sequence().positions_gradient(*stream_, {x.data(), gradient.data(), s.rows, s.steps, s.width, accumulate});
      finish();
      EXPECT_LT(error_of(gradient, sums), kTolerance);
    }
  }
}

TEST_F(CpuSequenceTest, PoolSteps) {
  for (const SequenceShape& s : kSequenceShapes)
    for (const auto& [pooling, pool] :
         {std::pair{Pooling::mean, reference::Pool::mean}, std::pair{Pooling::first, reference::Pool::first},
          std::pair{Pooling::last, reference::Pool::last}}) {
      const std::vector<float> x = random(s.rows * s.steps * s.width), d_y = random(s.rows * s.width);
      std::vector<float> y(d_y.size(), NAN), d_x(x.size(), NAN);
      ops_->sequence().pool_steps(*stream_, {pooling, x.data(), y.data(), s.rows, s.steps, s.width});
      ops_->sequence().pool_steps_gradient(*stream_, {pooling, d_y.data(), d_x.data(), s.rows, s.steps, s.width});
      finish();
      EXPECT_LT(error_of(y, reference::pool_steps(pool, widened(x), s.rows, s.steps, s.width)), kTolerance);
      EXPECT_LT(error_of(d_x, reference::pool_steps_gradient(pool, widened(d_y), s.rows, s.steps, s.width)),
                kTolerance);
    }
}

TEST_F(CpuSequenceTest, TokenLoss) {
  constexpr int64_t kRows = 9;
  constexpr float kScale = 0.25f;
  for (const int64_t classes : {1, 2, 7, 8, 65, 1000, 5003})
    for (const int64_t padding : {0, 3, 61})
      for (const bool accumulate : {false, true})
        for (const bool gradient : {false, true}) {
          SCOPED_TRACE(::testing::Message() << classes << " classes, padding " << padding);
          const int64_t stride = classes + padding;
          std::vector<float> before = random(kRows * stride), labels = indices(kRows, classes), stats{3, 2};
          for (int64_t r = 0; r < kRows; ++r)
            for (int64_t c = classes; c < stride; ++c) before[reference::at(r * stride + c)] = c % 2 ? kNan : 1e30f;
          labels[0] = 0;
          labels[1] = static_cast<float>(classes - 1);
          std::vector<float> logits = before;
          ops_->sequence().token_loss(*stream_, {logits.data(), labels.data(), stats.data(), kRows, classes, stride,
                                                 kScale, DType::f32, accumulate, gradient});
          finish();
          const reference::CrossEntropy wanted =
              reference::cross_entropy(widened(before), widened(labels), classes, stride, static_cast<double>(kScale));
          EXPECT_NEAR(stats[0], wanted.loss + (accumulate ? 3 : 0), 1e-5);
          EXPECT_EQ(stats[1], wanted.correct + (accumulate ? 2 : 0));
          if (gradient)
            EXPECT_LT(error_of(logits, wanted.gradient), classes == 1 ? 1e-30 : kTolerance);
          else
            EXPECT_EQ(0, std::memcmp(logits.data(), before.data(), before.size() * sizeof(float)));
        }
}

TEST_F(CpuSequenceTest, TokenLossOfSpecialLogits) {
  constexpr int64_t kClasses = 11;
  // huge logits of both signs, excluded classes, ties, a class that is certain, all equal
  std::vector<float> logits(5 * kClasses, 0.0f);
  logits[0] = 3e4f, logits[1] = -3e4f, logits[2] = 2.99e4f;
  for (int64_t c = 0; c < kClasses; c += 2) logits[reference::at(kClasses + c)] = -kInfinity;
  logits[2 * kClasses + 3] = logits[2 * kClasses + 8] = 5.0f;
  logits[3 * kClasses + 6] = 12.0f;
  const std::vector<float> labels{2, 3, 8, 6, 0}, before = logits;
  std::vector<float> stats(2);
  ops_->sequence().token_loss(*stream_, {logits.data(), labels.data(), stats.data(), 5, kClasses, kClasses, 1.0f});
  finish();
  const reference::CrossEntropy wanted =
      reference::cross_entropy(widened(before), widened(labels), kClasses, kClasses, 1);
  EXPECT_NEAR(stats[0], wanted.loss, 1e-4);
  EXPECT_EQ(stats[1], wanted.correct);
  for (size_t i = 0; i < logits.size(); ++i)  // relative: p - 1 of the certain class is right too
    EXPECT_NEAR(logits[i], wanted.gradient[i], 1e-6 * std::abs(wanted.gradient[i])) << i;
}

TEST_F(CpuSequenceTest, TokenLossKeepsNan) {
  std::vector<float> logits = random(40), stats(2);
  logits[17] = kNan;
  const std::vector<float> label{3};
  ops_->sequence().token_loss(*stream_, {logits.data(), label.data(), stats.data(), 1, 40, 40, 1.0f});
  finish();
  EXPECT_TRUE(std::isnan(stats[0]));
  EXPECT_TRUE(std::isnan(logits[0]));
}

TEST_F(CpuSequenceTest, AbsoluteError) {
  for (const SequenceShape& s : kSequenceShapes) {
    const std::vector<float> prediction = random(s.rows * s.steps * s.width),
                             target = random(s.rows * s.steps * s.width);
    float stat = NAN;
    ops_->sequence().absolute_error(*stream_,
                                    {prediction.data(), target.data(), &stat, s.rows * s.steps, s.width, 0.5f});
    finish();
    const double wanted = reference::absolute_error(widened(prediction), widened(target), 0.5);
    EXPECT_NEAR(stat, wanted, 1e-6 * wanted);
  }
}

TEST_F(CpuSequenceTest, RefusesOtherTypes) {
  AddPositions positions{};
  positions.type = DType::bf16;
  TokenLoss loss{};
  loss.type = DType::f16;
  EXPECT_EQ(amdahl::error_of([&] { ops_->sequence().add_positions(*stream_, positions); }).cause(), Cause::internal);
  EXPECT_EQ(amdahl::error_of([&] { ops_->sequence().token_loss(*stream_, loss); }).cause(), Cause::internal);
}

}  // namespace
}  // namespace amdahl::test
