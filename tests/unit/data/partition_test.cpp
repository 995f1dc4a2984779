// Layout, pieces, buckets and shares: each covers its whole without gaps or overlaps, for random models and sizes.
#include <gtest/gtest.h>

#include <random>

#include "model/parameter_layout.h"
#include "parallel/data/buckets.h"
#include "plan/shares.h"

namespace amdahl {
namespace {

class Partition : public ::testing::Test {
 protected:
  int64_t draw(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator_); }

  ModelSpec random_model() {
    ModelSpec model;
    model.name = "random";
    model.input_width = draw(1, 400);
    const int64_t hidden = draw(0, 5);
    for (int64_t i = 0; i < hidden; ++i) model.layers.push_back({draw(1, 500), draw(0, 1) == 1, Activation::relu, 0.0});
    model.layers.push_back({draw(1, 9), draw(0, 1) == 1, Activation::none, 0.0});
    return model;
  }

  std::mt19937_64 generator_{17};
};

TEST_F(Partition, LayoutHoldsEveryTensorOnceAligned) {
  for (int trial = 0; trial < 200; ++trial) {
    const ModelSpec model = random_model();
    const ParameterLayout layout = make_layout(model);
    int64_t at = 0;
    for (size_t i = model.layers.size(); i-- > 0;) {  // last layer first
      const LayerSlice& slice = layout.layers[i];
      const int64_t units = model.layers[i].units, weights = units * model.layer_input_width(i);
      ASSERT_EQ(slice.begin, at);
      ASSERT_EQ(slice.bias >= 0, model.layers[i].bias);
      if (slice.bias >= 0) {
        ASSERT_EQ(slice.bias, at);
        ASSERT_EQ(slice.bias % 64, 0);
        at += units;
      }
      ASSERT_GE(slice.weight, at);
      ASSERT_EQ(slice.weight % 64, 0);
      ASSERT_GE(slice.end, slice.weight + weights);
      ASSERT_LT(slice.end - slice.begin, weights + (slice.bias >= 0 ? units : 0) + 2 * 64);  // padding only
      at = slice.end;
    }
    ASSERT_EQ(layout.num_floats, at);
  }
}

TEST_F(Partition, PiecesCoverEveryLayerInLayoutOrder) {
  for (int trial = 0; trial < 200; ++trial) {
    const ModelSpec model = random_model();
    const ParameterLayout layout = make_layout(model);
    const int64_t max_bytes = draw(1, 1 << draw(4, 22));
    int64_t at = 0;
    std::vector<int64_t> rows_done(model.layers.size(), 0);
    for (const GradientPiece& piece : make_pieces(layout, max_bytes)) {
      const LayerSlice& slice = layout.layers[piece.layer];
      const int64_t width = model.layer_input_width(piece.layer), units = model.layers[piece.layer].units;
      ASSERT_EQ(piece.begin, at);
      ASSERT_EQ(piece.row_begin, rows_done[piece.layer]);
      ASSERT_EQ(piece.begin, piece.row_begin == 0 ? slice.begin : slice.weight + piece.row_begin * width);
      ASSERT_GT(piece.row_end, piece.row_begin);
      const bool last = piece.row_end == units;
      ASSERT_EQ(piece.end, last ? slice.end : slice.weight + piece.row_end * width);
      if (!last) {
        ASSERT_EQ(piece.end % 64, 0);
      }
      rows_done[piece.layer] = piece.row_end;
      at = piece.end;
    }
    ASSERT_EQ(at, layout.num_floats);
    for (size_t i = 0; i < model.layers.size(); ++i) ASSERT_EQ(rows_done[i], model.layers[i].units);
  }
}

TEST_F(Partition, BucketsCoverTheLayoutAndEndWherePiecesEnd) {
  for (int trial = 0; trial < 200; ++trial) {
    const ModelSpec model = random_model();
    const ParameterLayout layout = make_layout(model);
    const int64_t bucket_bytes = draw(1, 1 << draw(4, 22));
    const std::vector<GradientPiece> pieces = make_pieces(layout, bucket_bytes);
    const std::vector<Bucket> buckets = make_buckets(pieces, bucket_bytes);
    int64_t at = 0;
    size_t piece = 0;
    for (const Bucket& bucket : buckets) {
      ASSERT_EQ(bucket.begin, at);
      ASSERT_GT(bucket.floats(), 0);
      size_t held = 0;
      for (; piece < pieces.size() && pieces[piece].end <= bucket.end; ++piece) ++held;
      ASSERT_EQ(pieces[piece - 1].end, bucket.end);
      if (held > 1) {
        ASSERT_LE(bucket.floats() * 4, bucket_bytes);  // only a single piece may exceed the size
      }
      at = bucket.end;
    }
    ASSERT_EQ(piece, pieces.size());
    ASSERT_EQ(at, layout.num_floats);
  }
}

TEST_F(Partition, OneBucketWhenEverythingFits) {
  const ModelSpec model = random_model();
  const ParameterLayout layout = make_layout(model);
  EXPECT_EQ(make_buckets(make_pieces(layout, 1 << 30), 1 << 30).size(), 1u);
}

TEST_F(Partition, SharesCoverAndDifferByAtMostOne) {
  for (int trial = 0; trial < 500; ++trial) {
    const int64_t total = draw(0, 1000), parts = draw(1, 40);
    int64_t at = 0, previous = total;
    for (int64_t part = 0; part < parts; ++part) {
      const RowRange share = even_share(total, parts, part);
      ASSERT_EQ(share.begin, at);
      ASSERT_GE(share.rows(), total / parts);
      ASSERT_LE(share.rows(), total / parts + 1);
      ASSERT_LE(share.rows(), previous);  // larger ones first
      previous = share.rows();
      at = share.end;
    }
    ASSERT_EQ(at, total);
  }
}

TEST_F(Partition, MicroBatchesCoverTheGlobalBatch) {
  for (int trial = 0; trial < 300; ++trial) {
    ParallelPlan plan;
    plan.mesh.dp = static_cast<int>(draw(1, 8));
    plan.accumulate = static_cast<int>(draw(1, 5));
    plan.global_batch = draw(plan.num_devices() * plan.accumulate, 700);
    int64_t at = 0, first_rows = 0;
    for (int rank = 0; rank < plan.num_devices(); ++rank)
      for (int micro = 0; micro < plan.accumulate; ++micro) {
        const RowRange rows = micro_batch_rows(plan, false, rank, micro);
        if (rank == 0 && micro == 0) first_rows = rows.rows();
        ASSERT_EQ(rows.begin, at);
        ASSERT_GT(rows.rows(), 0);
        ASSERT_LE(rows.rows(), first_rows);  // buffers are sized by the first
        at = rows.end;
      }
    ASSERT_EQ(at, plan.global_batch);
    const RowRange first = micro_batch_rows(plan, true, plan.num_devices() - 1, 0);
    ASSERT_EQ(first.begin, 0);
    ASSERT_EQ(micro_batch_rows(plan, true, 0, plan.accumulate - 1).end, plan.global_batch);
  }
}

}  // namespace
}  // namespace amdahl
