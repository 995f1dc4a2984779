// GEMMs whose tiles are pushed one by one, against float64, over several calls, ragged tiles, and a rank that does not
// come.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "comm/world.h"
#include "errors.h"
#include "ops/ops.h"
#include "parallel/tensor/tile_gemm.h"

namespace amdahl {
namespace {

constexpr double kTileTimeout = 20;

struct TileRank {
  Device& device;
  Ops& ops;
  Communicator& communicator;
  SymmetricHeap& heap;
  Stream& stream;
  int rank;
  void sync() const { stream.synchronize(Deadline::after_seconds(60)); }
};

void run_tile_ranks(int world, size_t heap_bytes, const std::function<void(const TileRank&)>& body,
                    double timeout = kTileTimeout) {
  const auto devices = make_cpu_devices(world);
  const auto comms = make_inproc_communicators(world, timeout);
  run_rank_threads(
      world,
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        const auto ops = make_cpu_ops(*devices[r], {});
        SymmetricHeap heap(*devices[r], *comms[r], heap_bytes, timeout);
        const auto stream = devices[r]->make_stream("compute");
        body({*devices[r], *ops, *comms[r], heap, *stream, rank});
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
}

std::vector<float> noise_of(unsigned seed, int64_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

/// Rows and columns [first, first + count) of a matrix of `width` columns.
std::vector<float> block_of(const std::vector<float>& matrix, int64_t width, TileRows rows, TileRows columns) {
  std::vector<float> block;
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t column = columns.begin; column < columns.end; ++column)
      block.push_back(matrix[static_cast<size_t>(row * width + column)]);
  return block;
}

/// The whole result in float64, and the sum of the absolute terms, which bounds the rounding.
struct Exact {
  std::vector<double> values, sizes;
};
Exact exact_product(const TileGemmShape& shape, const std::vector<float>& x, const std::vector<float>& w) {
  Exact exact;
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t t = 0; t < shape.k; ++t) {
        const double term = double{x[static_cast<size_t>(i * shape.k + t)]} * w[static_cast<size_t>(j * shape.k + t)];
        sum += term, size += std::abs(term);
      }
      exact.values.push_back(sum), exact.sizes.push_back(size);
    }
  return exact;
}

void expect_block(const TileGemmShape& shape, const Exact& exact, const std::vector<float>& y, TileRows rows,
                  TileRows columns) {
  int wrong = 0;
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const auto at = static_cast<size_t>(row * shape.n + column);
      const auto own = static_cast<size_t>((row - rows.begin) * columns.count() + column - columns.begin);
      const double bound = exact.sizes[at] * static_cast<double>(shape.k) * 6e-8;
      wrong += !(std::abs(y[own] - exact.values[at]) <= bound);
    }
  EXPECT_EQ(wrong, 0) << shape.m << " x " << shape.n << " x " << shape.k << ", " << shape.tiles << " tiles";
}

TileRows share(int64_t all, int world, int rank) { return rows_of_tile(all, world, rank); }

const std::vector<TileGemmShape> kTileShapes{{.m = 24, .n = 12, .k = 12, .tiles = 1},
                                             {.m = 48, .n = 36, .k = 60, .tiles = 4},
                                             {.m = 60, .n = 24, .k = 132, .tiles = 7},  // ragged
                                             {.m = 12, .n = 12, .k = 12, .tiles = 5}};  // empty ones

/// The same call several times, with other data each: memory and signals are used again.
constexpr int kTileCalls = 5;

TEST(TileGemm, ColumnParallelAgreesWithFloat64) {
  for (const int world : {1, 2, 3, 4})
    for (const TileGemmShape& shape : kTileShapes)
      run_tile_ranks(world, ColumnParallelGemm::heap_bytes(shape, world), [&](const TileRank& r) {
        ColumnParallelGemm gemm(r.device, r.ops.matmul(), r.heap, shape);
        const TileRows rows = share(shape.m, world, r.rank), units = share(shape.n, world, r.rank);
        for (int call = 0; call < kTileCalls; ++call) {
          const auto seed = static_cast<unsigned>(call) * 2;
          const std::vector<float> x = noise_of(seed + 11, shape.m * shape.k),
                                   w = noise_of(seed + 12, shape.n * shape.k);
          const std::vector<float> own_x = block_of(x, shape.k, rows, {0, shape.k});
          const std::vector<float> own_w = block_of(w, shape.k, units, {0, shape.k});
          std::vector<float> y(static_cast<size_t>(shape.m * units.count()), NAN);
          gemm.run(r.stream, own_x.data(), own_w.data(), y.data());
          r.sync();
          expect_block(shape, exact_product(shape, x, w), y, {0, shape.m}, units);
        }
      });
}

TEST(TileGemm, RowParallelAgreesWithFloat64) {
  for (const TileDelivery delivery : {TileDelivery::copied, TileDelivery::direct})
    for (const int world : {1, 2, 3, 4})
      for (const TileGemmShape& shape : kTileShapes)
        run_tile_ranks(world, RowParallelGemm::heap_bytes(shape, world), [&](const TileRank& r) {
          RowParallelGemm gemm(r.device, r.ops.matmul(), r.heap, shape, delivery);
          const TileRows rows = share(shape.m, world, r.rank), columns = share(shape.k, world, r.rank);
          for (int call = 0; call < kTileCalls; ++call) {
            const auto seed = static_cast<unsigned>(call) * 2;
            const std::vector<float> x = noise_of(seed + 31, shape.m * shape.k),
                                     w = noise_of(seed + 32, shape.n * shape.k);
            const std::vector<float> own_x = block_of(x, shape.k, {0, shape.m}, columns);
            const std::vector<float> own_w = block_of(w, shape.k, {0, shape.n}, columns);
            std::vector<float> y(static_cast<size_t>(rows.count() * shape.n), NAN);
            gemm.run(r.stream, own_x.data(), own_w.data(), y.data());
            r.sync();
            expect_block(shape, exact_product(shape, x, w), y, rows, {0, shape.n});
          }
        });
}

/// Calls without a wait of the host between them: a rank may be a call ahead, and its tiles must not overwrite those
/// that another rank still reads. All values are small integers, so that sums are exact.
TEST(TileGemm, CallsInARowKeepTheirTiles) {
  constexpr int kWorld = 3, kCalls = 60;
  const TileGemmShape shape{.m = 18, .n = 9, .k = 12, .tiles = 2};
  run_tile_ranks(kWorld, RowParallelGemm::heap_bytes(shape, kWorld) + ColumnParallelGemm::heap_bytes(shape, kWorld),
                 [&](const TileRank& r) {
                   ColumnParallelGemm first(r.device, r.ops.matmul(), r.heap, shape);
                   RowParallelGemm second(r.device, r.ops.matmul(), r.heap, shape, TileDelivery::copied);
                   const auto xs = static_cast<size_t>(shape.m * shape.k / kWorld);
                   const std::vector<float> w(static_cast<size_t>(shape.n * shape.k), 1.0f);
                   std::vector<std::vector<float>> x(kCalls), gathered(kCalls), summed(kCalls);
                   for (int call = 0; call < kCalls; ++call) {
                     const auto c = static_cast<size_t>(call);
                     x[c].assign(xs, static_cast<float>(call + r.rank));
                     gathered[c].resize(static_cast<size_t>(shape.m * shape.n / kWorld));
                     summed[c].resize(gathered[c].size());
                     first.run(r.stream, x[c].data(), w.data(), gathered[c].data());
                     second.run(r.stream, x[c].data(), w.data(), summed[c].data());
                   }
                   r.sync();
                   for (int call = 0; call < kCalls; ++call) {
                     const auto c = static_cast<size_t>(call);
                     const auto units = static_cast<size_t>(shape.n / kWorld);
                     for (size_t i = 0; i < gathered[c].size(); ++i) {
                       const auto from = static_cast<int>(i / units) / static_cast<int>(shape.m / kWorld);
                       ASSERT_EQ(gathered[c][i], static_cast<float>(shape.k * (call + from))) << call << " " << i;
                     }
                     const auto sum = static_cast<float>(shape.k / kWorld * (3 * call + 0 + 1 + 2));
                     EXPECT_EQ(summed[c], std::vector<float>(summed[c].size(), sum)) << call;
                   }
                 });
}

TEST(TileGemm, ARankWhoseTilesDoNotComeIsNamed) {
  const TileGemmShape shape{.m = 8, .n = 4, .k = 4, .tiles = 2};
  for (const bool column : {true, false}) {
    const Error error = error_of([&] {
      run_tile_ranks(
          2, RowParallelGemm::heap_bytes(shape, 2),
          [&](const TileRank& r) {
            std::vector<float> x(32), w(32), y(32);
            if (column) {
              ColumnParallelGemm gemm(r.device, r.ops.matmul(), r.heap, shape);
              if (r.rank == 0) gemm.run(r.stream, x.data(), w.data(), y.data());
              r.sync();
            } else {
              RowParallelGemm gemm(r.device, r.ops.matmul(), r.heap, shape, TileDelivery::copied);
              if (r.rank == 0) gemm.run(r.stream, x.data(), w.data(), y.data());
              r.sync();
            }
          },
          0.5);
    });
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
}

TEST(TileGemm, ShapesThatTheRanksDoNotDivideAreRefused) {
  run_tile_ranks(2, 1 << 16, [&](const TileRank& r) {
    const auto refuse = [&](const TileGemmShape& shape, const char* what) {
      for (const bool column : {true, false}) {
        const Error error = error_of([&] {
          if (column)
            ColumnParallelGemm(r.device, r.ops.matmul(), r.heap, shape);
          else
            RowParallelGemm(r.device, r.ops.matmul(), r.heap, shape, TileDelivery::direct);
        });
        EXPECT_EQ(error.cause(), Cause::usage) << what << ": " << error.what();
      }
    };
    refuse({.m = 7, .n = 4, .k = 4, .tiles = 1}, "rows");
    refuse({.m = 8, .n = 3, .k = 3, .tiles = 1}, "units and columns");
    refuse({.m = 8, .n = 4, .k = 4, .tiles = 0}, "no tile");
  });
}

}  // namespace
}  // namespace amdahl
