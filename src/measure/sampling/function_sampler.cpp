#include "measure/sampling/function_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/sampling/rank_sampler.h"
#include "stats/compare.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr int kLeastJudged = 5;  // minimum number of samples before rel_ci may stop sampling

void check(const SamplingOptions& options) {
  constexpr int kMostSamples = 1'000'000;
  if (options.samples < 2 || options.samples > kMostSamples)
    throw Error(Cause::usage, fmt::format("`samples` is {}", options.samples), "2 to 1,000,000");
  if (!(options.least_sample_us >= 0 && options.least_sample_us <= 1e9))
    throw Error(Cause::usage, fmt::format("`least_sample_us` is {}", options.least_sample_us), "0 to 1e9 microseconds");
  if (options.least_warmup_calls < 0)
    throw Error(Cause::usage, fmt::format("`least_warmup_calls` is {}", options.least_warmup_calls), "at least 0");
  if (!(options.rel_ci >= 0 && options.rel_ci < 1))
    throw Error(Cause::usage, fmt::format("`rel_ci` is {}", options.rel_ci), "a share in [0, 1), for example 0.01");
}

}  // namespace

FunctionSampler::FunctionSampler(std::function<void()> work, const SamplingOptions& options)
    : work_(std::move(work)), options_(options) {
  check(options_);
  if (!work_) throw Error(Cause::usage, "there is no function to sample", "a function that can be called");
}

double FunctionSampler::time_us(int64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) work_();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void FunctionSampler::warm_up() {
  double call_us = 0;
  const auto block = [&](int64_t calls) { return call_us = time_us(calls) / static_cast<double>(calls); };
  const WarmUp warm = warm_up_alone({options_.least_warmup_calls, 1, block, {}});
  samples_.warmup_calls = warm.steps;
  samples_.settled = warm.settled;
  samples_.calls_per_sample =
      std::max<int64_t>(1, std::llround(std::ceil(options_.least_sample_us / std::max(call_us, 1e-3))));
}

void FunctionSampler::take_sample() {
  samples_.us.push_back(time_us(samples_.calls_per_sample) / static_cast<double>(samples_.calls_per_sample));
}

bool FunctionSampler::done() const {
  const auto taken = static_cast<int>(samples_.us.size());
  if (taken >= options_.samples) return true;
  if (options_.rel_ci <= 0 || taken < kLeastJudged) return false;
  const SampleSummary summary = summarise(samples_.us);
  return summary.ci && summary.ci->half_width() <= options_.rel_ci * summary.mean;
}

Samples FunctionSampler::result() const {
  Samples samples = samples_;
  samples.summary = summarise(samples.us);
  return samples;
}

Samples sample_function(const std::function<void()>& work, const SamplingOptions& options) {
  FunctionSampler sampler(work, options);
  sampler.warm_up();
  while (!sampler.done()) sampler.take_sample();
  return sampler.result();
}

Comparison compare_functions(const std::function<void()>& first, const std::function<void()>& second,
                             const SamplingOptions& options) {
  FunctionSampler samplers[] = {{first, options}, {second, options}};
  for (FunctionSampler& sampler : samplers) sampler.warm_up();
  while (!samplers[0].done() || !samplers[1].done())
    for (FunctionSampler& sampler : samplers) sampler.take_sample();
  Comparison comparison{samplers[0].result(), samplers[1].result(), {}};
  comparison.test = test_pair({comparison.first.us, comparison.second.us, Direction::smaller_is_faster});
  return comparison;
}

}  // namespace amdahl
