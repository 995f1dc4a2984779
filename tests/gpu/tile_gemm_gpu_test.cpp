// GEMMs whose tiles are pushed one by one, between all GPUs of this machine or partitions of one. Values are small
// integers, so that results are exact.
#include "comm/world.h"
#include "parallel/tensor/tile_gemm.h"
#include "several_gpus.h"

namespace amdahl {
namespace {

constexpr int kGpuTileCalls = 6;

float small_integer(int64_t i, int64_t j, int seed) {
  return static_cast<float>((i * 7 + j * 5 + i * j + seed) % 5 - 2);
}

class TileGemmGpuTest : public SeveralGpusTest {
 protected:
  /// Multiplies on every rank, a thread each, and compares all elements.
  void expect_exact(TileGemmShape shape, bool column, TileDelivery delivery) {
    const auto ranks = static_cast<int>(world());
    const auto comms = make_inproc_communicators(ranks, 30);
    run_rank_threads(
        ranks, [&](int rank) { run_rank(shape, column, delivery, *comms[static_cast<size_t>(rank)]); },
        [&](const Error& error) {
          for (const auto& comm : comms) comm->abort(error);
        });
  }

 private:
  struct Part {
    int64_t first_row, rows, first_column, columns;
  };
  static std::vector<float> values_of(const Part& part, int seed) {
    std::vector<float> values;
    for (int64_t i = 0; i < part.rows; ++i)
      for (int64_t j = 0; j < part.columns; ++j)
        values.push_back(small_integer(part.first_row + i, part.first_column + j, seed));
    return values;
  }

  void run_rank(const TileGemmShape& shape, bool column, TileDelivery delivery, Communicator& comm) {
    const auto r = static_cast<size_t>(comm.rank());
    const int64_t ranks = comm.world_size(), rank = comm.rank();
    Device& device = *devices_[r];
    Stream& stream = *streams_[r];
    const auto ops = make_cuda_ops(device, {});
    const Part x = column ? Part{rank * shape.m / ranks, shape.m / ranks, 0, shape.k}
                          : Part{0, shape.m, rank * shape.k / ranks, shape.k / ranks};
    const Part w = column ? Part{rank * shape.n / ranks, shape.n / ranks, 0, shape.k}
                          : Part{0, shape.n, rank * shape.k / ranks, shape.k / ranks};
    const Part y = column ? Part{0, shape.m, rank * shape.n / ranks, shape.n / ranks}
                          : Part{rank * shape.m / ranks, shape.m / ranks, 0, shape.n};
    const size_t bytes = column ? ColumnParallelGemm::heap_bytes(shape, comm.world_size())
                                : RowParallelGemm::heap_bytes(shape, comm.world_size());
    SymmetricHeap heap(device, comm, bytes, 30);
    std::unique_ptr<ColumnParallelGemm> first;
    std::unique_ptr<RowParallelGemm> second;
    if (column)
      first = std::make_unique<ColumnParallelGemm>(device, ops->matmul(), heap, shape);
    else
      second = std::make_unique<RowParallelGemm>(device, ops->matmul(), heap, shape, delivery);
    GpuArray<float> x32(device, stream, x.rows * x.columns), w32(device, stream, w.rows * w.columns);
    const auto element = static_cast<int64_t>(size_of(shape.type));
    GpuArray<char> xs(device, stream, x.rows * x.columns * element), ws(device, stream, w.rows * w.columns * element);
    std::vector<std::unique_ptr<GpuArray<float>>> results;
    for (int call = 0; call < kGpuTileCalls; ++call)
      results.push_back(std::make_unique<GpuArray<float>>(device, stream, y.rows * y.columns));
    w32.set(values_of(w, 1));
    ops->matmul().convert(stream, w32.data(), ws.data(), shape.type, w.rows * w.columns);
    x32.set(values_of(x, 0));
    ops->matmul().convert(stream, x32.data(), xs.data(), shape.type, x.rows * x.columns);
    if (column)
      first->prepare(stream, xs.data(), ws.data(), results[0]->data());
    else
      second->prepare(stream, xs.data(), ws.data(), results[0]->data());
    stream.synchronize(Deadline::after_seconds(60));
    comm.barrier(Deadline::after_seconds(60));
    for (int call = 0; call < kGpuTileCalls; ++call)  // without a wait between them
      if (column)
        first->run(stream, xs.data(), ws.data(), results[static_cast<size_t>(call)]->data());
      else
        second->run(stream, xs.data(), ws.data(), results[static_cast<size_t>(call)]->data());
    stream.synchronize(Deadline::after_seconds(60));
    comm.barrier(Deadline::after_seconds(60));
    std::vector<float> wanted;
    for (int64_t i = 0; i < y.rows; ++i)
      for (int64_t j = 0; j < y.columns; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < shape.k; ++t)
          sum += static_cast<double>(small_integer(y.first_row + i, t, 0)) * small_integer(y.first_column + j, t, 1);
        wanted.push_back(static_cast<float>(sum));
      }
    for (auto& result : results)
      EXPECT_EQ(result->get(), wanted) << (column ? "column" : "row") << " parallel, rank " << rank << ", "
                                       << shape.tiles << " tiles, " << to_string(shape.type);
    comm.barrier(Deadline::after_seconds(60));  // memory is freed when no rank computes any more
  }
};

TEST_F(TileGemmGpuTest, ResultsAreExact) {
  const auto ranks = static_cast<int64_t>(world());
  for (const DType type : {DType::f32, DType::bf16})
    for (const int tiles : {1, 3}) {
      const TileGemmShape shape{.m = 40 * ranks, .n = 24 * ranks, .k = 32 * ranks, .type = type, .tiles = tiles};
      expect_exact(shape, true, TileDelivery::copied);
      expect_exact(shape, false, TileDelivery::copied);
      expect_exact(shape, false, TileDelivery::direct);
    }
}

}  // namespace
}  // namespace amdahl
