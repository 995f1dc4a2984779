#include "measure/sampling/warm_up.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "stats/stopping.h"

namespace amdahl {
namespace {

constexpr size_t kWindow = 10;  // blocks tested for a trend; together at least a tenth of a second

std::span<const double> window_of(const std::vector<double>& blocks) {
  return std::span(blocks).last(std::min(blocks.size(), kWindow));
}

}  // namespace

int64_t WarmUpRule::next_block() const {
  constexpr int64_t kFirst = 2;  // first estimate of the step time
  if (block_us_.empty()) return std::max<int64_t>(kFirst, least_steps_ / kTrendBlocks);
  const double wanted = std::ceil(kBlockUs / std::max(block_us_.back(), 1e-3));
  return std::max<int64_t>({1, least_steps_ / kTrendBlocks, static_cast<int64_t>(std::min(wanted, 1e7))});
}

void WarmUpRule::add(int64_t steps, double step_us, double clock_mhz) {
  steps_ += steps;
  load_us_ += step_us * static_cast<double>(steps);
  block_us_.push_back(step_us);
  last_clock_mhz_ = clock_mhz_;
  clock_mhz_ = clock_mhz;
}

bool WarmUpRule::stable() const {
  const auto window = window_of(block_us_);
  if (window.size() < static_cast<size_t>(kTrendBlocks) || trend_of(window).trending) return false;
  if (clock_mhz_ <= 0) return true;
  return last_clock_mhz_ > 0 && std::abs(clock_mhz_ / last_clock_mhz_ - 1) <= kClockTolerance;
}

bool WarmUpRule::done() const {
  if (steps_ < least_steps_ || block_us_.size() < static_cast<size_t>(kTrendBlocks)) return false;
  if (load_us_ >= kMostLoadUs) return true;
  return load_us_ >= (clock_mhz_ > 0 ? kLeastLoadUs : kLeastClocklessUs) && stable();
}

WarmUp WarmUpRule::result() const {
  return {steps_, load_us_, 100 * trend_of(window_of(block_us_)).relative_drift, stable()};
}

}  // namespace amdahl
