#include "measure/training/trace_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "device/profiler_ranges.h"
#include "measure/sampling/rank_results.h"

namespace amdahl {
namespace {

// Number of steps whose stamps are kept at once. A multiple of every small pool size, so that each set of stamps always
// belongs to the same batch and one graph is captured for both.
constexpr int64_t kStepsAtOnce = 60;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

class RankTracer {
 public:
  RankTracer(const RankContext& rank, Trainer& trainer, BatchPool& pool, const TracedSteps& steps,
             std::vector<std::unique_ptr<StepStamps>>& stamps)
      : rank_(rank),
        trainer_(trainer),
        pool_(pool),
        steps_(steps),
        stamps_(stamps),
        origin_(rank.device.make_event()) {}

  RankTrace run() {
    for (int64_t step = 0; step < steps_.first; ++step) {
      rank_.device.throw_if_stopped();
      const StepBatch batch = take(step);
      trainer_.step(batch.features, batch.targets);
      pool_.done();
    }
    prepare();
    set_clock();
    // To a profiler, the threads of one process are one: only one of them starts the capture.
    const ProfilerCapture capture(rank_.rank == 0 || !rank_.communicator.shares_address_space());
    for (int64_t begin = steps_.first; begin < steps_.end; begin += kStepsAtOnce)
      trace(begin, std::min(steps_.end, begin + kStepsAtOnce));
    rank_.communicator.barrier(deadline());
    return std::move(trace_);
  }

 private:
  StepBatch take(int64_t step) { return pool_.take(static_cast<size_t>(step) % pool_.size()); }
  StepStamps& stamps(int64_t step) { return *stamps_[static_cast<size_t>((step - steps_.first) % kStepsAtOnce)]; }
  Deadline deadline() const { return Deadline::after_seconds(steps_.timeout_seconds); }
  // Converts a host time to the time base of the events.
  double since_origin(double host_us) const { return host_us - trace_.origin_us; }

  // Captures the graphs now, because capturing would show as gaps between traced steps.
  void prepare() {
    const auto wanted = static_cast<size_t>(std::min(kStepsAtOnce, steps_.end - steps_.first));
    while (stamps_.size() < wanted) stamps_.push_back(std::make_unique<StepStamps>(rank_.device, true));
    for (size_t i = 0; i < wanted && steps_.launch == LaunchMode::graph; ++i)
      for (size_t place = 0; place < pool_.num_places(); ++place)
        if (pool_.prefetches() || place == (static_cast<size_t>(steps_.first) + i) % pool_.size())
          trainer_.capture(pool_.place(place).features, pool_.place(place).targets, {.stamps = stamps_[i].get()});
    trainer_.synchronize();
  }

  // Uses the narrowest window of several attempts, because an interrupted host makes a window useless.
  void set_clock() {
    constexpr int kAttempts = 20;
    Stream& stream = trainer_.compute_stream();
    trace_.device = rank_.device.spec().name;
    trace_.host = host_name();
    for (int i = 0; i < kAttempts; ++i) {
      std::unique_ptr<Event> stamp = rank_.device.make_event();
      const double before = now_us();
      stream.stamp(*stamp);
      stream.synchronize(deadline());
      const double after = now_us();
      const std::optional<int64_t> exact = rank_.device.host_time_ns(*stamp);
      if (i > 0 && after - before >= trace_.window_us) continue;
      trace_.own_clock = !exact;
      trace_.origin_us = exact ? static_cast<double>(*exact) * 1e-3 : (before + after) / 2;
      trace_.window_us = exact ? 0 : after - before;
      origin_ = std::move(stamp);
      if (exact) break;
    }
    rank_.communicator.barrier(deadline());  // all ranks have arrived: the second barrier's width is its own
    const double entered = now_us();
    rank_.communicator.barrier(deadline());
    trace_.barrier_us = now_us();
    trace_.barrier_width_us = trace_.barrier_us - entered;
  }

  void trace(int64_t begin, int64_t end) {
    rank_.communicator.barrier(deadline());
    for (int64_t step = begin; step < end; ++step) {
      const double start = now_us();
      const StepBatch batch = take(step);
      trainer_.launch(batch.features, batch.targets, {.stamps = &stamps(step)}, steps_.launch);
      pool_.done();
      add_host(fmt::format("{} step {}", steps_.launch == LaunchMode::graph ? "launch graph of" : "enqueue", step),
               step, start);
    }
    const double start = now_us();
    trainer_.synchronize();
    add_host("wait for the device", end - 1, start);
    for (int64_t step = begin; step < end; ++step)
      for (TraceEvent& event : stamped_events(rank_.device, stamps(step), *origin_, step))
        trace_.events.push_back(std::move(event));
  }

  void add_host(std::string name, int64_t step, double start) {
    trace_.events.push_back(
        {TraceKind::host, std::move(name), "host", 0, step, since_origin(start), now_us() - start, 0});
  }

  const RankContext& rank_;
  Trainer& trainer_;
  BatchPool& pool_;
  const TracedSteps& steps_;
  std::vector<std::unique_ptr<StepStamps>>& stamps_;
  std::unique_ptr<Event> origin_;
  RankTrace trace_;
};

}  // namespace

RankTrace trace_steps(const RankContext& rank, Trainer& trainer, BatchPool& pool, const TracedSteps& steps,
                      std::vector<std::unique_ptr<StepStamps>>& stamps) {
  return RankTracer(rank, trainer, pool, steps, stamps).run();
}

StepTrace gather_traces(Communicator& communicator, const RankTrace& mine, Deadline deadline) {
  return merge_traces(exchange_results(communicator, mine, deadline));
}

}  // namespace amdahl
