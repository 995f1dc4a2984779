// A point in time at which a wait ends. Every blocking call of amdahl takes one.
#pragma once

#include <algorithm>
#include <chrono>

namespace amdahl {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kLongestSeconds = 1e8;  // three years: no overflow of the clock

  /// Spans are clamped to [0, kLongestSeconds]; NaN is 0.
  static Deadline after(std::chrono::duration<double> span) {
    const double seconds = span.count() > 0 ? std::min(span.count(), kLongestSeconds) : 0;
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  }
  static Deadline after_seconds(double seconds) { return after(std::chrono::duration<double>(seconds)); }

  Clock::time_point time() const { return time_; }
  bool expired() const { return Clock::now() >= time_; }
  std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(time_ - Clock::now());
    return left.count() > 0 ? left : std::chrono::milliseconds(0);
  }

 private:
  explicit Deadline(Clock::time_point time) : time_(time) {}
  Clock::time_point time_;
};

}  // namespace amdahl
