#include "stats/line_fit.h"

#include <algorithm>
#include <cstddef>

namespace amdahl {

AlphaBeta fit_alpha_beta(const std::vector<double>& bytes, const std::vector<double>& times_us) {
  // Minimise sum ((a + b x - t) / t)^2: weights 1/t^2.
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double x = bytes[i], t = times_us[i], weight = 1 / (t * t);
    w += weight, wx += weight * x, wxx += weight * x * x, wt += weight * t, wxt += weight * x * t;
  }
  const double determinant = w * wxx - wx * wx;
  double alpha = determinant > 0 ? (wxx * wt - wx * wxt) / determinant : 0;
  double slope = determinant > 0 ? (w * wxt - wx * wt) / determinant : 0;
  if (alpha < 0 || determinant <= 0) alpha = 0, slope = wxx > 0 ? wxt / wxx : 0;
  AlphaBeta fit;
  fit.alpha_us = alpha;
  fit.beta_gbps = slope > 0 ? 1e-3 / slope : 0;
  fit.half_bytes = slope > 0 ? alpha / slope : 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double fitted = alpha + slope * bytes[i];
    if (fitted > 0) fit.worst_ratio = std::max({fit.worst_ratio, times_us[i] / fitted, fitted / times_us[i]});
  }
  return fit;
}

}  // namespace amdahl
