// What numbers lose when they become floats, beside the steps from one to the next.
#pragma once

#include <cmath>
#include <cstdint>

namespace amdahl {

/// Of one column, row by row.
class FloatLoss {
 public:
  void add(double value) {
    const double loss = std::abs(static_cast<double>(static_cast<float>(value)) - value);
    if (std::isfinite(loss) && loss > largest_) largest_ = loss;
    const double step = std::abs(value - last_);
    if (loss > 0 && started_ && step > 0 && std::isfinite(step)) {
      log_steps_ += std::log(step);
      ++num_steps_;
    }
    last_ = value;
    started_ = true;
  }
  /// The next value does not follow the last one.
  void restart() { started_ = false; }

  /// In the unit of the values.
  double largest() const { return largest_; }
  /// Geometric mean of the differences of consecutive values that differ and are no floats; 0 without any.
  double usual_step() const { return num_steps_ == 0 ? 0 : std::exp(log_steps_ / static_cast<double>(num_steps_)); }
  /// Whether it can be seen beside the steps.
  bool is_visible() const {
    constexpr double kVisible = 1e-3;
    return num_steps_ > 0 && largest_ > kVisible * usual_step();
  }

 private:
  double largest_ = 0, last_ = 0, log_steps_ = 0;
  int64_t num_steps_ = 0;
  bool started_ = false;
};

}  // namespace amdahl
