#include "stats/processes.h"

#include <algorithm>
#include <cmath>

#include "stats/distributions.h"
#include "stats/estimate.h"
#include "stats/hypothesis.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr double kNormalMad = 1.4826;  // sd over MAD of a normal distribution

/// Logarithms of the processes' medians.
std::vector<double> log_medians(const ProcessSamples& samples) {
  std::vector<double> logs = process_medians(samples);
  for (double& value : logs) value = std::log(value);
  return logs;
}

int64_t num_samples(const ProcessSamples& samples) {
  size_t n = 0;
  for (const auto& [process, runs] : samples) n += runs.size();
  return static_cast<int64_t>(n);
}

/// An estimated difference of logarithms; above 0 the first side is faster.
struct LogDifference {
  double difference = 0;
  double error = 0;  // standard error
  double df = 0;
};

/// P(T > t) of difference / error beyond `bound`; with error 0, p is 0 or 1.
double upper_tail(const LogDifference& e, double bound) {
  const double beyond = e.difference - bound;
  if (e.error > 0) return student_t_upper_tail(beyond / e.error, e.df);
  return beyond > 0 ? 0.0 : (beyond < 0 ? 1.0 : 0.5);
}

void fill_test(PairTest& test, const LogDifference& e) {
  const double above = upper_tail(e, 0);
  test.p_welch = e.error > 0 || e.difference != 0 ? std::min(1.0, 2 * std::min(above, 1 - above)) : 1.0;
  test.p_same = std::max(upper_tail(e, std::log(1 - kSameMargin)), 1 - upper_tail(e, std::log(1 + kSameMargin)));
  const double half = e.error > 0 ? student_t_quantile(1 - (1 - kConfidence) / 2, e.df) * e.error : 0;
  test.ci = Interval{std::exp(e.difference - half), std::exp(e.difference + half)};
}

LogDifference welch_estimate(const Moments& faster, const Moments& slower) {  // of logarithms: slower - faster
  const double a = faster.sd * faster.sd / static_cast<double>(faster.n);
  const double b = slower.sd * slower.sd / static_cast<double>(slower.n);
  LogDifference e{slower.mean - faster.mean, std::sqrt(a + b), static_cast<double>(faster.n + slower.n - 2)};
  if (a + b > 0)
    e.df = (a + b) * (a + b) / (a * a / static_cast<double>(faster.n - 1) + b * b / static_cast<double>(slower.n - 1));
  return e;
}

/// Additional variance of a process's median when a process has fewer runs than in the calibration.
double missing_variance(const ProcessSamples& samples, double calibrated_runs) {
  double within = 0, n = 0;
  for (const auto& [process, runs] : samples) {
    const double sd = kNormalMad * mad_of(runs) / median_of(runs);
    within += sd * sd;
    n += static_cast<double>(runs.size());
  }
  const double processes = static_cast<double>(samples.size());
  return kMedianEfficiency * within / processes * std::max(0.0, processes / n - 1 / calibrated_runs);
}

LogDifference calibrated_estimate(const ProcessSamples& first, const ProcessSamples& second, double difference,
                                  const CalibratedSpread& spread, double drift) {
  double variance = 0;
  for (const ProcessSamples* side : {&first, &second})
    variance += (spread.relative_sd * spread.relative_sd + missing_variance(*side, spread.runs)) /
                    static_cast<double>(side->size()) +
                drift * spread.relative_sd * spread.relative_sd;
  return {difference, std::sqrt(variance), static_cast<double>(spread.processes - 1)};
}

/// Differences within the processes that measured both sides.
std::vector<double> paired_differences(const ProcessSamples& first, const ProcessSamples& second, double sign) {
  std::vector<double> differences;
  for (const auto& [process, runs] : first)
    if (const auto other = second.find(process); other != second.end())
      differences.push_back(sign * (std::log(median_of(other->second)) - std::log(median_of(runs))));
  return differences;
}

}  // namespace

std::vector<double> process_medians(const ProcessSamples& samples) {
  std::vector<double> medians;
  for (const auto& [process, runs] : samples) medians.push_back(median_of(runs));
  return medians;
}

PairTest test_processes(const ProcessPair& pair) {
  const double sign = pair.direction == Direction::smaller_is_faster ? 1 : -1;
  const std::vector<double> differences =
      pair.paired ? paired_differences(pair.first, pair.second, sign) : std::vector<double>{};
  const bool paired = differences.size() > 1;  // fewer common processes: compared as independent ones
  const double drift = paired ? 0 : pair.drift;
  const Moments a = with_drift(moments_of(log_medians(pair.first)), drift);
  const Moments b = with_drift(moments_of(log_medians(pair.second)), drift);
  PairTest test;
  test.n_first = num_samples(pair.first);
  test.n_second = num_samples(pair.second);
  test.processes_first = a.n;
  test.processes_second = b.n;
  test.ratio = std::exp(sign * (b.mean - a.mean));
  test.p_mann_whitney.reset();
  test.level = TestLevel::none;
  if (paired) {
    const Moments d = moments_of(differences);
    test.level = TestLevel::processes;
    test.ratio = std::exp(d.mean);
    fill_test(test, {d.mean, d.sd / std::sqrt(static_cast<double>(d.n)), static_cast<double>(d.n - 1)});
  } else if (a.n > 1 && b.n > 1) {
    test.level = TestLevel::processes;
    const LogDifference e = welch_estimate(a, b);
    fill_test(test, {sign * e.difference, e.error, e.df});
    test.p_mann_whitney = mann_whitney(log_medians(pair.first), log_medians(pair.second)).p;
  } else if (pair.spread && pair.spread->processes > 1) {
    test.level = TestLevel::calibrated;
    fill_test(test, calibrated_estimate(pair.first, pair.second, sign * (b.mean - a.mean), *pair.spread, drift));
  }
  if (has_too_few_runs(test)) make_untested(test);
  const TestedPair judged{&test, with_drift(process_moments(pair.first), drift),
                          with_drift(process_moments(pair.second), drift)};
  judge_together(std::span(&judged, 1));
  return test;
}

Moments with_drift(Moments moments, double drift) {
  moments.sd *= std::sqrt(1 + static_cast<double>(moments.n) * drift);
  return moments;
}

Moments process_moments(const ProcessSamples& samples) {
  Moments moments = moments_of(log_medians(samples));
  moments.mean = std::exp(moments.mean);
  moments.sd *= moments.mean;
  return moments;
}

SampleSummary summarise_processes(const ProcessSamples& samples) {
  std::vector<double> all, means;
  for (const auto& [process, runs] : samples) {
    all.insert(all.end(), runs.begin(), runs.end());
    means.push_back(mean_of(runs));
  }
  SampleSummary summary = summarise(all);
  summary.num_processes = std::max<int64_t>(1, static_cast<int64_t>(samples.size()));
  if (summary.num_processes < 2) return summary;
  const Moments processes = process_moments(samples);
  summary.process_median = processes.mean;
  summary.process_sd = processes.sd;
  if (summary.n < kFewestRuns) return summary;
  summary.ci = t_interval(means);
  summary.median_ci = t_interval(log_medians(samples));
  if (summary.median_ci)
    summary.median_ci = Interval{std::exp(summary.median_ci->low), std::exp(summary.median_ci->high)};
  summary.ci_without_outliers.reset();  // outliers are flagged among runs, and runs are not independent
  return summary;
}

std::optional<CalibratedSpread> spread_of(const ProcessSamples& samples) {
  if (samples.size() < 2) return std::nullopt;
  const Moments moments = moments_of(log_medians(samples));
  return CalibratedSpread{moments.sd, moments.n,
                          static_cast<double>(num_samples(samples)) / static_cast<double>(samples.size())};
}

PairTest test_process_moments(const Moments& first, const Moments& second, Direction direction) {
  const auto logarithm = [](const Moments& m) { return Moments{m.n, std::log(m.mean), m.sd / m.mean}; };
  const double sign = direction == Direction::smaller_is_faster ? 1 : -1;
  const LogDifference e = welch_estimate(logarithm(first), logarithm(second));
  PairTest test;
  test.n_first = test.processes_first = first.n;
  test.n_second = test.processes_second = second.n;
  test.p_mann_whitney.reset();
  test.level = TestLevel::processes;
  test.ratio = std::exp(sign * e.difference);
  fill_test(test, {sign * e.difference, e.error, e.df});
  const TestedPair judged{&test, first, second};
  judge_together(std::span(&judged, 1));
  return test;
}

}  // namespace amdahl
