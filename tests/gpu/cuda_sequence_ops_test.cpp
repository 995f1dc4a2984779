// Embeddings, positions, pooling and the losses of tokens against float64 references.
#include <algorithm>
#include <bit>

#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;

struct SequenceShape {
  int64_t rows, steps, width, vocabulary;
};

class CudaSequenceOpsTest : public TypedOpsTest {
 protected:
  static std::vector<SequenceShape> shapes() {
    return {{1, 1, 1, 1},       {3, 7, 5, 2},     {8, 64, 768, 5000},  {2, 33, 260, 17},
            {16, 128, 64, 300}, {5, 1000, 96, 3}, {4, 512, 100, 50257}};
  }
  /// Of which about a third are token 0 or 1: runs of every length after sorting.
  static std::vector<float> tokens(const SequenceShape& s, uint32_t seed) {
    std::mt19937 engine(seed);
    std::vector<float> values(static_cast<size_t>(s.rows * s.steps));
    for (float& value : values) {
      const bool frequent = engine() % 3 == 0;
      value = static_cast<float>(engine() %
                                 static_cast<uint64_t>(frequent ? std::min<int64_t>(2, s.vocabulary) : s.vocabulary));
    }
    return values;
  }
};

TEST_P(CudaSequenceOpsTest, Embedding) {
  for (const SequenceShape& s : shapes())
    for (const bool all : {false, true}) {
      const std::vector<float> token = tokens(s, 1), table = random_floats(s.vocabulary * s.width, 2),
                               position = random_floats(s.steps * s.width, 3), common = random_floats(s.width, 4);
      auto gtoken = floats(token), gtable = floats(table), gposition = floats(position), gcommon = floats(common),
           out = floats(s.rows * s.steps * s.width);
      ops->sequence().embedding_forward(
          *stream, {gtoken.data(), gtable.data(), all ? gposition.data() : nullptr, all ? gcommon.data() : nullptr,
                    out.data(), s.rows, s.steps, s.width, s.vocabulary});
      const Values want =
          reference::embedding(to_doubles(token), to_doubles(table), all ? to_doubles(position) : Values{},
                               all ? to_doubles(common) : Values{}, s.steps, s.width);
      EXPECT_LT(relative_error(out.get(), want), 1e-6) << s.rows << "x" << s.steps << "x" << s.width;
    }
}

TEST_P(CudaSequenceOpsTest, EmbeddingGradient) {
  for (const SequenceShape& s : shapes())
    for (const bool accumulate : {false, true}) {
      const std::vector<float> token = tokens(s, 1), d_out = random_floats(s.rows * s.steps * s.width, 2),
                               table = random_floats(s.vocabulary * s.width, 3),
                               position = random_floats(s.steps * s.width, 4), common = random_floats(s.width, 5);
      auto gtoken = floats(token), gd_out = floats(d_out), d_table = floats(table), d_position = floats(position),
           d_common = floats(common);
      ops->sequence().embedding_backward(
          *stream, {gtoken.data(), gd_out.data(), d_table.data(), d_position.data(), d_common.data(), s.rows, s.steps,
                    s.width, s.vocabulary, accumulate});
      auto want = reference::embedding_gradients(to_doubles(token), to_doubles(d_out), s.vocabulary, s.steps, s.width);
      if (accumulate) {
        want.positions = reference::sum_of(want.positions, to_doubles(position));
        want.common = reference::sum_of(want.common, to_doubles(common));
      }
      const std::string what = std::to_string(s.rows) + "x" + std::to_string(s.steps) + "x" + std::to_string(s.width);
      EXPECT_LT(relative_error(d_table.get(), reference::sum_of(want.table, to_doubles(table))), 2e-6) << what;
      EXPECT_LT(relative_error(d_position.get(), want.positions), 1e-5) << what;
      EXPECT_LT(relative_error(d_common.get(), want.common), 1e-5) << what;
    }
}

// Documents begin at every token, at few, and at none; more than once in a pass of the kernel over the steps, and
// rarely.
TEST_P(CudaSequenceOpsTest, PositionsOfDocuments) {
  for (const SequenceShape& s : shapes())
    for (const int64_t end : {int64_t{0}, s.vocabulary / 2, s.vocabulary})
      for (const bool accumulate : {false, true}) {
        const std::vector<float> token = tokens(s, 1), d_out = random_floats(s.rows * s.steps * s.width, 2),
                                 table = random_floats(s.vocabulary * s.width, 3),
                                 position = random_floats(s.steps * s.width, 4);
        auto gtoken = floats(token), gd_out = floats(d_out), gtable = floats(table), d_table = floats(table),
             gposition = floats(position), d_position = floats(position), out = floats(s.rows * s.steps * s.width),
             memory = floats(s.rows * s.steps);
        auto* const starts = reinterpret_cast<int32_t*>(memory.data());
        ops->sequence().document_starts(*stream, {gtoken.data(), starts, s.rows, s.steps, end});
        ops->sequence().embedding_forward(*stream, {.tokens = gtoken.data(),
                                                    .table = gtable.data(),
                                                    .positions = gposition.data(),
                                                    .common = nullptr,
                                                    .out = out.data(),
                                                    .rows = s.rows,
                                                    .steps = s.steps,
                                                    .width = s.width,
                                                    .vocabulary = s.vocabulary,
                                                    .starts = starts});
        ops->sequence().embedding_backward(*stream, {.tokens = gtoken.data(),
                                                     .d_out = gd_out.data(),
                                                     .d_table = d_table.data(),
                                                     .d_positions = d_position.data(),
                                                     .d_common = nullptr,
                                                     .rows = s.rows,
                                                     .steps = s.steps,
                                                     .width = s.width,
                                                     .vocabulary = s.vocabulary,
                                                     .accumulate = accumulate,
                                                     .starts = starts});
        const std::vector<int32_t> begins = reference::document_starts(to_doubles(token), s.steps, end);
        const Values want_out = reference::embedding(to_doubles(token), to_doubles(table), to_doubles(position), {},
                                                     s.steps, s.width, begins);
        auto want = reference::embedding_gradients(to_doubles(token), to_doubles(d_out), s.vocabulary, s.steps, s.width,
                                                   begins);
        if (accumulate) want.positions = reference::sum_of(want.positions, to_doubles(position));
        const std::string what = std::to_string(s.rows) + "x" + std::to_string(s.steps) + "x" + std::to_string(s.width);
        const std::vector<float> words = memory.get();
        for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ(std::bit_cast<int32_t>(words[i]), begins[i]) << what;
        EXPECT_LT(relative_error(out.get(), want_out), 1e-6) << what;
        EXPECT_LT(relative_error(d_table.get(), reference::sum_of(want.table, to_doubles(table))), 2e-6) << what;
        EXPECT_LT(relative_error(d_position.get(), want.positions), 1e-5) << what;
      }
}

TEST_P(CudaSequenceOpsTest, TokensOutsideTheTable) {
  auto tokens = floats(std::vector<float>{0, 2, -1, 1}), table = floats(std::vector<float>{1, 2}), out = floats(4),
       d_out = floats(std::vector<float>{10, 20, 30, 40});
  ops->sequence().embedding_forward(*stream, {tokens.data(), table.data(), nullptr, nullptr, out.data(), 1, 4, 1, 2});
  const std::vector<float> got = out.get();
  EXPECT_EQ(got[0], 1.0f);
  EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
  EXPECT_EQ(got[3], 2.0f);
  ops->sequence().embedding_backward(*stream,
                                     {tokens.data(), d_out.data(), table.data(), nullptr, nullptr, 1, 4, 1, 2});
  EXPECT_EQ(table.get(), (std::vector<float>{11, 42}));
}

TEST_P(CudaSequenceOpsTest, Positions) {
  for (const SequenceShape& s : shapes()) {
    const int64_t count = s.rows * s.steps * s.width;
    const std::vector<float> x = typed_floats(count, 1, type()), position = random_floats(s.steps * s.width, 2),
                             d_y = random_floats(count, 3);
    TypedArray gx = typed(x);
    auto gposition = floats(position), y = floats(count), gd_y = floats(d_y), d_position = floats(position);
    ops->sequence().add_positions(*stream, {gx.data(), gposition.data(), y.data(), s.rows, s.steps, s.width, type()});
    std::vector<float> want = x;
    for (size_t i = 0; i < want.size(); ++i) want[i] += position[i % position.size()];
    EXPECT_EQ(y.get(), want);
    ops->sequence().add_positions(*stream, {gx.data(), nullptr, y.data(), s.rows, s.steps, s.width, type()});
    EXPECT_EQ(y.get(), x);
    for (const bool accumulate : {true, false}) {
      d_position.set(position);
      ops->sequence().positions_gradient(*stream,
                                         {gd_y.data(), d_position.data(), s.rows, s.steps, s.width, accumulate});
      Values sums = reference::positions_gradient(to_doubles(d_y), s.steps, s.width);
      if (accumulate) sums = reference::sum_of(sums, to_doubles(position));
      EXPECT_LT(relative_error(d_position.get(), sums), 2e-6);
    }
  }
}

TEST_P(CudaSequenceOpsTest, Pooling) {
  const std::pair<Pooling, reference::Pool> kinds[] = {{Pooling::mean, reference::Pool::mean},
                                                       {Pooling::first, reference::Pool::first},
                                                       {Pooling::last, reference::Pool::last}};
  for (const SequenceShape& s : shapes())
    for (const auto& [pooling, pool] : kinds) {
      const std::vector<float> x = random_floats(s.rows * s.steps * s.width, 1),
                               d_y = random_floats(s.rows * s.width, 2);
      auto gx = floats(x), y = floats(s.rows * s.width), gd_y = floats(d_y), d_x = floats(s.rows * s.steps * s.width);
      ops->sequence().pool_steps(*stream, {pooling, gx.data(), y.data(), s.rows, s.steps, s.width});
      ops->sequence().pool_steps_gradient(*stream, {pooling, gd_y.data(), d_x.data(), s.rows, s.steps, s.width});
      EXPECT_LT(relative_error(y.get(), reference::pool_steps(pool, to_doubles(x), s.rows, s.steps, s.width)), 1e-5);
      EXPECT_LT(
          relative_error(d_x.get(), reference::pool_steps_gradient(pool, to_doubles(d_y), s.rows, s.steps, s.width)),
          1e-6);
    }
}

struct LossShape {
  int64_t rows, classes, stride, skip = 0;
};

TEST_P(CudaSequenceOpsTest, TokenLoss) {
  // Classes on both sides of the change from a warp to a block per row, and of what a thread keeps in registers.
  for (const LossShape& s : std::vector<LossShape>{{1, 2, 2},
                                                   {1000, 10, 16},
                                                   {77, 65, 65},
                                                   {300, 2048, 2048},
                                                   {300, 2049, 2056},
                                                   {50, 50257, 50304},
                                                   {9, 33000, 33000},
                                                   {40, 8000, 8000, 1},
                                                   {5000, 256, 256}}) {
    std::vector<float> logits = typed_floats(s.rows * s.stride, 1, type(), -8.0f, 8.0f),
                       labels(static_cast<size_t>(s.rows));
    std::mt19937 engine(3);
    for (float& label : labels) label = static_cast<float>(engine() % static_cast<uint64_t>(s.classes));
    logits[0] = logits[1] = 9.0f;  // a tie: the first wins
    labels[0] = 1.0f;
    if (s.rows > 2) {
      logits[static_cast<size_t>(s.stride)] = logits[static_cast<size_t>(s.stride) + 1] = 9.0f;
      labels[1] = 0.0f;
    }
    const float scale = 1.0f / static_cast<float>(s.rows);
    const auto want = reference::cross_entropy(to_doubles(logits), to_doubles(labels), s.classes, s.stride, scale);
    TypedArray z = typed(logits, s.skip);
    auto glabels = floats(labels), stats = floats(2);
    TokenLoss call{z.data(), glabels.data(), stats.data(), s.rows, s.classes, s.stride, scale, type()};
    call.gradient = false;
    ops->sequence().token_loss(*stream, call);
    EXPECT_EQ(z.get(), logits) << "logits were written";
    EXPECT_NEAR(stats.get()[0], want.loss, 1e-5 * want.loss) << s.rows << "x" << s.classes;
    EXPECT_EQ(stats.get()[1], want.correct);
    const std::vector<float> first = stats.get();
    call.gradient = call.accumulate = true;
    ops->sequence().token_loss(*stream, call);
    EXPECT_EQ(stats.get()[0], 2 * first[0]);
    EXPECT_EQ(stats.get()[1], 2 * first[1]);
    // f16 has values below its normal range: their distance is an absolute error.
    const double subnormal = type() == DType::f16 ? 0x1p-25 * std::sqrt(static_cast<double>(s.rows * s.classes)) : 0.0;
    const std::vector<float> got = z.get();
    double norm = 0;
    for (const double value : want.gradient) norm += value * value;
    EXPECT_LT(relative_error(got, want.gradient), 1e-5 + unit_of(type()) + subnormal / std::sqrt(norm))
        << s.rows << "x" << s.classes;
    for (int64_t r = 0; r < s.rows; ++r)
      for (int64_t c = s.classes; c < s.stride; ++c) ASSERT_EQ(got[static_cast<size_t>(r * s.stride + c)], 0.0f);
  }
}

TEST_P(CudaSequenceOpsTest, LabelsOutsideTheClassesAreNotFinite) {
  TypedArray z = typed(typed_floats(16, 1, type()));
  auto labels = floats(std::vector<float>{1, 8}), stats = floats(2);
  ops->sequence().token_loss(*stream, {z.data(), labels.data(), stats.data(), 2, 8, 8, 1.0f, type()});
  EXPECT_FALSE(std::isfinite(stats.get()[0]));
}

TEST_P(CudaSequenceOpsTest, AbsoluteError) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {63, 3}, {100'000, 4}}) {
    const std::vector<float> p = random_floats(rows * width, 1), t = random_floats(rows * width, 2);
    auto gp = floats(p), gt = floats(t), stat = floats(1);
    const float scale = 1.0f / static_cast<float>(rows * width);
    ops->sequence().absolute_error(*stream, {gp.data(), gt.data(), stat.data(), rows, width, scale});
    const double want = reference::absolute_error(to_doubles(p), to_doubles(t), scale);
    EXPECT_NEAR(stat.get()[0], want, 1e-6 * want) << rows;
  }
}

TEST_P(CudaSequenceOpsTest, RerunsAndGraphsAreBitEqual) {
  const SequenceShape s{16, 256, 256, 1000};
  const int64_t count = s.rows * s.steps, classes = 5000;
  const std::vector<float> logits = typed_floats(count * classes, 3, type());
  auto token = floats(tokens(s, 1)), d_out = floats(random_floats(count * s.width, 2)),
       d_table = floats(s.vocabulary * s.width), d_position = floats(s.steps * s.width), d_common = floats(s.width),
       stats = floats(2), pooled = floats(s.rows * s.width);
  TypedArray z = typed(logits);
  const auto clear = [&] {
    d_table.set(std::vector<float>(static_cast<size_t>(s.vocabulary * s.width), 0.0f));
    z.set(logits);
    pooled.set(std::vector<float>(static_cast<size_t>(s.rows * s.width), 7.0f));
  };
  clear();
  const auto work = [&] {
    ops->sequence().embedding_backward(*stream, {token.data(), d_out.data(), d_table.data(), d_position.data(),
                                                 d_common.data(), s.rows, s.steps, s.width, s.vocabulary});
    ops->sequence().token_loss(*stream, {z.data(), token.data(), stats.data(), count, classes, classes, 1.0f, type()});
    ops->sequence().pool_steps(*stream, {Pooling::mean, d_out.data(), pooled.data(), s.rows, s.steps, s.width});
  };
  expect_equal_reruns(work, clear, [&] {
    std::vector<float> all = d_table.get();
    for (const std::vector<float>& each : {d_position.get(), d_common.get(), z.get(), stats.get(), pooled.get()})
      all.insert(all.end(), each.begin(), each.end());
    return all;
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CudaSequenceOpsTest, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
