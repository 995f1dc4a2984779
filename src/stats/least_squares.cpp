#include "stats/least_squares.h"

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"

namespace amdahl {
namespace {

constexpr int kMostIterations = 60;
constexpr double kEnough = 1e-8, kDifference = 1e-6, kMostDamping = 1e12;

double cost_of(const std::vector<double>& residuals) {
  double sum = 0;
  for (const double r : residuals) sum += r * r;
  return sum / 2;
}

struct NormalEquations {
  std::vector<double> matrix, gradient;  // J^T J and J^T r
};

NormalEquations equations_at(const Residuals& residuals, const std::vector<double>& at, const std::vector<double>& r) {
  const size_t n = at.size();
  std::vector<std::vector<double>> columns;
  for (size_t j = 0; j < n; ++j) {
    std::vector<double> moved = at;
    const double h = kDifference * std::max(1.0, std::abs(at[j]));
    moved[j] += h;
    std::vector<double> column = residuals(moved);
    for (size_t i = 0; i < column.size(); ++i) column[i] = (column[i] - r[i]) / h;
    columns.push_back(std::move(column));
  }
  NormalEquations equations{std::vector<double>(n * n), std::vector<double>(n)};
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < r.size(); ++i) equations.gradient[j] += columns[j][i] * r[i];
    for (size_t k = 0; k <= j; ++k) {
      double sum = 0;
      for (size_t i = 0; i < r.size(); ++i) sum += columns[j][i] * columns[k][i];
      equations.matrix[j * n + k] = equations.matrix[k * n + j] = sum;
    }
  }
  return equations;
}

}  // namespace

std::vector<double> solve_positive_definite(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) a[j * n + j] -= a[j * n + k] * a[j * n + k];
    if (!(a[j * n + j] > 0)) return {};
    a[j * n + j] = std::sqrt(a[j * n + j]);
    for (size_t i = j + 1; i < n; ++i) {
      for (size_t k = 0; k < j; ++k) a[i * n + j] -= a[i * n + k] * a[j * n + k];
      a[i * n + j] /= a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

double softened(double residual) {
  const double square = 2 * (std::sqrt(1 + residual * residual) - 1);
  return std::copysign(std::sqrt(square), residual);
}

double faded(double residual) { return std::copysign(std::sqrt(std::log1p(residual * residual)), residual); }

LeastSquares least_squares(const Residuals& residuals, std::vector<double> start) {
  LeastSquares fit{std::move(start), 0, 0};
  std::vector<double> r = residuals(fit.parameters);
  fit.cost = cost_of(r);
  if (!std::isfinite(fit.cost)) throw Error(Cause::internal, "residuals of a fit are not finite at its start");
  double damping = 1e-3;
  const size_t n = fit.parameters.size();
  for (; fit.iterations < kMostIterations; ++fit.iterations) {
    const NormalEquations equations = equations_at(residuals, fit.parameters, r);
    bool improved = false, done = false;
    for (; damping < kMostDamping && !improved; damping *= 4) {
      std::vector<double> damped = equations.matrix, right(n);
      for (size_t j = 0; j < n; ++j) {
        damped[j * n + j] += damping * std::max(equations.matrix[j * n + j], 1e-12);
        right[j] = -equations.gradient[j];
      }
      const std::vector<double> step = solve_positive_definite(std::move(damped), std::move(right));
      if (step.empty()) continue;
      std::vector<double> tried = fit.parameters;
      for (size_t j = 0; j < n; ++j) tried[j] += step[j];
      std::vector<double> next = residuals(tried);
      const double cost = cost_of(next);
      if (!(cost < fit.cost)) continue;
      done = fit.cost - cost < kEnough * fit.cost;
      fit.cost = cost, fit.parameters = std::move(tried), r = std::move(next);
      improved = true;
      damping = std::max(1e-9, damping / 40);
    }
    if (!improved || done) break;
  }
  return fit;
}

}  // namespace amdahl
