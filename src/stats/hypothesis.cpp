#include "stats/hypothesis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/distributions.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

struct Scaled {
  double difference;  // mean(a) - factor * mean(b)
  double error;       // its standard error
  double df;          // Welch-Satterthwaite
};

Scaled scaled_difference(const Moments& a, const Moments& b, double factor) {
  const double na = static_cast<double>(a.n), nb = static_cast<double>(b.n);
  const double va = a.sd * a.sd / na;
  const double vb = factor * factor * b.sd * b.sd / nb;
  const double variance = va + vb;
  const double df = variance > 0 ? variance * variance / (va * va / (na - 1) + vb * vb / (nb - 1)) : na + nb - 2;
  return {a.mean - factor * b.mean, std::sqrt(variance), df};
}

// P(T > difference / error); with error 0, p is 0 or 1, or one half for no difference.
double upper_tail(const Scaled& s) {
  if (s.error > 0) return student_t_upper_tail(s.difference / s.error, s.df);
  return s.difference > 0 ? 0.0 : (s.difference < 0 ? 1.0 : 0.5);
}

struct RankSums {
  double first = 0;     // rank sum of the first set; ties get their mean rank
  double tie_term = 0;  // sum of t^3 - t over groups of t equal values
};

RankSums rank_sums(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all;
  for (double x : a) all.emplace_back(x, true);
  for (double x : b) all.emplace_back(x, false);
  std::sort(all.begin(), all.end());
  RankSums sums;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && all[end].first == all[begin].first) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (size_t i = begin; i < end; ++i)
      if (all[i].second) sums.first += rank;
    const double ties = static_cast<double>(end - begin);
    sums.tie_term += ties * ties * ties - ties;
    begin = end;
  }
  return sums;
}

// P(U >= u) without ties: the number of rankings that give each U for m and n samples, by the recurrence of Mann and
// Whitney f(u; m, n) = f(u - n; m - 1, n) + f(u; m, n - 1), each divided so that it stays a probability.
double exact_upper_tail(size_t m, size_t n, double u) {
  std::vector<std::vector<double>> row(m + 1);  // row[i]: distribution of U for i and the current j samples
  for (auto& distribution : row) distribution.assign(1, 1.0);
  for (size_t j = 1; j <= n; ++j) {
    std::vector<std::vector<double>> next(m + 1);
    next[0] = {1.0};
    for (size_t i = 1; i <= m; ++i) {
      const double largest_in_first = static_cast<double>(i) / static_cast<double>(i + j);
      next[i].assign(i * j + 1, 0.0);
      for (size_t v = 0; v < next[i - 1].size(); ++v) next[i][v + j] += largest_in_first * next[i - 1][v];
      for (size_t v = 0; v < row[i].size(); ++v) next[i][v] += (1 - largest_in_first) * row[i][v];
    }
    row = std::move(next);
  }
  double p = 0;
  for (size_t v = static_cast<size_t>(std::ceil(u)); v < row[m].size(); ++v) p += row[m][v];
  return p;
}

}  // namespace

Moments moments_of(std::span<const double> samples) {
  return {static_cast<int64_t>(samples.size()), mean_of(samples), sd_of(samples)};
}

TestResult welch_t(std::span<const double> a, std::span<const double> b) {
  return welch_t(moments_of(a), moments_of(b));
}

TestResult welch_t(const Moments& a, const Moments& b) {
  if (a.n < 2 || b.n < 2) return {};
  const Scaled s = scaled_difference(a, b, 1.0);
  if (!(s.error > 0)) return {0, s.df, s.difference == 0 ? 1.0 : 0.0};
  const double t = s.difference / s.error;
  return {t, s.df, std::min(1.0, 2 * student_t_upper_tail(std::abs(t), s.df))};
}

TestResult mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return {};
  const double na = static_cast<double>(a.size()), nb = static_cast<double>(b.size()), n = na + nb;
  const RankSums sums = rank_sums(a, b);
  const double u = sums.first - na * (na + 1) / 2;
  const double larger = std::max(u, na * nb - u);
  const size_t small = std::min(a.size(), b.size()), large = std::max(a.size(), b.size());
  if (sums.tie_term == 0 && small <= 8 && large <= 100)
    return {u, 0, std::min(1.0, 2 * exact_upper_tail(small, large, larger))};
  const double variance = na * nb / 12 * ((n + 1) - sums.tie_term / (n * (n - 1)));
  if (!(variance > 0)) return {u, 0, 1.0};  // every value is the same
  const double z = (larger - na * nb / 2 - 0.5) / std::sqrt(variance);
  return {u, 0, std::min(1.0, 2 * normal_upper_tail(z))};
}

TestResult equivalence(std::span<const double> a, std::span<const double> b, double margin) {
  return equivalence(moments_of(a), moments_of(b), margin);
}

TestResult equivalence(const Moments& a, const Moments& b, double margin) {
  if (a.n < 2 || b.n < 2 || !(a.mean > 0 && b.mean > 0)) return {};
  const Scaled above = scaled_difference(a, b, 1 - margin);
  const Scaled below = scaled_difference(a, b, 1 + margin);
  return {0, above.df, std::max(upper_tail(above), 1 - upper_tail(below))};
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p_values[i] < p_values[j]; });
  std::vector<double> adjusted(p_values.size(), 1.0);
  double running = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    running = std::max(running, static_cast<double>(order.size() - k) * p_values[order[k]]);
    adjusted[order[k]] = std::min(1.0, running);
  }
  return adjusted;
}

}  // namespace amdahl
