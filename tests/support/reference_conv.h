// Plain float64 references of convolutions, batch normalisation and pooling, forward and backward, which every
// backend must reproduce. Arrays are row-major with the shapes of src/ops/conv/conv_ops.h; gradients are set.
#pragma once

#include <algorithm>

#include "reference_sequence.h"

namespace amdahl::test::reference {

struct ConvSizes {
  int64_t rows, height, width, in, out, kernel, stride, padding;

  int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  int64_t x_values() const { return rows * height * width * in; }
  int64_t y_values() const { return rows * out_height() * out_width() * out; }
  int64_t w_values() const { return out * kernel * kernel * in; }
};

/// Calls term(y index, x index, w index) for every product that the convolution sums.
template <class Term>
void for_each_product(const ConvSizes& s, const Term& term) {
  for (int64_t n = 0; n < s.rows; ++n)
    for (int64_t i = 0; i < s.out_height(); ++i)
      for (int64_t j = 0; j < s.out_width(); ++j)
        for (int64_t a = 0; a < s.kernel; ++a)
          for (int64_t b = 0; b < s.kernel; ++b) {
            const int64_t row = i * s.stride + a - s.padding, column = j * s.stride + b - s.padding;
            if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
            for (int64_t o = 0; o < s.out; ++o)
              for (int64_t c = 0; c < s.in; ++c)
                term(at(((n * s.out_height() + i) * s.out_width() + j) * s.out + o),
                     at(((n * s.height + row) * s.width + column) * s.in + c),
                     at(((o * s.kernel + a) * s.kernel + b) * s.in + c));
          }
}

inline Values conv(const ConvSizes& s, const Values& x, const Values& w) {
  Values y = zeros(s.y_values());
  for_each_product(s, [&](size_t to, size_t from, size_t weight) { y[to] += x[from] * w[weight]; });
  return y;
}
inline Values conv_data_gradient(const ConvSizes& s, const Values& dy, const Values& w) {
  Values dx = zeros(s.x_values());
  for_each_product(s, [&](size_t to, size_t from, size_t weight) { dx[from] += dy[to] * w[weight]; });
  return dx;
}
inline Values conv_filter_gradient(const ConvSizes& s, const Values& x, const Values& dy) {
  Values dw = zeros(s.w_values());
  for_each_product(s, [&](size_t to, size_t from, size_t weight) { dw[weight] += dy[to] * x[from]; });
  return dw;
}

// Batch normalisation ------------------------------------------------------------------------------------------------

/// Mean and biased variance of each column of x [count, channels].
struct ChannelMoments {
  Values mean, variance;
};
inline ChannelMoments channel_moments(const Values& x, int64_t channels) {
  const size_t width = at(channels);
  const double count = static_cast<double>(x.size()) / static_cast<double>(width);
  ChannelMoments m{Values(width, 0.0), Values(width, 0.0)};
  for (size_t i = 0; i < x.size(); ++i) m.mean[i % width] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i) m.variance[i % width] += std::pow(x[i] - m.mean[i % width], 2) / count;
  return m;
}

/// relu?(gamma (x - mean) / sqrt(variance + epsilon) + beta + residual); an empty residual is none.
inline Values normalise_channels(const Values& x, const ChannelMoments& m, const Values& gamma, const Values& beta,
                                 const Values& residual, bool relu, double epsilon = 1e-5) {
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % gamma.size();
    y[i] = gamma[c] * (x[i] - m.mean[c]) / std::sqrt(m.variance[c] + epsilon) + beta[c];
    if (!residual.empty()) y[i] += residual[i];
    if (relu) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

struct BatchNormGradients {
  Values dx, dgamma, dbeta;
};
/// Through mean and variance of the batch; dy is that of the result before ReLU.
inline BatchNormGradients batch_norm_gradients(const Values& dy, const Values& x, const Values& gamma,
                                               double epsilon = 1e-5) {
  const size_t width = gamma.size();
  const double count = static_cast<double>(x.size()) / static_cast<double>(width);
  const ChannelMoments m = channel_moments(x, static_cast<int64_t>(width));
  const auto normalised = [&](size_t i) {
    return (x[i] - m.mean[i % width]) / std::sqrt(m.variance[i % width] + epsilon);
  };
  BatchNormGradients g{Values(x.size()), Values(width, 0.0), Values(width, 0.0)};
  for (size_t i = 0; i < x.size(); ++i) {
    g.dgamma[i % width] += dy[i] * normalised(i);
    g.dbeta[i % width] += dy[i];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % width;
    g.dx[i] = gamma[c] / std::sqrt(m.variance[c] + epsilon) *
              (dy[i] - g.dbeta[c] / count - normalised(i) * g.dgamma[c] / count);
  }
  return g;
}

/// dy where y is above zero, else 0.
inline Values relu_gradient(Values dy, const Values& y) {
  for (size_t i = 0; i < y.size(); ++i)
    if (!(y[i] > 0)) dy[i] = 0;
  return dy;
}

// Max pooling --------------------------------------------------------------------------------------------------------

/// Of each output of x [rows, height, width, channels] the place of the pixel that it is: the first of the largest in
/// the window of kernel x kernel pixels, padded by kernel / 2.
inline std::vector<size_t> largest_places(const ConvSizes& s, const Values& x) {
  std::vector<size_t> places;
  for (int64_t n = 0; n < s.rows; ++n)
    for (int64_t i = 0; i < s.out_height(); ++i)
      for (int64_t j = 0; j < s.out_width(); ++j)
        for (int64_t c = 0; c < s.in; ++c) {
          std::vector<size_t> window;
          for (int64_t a = 0; a < s.kernel; ++a)
            for (int64_t b = 0; b < s.kernel; ++b) {
              const int64_t row = i * s.stride + a - s.padding, column = j * s.stride + b - s.padding;
              if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
              window.push_back(at(((n * s.height + row) * s.width + column) * s.in + c));
            }
          places.push_back(
              *std::max_element(window.begin(), window.end(), [&](size_t p, size_t q) { return x[p] < x[q]; }));
        }
  return places;
}
inline Values max_pool(const ConvSizes& s, const Values& x) {
  Values y;
  for (const size_t place : largest_places(s, x)) y.push_back(x[place]);
  return y;
}
inline Values max_pool_gradient(const ConvSizes& s, const Values& x, const Values& dy) {
  Values dx = zeros(s.x_values());
  const std::vector<size_t> places = largest_places(s, x);
  for (size_t i = 0; i < places.size(); ++i) dx[places[i]] += dy[i];
  return dx;
}

// Average pooling ----------------------------------------------------------------------------------------------------

/// Means over the pixels of x [rows, pixels, channels].
inline Values average_pool(const Values& x, int64_t rows, int64_t pixels, int64_t channels) {
  return pool_steps(Pool::mean, x, rows, pixels, channels);
}
inline Values average_pool_gradient(const Values& dy, int64_t rows, int64_t pixels, int64_t channels) {
  return pool_steps_gradient(Pool::mean, dy, rows, pixels, channels);
}

}  // namespace amdahl::test::reference
