#include "measure/onesided/patterns.h"

#include <algorithm>

#include "measure/onesided/pattern_rank.h"
#include "measure/sampling/rank_sampler.h"

namespace amdahl {
namespace {

struct PatternResult {
  std::vector<double> us, values, loss;
};

PatternResult measure_pattern(const PatternRow& row, PatternRank& rank, RankSampler& sampler,
                              const OneSidedSettings& settings, bool one_sided) {
  PatternResult result;
  int steps = 20;
  const auto run = [&] { return sampler.slowest(row.run(rank, one_sided, steps, result.values, result.loss)); };
  for (double us = run(); us < settings.least_sample_us * 5 && steps < 2000; us = run()) steps *= 2;
  for (int i = 0; i < std::max(settings.samples / 2, 3); ++i) result.us.push_back(run() / steps);
  steps = 200;  // results of both versions after the same number of steps
  run();
  return result;
}

}  // namespace

void run_onesided_patterns(Fleet& fleet, const OneSidedSettings& settings,
                           const std::function<void(const Record&)>& sink, Observer& observer) {
  fleet.run(settings.devices, [&](RankContext& context) {
    PatternRank rank(context, settings.timeout_seconds);
    RankSampler sampler(context.communicator, settings.timeout_seconds);
    int done = 0;
    for (const PatternRow& row : one_sided_patterns()) {
      PatternResult versions[2];
      for (const bool one_sided : {false, true})
        versions[one_sided] = measure_pattern(row, rank, sampler, settings, one_sided);
      ++done;
      if (context.rank != 0) continue;
      for (const bool one_sided : {false, true}) {
        const PatternResult& version = versions[one_sided];
        Record record;
        record.kind = "onesided-pattern";
        record.provenance = settings.provenance;
        record.axes = {{"pattern", std::string(row.name)},
                       {"step", std::string(row.step)},
                       {"transport", one_sided ? std::string("one-sided") : context.communicator.backend_name()},
                       {"devices", static_cast<int64_t>(settings.devices)},
                       {"ranks", settings.ranks}};
        record.series.push_back({"time", "us", version.us});
        if (!version.loss.empty()) record.series.push_back({"loss", "1", version.loss});
        if (row.exact && version.values != versions[0].values)
          record.status = {Status::Kind::failed, "another result than the other version's"};
        sink(record);
      }
      observer.progress(done, static_cast<int>(one_sided_patterns().size()), std::string(row.name));
    }
  });
}

}  // namespace amdahl
