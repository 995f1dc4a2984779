// Nonlinear least squares by Levenberg and Marquardt, with a numerical Jacobian.
#pragma once

#include <functional>
#include <vector>

namespace amdahl {

struct LeastSquares {
  std::vector<double> parameters;
  double cost = 0;  // half the sum of squared residuals
  int iterations = 0;
};

/// Residuals of `parameters`; always the same number, finite.
using Residuals = std::function<std::vector<double>(const std::vector<double>& parameters)>;

/// Minimises the sum of squared residuals from `start`. Ends when a step changes the cost by less than 1e-8 of it, or
/// after 60 iterations. The derivative by a parameter p is a forward difference of 1e-6 max(1, |p|). Error{internal}
/// when residuals are not finite at the start.
LeastSquares least_squares(const Residuals& residuals, std::vector<double> start);

/// x of A x = b for a symmetric positive definite n x n matrix (row-major), by Cholesky; an empty vector when it is not
/// positive definite.
std::vector<double> solve_positive_definite(std::vector<double> matrix, std::vector<double> right);

/// A residual whose square grows like |r| beyond 1 (pseudo-Huber), so that outliers do not decide the fit.
double softened(double residual);
/// The same like 2 log |r| (Cauchy): far outliers have no say.
double faded(double residual);

}  // namespace amdahl
