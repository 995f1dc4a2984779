#include "reference_recurrent.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/run_pieces.h"

namespace amdahl::test {
namespace {

using Values = std::vector<double>;

double sigmoid_reference(double x) { return 1 / (1 + std::exp(-x)); }

size_t count_of(int64_t n) { return static_cast<size_t>(n); }

/// Rows of a matrix that are computed together: each sum has the order of one row alone, and four are under way.
constexpr size_t kRows = 4;

/// out[r] = bias[r] + sum over c of w[r, c] v[c].
Values affine(const Values& w, const Values& bias, const double* v, size_t columns) {
  Values out = bias;
  size_t r = 0;
  for (; r + kRows <= out.size(); r += kRows) {
    const double* row = w.data() + r * columns;
    double sums[kRows] = {out[r], out[r + 1], out[r + 2], out[r + 3]};
    for (size_t c = 0; c < columns; ++c)
      for (size_t k = 0; k < kRows; ++k) sums[k] += row[k * columns + c] * v[c];
    std::copy_n(sums, kRows, out.begin() + static_cast<std::ptrdiff_t>(r));
  }
  for (; r < out.size(); ++r)
    for (size_t c = 0; c < columns; ++c) out[r] += w[r * columns + c] * v[c];
  return out;
}

/// dw += d v^T, db += d, dv += w^T d.
void affine_gradient(const Values& w, const Values& d, const double* v, size_t columns, Values& dw, Values& db,
                     double* dv) {
  for (size_t r = 0; r < d.size(); ++r) {
    const double gradient = d[r], *row = w.data() + r * columns;
    double* to = dw.data() + r * columns;
    db[r] += gradient;
    for (size_t c = 0; c < columns; ++c) to[c] += gradient * v[c];
    for (size_t c = 0; c < columns; ++c) dv[c] += gradient * row[c];
  }
}

/// One time step of one sample.
struct CellStep {
  Values from_x, from_h;  // before the activations, with their biases
  Values gates;           // activations
  Values h_before, c_before, h, c;
};

CellStep forward_cell(RecurrentCell cell, size_t hidden, Values from_x, Values from_h, const Values& h_before,
                      const Values& c_before) {
  CellStep step{std::move(from_x), std::move(from_h), {}, h_before, c_before, Values(hidden), Values(hidden)};
  const auto gate = [&](size_t g, size_t u) -> double& { return step.gates[g * hidden + u]; };
  const auto input = [&](size_t g, size_t u) { return step.from_x[g * hidden + u]; };
  const auto recurrent = [&](size_t g, size_t u) { return step.from_h[g * hidden + u]; };
  step.gates.resize(step.from_x.size());
  for (size_t u = 0; u < hidden; ++u) {
    if (cell == RecurrentCell::lstm) {
      for (size_t g = 0; g < 4; ++g) {
        const double sum = input(g, u) + recurrent(g, u);
        gate(g, u) = g == 2 ? std::tanh(sum) : sigmoid_reference(sum);
      }
      step.c[u] = gate(1, u) * c_before[u] + gate(0, u) * gate(2, u);
      step.h[u] = gate(3, u) * std::tanh(step.c[u]);
    } else {
      gate(0, u) = sigmoid_reference(input(0, u) + recurrent(0, u));
      gate(1, u) = sigmoid_reference(input(1, u) + recurrent(1, u));
      gate(2, u) = std::tanh(input(2, u) + gate(0, u) * recurrent(2, u));
      step.h[u] = (1 - gate(1, u)) * gate(2, u) + gate(1, u) * h_before[u];
    }
  }
  return step;
}

/// Gradients before the activations, of the parts from x and from h. `dh`, `dc` are of this step's results on entry;
/// on return, of the step before, without the part of dh through the recurrent product.
void backward_cell(RecurrentCell cell, size_t hidden, const CellStep& s, Values& dh, Values& dc, Values& d_from_x,
                   Values& d_from_h) {
  for (size_t u = 0; u < hidden; ++u) {
    const auto gate = [&](size_t g) { return s.gates[g * hidden + u]; };
    const auto set = [&](size_t g, double from_x, double from_h) {
      d_from_x[g * hidden + u] = from_x;
      d_from_h[g * hidden + u] = from_h;
    };
    if (cell == RecurrentCell::lstm) {
      const double i = gate(0), f = gate(1), g = gate(2), o = gate(3), squashed = std::tanh(s.c[u]);
      const double cell_gradient = dc[u] + dh[u] * o * (1 - squashed * squashed);
      const double d[4] = {cell_gradient * g * i * (1 - i), cell_gradient * s.c_before[u] * f * (1 - f),
                           cell_gradient * i * (1 - g * g), dh[u] * squashed * o * (1 - o)};
      for (size_t k = 0; k < 4; ++k) set(k, d[k], d[k]);
      dc[u] = cell_gradient * f;
      dh[u] = 0;
    } else {
      const double r = gate(0), z = gate(1), n = gate(2), candidate = s.from_h[2 * hidden + u];
      const double dn = dh[u] * (1 - z) * (1 - n * n), dz = dh[u] * (s.h_before[u] - n) * z * (1 - z);
      const double dr = dn * candidate * r * (1 - r);
      set(0, dr, dr);
      set(1, dz, dz);
      set(2, dn, dn * r);
      dh[u] *= z;
    }
  }
}

/// Writes the sample's rows of y and dx to `out`, and adds its gradients of the parameters to those of `d`.
void add_sample(const RecurrentShape& s, const RecurrentInputs<double>& in, int64_t sample, RecurrentResults& out,
                RecurrentInputs<double>& d) {
  const size_t hidden = count_of(s.hidden), input = count_of(s.input), steps = count_of(s.steps);
  const size_t first = count_of(sample) * steps;
  std::vector<CellStep> done;
  Values h(hidden, 0.0), c(hidden, 0.0);
  for (size_t t = 0; t < steps; ++t) {
    done.push_back(forward_cell(s.cell, hidden, affine(in.w_input, in.b_input, &in.x[(first + t) * input], input),
                                affine(in.w_hidden, in.b_hidden, h.data(), hidden), h, c));
    h = done.back().h, c = done.back().c;
    for (size_t u = 0; u < hidden; ++u) {
      if (!s.last_step_only) out.y[(first + t) * hidden + u] = h[u];
      if (s.last_step_only && t + 1 == steps) out.y[count_of(sample) * hidden + u] = h[u];
    }
  }
  if (in.dy.empty()) return;
  Values dh(hidden, 0.0), dc(hidden, 0.0), d_from_x(in.b_input.size()), d_from_h(in.b_input.size());
  for (size_t t = steps; t-- > 0;) {
    for (size_t u = 0; u < hidden; ++u) {
      if (!s.last_step_only) dh[u] += in.dy[(first + t) * hidden + u];
      if (s.last_step_only && t + 1 == steps) dh[u] += in.dy[count_of(sample) * hidden + u];
    }
    backward_cell(s.cell, hidden, done[t], dh, dc, d_from_x, d_from_h);
    affine_gradient(in.w_input, d_from_x, &in.x[(first + t) * input], input, d.w_input, d.b_input,
                    &out.gradients.x[(first + t) * input]);
    affine_gradient(in.w_hidden, d_from_h, done[t].h_before.data(), hidden, d.w_hidden, d.b_hidden, dh.data());
  }
}

/// Zeros for the gradients of the parameters.
RecurrentInputs<double> parameters_like(const RecurrentInputs<double>& in) {
  return {Values(in.w_input.size()),
          Values(in.w_hidden.size()),
          Values(in.b_input.size()),
          Values(in.b_hidden.size()),
          {},
          {}};
}

void add(const Values& from, Values& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

RecurrentInputs<float> random_recurrent(const RecurrentShape& s, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  const float range = 1.0f / std::sqrt(static_cast<float>(s.hidden));
  std::uniform_real_distribution<float> uniform(-range, range);
  const int64_t gates = num_gates(s.cell) * s.hidden;
  const auto values = [&](int64_t count, auto& distribution) {
    std::vector<float> out(count_of(count));
    for (float& value : out) value = distribution(generator);
    return out;
  };
  RecurrentInputs<float> in;
  in.w_input = values(gates * s.input, uniform);
  in.w_hidden = values(gates * s.hidden, uniform);
  in.b_input = values(gates, uniform);
  in.b_hidden = values(gates, uniform);
  in.x = values(s.batch * s.steps * s.input, normal);
  in.dy = values(output_elements(s), normal);
  return in;
}

RecurrentResults recurrent_reference(const RecurrentShape& shape, const RecurrentInputs<double>& in) {
  RecurrentResults out;
  out.y.assign(count_of(output_elements(shape)), 0.0);
  out.gradients = parameters_like(in);
  out.gradients.x.resize(in.x.size());
  // Samples in parts, by all processors; the parts are added in their order, whatever ran first.
  const auto parts = count_of(std::min<int64_t>(shape.batch, 8));
  std::vector<RecurrentInputs<double>> of_parts(parts, parameters_like(in));
  run_pieces(parts, [&](size_t part) {
    const auto begin_of = [&](size_t p) { return shape.batch * static_cast<int64_t>(p) / static_cast<int64_t>(parts); };
    for (int64_t sample = begin_of(part); sample < begin_of(part + 1); ++sample)
      add_sample(shape, in, sample, out, of_parts[part]);
  });
  for (const RecurrentInputs<double>& part : of_parts) {
    add(part.w_input, out.gradients.w_input), add(part.w_hidden, out.gradients.w_hidden);
    add(part.b_input, out.gradients.b_input), add(part.b_hidden, out.gradients.b_hidden);
  }
  return out;
}

RecurrentResults recurrent_reference(const RecurrentShape& shape, const RecurrentInputs<float>& in) {
  const auto wide = [](const std::vector<float>& values) { return Values(values.begin(), values.end()); };
  return recurrent_reference(shape, RecurrentInputs<double>{wide(in.w_input), wide(in.w_hidden), wide(in.b_input),
                                                            wide(in.b_hidden), wide(in.x), wide(in.dy)});
}

}  // namespace amdahl::test
