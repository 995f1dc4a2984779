// The backward kernel of a transformer block on the emulator, against float64 arithmetic that rounds what the kernel
// writes, or passes on, in the compute type.
#include <gtest/gtest.h>

#include "block_arrays.h"
#include "ops/cuda_block_backward.cuh"
#include "reference_block.h"

namespace amdahl {
namespace {

using emulator::Array;
using test::reference::Values;

struct BackwardCase {
  int sequences, steps;
  bool causal;
};

template <class Element>
Values rounded(Values values) {
  for (double& value : values) value = to_float(to_element<Element>(static_cast<float>(value)));
  return values;
}

template <class T>
void set_values(Array<T>& array, const Values& values) {
  for (size_t i = 0; i < values.size(); ++i) array.data()[i] = to_element<T>(static_cast<float>(values[i]));
}

/// Inputs of the kernel, random, and what follows from them.
template <class Element>
struct BackwardInputs {
  int64_t heads, width, tokens;
  test::reference::AttentionSizes sizes;
  Array<float> x, middle, d_out, gamma1, gamma2, mean1, rstd1, mean2, rstd2, log_sums;
  Array<Element> qkv, attention, up, qkv_weight, out_weight, up_weight, down_weight;

  BackwardInputs(const BackwardCase& c, int num_heads)
      : heads(num_heads),
        width(64 * heads),
        tokens(int64_t{c.sequences} * c.steps),
        sizes{c.sequences, c.steps, heads, 64, c.causal},
        x(tokens * width, 1, -2, 2),
        middle(tokens * width, 2, -1, 2),
        d_out(tokens * width, 3, -1, 1),
        gamma1(width, 4, 0.5, 1.5),
        gamma2(width, 5, 0.5, 1.5),
        mean1(tokens),
        rstd1(tokens),
        mean2(tokens),
        rstd2(tokens),
        log_sums(tokens * heads),
        qkv(3 * tokens * width, 6, -2, 2),
        attention(tokens * width),
        up(4 * tokens * width, 7, -2, 2),
        qkv_weight(3 * width * width, 8, -0.1f, 0.1f),
        out_weight(width * width, 9, -0.2f, 0.2f),
        up_weight(4 * width * width, 10, -0.1f, 0.1f),
        down_weight(4 * width * width, 11, -0.1f, 0.1f) {
    const auto forward = test::reference::attention(sizes, qkv.values());
    set_values(attention, forward.out), set_values(log_sums, forward.log_sums);
    const Values ones(static_cast<size_t>(width), 1.0);
    const auto norm1 = test::reference::layer_norm(x.values(), ones, ones);
    const auto norm2 = test::reference::layer_norm(middle.values(), ones, ones);
    set_values(mean1, norm1.mean), set_values(rstd1, norm1.rstd);
    set_values(mean2, norm2.mean), set_values(rstd2, norm2.rstd);
  }
};

struct BackwardResults {
  Values dx, d_middle, norm_sums, d_out_typed, d_middle_typed, d_up, d_qkv;  // norm_sums: over all sequences
};

// ---- The reference. ----

/// residual + the gradient of a normalisation; the sums of dgamma and dbeta are appended.
Values add_norm_gradient(const Values& dy, const Values& x, const Values& gamma, const Values& residual, Values& sums) {
  const auto g = test::reference::layer_norm_gradients(dy, x, gamma);
  sums.insert(sums.end(), g.dgamma.begin(), g.dgamma.end());
  sums.insert(sums.end(), g.dbeta.begin(), g.dbeta.end());
  return test::reference::sum_of(g.dx, residual);
}

template <class Element>
BackwardResults expected_results(BackwardInputs<Element>& in) {
  using test::reference::matmul;
  const int64_t n = in.tokens, width = in.width;
  BackwardResults r;
  Values first_sums, second_sums;
  r.d_out_typed = rounded<Element>(in.d_out.values());
  r.d_up = rounded<Element>(test::reference::gelu_gradient(
      matmul(r.d_out_typed, in.down_weight.values(), n, 4 * width, width), in.up.values()));
  const Values d_norm2 = rounded<Element>(matmul(r.d_up, in.up_weight.values(), n, width, 4 * width));
  r.d_middle = add_norm_gradient(d_norm2, in.middle.values(), in.gamma2.values(), in.d_out.values(), second_sums);
  r.d_middle_typed = rounded<Element>(r.d_middle);
  const Values d_attention = rounded<Element>(matmul(r.d_middle_typed, in.out_weight.values(), n, width, width));
  r.d_qkv = rounded<Element>(test::reference::attention_gradient(in.sizes, in.qkv.values(), d_attention));
  const Values d_norm1 = rounded<Element>(matmul(r.d_qkv, in.qkv_weight.values(), n, width, 3 * width));
  r.dx = add_norm_gradient(d_norm1, in.x.values(), in.gamma1.values(), r.d_middle, first_sums);
  r.norm_sums = first_sums;
  r.norm_sums.insert(r.norm_sums.end(), second_sums.begin(), second_sums.end());
  return r;
}

// ---- The kernel. ----

template <class Element, int kHeads>
BackwardResults run_backward(BackwardInputs<Element>& in, const BackwardCase& c, uint64_t seed) {
  using S = BackwardShape<Element, kHeads>;
  const int64_t n = in.tokens * in.width;
  Array<float> dx(n), d_middle(n), partials(4 * in.width * c.sequences);
  Array<Element> d_out_typed(n), d_middle_typed(n), d_up(4 * n), d_qkv(3 * n);
  const bool typed = S::kIsHalf;
  const BlockBackward a{.sequences = c.sequences,
                        .steps = c.steps,
                        .heads = kHeads,
                        .causal = c.causal,
                        .x = in.x.data(),
                        .middle = in.middle.data(),
                        .qkv = in.qkv.data(),
                        .attention = in.attention.data(),
                        .up = in.up.data(),
                        .log_sums = in.log_sums.data(),
                        .mean1 = in.mean1.data(),
                        .rstd1 = in.rstd1.data(),
                        .mean2 = in.mean2.data(),
                        .rstd2 = in.rstd2.data(),
                        .gamma1 = in.gamma1.data(),
                        .gamma2 = in.gamma2.data(),
                        .qkv_weight = in.qkv_weight.data(),
                        .out_weight = in.out_weight.data(),
                        .up_weight = in.up_weight.data(),
                        .down_weight = in.down_weight.data(),
                        .d_out = in.d_out.data(),
                        .dx = dx.data(),
                        .d_middle = d_middle.data(),
                        .norm_partials = partials.data(),
                        .d_out_typed = typed ? d_out_typed.data() : nullptr,
                        .d_middle_typed = typed ? d_middle_typed.data() : nullptr,
                        .d_up = d_up.data(),
                        .d_qkv = d_qkv.data()};
  const int rows = S::padded(c.steps);
  emulator::run({.blocks = c.sequences * kHeads,
                 .threads = rows * S::kColumnWarps,
                 .cluster = kHeads,
                 .shared_bytes = static_cast<size_t>(S::shared_bytes(rows)),
                 .seed = seed},
                [&](std::byte* shared) { block_backward_body<S>(a, shared); });
  BackwardResults r{.dx = dx.values(),
                    .d_middle = d_middle.values(),
                    .norm_sums = test::reference::column_sums(partials.values(), 4 * in.width),
                    .d_out_typed = {},
                    .d_middle_typed = {},
                    .d_up = d_up.values(),
                    .d_qkv = d_qkv.values()};
  if (typed) r.d_out_typed = d_out_typed.values(), r.d_middle_typed = d_middle_typed.values();
  return r;
}

void expect_close(const BackwardResults& got, const BackwardResults& want, double limit) {
  using test::reference::distance;
  EXPECT_LT(distance(got.d_up, want.d_up), limit);
  EXPECT_LT(distance(got.d_middle, want.d_middle), limit);
  EXPECT_LT(distance(got.d_qkv, want.d_qkv), limit);
  EXPECT_LT(distance(got.norm_sums, want.norm_sums), limit);
  EXPECT_LT(distance(got.dx, want.dx), limit);
  if (got.d_out_typed.empty()) return;
  EXPECT_EQ(got.d_out_typed, want.d_out_typed);
  EXPECT_LT(distance(got.d_middle_typed, want.d_middle_typed), limit);
}

/// With several orders of threads: a missing barrier makes their results differ.
template <class Element, int kHeads>
void check_backward(const BackwardCase& c, const std::vector<uint64_t>& seeds) {
  BackwardInputs<Element> inputs(c, kHeads);
  const BackwardResults want = expected_results(inputs);
  BackwardResults first;
  for (uint64_t seed : seeds) {
    const BackwardResults got = run_backward<Element, kHeads>(inputs, c, seed);
    if (first.dx.empty()) {
      expect_close(got, want, (sizeof(Element) == 2 ? 1 : 2) * emulator::unit_of<Element>());
      first = got;
      continue;
    }
    EXPECT_EQ(got.dx, first.dx) << "seed " << seed;
    EXPECT_EQ(got.d_qkv, first.d_qkv) << "seed " << seed;
    EXPECT_EQ(got.d_up, first.d_up) << "seed " << seed;
    EXPECT_EQ(got.norm_sums, first.norm_sums) << "seed " << seed;
  }
}

TEST(EmulatedBlockBackward, PresetBf16) { check_backward<__nv_bfloat16, 3>({1, 96, true}, {1, 2}); }
TEST(EmulatedBlockBackward, PresetTf32) { check_backward<float, 3>({1, 96, true}, {3}); }
TEST(EmulatedBlockBackward, SequencesOfOddSteps) {
  check_backward<__nv_bfloat16, 2>({2, 37, false}, {1, 2, 3});
  check_backward<__half, 1>({2, 37, true}, {4, 5});
  check_backward<float, 1>({2, 37, false}, {6, 7});
}
/// Enough orders that a run without any one of the kernel's barriers and waits fails.
TEST(EmulatedBlockBackward, OrdersOfThreads) {
  check_backward<__nv_bfloat16, 2>({1, 70, true}, {1, 2, 3, 4, 5, 6, 7, 8});
}
TEST(EmulatedBlockBackward, OneStep) { check_backward<__nv_bfloat16, 1>({3, 1, true}, {1}); }
TEST(EmulatedBlockBackward, FourHeads) {
  check_backward<__half, 4>({1, 33, false}, {1});
  check_backward<__nv_bfloat16, 4>({1, 20, true}, {2, 3});
}
TEST(EmulatedBlockBackward, MostSteps) { check_backward<__nv_bfloat16, 1>({1, 128, false}, {1}); }

}  // namespace
}  // namespace amdahl
