#include "measure/onesided/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "measure/onesided/rank.h"
#include "measure/sampling/rank_sampler.h"

namespace amdahl {
namespace {

struct OneSidedResult {
  std::vector<double> latency_us;
  double wrong = 0;
};

/// Repetitions whose time is at least that of a sample.
int64_t choose_times(OneSidedRank& rank, RankSampler& sampler, const OneSidedCell& cell, double least_us) {
  constexpr int64_t kMost = 1 << 20;
  int64_t times = 1;
  while (true) {
    const double us = sampler.slowest(rank.time_us(cell, times));
    if (us >= least_us || times >= kMost) return times;
    const double factor = std::clamp(1.2 * least_us / std::max(us, 1.0), 2.0, 50.0);
    times = std::min(kMost, static_cast<int64_t>(static_cast<double>(times) * factor) + 1);
  }
}

/// `first`: of its operation and transport. Later sizes follow under load, with the same code.
OneSidedResult measure(OneSidedRank& rank, RankSampler& sampler, const OneSidedCell& cell,
                       const OneSidedSettings& settings, bool first) {
  constexpr int kLaterWarmUps = 3;
  OneSidedResult result;
  result.wrong = rank.count_wrong(cell);
  const int64_t times = choose_times(rank, sampler, cell, settings.least_sample_us);
  const double transfers = static_cast<double>(times) * cell.operation->transfers;
  const auto sample = [&] { return rank.time_us(cell, times) / static_cast<double>(times); };
  if (first)
    sampler.warm_up(
        {.least_steps = times, .multiple = times, .step_us = block_of_samples(times, sample), .clock_mhz = [&] {
           return rank.clock_mhz();
         }});
  for (int i = 0; !first && i < kLaterWarmUps; ++i) sampler.slowest(sample());
  for (int i = 0; i < settings.samples; ++i)
    result.latency_us.push_back(sampler.slowest(rank.time_us(cell, times)) / transfers);
  return result;
}

/// `graph_calls`: of a captured graph; 0: none.
Record record_of(const OneSidedSettings& settings, const OneSidedCell& cell, const OneSidedResult& result, bool kernels,
                 int64_t graph_calls) {
  Record record;
  record.kind = "onesided";
  record.provenance = settings.provenance;
  record.axes = {{"operation", std::string(cell.operation->name)},
                 {"transport", cell.transport},
                 {"bytes", cell.bytes},
                 {"devices", static_cast<int64_t>(settings.devices)},
                 {"ranks", settings.ranks}};
  if (graph_calls > 0) record.axes["launch"] = fmt::format("graph of {}", graph_calls);
  if (kernels) record.axes.insert({{"threads", int64_t{cell.threads}}, {"blocks", int64_t{cell.blocks}}});
  record.series.push_back({"latency", "us", result.latency_us});
  if (cell.operation->sized) {
    Series bandwidth{"bandwidth", "GB/s", {}};
    for (const double us : result.latency_us) bandwidth.samples.push_back(static_cast<double>(cell.bytes) / us * 1e-3);
    record.series.push_back(std::move(bandwidth));
  }
  record.series.push_back({"wrong", "bytes", {result.wrong}});
  if (result.wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} bytes are wrong", result.wrong)};
  return record;
}

}  // namespace

std::vector<int64_t> one_sided_sizes(int64_t minimum, int64_t maximum) {
  std::set<int64_t> sizes{minimum, maximum};
  for (int64_t size = 16; size < maximum; size *= 4)
    if (size > minimum) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

void run_onesided_cells(Fleet& fleet, const OneSidedSettings& settings, const std::function<void(const Record&)>& sink,
                        Observer& observer) {
  fleet.run(settings.devices, [&](RankContext& context) {
    OneSidedRank rank(context, settings);
    RankSampler sampler(context.communicator, settings.timeout_seconds);
    const std::vector<OneSidedCell> cells = rank.cells();
    int done = 0;
    std::set<std::string> warm;
    for (const OneSidedCell& cell : cells) {
      const bool first = warm.insert(fmt::format("{} {}", cell.operation->name, cell.transport)).second;
      const OneSidedResult result = measure(rank, sampler, cell, settings, first);
      ++done;
      if (context.rank != 0) continue;
      Record record =
          record_of(settings, cell, result, context.device.backend() == BackendKind::cuda, rank.graph_calls(cell));
      if (context.device.backend() == BackendKind::cuda && rank.emulated()) record.origin = Origin::emulated;
      sink(record);
      observer.progress(done, static_cast<int>(cells.size()),
                        fmt::format("{} {} B by {}", cell.operation->name, cell.bytes, cell.transport));
    }
  });
}

}  // namespace amdahl
