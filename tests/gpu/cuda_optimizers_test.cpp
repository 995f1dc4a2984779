// What optimizers read in each step on a GPU: decay of some tensors, a scaled gradient, a learning rate that changes
// within a captured graph, and the norm of a gradient, against float64 and against the plain step, bit by bit.
#include <algorithm>
#include <cmath>

#include "gpu_support.h"

namespace amdahl {
namespace {

class CudaOptimizerTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device) ops = make_cuda_ops(*device, {});
  }
  std::unique_ptr<Ops> ops;
};

TEST_F(CudaOptimizerTest, AdamWDecaysItsLinesOnly) {
  constexpr float kRate = 1e-2f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f, kDecay = 0.3f;
  for (const int64_t n : {1, 64, 65, 1003, 100'003})
    for (const int64_t first : {0, 64, 4, 127}) {
      const int64_t skip = first % 4;  // a range of the layout starts where its memory does
      const std::vector<float> w = random_floats(n, 1), m = random_floats(n, 2), v = random_floats(n, 3, 0, 1),
                               g = random_floats(n, 4);
      std::vector<uint8_t> lines(static_cast<size_t>((first + n) / kDecayLine + 1));
      for (size_t i = 0; i < lines.size(); ++i) lines[i] = i % 3 != 1;
      auto gw = floats(w, skip), gm = floats(m, skip), gv = floats(v, skip), gg = floats(g, skip);
      GpuArray<uint8_t> flags(*device, *stream, lines);
      GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{3});
      auto factors = floats(std::vector<float>{0.5f * kRate, 0.25f});
      ops->optimizer().adam_step(*stream, {.params = gw.data(),
                                           .grads = gg.data(),
                                           .m = gm.data(),
                                           .v = gv.data(),
                                           .n = n,
                                           .step = step.data(),
                                           .lr = kRate,
                                           .beta1 = kBeta1,
                                           .beta2 = kBeta2,
                                           .epsilon = kEpsilon,
                                           .factors = {factors.data(), factors.data() + 1},
                                           .weight_decay = kDecay,
                                           .decays = flags.data(),
                                           .first = first});
      std::vector<double> want(w.size());
      const double rate = 0.5 * double{kRate};
      for (size_t i = 0; i < want.size(); ++i) {
        const double scaled = 0.25 * double{g[i]};
        const double mi = double{kBeta1} * double{m[i]} + (1 - double{kBeta1}) * scaled;
        const double vi = double{kBeta2} * double{v[i]} + (1 - double{kBeta2}) * scaled * scaled;
        const bool decays = lines[(static_cast<size_t>(first) + i) / 64] != 0;
        want[i] = double{w[i]} * (decays ? 1 - rate * double{kDecay} : 1) -
                  rate * (mi / (1 - std::pow(double{kBeta1}, 4))) /
                      (std::sqrt(vi / (1 - std::pow(double{kBeta2}, 4))) + double{kEpsilon});
      }
      EXPECT_LT(relative_error(gw.get(), want), 1e-5) << n << " from " << first;
    }
}

TEST_F(CudaOptimizerTest, NoDecayAndAScaleOfOneChangeNoBit) {
  constexpr int64_t kCount = 100'003;
  const std::vector<float> w = random_floats(kCount, 1), m = random_floats(kCount, 2),
                           v = random_floats(kCount, 3, 0, 1);
  auto g = floats(random_floats(kCount, 4)), factors = floats(std::vector<float>{1e-3f, 1.0f});
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{5});
  GpuArray<uint8_t> none(*device, *stream, std::vector<uint8_t>(kCount / kDecayLine + 1, 0));
  auto w1 = floats(w), m1 = floats(m), v1 = floats(v), w2 = floats(w), m2 = floats(m), v2 = floats(v);
  AdamStep a{w1.data(), g.data(), m1.data(), v1.data(), kCount, step.data(), 1e-3f, 0.9f, 0.999f, 1e-8f};
  ops->optimizer().adam_step(*stream, a);
  a.params = w2.data(), a.m = m2.data(), a.v = v2.data(), a.lr = 99;
  a.factors = {factors.data(), factors.data() + 1}, a.weight_decay = 0.5f, a.decays = none.data();
  ops->optimizer().adam_step(*stream, a);
  EXPECT_EQ(w1.get(), w2.get());
  EXPECT_EQ(m1.get(), m2.get());
  EXPECT_EQ(v1.get(), v2.get());
}

TEST_F(CudaOptimizerTest, NormOfSeveralRanges) {
  for (const int64_t n : {1, 3, 255, 100'003, 9'000'001})
    for (const int64_t skip : {0, 1}) {
      const std::vector<float> values = random_floats(n, 1);
      double squares = 0;
      for (const float value : values) squares += 2 * double{value} * double{value};
      auto x = floats(values, skip), results = floats(2);
      const auto run = [&] {
        ops->optimizer().sum_of_squares(*stream, {x.data(), n, results.data(), false});
        ops->optimizer().sum_of_squares(*stream, {x.data(), n, results.data(), true});
        ops->optimizer().clip_scale(*stream, {results.data(), 0.5f, results.data() + 1});
      };
      run();
      const std::vector<float> first = results.get();
      EXPECT_NEAR(first[0], squares, 1e-6 * squares) << n;
      EXPECT_NEAR(first[1], std::min(1.0, 0.5 / std::sqrt(squares)), 1e-5) << n;
      run();
      EXPECT_EQ(results.get(), first) << "not bit-equal between reruns";
    }
}

TEST_F(CudaOptimizerTest, AGraphFollowsTheSchedule) {
  const RatePlan plan{RateSchedule::cosine, 2, 6};
  GpuArray<uint64_t> step(*device, *stream, std::vector<uint64_t>{0});
  auto rate = floats(1);
  const auto graph = device->capture(*stream, [&] {
    ops->optimizer().set_rate(*stream, {plan, 0.5f, step.data(), rate.data()});
    ops->elementwise().increment(*stream, step.data());
  });
  for (uint64_t at = 0; at < 8; ++at) {
    graph->launch(*stream);
    EXPECT_NEAR(rate.get()[0], rate_of_step(plan, 0.5f, at), 1e-7) << "step " << at;
  }
}

}  // namespace
}  // namespace amdahl
