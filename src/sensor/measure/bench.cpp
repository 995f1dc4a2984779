#include "sensor/measure/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "amdahl/error.h"
#include "base/digest.h"
#include "measure/sampling/rank_results.h"
#include "measure/sampling/rank_sampler.h"
#include "sensor/measure/check.h"

namespace amdahl {

template <class Archive>
void visit_fields(Archive& archive, SensorTimes& times) {
  archive(times.error, times.launch, times.digest, times.checked, times.items, times.calls, times.memory_bytes,
          times.copies, times.copied_bytes, times.copies_capped, times.utilisation_percent, times.clock_before_mhz,
          times.clock_after_mhz, times.temperature_c, times.power_w, times.throttle_reasons, times.warmup_calls,
          times.warmup_settled, times.time_us, times.call_us, times.compute_us, times.merge_us);
}

namespace {

constexpr std::vector<double> SensorTimes::*kSampleFields[] = {&SensorTimes::time_us, &SensorTimes::call_us,
                                                               &SensorTimes::compute_us, &SensorTimes::merge_us};

/// One cell on one rank.
class CellRank {
 public:
  CellRank(RankContext& rank, SensorOps& ops, const SensorCell& cell, const SensorBenchSettings& settings,
           Stream& stream)
      : rank_(rank),
        settings_(settings),
        cell_(cell),
        stream_(stream),
        items_(split_evenly(cell.job.num_items, rank.world_size)[static_cast<size_t>(rank.rank)]),
        workload_({rank.device, ops, rank.communicator}, cell.job, items_, cell.merge,
                  cell.cold ? SensorWorkload::cold_variants(rank.device, cell.job, items_.count()) : 1, stream,
                  deadline()),
        line_(rank.device.allocate(sizeof(float))),
        queue_(rank.device, settings.make_transfer, settings.timeout_seconds),
        sampler_(rank.communicator, settings.timeout_seconds),
        calls_(settings.calls) {
    rank_.device.fill_zero(stream_, line_->data(), sizeof(float));
    stream_.synchronize(deadline());
  }

  SensorTimes measure() {
    SensorTimes times;
    call_us();  // what is loaded or connected at first use
    prepare_launches();
    times.launch = loops_.empty() ? "eager" : "graph";
    settle_calls();
    warm_up(times);
    times.clock_before_mhz = rank_.device.health().sm_clock_mhz;
    for (int i = 0; i < settings_.samples; ++i) times.time_us.push_back(sample_us());
    note_health(times);
    check(times);
    measure_phases(times);
    for (int i = 0; i < settings_.samples; ++i) times.call_us.push_back(call_us());
    times.items = static_cast<double>(items_.count());
    times.calls = calls_;
    times.memory_bytes = static_cast<double>(rank_.device.peak_allocated_bytes());
    times.copies = workload_.num_variants();
    times.copied_bytes = times.copies * static_cast<double>(SensorWorkload::variant_bytes(cell_.job, items_.count()));
    times.copies_capped = cell_.cold && !SensorWorkload::leaves_cache(rank_.device, times.copied_bytes) ? 1 : 0;
    return times;
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  void note_health(SensorTimes& times) {
    const DeviceHealth health = rank_.device.health();
    times.utilisation_percent = health.utilisation_percent;
    times.clock_after_mhz = health.sm_clock_mhz;
    times.temperature_c = health.temperature_c;
    times.power_w = health.power_w;
    if (health.sm_clock_mhz >= 0) times.throttle_reasons = static_cast<double>(health.throttle_reasons);
  }

  int next_variant() { return next_++ % workload_.num_variants(); }

  /// What the timed calls left. Of a merge it is judged by rank 0, and must be the same on the others.
  void check(SensorTimes& times) {
    const std::vector<char> output = workload_.output(stream_, 0, deadline());
    const bool merged = cell_.merge != MergeMethod::none;
    if (merged) times.digest = digest_of({output.data(), output.size()});  // tells whether two grids are equal
    if (merged && rank_.rank != 0) return;
    const CheckResult result =
        check_output(cell_.job, merged ? ItemRange{0, cell_.job.num_items} : items_, output.data());
    times.checked = static_cast<double>(result.num_checked);
    times.error = result.fault;
  }

  /// Graphs of `calls` calls each, together over all variants, so that replays rotate as eager calls do.
  void prepare_launches() {
    if (!rank_.device.supports_graphs().ok) return;
    const int num_graphs = (workload_.num_variants() + calls_ - 1) / calls_;
    for (int i = 0; i < num_graphs; ++i)
      loops_.push_back(rank_.device.capture(stream_, [&] {
        for (int call = 0; call < calls_; ++call) workload_.call(stream_, next_variant());
      }));
    for (const auto& loop : loops_) loop->launch(stream_);  // the first launch uploads
    stream_.synchronize(deadline());
  }

  void enqueue_calls() {
    if (!loops_.empty()) return loops_[static_cast<size_t>(next_loop_++) % loops_.size()]->launch(stream_);
    for (int i = 0; i < calls_; ++i) workload_.call(stream_, next_variant());
  }

  /// Host threads leave a barrier many microseconds apart; what they enqueue after an all-reduce starts together on the
  /// devices.
  void start_together(const std::function<void()>& enqueue) {
    rank_.communicator.barrier(deadline());
    queue_.run(stream_, [&] {
      if (rank_.world_size > 1) rank_.communicator.all_reduce(line_->data(), 1, DType::f32, ReduceOp::sum, stream_);
      enqueue();
    });
    stream_.synchronize(deadline());
  }

  double sample_us() {
    const std::unique_ptr<Event> start = rank_.device.make_event(), end = rank_.device.make_event();
    start_together([&] {
      stream_.stamp(*start);
      enqueue_calls();
      stream_.stamp(*end);
    });
    return rank_.device.elapsed_us(*start, *end) / calls_;
  }

  /// A sample of few short calls is one of what surrounds them.
  void settle_calls() {
    constexpr int kBlocks = 3;
    if (!loops_.empty() || settings_.least_sample_us <= 0) return;
    double fastest = sampler_.slowest(sample_us());
    for (int block = 1; block < kBlocks; ++block) fastest = std::min(fastest, sampler_.slowest(sample_us()));
    calls_ = calls_of_sample(settings_, fastest);
  }

  void warm_up(SensorTimes& times) {
    constexpr int64_t kLeastCalls = 10;
    const WarmUp warm = sampler_.warm_up({kLeastCalls, calls_, block_of_samples(calls_, [&] { return sample_us(); }),
                                          [&] { return rank_.device.health().sm_clock_mhz; }});
    times.warmup_calls = static_cast<double>(warm.steps);
    times.warmup_settled = warm.settled;
  }

  /// Single calls with stamps between a rank's part and the merge.
  void measure_phases(SensorTimes& times) {
    const std::unique_ptr<Event> start = rank_.device.make_event(), ready = rank_.device.make_event(),
                                 end = rank_.device.make_event();
    const auto enqueue = [&](int variant) {
      stream_.stamp(*start);
      workload_.compute(stream_, variant);
      stream_.stamp(*ready);
      workload_.merge(stream_, variant);
      stream_.stamp(*end);
    };
    std::vector<std::unique_ptr<Graph>> graphs;
    const int wanted = std::min(workload_.num_variants(), settings_.samples);
    if (rank_.device.supports_graphs().ok)
      for (int i = 0; i < wanted; ++i)
        graphs.push_back(rank_.device.capture(stream_, [&] { enqueue(next_variant()); }));
    for (const auto& graph : graphs) graph->launch(stream_);
    stream_.synchronize(deadline());
    for (int i = 0; i < settings_.samples; ++i) {
      start_together([&] {
        if (graphs.empty())
          enqueue(next_variant());
        else
          graphs[static_cast<size_t>(i) % graphs.size()]->launch(stream_);
      });
      times.compute_us.push_back(rank_.device.elapsed_us(*start, *ready));
      times.merge_us.push_back(rank_.device.elapsed_us(*ready, *end));
    }
  }

  /// What a user waits: one call, launched one operation at a time.
  double call_us() {
    using Clock = std::chrono::steady_clock;
    const int variant = next_variant();
    rank_.communicator.barrier(deadline());
    const Clock::time_point start = Clock::now();
    workload_.call(stream_, variant);
    stream_.synchronize(deadline());
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }

  RankContext& rank_;
  const SensorBenchSettings& settings_;
  const SensorCell& cell_;
  Stream& stream_;
  ItemRange items_;
  SensorWorkload workload_;
  std::unique_ptr<Buffer> line_;
  CallQueue queue_;
  RankSampler sampler_;
  std::vector<std::unique_ptr<Graph>> loops_;  // empty where the device has no graphs
  int next_ = 0, next_loop_ = 0, calls_;       // of a sample
};

SensorExchange measure_cell(RankContext& rank, const SensorCell& cell, const SensorBenchSettings& settings) {
  const auto deadline = [&] { return Deadline::after_seconds(settings.timeout_seconds); };
  rank.device.reset_peak();
  const std::unique_ptr<SensorOps> ops = settings.make_ops(rank.device);
  const std::unique_ptr<Stream> stream = rank.device.make_stream("sensor");
  std::optional<CellRank> own;
  const std::string error =
      error_of_allocating(rank.communicator, deadline(), [&] { own.emplace(rank, *ops, cell, settings, *stream); });
  if (!error.empty()) {
    SensorExchange failed(static_cast<size_t>(rank.world_size));
    failed.front().error = error;
    return failed;
  }
  const auto measured = own->measure();  // before the deadline of the exchange begins
  SensorExchange all = exchange_results(rank.communicator, measured, deadline());
  for (size_t i = 0; i < all.size(); ++i) {
    SensorTimes& one = all[i];
    if (cell.merge != MergeMethod::none && one.digest != all.front().digest && one.error.empty())
      one.error = "its merged grid is not that of device 0";
    if (!one.error.empty()) one.error = fmt::format("device {}: {}", i, one.error);
  }
  return all;
}

/// The cell with the merge that it has on this fleet.
SensorCell on_fleet(Fleet& fleet, const SensorCell& cell, MakeSensorOps make_ops) {
  SensorCell chosen = cell;
  if (!cell.peers_if_reached || (cell.merge != MergeMethod::bitmask && cell.merge != MergeMethod::bytes)) return chosen;
  bool reached = false;
  fleet.run(cell.devices, [&](RankContext& rank) {
    const std::unique_ptr<SensorOps> ops = make_ops(rank.device);
    const bool ok = reach_peers(rank.device, *ops, rank.communicator, num_voxels(cell.job.grid)).ok;
    if (rank.rank == 0) reached = ok;
  });
  if (fleet.agree(reached ? "yes" : "no") == "yes") chosen.merge = MergeMethod::peer;
  return chosen;
}

/// What the fleet's first devices measured, by rank; empty on processes without rank 0.
SensorExchange measure_once(Fleet& fleet, const SensorCell& cell, const SensorBenchSettings& settings) {
  SensorExchange ranks;
  fleet.run(cell.devices, [&](RankContext& rank) {
    SensorExchange all = measure_cell(rank, cell, settings);
    if (rank.rank == 0) ranks = std::move(all);
  });
  return ranks;
}

/// A second turn's samples behind the first's.
void append(SensorExchange& first, const SensorExchange& second) {
  for (size_t rank = 0; rank < first.size(); ++rank) {
    SensorTimes& times = first[rank];
    if (times.error.empty()) times.error = second[rank].error;
    for (const auto samples : kSampleFields)
      (times.*samples).insert((times.*samples).end(), (second[rank].*samples).begin(), (second[rank].*samples).end());
    times.memory_bytes = std::max(times.memory_bytes, second[rank].memory_bytes);
    times.calls = std::min(times.calls, second[rank].calls);
    times.clock_after_mhz = second[rank].clock_after_mhz;
    times.throttle_reasons = std::max(times.throttle_reasons, second[rank].throttle_reasons);
  }
}

Record record_of(const SensorCell& cell, const SensorBenchSettings& settings, const SensorExchange& ranks) {
  Record record = start_sensor_record(cell, settings.provenance);
  if (!ranks.empty()) fill_sensor_record(record, cell, ranks);
  return record;
}

}  // namespace

int calls_of_sample(const SensorBenchSettings& settings, double call_us) {
  constexpr double kMostCalls = 1000;
  if (settings.least_sample_us <= 0) return settings.calls;
  const double needed = call_us > 0 ? std::ceil(settings.least_sample_us / call_us) : kMostCalls;
  return std::max(settings.calls, static_cast<int>(std::min(needed, kMostCalls)));
}

void require_room(Fleet& fleet, const SensorCell& asked, MakeSensorOps make_ops) {
  const SensorCell cell = on_fleet(fleet, asked, make_ops);
  fleet.run(cell.devices, [&](RankContext& rank) {
    const std::unique_ptr<SensorOps> ops = make_ops(rank.device);
    const int64_t items = split_evenly(cell.job.num_items, rank.world_size)[static_cast<size_t>(rank.rank)].count();
    const int copies = cell.cold ? SensorWorkload::cold_variants(rank.device, cell.job, items) : 1;
    double needed = static_cast<double>(SensorWorkload::variant_bytes(cell.job, items)) * copies;
    needed +=
        static_cast<double>(SensorWorkload::shared_bytes({rank.device, *ops, rank.communicator}, cell.job, cell.merge));
    // Virtual devices share the host's memory.
    const int sharers = rank.device.backend() == BackendKind::cpu ? rank.world_size : 1;
    const auto there = static_cast<double>(rank.device.spec().memory_bytes);
    const double free = there - static_cast<double>(rank.device.allocated_bytes());
    if (there > 0 && needed * sharers > free)
      throw Error(
          Cause::out_of_memory,
          fmt::format("{}{} needs {} on each device, and {} has {} free of {}", workload_text(cell.job),
                      cell.job.voxelizes() ? fmt::format(" {}", to_string(cell.job.options.mode)) : "",
                      format_bytes(needed), rank.device.spec().name, format_bytes(free / sharers), format_bytes(there)),
          cell.job.voxelizes() ? "a smaller `grid`, fewer `points` or `features`" : "smaller `batch_sizes`");
  });
}

Record measure_sensor_cell(Fleet& fleet, const SensorCell& asked, const SensorBenchSettings& settings) {
  const SensorCell cell = on_fleet(fleet, asked, settings.make_ops);
  return record_of(cell, settings, measure_once(fleet, cell, settings));
}

std::vector<Record> measure_sensor_cells(Fleet& fleet, const std::vector<SensorCell>& asked,
                                         const SensorBenchSettings& settings) {
  if (asked.size() == 1) return {measure_sensor_cell(fleet, asked.front(), settings)};
  std::vector<SensorCell> cells;
  for (const SensorCell& cell : asked) cells.push_back(on_fleet(fleet, cell, settings.make_ops));
  SensorBenchSettings half = settings;
  half.samples = (settings.samples + 1) / 2;
  std::vector<SensorExchange> all;
  for (const SensorCell& cell : cells) all.push_back(measure_once(fleet, cell, half));
  half.samples = settings.samples - half.samples;
  for (size_t i = cells.size(); i-- > 0;) {
    const bool whole = fleet.agree(all[i].empty() || all[i].front().time_us.empty() ? "no" : "yes") == "yes";
    if (whole) append(all[i], measure_once(fleet, cells[i], half));
  }
  std::vector<Record> records;
  for (size_t i = 0; i < cells.size(); ++i) records.push_back(record_of(cells[i], settings, all[i]));
  return records;
}

}  // namespace amdahl
