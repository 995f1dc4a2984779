#include "measure/onesided/bench.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "measure/onesided/contest.h"
#include "measure/sampling/rank_results.h"
#include "ops/sequence/peer_norm.h"

namespace amdahl {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kCallsOfAGraph = 20;

/// Small integers, so that all sums are exact in every type.
float residual_at(int64_t row, int64_t column) { return static_cast<float>((row * 3 + column * 7) % 11 - 5); }
float partial_at(int64_t row, int64_t column, int rank) {
  return static_cast<float>((row * 5 + column * (rank + 2) + rank) % 7 - 3);
}

std::vector<NormSizes> default_norm_sizes(bool on_gpus) {
  if (on_gpus)
    return {{1, 4096},    {8, 4096},  {32, 4096}, {128, 4096}, {512, 4096},
            {2048, 4096}, {768, 192}, {512, 768}, {4096, 768}};
  return {{8, 256}, {64, 256}, {64, 1024}, {512, 1024}};
}

/// One rank's rows on its device, and both ways to normalise them.
class NormRank {
 public:
  NormRank(RankContext& context, const OneSidedSettings& settings, const NormSizes& sizes)
      : context_(context),
        settings_(settings),
        sizes_(sizes),
        type_(context.device.backend() == BackendKind::cuda ? DType::bf16 : DType::f32),
        start_(context.device.make_event()),
        end_(context.device.make_event()),
        stream_(context.device.make_stream("norm")) {
    x_ = upload([](int64_t row, int64_t column) { return residual_at(row, column); }, DType::f32);
    delta_ = upload([&](int64_t row, int64_t column) { return partial_at(row, column, context.rank); }, type_);
    gamma_ = upload([](int64_t, int64_t) { return 1.0f; }, DType::f32);
    beta_ = upload([](int64_t, int64_t) { return 0.0f; }, DType::f32);
    reduced_ = allocate(type_), sum_ = allocate(DType::f32), y_ = allocate(DType::f32);
    mean_ = context.device.allocate(static_cast<size_t>(sizes.rows) * sizeof(float));
    rstd_ = context.device.allocate(static_cast<size_t>(sizes.rows) * sizeof(float));
  }

  DType type() const { return type_; }
  bool in_graphs() const { return context_.device.backend() == BackendKind::cuda; }

  std::function<void()> after_collective(Communicator& communicator) {
    LayerNormForward a = arguments(reduced_->data());
    context_.ops->norm().layer_norm_forward(*stream_, a);  // loads the kernel before a rank waits for another
    return [this, &communicator, a] {
      communicator.all_reduce(delta_->data(), reduced_->data(), static_cast<size_t>(sizes_.rows * sizes_.width), type_,
                              ReduceOp::sum, *stream_);
      context_.ops->norm().layer_norm_forward(*stream_, a);
    };
  }
  std::function<void()> by_one_kernel() {
    const PeerNormSize size{sizes_.rows, sizes_.width, type_};
    auto heap =
        std::make_shared<SymmetricHeap>(context_.device, context_.communicator,
                                        PeerNorm::heap_bytes(size, context_.world_size), settings_.timeout_seconds);
    std::shared_ptr<PeerNorm> norm = make_peer_norm(context_.device, *heap, size);
    return [this, heap, norm] { norm->forward(*stream_, arguments(delta_->data())); };
  }

  /// Prepares time_us and count_wrong: a graph of several calls on GPUs.
  void use(std::function<void()> call) {
    graph_.reset();
    call_ = std::move(call);
    meet();
    call_();  // eagerly once, before it is captured
    meet();
    if (!in_graphs()) return;
    graph_ = context_.device.capture(*stream_, [&] {
      for (int i = 0; i < kCallsOfAGraph; ++i) call_();
    });
    meet();
  }
  int calls() const { return graph_ ? kCallsOfAGraph : 1; }
  /// Microseconds of `times` turns of calls() on this rank.
  double time_us(int64_t times) {
    context_.communicator.barrier(deadline());
    stream_->stamp(*start_);
    for (int64_t i = 0; i < times; ++i) turn();
    stream_->stamp(*end_);
    stream_->synchronize(deadline());
    return context_.device.elapsed_us(*start_, *end_);
  }
  /// Rows of all ranks' results that are wrong.
  double count_wrong() {
    context_.device.fill_zero(*stream_, y_->data(), y_->bytes());
    context_.device.fill_zero(*stream_, sum_->data(), sum_->bytes());
    turn();
    const std::vector<float> sums = download(*sum_), normalised = download(*y_);
    double wrong = 0;
    for (int64_t row = 0; row < sizes_.rows; ++row) wrong += is_right(row, sums, normalised) ? 0 : 1;
    double all = 0;
    for (const double each : exchange_results(context_.communicator, wrong, deadline())) all += each;
    return all;
  }
  /// Waits for all ranks: memory of a method may be freed afterwards.
  void meet() {
    stream_->synchronize(deadline());
    context_.communicator.barrier(deadline());
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }
  void turn() {
    if (graph_)
      graph_->launch(*stream_);
    else
      call_();
  }
  LayerNormForward arguments(const void* delta) const {
    LayerNormForward a{};
    a.x = x_->as<float>(), a.delta = delta, a.sum = sum_->as<float>();
    a.gamma = gamma_->as<float>(), a.beta = beta_->as<float>(), a.y = y_->data();
    a.mean = mean_->as<float>(), a.rstd = rstd_->as<float>();
    a.rows = sizes_.rows, a.width = sizes_.width, a.epsilon = kEpsilon, a.type = type_;
    return a;
  }
  std::unique_ptr<Buffer> allocate(DType type) const {
    return context_.device.allocate(static_cast<size_t>(sizes_.rows * sizes_.width) * size_of(type));
  }
  template <class Value>
  std::unique_ptr<Buffer> upload(const Value& value, DType type) {
    std::vector<float> host;
    host.reserve(static_cast<size_t>(sizes_.rows * sizes_.width));
    for (int64_t row = 0; row < sizes_.rows; ++row)
      for (int64_t column = 0; column < sizes_.width; ++column) host.push_back(value(row, column));
    std::unique_ptr<Buffer> floats = allocate(DType::f32), typed;
    context_.device.copy_in(*stream_, floats->data(), host.data(), floats->bytes());
    if (type != DType::f32) {
      typed = allocate(type);
      context_.ops->matmul().convert(*stream_, floats->as<float>(), typed->data(), type,
                                     static_cast<int64_t>(host.size()));
    }
    stream_->synchronize(deadline());
    return typed ? std::move(typed) : std::move(floats);
  }
  std::vector<float> download(Buffer& buffer) {
    std::vector<float> host(buffer.bytes() / sizeof(float));
    context_.device.copy_out(*stream_, host.data(), buffer.data(), buffer.bytes());
    stream_->synchronize(deadline());
    return host;
  }
  bool is_right(int64_t row, const std::vector<float>& sums, const std::vector<float>& normalised) const {
    constexpr double kTolerance = 1e-4;  // of values around 1 in f32
    std::vector<double> exact(static_cast<size_t>(sizes_.width));
    double mean = 0, squares = 0;
    for (int64_t column = 0; column < sizes_.width; ++column) {
      double& value = exact[static_cast<size_t>(column)];
      value = static_cast<double>(residual_at(row, column));
      for (int rank = 0; rank < context_.world_size; ++rank)
        value += static_cast<double>(partial_at(row, column, rank));
      mean += value / static_cast<double>(sizes_.width);
    }
    for (const double value : exact) squares += (value - mean) * (value - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(sizes_.width) + static_cast<double>(kEpsilon));
    for (size_t column = 0; column < exact.size(); ++column) {
      const size_t at = static_cast<size_t>(row * sizes_.width) + column;
      if (static_cast<double>(sums[at]) != exact[column]) return false;
      const double y = static_cast<double>(normalised[at]);
      if (!(std::abs(y - (exact[column] - mean) * rstd) <= kTolerance)) return false;
    }
    return true;
  }

  RankContext& context_;
  const OneSidedSettings& settings_;
  const NormSizes sizes_;
  const DType type_;
  std::unique_ptr<Buffer> x_, delta_, gamma_, beta_, reduced_, sum_, y_, mean_, rstd_;
  std::unique_ptr<Event> start_, end_;
  std::unique_ptr<Stream> stream_;
  std::function<void()> call_;
  std::unique_ptr<Graph> graph_;
};

Record measure_norm(NormRank& rank, RankSampler& sampler, const OneSidedSettings& settings, const NormSizes& sizes,
                    const std::string& transport) {
  const double wrong = rank.count_wrong();
  Series us{"time", "us", sample_calls(sampler, settings, [&](int64_t turns) { return rank.time_us(turns); })};
  for (double& sample : us.samples) sample /= rank.calls();
  Record record;
  record.kind = "onesided-norm";
  record.provenance = settings.provenance;
  record.axes = {{"transport", transport},
                 {"rows", sizes.rows},
                 {"width", sizes.width},
                 {"type", std::string(to_string(rank.type()))},
                 {"launch", std::string(rank.in_graphs() ? "graph" : "eager")},
                 {"devices", int64_t{settings.devices}},
                 {"ranks", settings.ranks}};
  record.series = {std::move(us), {"wrong", "rows", {wrong}}};
  if (wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} rows are wrong", wrong)};
  return record;
}

}  // namespace

void run_onesided_norms(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer) {
  const std::vector<NormSizes> all =
      settings.norm_sizes.empty() ? default_norm_sizes(backend_of(fleet) == BackendKind::cuda) : settings.norm_sizes;
  fleet.run(settings.devices, [&](RankContext& context) {
    RankSampler sampler(context.communicator, settings.timeout_seconds);
    const auto symmetric = make_contest_communicator(context, settings);
    int done = 0;
    for (const NormSizes& sizes : all) {
      NormRank rank(context, settings, sizes);
      const auto measure = [&](const std::string& transport, std::function<void()> call) {
        rank.use(std::move(call));
        Record record = measure_norm(rank, sampler, settings, sizes, transport);
        rank.meet();
        record.origin = origin_of(context, settings);
        if (context.rank == 0) sink(record);
      };
      if (settings.two_sided) measure(context.communicator.backend_name(), rank.after_collective(context.communicator));
      measure(symmetric->backend_name(), rank.after_collective(*symmetric));
      measure("one-sided", rank.by_one_kernel());
      if (context.rank == 0)
        observer.progress(++done, static_cast<int>(all.size()), fmt::format("{} rows of {}", sizes.rows, sizes.width));
    }
  });
}

}  // namespace amdahl
