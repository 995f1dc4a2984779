#include "report/study/method.h"

#include <fmt/format.h>

#include <set>

#include "stats/compare.h"

namespace amdahl {
std::vector<std::string> study_method(const StudySummary& summary) {
  std::set<int64_t> runs, steps, warmups;
  std::set<std::string> origins;
  for (const StudyCell& cell : summary.cells) {
    if (cell.step_time_us.n == 0) continue;
    runs.insert(cell.step_time_us.n);
    steps.insert(cell.steps);
    warmups.insert(cell.warmup);
    origins.insert(cell.origin == Origin::measured   ? "measured"
                   : cell.origin == Origin::emulated ? "emulated"
                                                     : "modelled");
  }
  return {
      fmt::format(
          "Origin of the numbers: {}. Runs per cell: {}; warm-up steps per run: {}; timed steps per run: {}. One "
          "run gives one sample, the mean of its timed steps.",
          fmt::join(origins, ", "), fmt::join(runs, ", "), fmt::join(warmups, ", "), fmt::join(steps, ", ")),
      std::string(
          "Step times are medians over the runs, of several processes the geometric mean of their medians, with 95 % "
          "intervals: seeded percentile bootstraps, widened for small n; none for fewer than five runs. Throughput is "
          "global batch / step time. The interval of a speedup follows from those of its two step times."),
      std::string("Speedup = throughput n / throughput 1: strong scaling keeps the global batch, weak scaling the "
                  "batch of each device. Efficiency = speedup / devices. The baseline is the fastest "
                  "one-device configuration measured for that batch."),
      fmt::format(
          "Verdict, of several devices against one: Welch's t test, two-tailed, Holm-adjusted over all comparisons "
          "of this report; FASTER or SLOWER at p < {} with an interval that excludes 1; SAME when two one-sided "
          "tests place the ratio within 1 ± {}; else UNCLEAR.",
          kSignificance, kSameMargin),
      fmt::format(
          "Recommendation, on the interval of the speedup: lower end at least {:.2f} and FASTER several devices; "
          "inside {:.2f} to {:.2f} marginal; upper end below {:.2f} and SLOWER one device; else unclear.",
          kMultiBeneficial, kSinglePreferred, kMultiBeneficial, kSinglePreferred),
  };
}

}  // namespace amdahl
