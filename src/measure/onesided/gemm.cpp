#include "measure/onesided/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "measure/onesided/contest.h"
#include "measure/sampling/rank_results.h"
#include "parallel/tensor/tile_gemm.h"

namespace amdahl {
namespace {

constexpr const char* kColumn = "all_gather_gemm";
constexpr const char* kRow = "gemm_reduce_scatter";

/// Small integers, so that all sums are exact in f32.
int x_at(int64_t row, int64_t column) { return static_cast<int>((row * 7 + column * 13 + row * column % 11) % 5) - 2; }
int w_at(int64_t unit, int64_t column) { return static_cast<int>((unit * 5 + column * 3 + unit * column % 7) % 5) - 2; }
int64_t weight_of(int64_t unit) { return unit * 29 % 31 + 1; }

/// One rank's part of a GEMM: its operands and result on the device, and what the result's rows add up to.
class GemmRank {
 public:
  GemmRank(RankContext& context, const OneSidedSettings& settings, const GemmSizes& sizes, bool column,
           Communicator* symmetric)
      : context_(context),
        settings_(settings),
        column_(column),
        shape_{.m = sizes.m, .n = sizes.n, .k = sizes.k},
        rows_(sizes.m / context.world_size),
        width_(column ? sizes.n / context.world_size : sizes.n),
        terms_(column ? sizes.k : sizes.k / context.world_size),
        start_(context.device.make_event()),
        end_(context.device.make_event()),
        stream_(context.device.make_stream("gemm")) {
    shape_.type = context.device.backend() == BackendKind::cuda ? DType::bf16 : DType::f32;
    const int64_t x_rows = column ? rows_ : sizes.m, y_rows = column ? sizes.m : rows_;
    const int64_t first_row = column ? context.rank * rows_ : 0, first_unit = column ? context.rank * width_ : 0;
    const int64_t first_term = column ? 0 : context.rank * terms_;
    x_ = upload(x_rows, [&](int64_t i, int64_t j) { return x_at(first_row + i, first_term + j); });
    w_ = upload(width_, [&](int64_t i, int64_t j) { return w_at(first_unit + i, first_term + j); });
    y_ = context.device.allocate(static_cast<size_t>(y_rows * width_) * sizeof(float));
    whole_ = column ? context.device.allocate(static_cast<size_t>(sizes.m * sizes.k) * size_of(shape_.type))
                    : context.device.allocate(static_cast<size_t>(sizes.m * sizes.n) * sizeof(float));
    expect(first_unit, column ? 0 : context.rank * rows_, y_rows);
    if (settings.two_sided) communicators_.push_back(&context.communicator);
    if (symmetric) communicators_.push_back(symmetric);
  }

  const TileGemmShape& shape() const { return shape_; }
  const std::vector<Communicator*>& communicators() const { return communicators_; }

  /// The collective and the whole GEMM, one after the other.
  std::function<void()> after_collective(Communicator& communicator) {
    multiply_whole();  // libraries choose their algorithms before a rank waits for another
    meet();
    return [this, &communicator] {
      const auto part = static_cast<size_t>(column_ ? rows_ * shape_.k : rows_ * shape_.n);
      if (column_) communicator.all_gather(x_->data(), whole_->data(), part, shape_.type, *stream_);
      multiply_whole();
      if (!column_) communicator.reduce_scatter(whole_->data(), y_->data(), part, DType::f32, ReduceOp::sum, *stream_);
    };
  }
  /// Tiles, on a heap of their own.
  std::function<void()> by_tiles(int tiles, TileDelivery delivery) {
    TileGemmShape shape = shape_;
    shape.tiles = tiles;
    const size_t bytes = column_ ? ColumnParallelGemm::heap_bytes(shape, context_.world_size)
                                 : RowParallelGemm::heap_bytes(shape, context_.world_size);
    auto heap =
        std::make_shared<SymmetricHeap>(context_.device, context_.communicator, bytes, settings_.timeout_seconds);
    const auto runs = [&](auto gemm) -> std::function<void()> {
      gemm->prepare(*stream_, x_->data(), w_->data(), y_->as<float>());
      meet();
      return [this, heap, gemm] { gemm->run(*stream_, x_->data(), w_->data(), y_->as<float>()); };
    };
    MatMulOps& ops = context_.ops->matmul();
    if (column_) return runs(std::make_shared<ColumnParallelGemm>(context_.device, ops, *heap, shape));
    return runs(std::make_shared<RowParallelGemm>(context_.device, ops, *heap, shape, delivery));
  }

  /// Microseconds of `times` calls on this rank.
  double time_us(const std::function<void()>& call, int64_t times) {
    context_.communicator.barrier(deadline());
    stream_->stamp(*start_);
    for (int64_t i = 0; i < times; ++i) call();
    stream_->stamp(*end_);
    stream_->synchronize(deadline());
    return context_.device.elapsed_us(*start_, *end_);
  }
  /// Rows of the last result, over all ranks, whose weighted sum is not exact.
  double count_wrong(const std::function<void()>& call) {
    context_.device.fill_zero(*stream_, y_->data(), y_->bytes());
    call();
    std::vector<float> y(y_->bytes() / sizeof(float));
    context_.device.copy_out(*stream_, y.data(), y_->data(), y_->bytes());
    stream_->synchronize(deadline());
    double wrong = 0;
    for (size_t row = 0; row < expected_.size(); ++row) {
      double sum = 0;
      for (int64_t unit = 0; unit < width_; ++unit)
        sum += y[row * static_cast<size_t>(width_) + static_cast<size_t>(unit)] * static_cast<double>(weight_of(unit));
      wrong += sum == static_cast<double>(expected_[row]) ? 0 : 1;
    }
    double all = 0;
    for (const double each : exchange_results(context_.communicator, wrong, deadline())) all += each;
    return all;
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }
  void meet() {
    stream_->synchronize(deadline());
    context_.communicator.barrier(deadline());
  }

  /// A matrix of `terms_` columns in the type of the operands.
  template <class Value>
  std::unique_ptr<Buffer> upload(int64_t rows, const Value& value) {
    std::vector<float> host;
    host.reserve(static_cast<size_t>(rows * terms_));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < terms_; ++j) host.push_back(static_cast<float>(value(i, j)));
    std::unique_ptr<Buffer> floats = context_.device.allocate(host.size() * sizeof(float));
    context_.device.copy_in(*stream_, floats->data(), host.data(), floats->bytes());
    std::unique_ptr<Buffer> typed;
    if (shape_.type != DType::f32) {
      typed = context_.device.allocate(host.size() * size_of(shape_.type));
      context_.ops->matmul().convert(*stream_, floats->as<float>(), typed->data(), shape_.type,
                                     static_cast<int64_t>(host.size()));
    }
    stream_->synchronize(deadline());
    return typed ? std::move(typed) : std::move(floats);
  }

  /// The weighted sums of the rows of the exact result.
  void expect(int64_t first_unit, int64_t first_row, int64_t rows) {
    std::vector<int64_t> combined(static_cast<size_t>(shape_.k));
    for (int64_t unit = 0; unit < width_; ++unit)
      for (int64_t term = 0; term < shape_.k; ++term)
        combined[static_cast<size_t>(term)] += weight_of(unit) * w_at(first_unit + unit, term);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t sum = 0;
      for (int64_t term = 0; term < shape_.k; ++term)
        sum += combined[static_cast<size_t>(term)] * x_at(first_row + row, term);
      expected_.push_back(sum);
    }
  }

  void multiply_whole() {
    MatMul a{.a = column_ ? whole_->data() : x_->data(),
             .b = w_->data(),
             .c = column_ ? y_->data() : whole_->data(),
             .m = shape_.m,
             .n = width_,
             .k = terms_};
    a.transpose_b = true, a.type = shape_.type;
    context_.ops->matmul().matmul(*stream_, a);
  }

  RankContext& context_;
  const OneSidedSettings& settings_;
  const bool column_;
  TileGemmShape shape_;
  const int64_t rows_, width_, terms_;  // rows of a rank, columns of y, terms of a sum on this rank
  std::unique_ptr<Buffer> x_, w_, y_, whole_;
  std::vector<int64_t> expected_;
  std::vector<Communicator*> communicators_;
  std::unique_ptr<Event> start_, end_;
  std::unique_ptr<Stream> stream_;
};

struct GemmMethod {
  std::string transport;
  int tiles = 0;  // 0: no tiles
  std::function<std::function<void()>()> make;
};

std::vector<GemmMethod> methods_of(GemmRank& rank, const OneSidedSettings& settings, bool column) {
  std::vector<GemmMethod> methods;
  for (Communicator* communicator : rank.communicators())
    methods.push_back(
        {communicator->backend_name(), 0, [&rank, communicator] { return rank.after_collective(*communicator); }});
  for (const int tiles : settings.gemm_tiles) {
    methods.push_back({"one-sided", tiles, [&rank, tiles] { return rank.by_tiles(tiles, TileDelivery::copied); }});
    if (!column)
      methods.push_back(
          {"one-sided direct", tiles, [&rank, tiles] { return rank.by_tiles(tiles, TileDelivery::direct); }});
  }
  return methods;
}

Record measure_method(GemmRank& rank, RankSampler& sampler, const OneSidedSettings& settings,
                      const GemmMethod& method) {
  const std::function<void()> call = method.make();
  const double wrong = rank.count_wrong(call);
  const TileGemmShape& shape = rank.shape();
  Series us{"time", "us", sample_calls(sampler, settings, [&](int64_t times) { return rank.time_us(call, times); })};
  Series rate{"rate", "GFLOP/s", {}};
  for (const double each : us.samples)
    rate.samples.push_back(2e-3 * static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k) / each);
  Record record;
  record.kind = "onesided-gemm";
  record.provenance = settings.provenance;
  record.axes = {{"transport", method.transport},
                 {"m", shape.m},
                 {"n", shape.n},
                 {"k", shape.k},
                 {"type", std::string(to_string(shape.type))}};
  if (method.tiles > 0) record.axes["tiles"] = int64_t{method.tiles};
  record.series = {std::move(us), std::move(rate), {"wrong", "rows", {wrong}}};
  if (wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} rows are wrong", wrong)};
  return record;
}

}  // namespace

std::vector<GemmSizes> default_gemm_sizes(bool on_gpus) {
  if (on_gpus)
    return {{64, 4096, 4096},    {512, 4096, 4096},   {2048, 4096, 4096}, {8192, 4096, 4096},  {64, 14336, 4096},
            {2048, 14336, 4096}, {8192, 14336, 4096}, {64, 4096, 14336},  {2048, 4096, 14336}, {8192, 4096, 14336}};
  return {{64, 256, 256},  {64, 1024, 256},  {64, 256, 1024},  {64, 1024, 1024},
          {512, 256, 256}, {512, 1024, 256}, {512, 256, 1024}, {512, 1024, 1024}};
}

void run_onesided_gemms(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer) {
  const std::vector<GemmSizes> all =
      settings.gemm_sizes.empty() ? default_gemm_sizes(backend_of(fleet) == BackendKind::cuda) : settings.gemm_sizes;
  for (const GemmSizes& sizes : all)
    for (const auto& [value, name] : {std::pair{sizes.m, "M"}, std::pair{sizes.n, "N"}, std::pair{sizes.k, "K"}})
      if (value % settings.devices != 0)
        throw Error(Cause::usage,
                    fmt::format("`shapes`: {} is {}, which {} ranks do not divide", name, value, settings.devices),
                    fmt::format("a multiple of {}", settings.devices));
  fleet.run(settings.devices, [&](RankContext& context) {
    RankSampler sampler(context.communicator, settings.timeout_seconds);
    const auto symmetric = make_contest_communicator(context, settings);
    int done = 0;
    for (const GemmSizes& sizes : all)
      for (const bool column : {true, false}) {
        GemmRank rank(context, settings, sizes, column, symmetric.get());
        for (const GemmMethod& method : methods_of(rank, settings, column)) {
          Record record = measure_method(rank, sampler, settings, method);
          record.axes.insert({{"gemm", std::string(column ? kColumn : kRow)},
                              {"devices", int64_t{settings.devices}},
                              {"ranks", settings.ranks}});
          record.origin = origin_of(context, settings);
          if (context.rank == 0) sink(record);
        }
        ++done;
        if (context.rank == 0)
          observer.progress(done, static_cast<int>(all.size()) * 2,
                            fmt::format("{} x {} x {}", sizes.m, sizes.n, sizes.k));
      }
  });
}

}  // namespace amdahl
