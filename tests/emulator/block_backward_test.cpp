// The backward kernel of a transformer block on the emulator, against float64 arithmetic that rounds where layers round.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "ops/cuda_block_backward.cuh"

namespace amdahl {
namespace {

using Matrix = std::vector<double>;

struct BackwardCase {
  int sequences, steps;
  bool causal;
};

/// Random arrays of a block, exact in their types.
struct BlockArrays {
  size_t tokens, width, hidden;
  Matrix x, middle, qkv, attention, up, log_sums, mean1, rstd1, mean2, rstd2, d_out;
  Matrix gamma1, gamma2, qkv_weight, out_weight, up_weight, down_weight;
};

/// What the kernel computes.
struct BlockResults {
  Matrix dx, d_middle, norm_partials, d_out_typed, d_middle_typed, d_up, d_qkv;
};

template <class Element>
double rounded(double value) {
  return to_float(to_element<Element>(static_cast<float>(value)));
}
template <class Element>
void round_all(Matrix& values) {
  for (double& value : values) value = rounded<Element>(value);
}

/// c[rows, columns] = a[rows, k] b[k, columns].
Matrix product(const Matrix& a, const Matrix& b, size_t rows, size_t k) {
  const size_t columns = b.size() / k;
  Matrix c(rows * columns);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < k; ++i)
      for (size_t column = 0; column < columns; ++column) c[row * columns + column] += a[row * k + i] * b[i * columns + column];
  return c;
}

double gelu_slope(double x) {
  const double root = 0.7978845608028654, u = root * (x + 0.044715 * x * x * x), t = std::tanh(u);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

/// Calls use(query, key, score) for the pairs of a head that attend to each other.
void for_attending(const BackwardCase& c, const std::function<void(size_t query, size_t key)>& use) {
  for (size_t query = 0; query < static_cast<size_t>(c.steps); ++query)
    for (size_t key = 0; key < (c.causal ? query + 1 : static_cast<size_t>(c.steps)); ++key) use(query, key);
}

constexpr size_t kHead = 64;
constexpr double kScale = 0.125;

/// Rows and columns of one head in a matrix of the sequences' tokens.
struct HeadPlace {
  size_t first_row, stride, first_column;
  size_t operator()(size_t row, size_t column) const { return (first_row + row) * stride + first_column + column; }
};

/// Forward of attention of one head: output and log sums.
template <class Element>
void attend(const BackwardCase& c, BlockArrays& a, size_t sequence, size_t head) {
  const size_t heads = a.width / kHead, steps = static_cast<size_t>(c.steps), first = sequence * steps;
  const HeadPlace q{first, 3 * a.width, head * kHead}, k{first, 3 * a.width, a.width + head * kHead},
      v{first, 3 * a.width, 2 * a.width + head * kHead}, out{first, a.width, head * kHead};
  Matrix weights(steps * steps), sums(steps);
  for_attending(c, [&](size_t query, size_t key) {
    double score = 0;
    for (size_t i = 0; i < kHead; ++i) score += a.qkv[q(query, i)] * a.qkv[k(key, i)];
    sums[query] += weights[query * steps + key] = std::exp(kScale * score);
  });
  for_attending(c, [&](size_t query, size_t key) {
    for (size_t i = 0; i < kHead; ++i)
      a.attention[out(query, i)] += weights[query * steps + key] / sums[query] * a.qkv[v(key, i)];
  });
  for (size_t query = 0; query < steps; ++query)
    a.log_sums[(sequence * heads + head) * steps + query] = std::log(sums[query]);
}

void set_statistics(const Matrix& x, size_t width, Matrix& mean, Matrix& rstd) {
  for (size_t row = 0; row < mean.size(); ++row) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < width; ++i) sum += x[row * width + i];
    mean[row] = sum / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) squares += std::pow(x[row * width + i] - mean[row], 2);
    rstd[row] = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
  }
}

template <class Element>
BlockArrays make_arrays(const BackwardCase& c, size_t heads) {
  BlockArrays a{};
  a.tokens = static_cast<size_t>(c.sequences * c.steps), a.width = heads * kHead, a.hidden = 4 * a.width;
  std::mt19937_64 random(17);
  const auto fill = [&](Matrix& values, size_t count, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    values.resize(count);
    for (double& value : values) value = static_cast<float>(normal(random));
  };
  const size_t n = a.tokens * a.width, square = a.width * a.width;
  const double spread = 1 / std::sqrt(static_cast<double>(a.width));
  fill(a.x, n, 0.2, 1), fill(a.middle, n, -0.1, 1), fill(a.d_out, n, 0, 1);
  fill(a.qkv, 3 * n, 0, 1), fill(a.up, 4 * n, 0, 1);
  fill(a.gamma1, a.width, 1, 0.2), fill(a.gamma2, a.width, 1, 0.2);
  fill(a.qkv_weight, 3 * square, 0, spread), fill(a.out_weight, square, 0, spread);
  fill(a.up_weight, 4 * square, 0, spread), fill(a.down_weight, 4 * square, 0, spread / 2);
  for (Matrix* typed : {&a.qkv, &a.up, &a.qkv_weight, &a.out_weight, &a.up_weight, &a.down_weight})
    round_all<Element>(*typed);
  a.attention.resize(n), a.log_sums.resize(a.tokens * heads);
  for (size_t sequence = 0; sequence < static_cast<size_t>(c.sequences); ++sequence)
    for (size_t head = 0; head < heads; ++head) attend<Element>(c, a, sequence, head);
  round_all<Element>(a.attention);
  for (Matrix* values : {&a.mean1, &a.rstd1, &a.mean2, &a.rstd2}) values->resize(a.tokens);
  set_statistics(a.x, a.width, a.mean1, a.rstd1), set_statistics(a.middle, a.width, a.mean2, a.rstd2);
  return a;
}

// ---- The reference. ----

/// dx = residual + the gradient of a normalisation; sums of dgamma and dbeta by sequence go to [sequences, 4, width].
Matrix norm_gradient(const BackwardCase& c, const BlockArrays& a, const Matrix& dy, const Matrix& x, const Matrix& mean,
                     const Matrix& rstd, const Matrix& gamma, const Matrix& residual, Matrix& sums, size_t first) {
  const double width = static_cast<double>(a.width);
  Matrix dx = residual;
  for (size_t row = 0; row < a.tokens; ++row) {
    double sum = 0, sum_x = 0;
    double* const own = &sums[(row / static_cast<size_t>(c.steps) * 4 + first) * a.width];
    const auto x_hat = [&](size_t i) { return (x[row * a.width + i] - mean[row]) * rstd[row]; };
    for (size_t i = 0; i < a.width; ++i) {
      const double d = dy[row * a.width + i], g = d * gamma[i];
      sum += g, sum_x += g * x_hat(i);
      own[i] += d * x_hat(i), own[a.width + i] += d;
    }
    for (size_t i = 0; i < a.width; ++i)
      dx[row * a.width + i] +=
          rstd[row] * (dy[row * a.width + i] * gamma[i] - sum / width - x_hat(i) * sum_x / width);
  }
  return dx;
}

template <class Element>
void attention_gradient(const BackwardCase& c, const BlockArrays& a, const Matrix& d_out, Matrix& d_qkv,
                        size_t sequence, size_t head) {
  const size_t heads = a.width / kHead, steps = static_cast<size_t>(c.steps), first = sequence * steps;
  const HeadPlace q{first, 3 * a.width, head * kHead}, k{first, 3 * a.width, a.width + head * kHead},
      v{first, 3 * a.width, 2 * a.width + head * kHead}, out{first, a.width, head * kHead};
  for_attending(c, [&](size_t query, size_t key) {
    double score = 0, d_weight = 0, delta = 0;
    for (size_t i = 0; i < kHead; ++i) {
      score += a.qkv[q(query, i)] * a.qkv[k(key, i)];
      d_weight += d_out[out(query, i)] * a.qkv[v(key, i)];
      delta += d_out[out(query, i)] * a.attention[out(query, i)];
    }
    const double weight = std::exp(kScale * score - a.log_sums[(sequence * heads + head) * steps + query]);
    const double p = rounded<Element>(weight), ds = rounded<Element>(weight * (d_weight - delta));
    for (size_t i = 0; i < kHead; ++i) {
      d_qkv[v(key, i)] += p * d_out[out(query, i)];
      d_qkv[q(query, i)] += kScale * ds * a.qkv[k(key, i)];
      d_qkv[k(key, i)] += kScale * ds * a.qkv[q(query, i)];
    }
  });
}

template <class Element>
BlockResults reference(const BackwardCase& c, const BlockArrays& a) {
  BlockResults r;
  r.norm_partials.resize(static_cast<size_t>(c.sequences) * 4 * a.width);
  r.d_out_typed = a.d_out;
  round_all<Element>(r.d_out_typed);
  r.d_up = product(r.d_out_typed, a.down_weight, a.tokens, a.width);
  for (size_t i = 0; i < r.d_up.size(); ++i) r.d_up[i] *= gelu_slope(a.up[i]);
  round_all<Element>(r.d_up);
  Matrix d_norm = product(r.d_up, a.up_weight, a.tokens, a.hidden);
  round_all<Element>(d_norm);
  r.d_middle = norm_gradient(c, a, d_norm, a.middle, a.mean2, a.rstd2, a.gamma2, a.d_out, r.norm_partials, 2);
  r.d_middle_typed = r.d_middle;
  round_all<Element>(r.d_middle_typed);
  Matrix d_attention = product(r.d_middle_typed, a.out_weight, a.tokens, a.width);
  round_all<Element>(d_attention);
  r.d_qkv.resize(a.tokens * 3 * a.width);
  for (size_t sequence = 0; sequence < static_cast<size_t>(c.sequences); ++sequence)
    for (size_t head = 0; head < a.width / kHead; ++head)
      attention_gradient<Element>(c, a, d_attention, r.d_qkv, sequence, head);
  round_all<Element>(r.d_qkv);
  d_norm = product(r.d_qkv, a.qkv_weight, a.tokens, 3 * a.width);
  round_all<Element>(d_norm);
  r.dx = norm_gradient(c, a, d_norm, a.x, a.mean1, a.rstd1, a.gamma1, r.d_middle, r.norm_partials, 0);
  return r;
}

// ---- The kernel. ----

/// Keeps arrays in the kernel's types.
class Storage {
 public:
  template <class T>
  T* copy_of(const Matrix& values) {
    T* const memory = fresh<T>(values.size());
    for (size_t i = 0; i < values.size(); ++i) memory[i] = to_element<T>(static_cast<float>(values[i]));
    return memory;
  }
  /// NaN in every element.
  template <class T>
  T* fresh(size_t count) {
    blocks_.push_back(std::make_unique<emulator::GuardedMemory>(count * sizeof(T)));
    return reinterpret_cast<T*>(blocks_.back()->data());
  }

 private:
  std::vector<std::unique_ptr<emulator::GuardedMemory>> blocks_;
};

template <class T>
Matrix values_of(const void* memory, size_t count) {
  Matrix values(count);
  for (size_t i = 0; i < count; ++i) values[i] = to_float(static_cast<const T*>(memory)[i]);
  return values;
}

template <class Element, int kHeads>
BlockResults run_kernel(const BackwardCase& c, const BlockArrays& a, uint64_t seed) {
  using S = BackwardShape<Element, kHeads>;
  Storage s;
  const size_t n = a.tokens * a.width;
  const bool typed = sizeof(Element) == 2;
  BlockBackward b{};
  b.sequences = c.sequences, b.steps = c.steps, b.heads = kHeads, b.causal = c.causal;
  b.x = s.copy_of<float>(a.x), b.middle = s.copy_of<float>(a.middle), b.d_out = s.copy_of<float>(a.d_out);
  b.qkv = s.copy_of<Element>(a.qkv), b.attention = s.copy_of<Element>(a.attention), b.up = s.copy_of<Element>(a.up);
  b.log_sums = s.copy_of<float>(a.log_sums);
  b.mean1 = s.copy_of<float>(a.mean1), b.rstd1 = s.copy_of<float>(a.rstd1);
  b.mean2 = s.copy_of<float>(a.mean2), b.rstd2 = s.copy_of<float>(a.rstd2);
  b.gamma1 = s.copy_of<float>(a.gamma1), b.gamma2 = s.copy_of<float>(a.gamma2);
  b.qkv_weight = s.copy_of<Element>(a.qkv_weight), b.out_weight = s.copy_of<Element>(a.out_weight);
  b.up_weight = s.copy_of<Element>(a.up_weight), b.down_weight = s.copy_of<Element>(a.down_weight);
  b.dx = s.fresh<float>(n), b.d_middle = s.fresh<float>(n);
  b.norm_partials = s.fresh<float>(static_cast<size_t>(c.sequences) * 4 * a.width);
  if (typed) b.d_out_typed = s.fresh<Element>(n), b.d_middle_typed = s.fresh<Element>(n);
  b.d_up = s.fresh<Element>(4 * n), b.d_qkv = s.fresh<Element>(3 * n);
  const int rows = S::padded(c.steps);
  emulator::run({.blocks = c.sequences * kHeads,
                 .threads = rows * S::kColumnWarps,
                 .cluster = kHeads,
                 .shared_bytes = static_cast<size_t>(S::shared_bytes(rows)),
                 .seed = seed},
                [&](std::byte* shared) { block_backward_body<S>(b, shared); });
  BlockResults r;
  r.dx = values_of<float>(b.dx, n), r.d_middle = values_of<float>(b.d_middle, n);
  r.norm_partials = values_of<float>(b.norm_partials, static_cast<size_t>(c.sequences) * 4 * a.width);
  r.d_up = values_of<Element>(b.d_up, 4 * n), r.d_qkv = values_of<Element>(b.d_qkv, 3 * n);
  if (typed) {
    r.d_out_typed = values_of<Element>(b.d_out_typed, n);
    r.d_middle_typed = values_of<Element>(b.d_middle_typed, n);
  }
  return r;
}

double relative_error(const Matrix& is, const Matrix& expected) {
  double squares = 0, error = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    squares += expected[i] * expected[i], error += (is[i] - expected[i]) * (is[i] - expected[i]);
  return std::sqrt(error / squares);
}

/// Compares all results; the largest relative error of a result.
void expect_close(const BlockResults& is, const BlockResults& expected, double limit) {
  EXPECT_LT(relative_error(is.d_up, expected.d_up), limit);
  EXPECT_LT(relative_error(is.d_middle, expected.d_middle), limit);
  EXPECT_LT(relative_error(is.d_qkv, expected.d_qkv), limit);
  EXPECT_LT(relative_error(is.norm_partials, expected.norm_partials), limit);
  EXPECT_LT(relative_error(is.dx, expected.dx), limit);
  if (is.d_out_typed.empty()) return;
  EXPECT_EQ(is.d_out_typed, expected.d_out_typed);
  EXPECT_LT(relative_error(is.d_middle_typed, expected.d_middle_typed), limit);
}

/// With several orders of threads: a missing barrier makes their results differ.
template <class Element, int kHeads>
void check(const BackwardCase& c, double limit, const std::vector<uint64_t>& seeds) {
  const BlockArrays arrays = make_arrays<Element>(c, kHeads);
  const BlockResults expected = reference<Element>(c, arrays);
  BlockResults first;
  for (uint64_t seed : seeds) {
    const BlockResults results = run_kernel<Element, kHeads>(c, arrays, seed);
    if (seed == seeds.front()) {
      expect_close(results, expected, limit);
      first = results;
      continue;
    }
    EXPECT_EQ(results.dx, first.dx) << "seed " << seed;
    EXPECT_EQ(results.d_qkv, first.d_qkv) << "seed " << seed;
    EXPECT_EQ(results.d_up, first.d_up) << "seed " << seed;
    EXPECT_EQ(results.norm_partials, first.norm_partials) << "seed " << seed;
  }
}

constexpr double kBf16 = 2e-3, kF16 = 3e-4, kTf32 = 1e-3;

TEST(EmulatedBlockBackward, PresetBf16) { check<__nv_bfloat16, 3>({1, 96, true}, kBf16, {1, 2}); }
TEST(EmulatedBlockBackward, PresetTf32) { check<float, 3>({1, 96, true}, kTf32, {3}); }
TEST(EmulatedBlockBackward, SequencesOfOddSteps) {
  check<__nv_bfloat16, 2>({2, 37, false}, kBf16, {1, 2, 3});
  check<__half, 1>({2, 37, true}, kF16, {4, 5});
  check<float, 1>({2, 37, false}, kTf32, {6, 7});
}
TEST(EmulatedBlockBackward, OneStep) { check<__nv_bfloat16, 1>({3, 1, true}, kBf16, {1}); }
TEST(EmulatedBlockBackward, FourHeads) {
  check<__half, 4>({1, 33, false}, kF16, {1});
  check<__nv_bfloat16, 4>({1, 20, true}, kBf16, {2, 3});
}
TEST(EmulatedBlockBackward, MostSteps) { check<__nv_bfloat16, 1>({1, 128, false}, kBf16, {1}); }

}  // namespace
}  // namespace amdahl
