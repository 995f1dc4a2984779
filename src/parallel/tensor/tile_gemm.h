// GEMMs of tensor parallelism whose tiles are communicated one by one, as soon as they exist: the all-gather before a
// column-parallel GEMM and the reduce-scatter after a row-parallel one become puts with a signal per tile.
//
// Example, on every rank of a team:
//   ColumnParallelGemm gemm(device, ops.matmul(), heap, {.m = 512, .n = 2048, .k = 1024, .tiles = 4});
//   gemm.run(*stream, x_rows, w_units, y);  // y = all rows of x times this rank's units
#pragma once

#include <memory>
#include <vector>

#include "ops/gemm/matmul_ops.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {

/// The whole GEMM y[m,n] = x[m,k] w[n,k]^T over the ranks of a team. x and w are of `type` (f32, bf16, f16); y and the
/// partial results that travel are f32.
struct TileGemmShape {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::f32;
  int tiles = 1;  // of a rank's m / ranks rows; the last ones may be smaller or absent
};

/// How a tile gets to its owner.
enum class TileDelivery {
  copied,  // computed into memory of this rank, then put on a second stream beside the next tile's GEMM
  direct,  // the GEMM writes into the owner's memory
};

/// Rows [begin, end) of a tile of `rows` rows; empty for tiles that have none.
struct TileRows {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
TileRows rows_of_tile(int64_t rows, int tiles, int tile);

/// What both GEMMs have: one rank's part. Not thread-safe. All ranks construct and run the same, in the same order.
/// Before the first run, call prepare, wait for the stream and meet the other ranks: libraries may allocate memory at
/// the first use of a shape, which can block while a kernel waits for another rank.
/// Errors of a run are those of SymmetricHeap: the stream's synchronize throws Error{rank_hung} with the rank whose
/// tile did not come.
///
/// Memory alternates between two sets: a rank writes the set of call e + 2 only after it has got tiles of call e + 1
/// from every rank, each of which sends those after it has used all tiles of call e.
class TileGemm {
 public:
  TileGemm(const TileGemm&) = delete;
  TileGemm& operator=(const TileGemm&) = delete;

 protected:
  TileGemm(Device& device, MatMulOps& ops, SymmetricHeap& heap, const TileGemmShape& shape, size_t set_bytes);
  ~TileGemm();

  int rank() const { return heap_.team().rank; }
  int world() const { return heap_.team().size(); }
  int64_t rows() const { return shape_.m / world(); }  // of one rank
  int64_t tile_rows() const { return rows_of_tile(rows(), shape_.tiles, 0).end; }
  /// Starts a call: its signals have value call(), the second stream begins after the work on `stream`.
  void begin(Stream& stream);
  /// Work on `stream` after the call starts after that on the second stream.
  void end(Stream& stream);
  uint64_t call() const { return calls_; }
  size_t set() const { return (calls_ & 1) * set_bytes_; }
  SymmetricSlice<Signal> signal_of(int from, int tile) const {
    return {signals_, static_cast<size_t>(from * shape_.tiles + tile), 1};
  }
  /// Puts `bytes` at `offset` of the set to rank `to` and signals this rank's `tile` there; without bytes only the
  /// latter.
  void send(Stream& stream, size_t offset, const void* from, size_t bytes, int tile, int to);
  void wait(Stream& stream, int from, int tile) { heap_.signal_wait(stream, signal_of(from, tile), call(), from); }
  /// The numbers of rows of the GEMMs of a call.
  template <class Fn>
  void for_each_size(const Fn& fn) const {
    int64_t last = 0;
    for (int tile = -1; tile < shape_.tiles; ++tile) {
      const int64_t count = tile < 0 ? rows() : rows_of_tile(rows(), shape_.tiles, tile).count();
      if (count > 0 && count != last) fn(last = count);
    }
  }
  char* tiles_of(int of) const { return heap_.peer(tiles_, of) + set(); }

  Device& device_;
  MatMulOps& ops_;
  SymmetricHeap& heap_;
  const TileGemmShape shape_;
  const size_t set_bytes_;
  std::unique_ptr<Event> begun_, sent_;
  std::unique_ptr<Stream> second_;

 private:
  uint64_t calls_ = 0;
  SymmetricArray<char> tiles_;
  SymmetricArray<Signal> signals_;
};

/// All-gather, then GEMM: each rank has m / ranks rows of x and n / ranks units of w, and gets all rows of its units.
/// It pushes its rows to all ranks tile by tile and multiplies each tile that arrives.
class ColumnParallelGemm final : public TileGemm {
 public:
  /// Collective, blocks the host; takes heap_bytes() of the heap. Error{usage} when the ranks do not divide m and n.
  ColumnParallelGemm(Device& device, MatMulOps& ops, SymmetricHeap& heap, const TileGemmShape& shape);
  static size_t heap_bytes(const TileGemmShape& shape, int ranks);
  /// Enqueues each kind of GEMM of a call once, without communication; y is overwritten.
  void prepare(Stream& stream, const void* x, const void* w, float* y);
  /// x[m / ranks, k], w[n / ranks, k], y[m, n / ranks]; enqueues and returns.
  void run(Stream& stream, const void* x, const void* w, float* y);

 private:
  void multiply(Stream& stream, const void* x, const void* w, float* y, int64_t row, int64_t count);
};

/// GEMM, then reduce-scatter: each rank has k / ranks columns of x and w, and gets the sums of m / ranks rows. A tile's
/// partial result goes to its owner as soon as it is computed; the owner adds up the ranks' results.
class RowParallelGemm final : public TileGemm {
 public:
  /// As ColumnParallelGemm; the ranks must divide m and k.
  RowParallelGemm(Device& device, MatMulOps& ops, SymmetricHeap& heap, const TileGemmShape& shape,
                  TileDelivery delivery);
  static size_t heap_bytes(const TileGemmShape& shape, int ranks);
  /// Enqueues each kind of GEMM of a call once, without communication; y is overwritten.
  void prepare(Stream& stream, const void* x, const void* w, float* y);
  /// x[m, k / ranks], w[n, k / ranks], y[m / ranks, n]; enqueues and returns.
  void run(Stream& stream, const void* x, const void* w, float* y);

 private:
  /// Where rank `from`'s part of a tile is in a set: the ranks' parts of a tile are adjacent.
  size_t place(int tile, int from) const;
  void multiply(Stream& stream, const void* x, const void* w, float* partial, int64_t row, int64_t count);

  const TileDelivery delivery_;
  std::unique_ptr<Buffer> staged_;             // tiles for the other ranks
  std::vector<std::unique_ptr<Event>> ready_;  // by owner and tile
};

}  // namespace amdahl
