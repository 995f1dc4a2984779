// The forward kernel of small transformer blocks against float64, and in several orders of its threads.
#include <gtest/gtest.h>

#include <set>

#include "block_arrays.h"
#include "ops/cuda_block_forward.cuh"
#include "reference_block.h"

namespace amdahl {
namespace {

using emulator::Array;

template <class T, class Products, int kNumHeads, int kNumRowTiles>
struct Kernel {
  using Element = T;
  using Math = Products;
  static constexpr int kHeads = kNumHeads, kRowTiles = kNumRowTiles;
};
using Bfloat = __nv_bfloat16;

/// Memory of one problem.
template <class T>
struct Problem {
  Problem(int num_sequences, int num_steps, int num_heads, bool is_causal)
      : sequences(num_sequences), steps(num_steps), heads(num_heads), causal(is_causal) {}
  int sequences, steps, heads;
  bool causal;
  int64_t width = 64 * heads, hidden = 4 * width, tokens = static_cast<int64_t>(sequences) * steps;
  Array<float> x{tokens * width, 1, -3.0f, 5.0f}, gamma1{width, 2, 0.5f, 1.5f}, beta1{width, 3, -0.5f, 0.5f},
      gamma2{width, 4, 0.5f, 1.5f}, beta2{width, 5, -0.5f, 0.5f};
  Array<T> qkv_weight{3 * width * width, 6, -0.15f, 0.15f}, qkv_bias{3 * width, 7, -0.5f, 0.5f},
      out_weight{width * width, 8, -0.2f, 0.2f}, out_bias{width, 9, -0.5f, 0.5f},
      up_weight{hidden * width, 10, -0.1f, 0.1f}, up_bias{hidden, 11, -0.5f, 0.5f},
      down_weight{width * hidden, 12, -0.1f, 0.1f}, down_bias{width, 13, -0.5f, 0.5f};
  Array<T> norm1{tokens * width}, qkv{tokens * 3 * width}, attention{tokens * width}, norm2{tokens * width},
      up{tokens * hidden}, gelu{tokens * hidden};
  Array<float> middle{tokens * width}, out{tokens * width}, mean1{tokens}, rstd1{tokens}, mean2{tokens}, rstd2{tokens},
      log_sums{tokens * heads};

  BlockForward arguments() {
    BlockForward a{};
    a.sequences = sequences, a.steps = steps, a.heads = heads, a.causal = causal;
    a.x = x.data(), a.gamma1 = gamma1.data(), a.beta1 = beta1.data(), a.gamma2 = gamma2.data(), a.beta2 = beta2.data();
    a.qkv_weight = qkv_weight.data(), a.qkv_bias = qkv_bias.data();
    a.out_weight = out_weight.data(), a.out_bias = out_bias.data();
    a.up_weight = up_weight.data(), a.up_bias = up_bias.data();
    a.down_weight = down_weight.data(), a.down_bias = down_bias.data();
    a.norm1 = norm1.data(), a.qkv = qkv.data(), a.attention = attention.data(), a.middle = middle.data();
    a.norm2 = norm2.data(), a.up = up.data(), a.gelu = gelu.data(), a.out = out.data();
    a.mean1 = mean1.data(), a.rstd1 = rstd1.data(), a.mean2 = mean2.data(), a.rstd2 = rstd2.data();
    a.log_sums = log_sums.data();
    return a;
  }

  test::reference::BlockValues values() {
    return {sequences,
            steps,
            heads,
            causal,
            x.values(),
            gamma1.values(),
            beta1.values(),
            gamma2.values(),
            beta2.values(),
            qkv_weight.values(),
            qkv_bias.values(),
            out_weight.values(),
            out_bias.values(),
            up_weight.values(),
            up_bias.values(),
            down_weight.values(),
            down_bias.values(),
            norm1.values(),
            qkv.values(),
            attention.values(),
            middle.values(),
            norm2.values(),
            up.values(),
            gelu.values(),
            out.values(),
            mean1.values(),
            rstd1.values(),
            mean2.values(),
            rstd2.values(),
            log_sums.values()};
  }

  /// The bits of all results, one after another.
  std::vector<unsigned char> bits() {
    std::vector<unsigned char> all;
    const auto add = [&](auto& array) {
      const std::vector<unsigned char> own = array.bits();
      all.insert(all.end(), own.begin(), own.end());
    };
    add(norm1), add(qkv), add(attention), add(middle), add(norm2), add(up), add(gelu), add(out);
    add(mean1), add(rstd1), add(mean2), add(rstd2), add(log_sums);
    return all;
  }
};

template <class K>
void run_kernel(Problem<typename K::Element>& problem, uint64_t seed) {
  using S = BlockForwardSizes<typename K::Element, K::kHeads, K::kRowTiles>;
  const BlockForward arguments = problem.arguments();
  emulator::run({.blocks = problem.sequences * K::kHeads,
                 .threads = kBlockThreads,
                 .cluster = K::kHeads,
                 .shared_bytes = S::kSharedBytes,
                 .seed = seed},
                [&](std::byte* shared) { block_forward_body<S, typename K::Math>(arguments, shared); });
}

template <class K>
class BlockForwardEmulated : public ::testing::Test {};
using Kernels = ::testing::Types<Kernel<Bfloat, HalfMath<Bfloat>, 3, 6>, Kernel<__half, HalfMath<__half>, 1, 6>,
                                 Kernel<Bfloat, HalfMath<Bfloat>, 4, 8>, Kernel<float, FloatMath<false>, 2, 6>,
                                 Kernel<float, FloatMath<false>, 3, 8>>;
TYPED_TEST_SUITE(BlockForwardEmulated, Kernels);

TYPED_TEST(BlockForwardEmulated, Float64) {
  for (const bool causal : {false, true}) {
    const int steps = causal ? 37 : 16 * TypeParam::kRowTiles, sequences = causal && TypeParam::kHeads < 3 ? 2 : 1;
    SCOPED_TRACE(std::to_string(steps) + (causal ? " steps, causal" : " steps"));
    Problem<typename TypeParam::Element> problem(sequences, steps, TypeParam::kHeads, causal);
    run_kernel<TypeParam>(problem, 1);
    test::reference::expect_block_forward(problem.values(), emulator::unit_of<typename TypeParam::Element>());
  }
}

TYPED_TEST(BlockForwardEmulated, EveryOrderOfThreads) {
  std::set<std::vector<unsigned char>> results;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Problem<typename TypeParam::Element> problem(1, 50, TypeParam::kHeads, true);
    run_kernel<TypeParam>(problem, seed);
    results.insert(problem.bits());
  }
  EXPECT_EQ(results.size(), 1u);
}

}  // namespace
}  // namespace amdahl
