#include "measure/collectives/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "measure/sampling/rank_results.h"
#include "measure/sampling/rank_sampler.h"

namespace amdahl {
namespace {

constexpr size_t kHostBytes = 32 << 20;  // of a rank's data in host memory; holds whole elements
constexpr double kImpossible = 1.05;     // times the physical peak: a higher measurement is an error

struct Cell {
  int64_t bytes = 0;
  bool in_place = false;
  CollectiveShape shape;
};

/// The measurement of one rank, or its error.
struct SweepResult {
  double time_us = 0;
  std::vector<double> call_us;
  double wrong = 0;
  std::string error;
};

template <class Archive>
void visit_fields(Archive& archive, SweepResult& result) {
  archive(result.time_us, result.call_us, result.wrong, result.error);
}

/// The slowest rank's times, the sum of wrong elements, and the first error with its rank.
SweepResult merge(const std::vector<SweepResult>& ranks) {
  SweepResult all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const SweepResult& one = ranks[rank];
    if (!one.error.empty() && all.error.empty()) all.error = fmt::format("rank {}: {}", rank, one.error);
    all.time_us = std::max(all.time_us, one.time_us);
    all.wrong += one.wrong;
    all.call_us.resize(std::max(all.call_us.size(), one.call_us.size()));
    for (size_t i = 0; i < one.call_us.size(); ++i) all.call_us[i] = std::max(all.call_us[i], one.call_us[i]);
  }
  return all;
}

/// The measurement of one size and placement on one rank.
class CellRank {
 public:
  CellRank(RankContext& rank, const SweepSettings& settings, const Cell& cell, Stream& stream)
      : rank_(rank),
        settings_(settings),
        cell_(cell),
        stream_(stream),
        world_{rank.rank, rank.world_size, settings.root, cell.shape.call},
        data_{settings.type, settings.op, rank.world_size, settings.seed},
        element_(size_of(settings.type)),
        queue_(rank.device, settings.make_transfer, settings.timeout_seconds),
        line_(rank.device.allocate(sizeof(float))),
        host_(std::min(kHostBytes, std::max(cell.shape.send, cell.shape.recv) * element_)) {
    rank_.device.fill_zero(stream_, line_->data(), sizeof(float));
    const size_t send = cell.shape.send * element_, recv = cell.shape.recv * element_;
    if (!cell.in_place) {
      send_buffer_ = allocate(send);
      recv_buffer_ = allocate(recv);
      send_ = send_buffer_->data(), recv_ = recv_buffer_->data();
      return;
    }
    recv_buffer_ = allocate(std::max(send, recv));
    const int64_t offset = settings.row->in_place_offset(world_) * static_cast<int64_t>(element_);
    char* base = recv_buffer_->as<char>();
    send_ = base + std::max<int64_t>(offset, 0), recv_ = base + std::max<int64_t>(-offset, 0);
  }

  SweepResult measure() {
    SweepResult result;
    if (settings_.check) result.wrong = static_cast<double>(count_wrong());
    if (!settings_.check || cell_.in_place) fill();  // in place, the call has overwritten what it sends
    for (int i = 0; i < settings_.warmup; ++i) call();
    stream_.synchronize(deadline());
    result.time_us = settings_.graph > 0 ? replayed_us() : looped_us();
    result.call_us = each_us();
    return result;
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds + 2); }

  std::unique_ptr<Buffer> allocate(size_t bytes) {
    if (settings_.registration == Registration::none) return rank_.device.allocate(bytes);
    return rank_.communicator.allocate_registered({bytes, settings_.registration, deadline()});
  }

  void call() {
    settings_.row->run(rank_.communicator,
                       {send_, recv_, cell_.shape.call, settings_.type, settings_.op, settings_.root}, stream_);
  }

  /// Calls use(first, count) for the parts of `elements` that pass through host memory one after the other.
  template <class Use>
  void for_host_parts(size_t elements, const Use& use) {
    const size_t part = kHostBytes / element_;
    for (size_t first = 0; first < elements; first += part) use(first, std::min(part, elements - first));
  }

  /// Fills the send buffer with test data and the receive buffer with a value that no result has.
  void fill() {
    std::fill(host_.begin(), host_.end(), static_cast<char>(0xdb));
    for_host_parts(cell_.shape.recv, [&](size_t first, size_t count) {
      rank_.device.copy_in(stream_, static_cast<char*>(recv_) + first * element_, host_.data(), count * element_);
    });
    stream_.synchronize(deadline());
    for_host_parts(cell_.shape.send, [&](size_t first, size_t count) {
      data_.fill(host_.data(), rank_.rank, first, count);
      rank_.device.copy_in(stream_, static_cast<char*>(send_) + first * element_, host_.data(), count * element_);
      stream_.synchronize(deadline());
    });
  }

  size_t count_wrong() {
    fill();
    rank_.communicator.barrier(deadline());
    call();
    stream_.synchronize(deadline());
    if (!settings_.row->receives(world_)) return 0;
    size_t wrong = 0;
    for_host_parts(cell_.shape.recv, [&](size_t first, size_t count) {
      rank_.device.copy_out(stream_, host_.data(), static_cast<char*>(recv_) + first * element_, count * element_);
      stream_.synchronize(deadline());
      wrong += data_.count_wrong(host_.data(), *settings_.row, world_, first, count);
    });
    return wrong;
  }

  /// Host threads leave a barrier many microseconds apart; the all-reduce makes the calls after it start at the same
  /// time on the devices.
  void run_lined_up(const std::function<void()>& enqueue) {
    rank_.communicator.barrier(deadline());
    queue_.run(stream_, [&] {
      rank_.communicator.all_reduce(line_->data(), 1, DType::f32, ReduceOp::sum, stream_);
      enqueue();
    });
    stream_.synchronize(deadline());
  }

  template <class Work>
  double timed_us(int times, const Work& work) {
    const std::unique_ptr<Event> start = rank_.device.make_event(), end = rank_.device.make_event();
    run_lined_up([&] {
      stream_.stamp(*start);
      for (int i = 0; i < times; ++i) work();
      stream_.stamp(*end);
    });
    return rank_.device.elapsed_us(*start, *end) / times;
  }

  double looped_us() {
    return timed_us(settings_.iterations, [&] { call(); });
  }

  double replayed_us() {
    const std::unique_ptr<Graph> graph = rank_.device.capture(stream_, [&] {
      for (int i = 0; i < settings_.graph; ++i) call();
    });
    graph->launch(stream_);  // the first launch uploads the graph
    stream_.synchronize(deadline());
    return timed_us(settings_.iterations, [&] { graph->launch(stream_); }) / settings_.graph;
  }

  /// Times of each call of a second loop, with an event after every call: from the end of the previous call to its own
  /// end.
  std::vector<double> each_us() {
    std::vector<std::unique_ptr<Event>> stamps;
    for (int i = 0; i <= settings_.iterations; ++i) stamps.push_back(rank_.device.make_event());
    run_lined_up([&] {
      stream_.stamp(*stamps[0]);
      for (int i = 0; i < settings_.iterations; ++i) {
        call();
        stream_.stamp(*stamps[static_cast<size_t>(i) + 1]);
      }
    });
    std::vector<double> times;
    for (size_t i = 0; i + 1 < stamps.size(); ++i) times.push_back(rank_.device.elapsed_us(*stamps[i], *stamps[i + 1]));
    return times;
  }

  RankContext& rank_;
  const SweepSettings& settings_;
  Cell cell_;
  Stream& stream_;
  CollectiveWorld world_;
  CollectiveData data_;
  size_t element_;
  CallQueue queue_;
  std::unique_ptr<Buffer> line_;
  std::vector<char> host_;  // through which data are filled and checked
  std::unique_ptr<Buffer> send_buffer_, recv_buffer_;
  void *send_ = nullptr, *recv_ = nullptr;
};

SweepResult measure_cell(RankContext& rank, const SweepSettings& settings, const Cell& cell, Stream& stream) {
  const auto deadline = [&] { return Deadline::after_seconds(settings.timeout_seconds); };
  std::optional<CellRank> own;
  SweepResult all;
  all.error = error_of_allocating(rank.communicator, deadline(), [&] { own.emplace(rank, settings, cell, stream); });
  if (!all.error.empty()) return all;
  const auto measured = own->measure();  // before the deadline of the exchange begins
  return merge(exchange_results(rank.communicator, measured, deadline()));
}

Record empty_record(const SweepSettings& settings, const Cell& cell, const std::string& transport) {
  Record record;
  record.kind = "collective";
  record.provenance = settings.provenance;
  record.axes = {{"collective", std::string(settings.row->name)},
                 {"dtype", std::string(to_string(settings.type))},
                 {"devices", static_cast<int64_t>(settings.devices)},
                 {"bytes", cell.bytes},
                 {"count", static_cast<int64_t>(cell.shape.call)},
                 {"in_place", cell.in_place},
                 {"launch", settings.graph > 0 ? fmt::format("graph of {}", settings.graph) : std::string("eager")},
                 {"transport", transport}};
  if (settings.row->reduces) record.axes["op"] = std::string(to_string(settings.op));
  if (settings.row->rooted) record.axes["root"] = static_cast<int64_t>(settings.root);
  return record;
}

void fill_record(Record& record, const SweepSettings& settings, const Cell& cell, const SweepResult& result) {
  if (!result.error.empty()) {
    record.status = {Status::Kind::failed, result.error};
    return;
  }
  const double algbw = static_cast<double>(cell.bytes) / result.time_us * 1e-3;  // bytes/us to GB/s
  const double busbw = algbw * settings.row->bus_factor(settings.devices);
  record.series = {{"time", "us", {result.time_us}},
                   {"call_time", "us", result.call_us},
                   {"algbw", "GB/s", {algbw}},
                   {"busbw", "GB/s", {busbw}}};
  if (settings.peak_gbps > 0) record.series.push_back({"peak", "GB/s", {settings.peak_gbps}});
  if (settings.link_gbps > 0) record.series.push_back({"link_limit", "GB/s", {settings.link_gbps}});
  if (settings.check) record.series.push_back({"wrong", "1", {result.wrong}});
  if (result.wrong > 0)
    record.status = {Status::Kind::failed, fmt::format("{:.0f} elements are wrong", result.wrong)};
  else if (settings.peak_gbps > 0 && busbw > kImpossible * settings.peak_gbps)
    record.status = {Status::Kind::failed, fmt::format("{:.1f} GB/s is more than the {:.1f} GB/s that a device's links "
                                                       "can carry: the measurement is wrong",
                                                       busbw, settings.peak_gbps)};
}

std::vector<Cell> cells_of(const SweepSettings& settings) {
  std::vector<Cell> cells;
  const auto element = static_cast<int64_t>(size_of(settings.type));
  for (const int64_t size : settings.sizes)
    for (const bool in_place : {false, true}) {
      if (in_place && !settings.row->in_place) continue;
      const CollectiveShape shape = settings.row->shape(static_cast<size_t>(size / element), settings.devices);
      if (shape.call == 0) continue;  // no share for each rank
      cells.push_back({static_cast<int64_t>(std::max(shape.send, shape.recv)) * element, in_place, shape});
    }
  return cells;
}

}  // namespace

std::vector<int64_t> sweep_sizes(int64_t minimum, int64_t maximum, int64_t step, int factor) {
  std::vector<int64_t> sizes;
  for (int64_t size = minimum; size <= maximum;) {
    sizes.push_back(size);
    if (step == 0 && size > maximum / factor) break;
    size = step > 0 ? size + step : size * factor;
  }
  return sizes;
}

int count_pieces(const SweepSettings& settings) { return static_cast<int>(cells_of(settings).size()); }

void run_sweep(Fleet& fleet, const SweepSettings& settings, const std::function<void(const Record&)>& sink,
               Observer& observer) {
  const std::vector<Cell> cells = cells_of(settings);
  int done = 0;
  for (const Cell& cell : cells) {
    if (fleet.agree(observer.cancelled() ? "stop" : "go") == "stop")
      throw Error(Cause::interrupted, "stopped by the user; the sizes measured so far are kept",
                  "a smaller `max_bytes` for a shorter sweep");
    SweepResult result;
    std::string transport;
    fleet.run(settings.devices, [&](RankContext& rank) {
      const std::unique_ptr<Stream> stream = rank.device.make_stream("comm");
      SweepResult all = measure_cell(rank, settings, cell, *stream);
      if (rank.rank != 0) return;
      transport = rank.communicator.backend_name();
      if (settings.registration != Registration::none)
        transport += fmt::format(" {}", to_string(settings.registration));
      result = std::move(all);
    });
    ++done;
    const bool stop = fleet.agree(result.error.empty() ? "go" : "stop") == "stop";
    if (fleet.is_root()) {
      Record record = empty_record(settings, cell, transport);
      fill_record(record, settings, cell, result);
      sink(record);
      observer.progress(done, static_cast<int>(cells.size()), fmt::format("{} {} B", settings.row->name, cell.bytes));
    }
    if (stop) return;
  }
}

}  // namespace amdahl
