#include "parallel/tensor/tile_gemm.h"

#include <fmt/format.h>

#include <algorithm>

namespace amdahl {
namespace {

constexpr size_t kHeapGrain = 256;  // of an allocation in the heap

void check_divides(int ranks, int64_t value, const char* what) {
  if (value <= 0 || value % ranks != 0)
    throw Error(Cause::usage, fmt::format("{} = {} of a GEMM over {} ranks", what, value, ranks),
                fmt::format("a multiple of {}", ranks));
}

/// `divided`: the second dimension that the ranks divide.
const TileGemmShape& checked(const TileGemmShape& shape, const SymmetricHeap& heap, int64_t divided, const char* what) {
  check_divides(heap.team().size(), shape.m, "m");
  check_divides(heap.team().size(), divided, what);
  if (shape.tiles < 1 || shape.n <= 0 || shape.k <= 0)
    throw Error(Cause::usage, fmt::format("a GEMM of {} x {} x {} in {} tiles", shape.m, shape.n, shape.k, shape.tiles),
                "sizes and tiles of at least 1");
  return shape;
}

size_t signal_bytes(const TileGemmShape& shape, int ranks) {
  return static_cast<size_t>(ranks) * static_cast<size_t>(shape.tiles) * sizeof(Signal);
}

size_t gathered_bytes(const TileGemmShape& shape) {
  return static_cast<size_t>(shape.m * shape.k) * size_of(shape.type);
}

/// All ranks' parts of this rank's tiles; every tile has the space of the largest one.
size_t partial_bytes(const TileGemmShape& shape, int ranks) {
  const int64_t tile = rows_of_tile(shape.m / ranks, shape.tiles, 0).count();
  return static_cast<size_t>(ranks * shape.tiles * tile * shape.n) * sizeof(float);
}

size_t with_signals(size_t set_bytes, const TileGemmShape& shape, int ranks) {
  return 2 * set_bytes + signal_bytes(shape, ranks) + 2 * kHeapGrain;
}

}  // namespace

TileRows rows_of_tile(int64_t rows, int tiles, int tile) {
  const int64_t most = (rows + tiles - 1) / tiles, begin = std::min(rows, tile * most);
  return {begin, std::min(rows, begin + most)};
}

TileGemm::TileGemm(Device& device, MatMulOps& ops, SymmetricHeap& heap, const TileGemmShape& shape, size_t set_bytes)
    : device_(device),
      ops_(ops),
      heap_(heap),
      shape_(shape),
      set_bytes_(set_bytes),
      begun_(device.make_event()),
      sent_(device.make_event()),
      second_(device.make_stream("comm tiles")),
      tiles_(heap.allocate<char>(2 * set_bytes)),
      signals_(heap.allocate<Signal>(static_cast<size_t>(heap.team().size()) * static_cast<size_t>(shape.tiles))) {}

TileGemm::~TileGemm() = default;

void TileGemm::begin(Stream& stream) {
  ++calls_;
  stream.record(*begun_);
  second_->wait(*begun_);
}

void TileGemm::end(Stream& stream) {
  second_->record(*sent_);
  stream.wait(*sent_);
}

void TileGemm::send(Stream& stream, size_t offset, const void* from, size_t bytes, int tile, int to) {
  heap_.put_signal(stream, {tiles_, set() + offset, bytes}, static_cast<const char*>(from), signal_of(rank(), tile),
                   call(), to);
}

ColumnParallelGemm::ColumnParallelGemm(Device& device, MatMulOps& ops, SymmetricHeap& heap, const TileGemmShape& shape)
    : TileGemm(device, ops, heap, shape, gathered_bytes(checked(shape, heap, shape.n, "n"))) {}

size_t ColumnParallelGemm::heap_bytes(const TileGemmShape& shape, int ranks) {
  return with_signals(gathered_bytes(shape), shape, ranks);
}

void ColumnParallelGemm::multiply(Stream& stream, const void* x, const void* w, float* y, int64_t row, int64_t count) {
  const int64_t units = shape_.n / world();
  MatMul a{.a = x, .b = w, .c = y + row * units, .m = count, .n = units, .k = shape_.k};
  a.transpose_b = true, a.type = shape_.type;
  ops_.matmul(stream, a);
}

void ColumnParallelGemm::prepare(Stream& stream, const void* x, const void* w, float* y) {
  for_each_size([&](int64_t count) { multiply(stream, x, w, y, 0, count); });
}

void ColumnParallelGemm::run(Stream& stream, const void* x, const void* w, float* y) {
  const size_t row_bytes = static_cast<size_t>(shape_.k) * size_of(shape_.type);
  const auto offset = [&](int64_t row) { return static_cast<size_t>(row) * row_bytes; };
  begin(stream);
  for (int tile = 0; tile < shape_.tiles; ++tile) {
    const TileRows part = rows_of_tile(rows(), shape_.tiles, tile);
    for (int step = 1; step < world(); ++step)
      send(*second_, offset(rank() * rows() + part.begin), static_cast<const char*>(x) + offset(part.begin),
           offset(part.count()), tile, (rank() + step) % world());
  }
  multiply(stream, x, w, y, rank() * rows(), rows());
  for (int tile = 0; tile < shape_.tiles; ++tile) {
    const TileRows part = rows_of_tile(rows(), shape_.tiles, tile);
    for (int step = 1; step < world(); ++step) {
      const int from = (rank() + world() - step) % world();
      wait(stream, from, tile);
      const int64_t row = from * rows() + part.begin;
      if (part.count() > 0) multiply(stream, tiles_of(rank()) + offset(row), w, y, row, part.count());
    }
  }
  end(stream);
}

RowParallelGemm::RowParallelGemm(Device& device, MatMulOps& ops, SymmetricHeap& heap, const TileGemmShape& shape,
                                 TileDelivery delivery)
    : TileGemm(device, ops, heap, shape, partial_bytes(checked(shape, heap, shape.k, "k"), heap.team().size())),
      delivery_(delivery) {
  if (delivery == TileDelivery::direct) return;
  staged_ = device.allocate(static_cast<size_t>(shape.m * shape.n) * sizeof(float));
  for (int i = 0; i < world() * shape.tiles; ++i) ready_.push_back(device.make_event());
}

size_t RowParallelGemm::heap_bytes(const TileGemmShape& shape, int ranks) {
  return with_signals(partial_bytes(shape, ranks), shape, ranks);
}

size_t RowParallelGemm::place(int tile, int from) const {
  // A smaller tile's parts are adjacent too, so that one call adds them up.
  const int64_t count = rows_of_tile(rows(), shape_.tiles, tile).count();
  return static_cast<size_t>((tile * world() * tile_rows() + from * count) * shape_.n) * sizeof(float);
}

void RowParallelGemm::multiply(Stream& stream, const void* x, const void* w, float* partial, int64_t row,
                               int64_t count) {
  const int64_t columns = shape_.k / world();
  const size_t skipped = static_cast<size_t>(row * columns) * size_of(shape_.type);
  MatMul a{.a = static_cast<const char*>(x) + skipped, .b = w, .c = partial, .m = count, .n = shape_.n, .k = columns};
  a.transpose_b = true, a.type = shape_.type;
  ops_.matmul(stream, a);
}

void RowParallelGemm::prepare(Stream& stream, const void* x, const void* w, float* y) {
  // The partial results are in this rank's memory, where a later call overwrites them.
  auto* partial = reinterpret_cast<float*>(tiles_of(rank()));
  for_each_size([&](int64_t count) {
    if (count <= tile_rows()) multiply(stream, x, w, partial, 0, count);
  });
  ops_.column_sums(stream, partial, DType::f32, y, 1, tile_rows() * shape_.n, false);
}

void RowParallelGemm::run(Stream& stream, const void* x, const void* w, float* y) {
  begin(stream);
  for (int tile = 0; tile < shape_.tiles; ++tile) {
    const TileRows part = rows_of_tile(rows(), shape_.tiles, tile);
    const size_t bytes = static_cast<size_t>(part.count() * shape_.n) * sizeof(float);
    for (int step = 1; step <= world(); ++step) {
      const int owner = (rank() + step) % world();  // this rank last
      const int64_t row = owner * rows() + part.begin;
      const bool copied = delivery_ == TileDelivery::copied && owner != rank();
      auto* partial = copied ? staged_->as<float>() + row * shape_.n
                             : reinterpret_cast<float*>(tiles_of(owner) + place(tile, rank()));
      if (part.count() > 0) multiply(stream, x, w, partial, row, part.count());
      if (owner == rank()) continue;
      if (copied) {
        Event& ready =
            *ready_[static_cast<size_t>(owner) * static_cast<size_t>(shape_.tiles) + static_cast<size_t>(tile)];
        stream.record(ready);
        second_->wait(ready);
      }
      send(copied ? *second_ : stream, place(tile, rank()), partial, copied ? bytes : 0, tile, owner);
    }
  }
  for (int tile = 0; tile < shape_.tiles; ++tile) {
    const TileRows part = rows_of_tile(rows(), shape_.tiles, tile);
    for (int step = 1; step < world(); ++step) wait(stream, (rank() + step) % world(), tile);
    if (part.count() == 0) continue;
    ops_.column_sums(stream, tiles_of(rank()) + place(tile, 0), DType::f32, y + part.begin * shape_.n, world(),
                     part.count() * shape_.n, false);
  }
  end(stream);
}

}  // namespace amdahl
