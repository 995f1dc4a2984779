// Kernels of the gradients of transformer blocks against the separate operations on the same GPU.
#include "typed_support.h"

namespace amdahl {
namespace {

struct GradientSize {
  int sequences, steps, heads;
  bool causal;
};

/// Inputs of a block's backward pass, results of the kernels, and of the separate operations.
class BlockGradientCase {
 public:
  BlockGradientCase(Device& device, Stream& stream, Ops& ops, DType type, const GradientSize& size)
      : device_(device), stream_(stream), ops_(ops), type_(type), size_(size) {
    ops_.attention().attention_forward(stream_, {attention_shape(), qkv.data(), attention.data(), log_sums.data()});
    normalise(x, mean1, rstd1), normalise(middle, mean2, rstd2);
  }

  void run_kernel() {
    ops_.transformer_block()->backward(stream_, type_,
                                       {.sequences = size_.sequences,
                                        .steps = size_.steps,
                                        .heads = size_.heads,
                                        .causal = size_.causal,
                                        .x = x.data(),
                                        .middle = middle.data(),
                                        .qkv = qkv.data(),
                                        .attention = attention.data(),
                                        .up = up.data(),
                                        .log_sums = log_sums.data(),
                                        .mean1 = mean1.data(),
                                        .rstd1 = rstd1.data(),
                                        .mean2 = mean2.data(),
                                        .rstd2 = rstd2.data(),
                                        .gamma1 = gamma1.data(),
                                        .gamma2 = gamma2.data(),
                                        .qkv_weight = qkv_weight.data(),
                                        .out_weight = out_weight.data(),
                                        .up_weight = up_weight.data(),
                                        .down_weight = down_weight.data(),
                                        .d_out = d_out.data(),
                                        .dx = dx.data(),
                                        .d_middle = d_middle.data(),
                                        .norm_partials = norm_partials.data(),
                                        .d_out_typed = is_f32() ? nullptr : d_out_typed.data(),
                                        .d_middle_typed = is_f32() ? nullptr : d_middle_typed.data(),
                                        .d_up = d_up.data(),
                                        .d_qkv = d_qkv.data()});
  }
  /// The kernel's results in the order of separate_results.
  std::vector<std::vector<float>> kernel_results() {
    std::vector<float> sums(at(4 * width));
    const std::vector<float> partials = norm_partials.get();
    for (size_t i = 0; i < partials.size(); ++i) sums[i % sums.size()] += partials[i];
    return {d_up.get(), d_middle.get(), d_qkv.get(), dx.get(), sums};
  }

  std::vector<std::vector<float>> separate_results() {
    TypedArray narrow = empty(n), typed_middle = empty(n);
    GpuArray<float> sums = floats(4 * width);
    const void* own = d_out.data();
    if (!is_f32()) ops_.matmul().convert(stream_, d_out.data(), narrow.data(), type_, n), own = narrow.data();
    input_gradient(own, width, down_weight, 4 * width, d_up.data(), up.data());
    input_gradient(d_up.data(), 4 * width, up_weight, width, narrow.data());
    norm_gradient(narrow, middle, gamma2, mean2, rstd2, d_out, d_middle, typed_middle.data(), sums.data() + 2 * width);
    own = is_f32() ? d_middle.data() : typed_middle.data();
    input_gradient(own, width, out_weight, width, narrow.data());
    ops_.attention().attention_backward(
        stream_, {attention_shape(), qkv.data(), attention.data(), log_sums.data(), narrow.data(), d_qkv.data()});
    input_gradient(d_qkv.data(), 3 * width, qkv_weight, width, narrow.data());
    norm_gradient(narrow, x, gamma1, mean1, rstd1, d_middle, dx, nullptr, sums.data());
    return {d_up.get(), d_middle.get(), d_qkv.get(), dx.get(), sums.get()};
  }

 private:
  static size_t at(int64_t index) { return static_cast<size_t>(index); }
  bool is_f32() const { return type_ == DType::f32; }
  AttentionShape attention_shape() const {
    return {size_.sequences, size_.steps, size_.heads, 64, size_.causal, type_};
  }
  TypedArray typed(int64_t count, uint32_t seed, float most) {
    return {device_, stream_, type_, typed_floats(count, seed, type_, -most, most)};
  }
  TypedArray empty(int64_t count) { return {device_, stream_, type_, count}; }
  GpuArray<float> floats(int64_t count) { return {device_, stream_, count}; }
  GpuArray<float> random(int64_t count, uint32_t seed, float low, float high) {
    return {device_, stream_, random_floats(count, seed, low, high)};
  }
  void normalise(GpuArray<float>& of, GpuArray<float>& mean, GpuArray<float>& rstd) {
    ops_.norm().layer_norm_forward(stream_, {.x = of.data(),
                                             .gamma = gamma1.data(),
                                             .beta = gamma1.data(),
                                             .mean = mean.data(),
                                             .rstd = rstd.data(),
                                             .rows = tokens,
                                             .width = width});
  }
  void input_gradient(const void* dy, int64_t out, TypedArray& weight, int64_t in, void* to, void* gelu_of = nullptr) {
    ops_.matmul().matmul(stream_, {.a = dy,
                                   .b = weight.data(),
                                   .c = to,
                                   .m = tokens,
                                   .n = in,
                                   .k = out,
                                   .type = type_,
                                   .c_type = type_,
                                   .epilogue = gelu_of ? MatMulEpilogue::gelu_gradient : MatMulEpilogue::none,
                                   .aux = gelu_of});
  }
  void norm_gradient(TypedArray& dy, GpuArray<float>& of, GpuArray<float>& gamma, GpuArray<float>& mean,
                     GpuArray<float>& rstd, GpuArray<float>& residual, GpuArray<float>& to, void* to_typed,
                     float* sums) {
    ops_.norm().layer_norm_backward(stream_, {.dy = dy.data(),
                                              .x = of.data(),
                                              .gamma = gamma.data(),
                                              .mean = mean.data(),
                                              .rstd = rstd.data(),
                                              .d_residual = residual.data(),
                                              .dx = to.data(),
                                              .dx_typed = is_f32() ? nullptr : to_typed,
                                              .dgamma = sums,
                                              .dbeta = sums + width,
                                              .rows = tokens,
                                              .width = width,
                                              .type = type_,
                                              .dy_type = type_});
  }

  Device& device_;
  Stream& stream_;
  Ops& ops_;
  DType type_;
  GradientSize size_;

 public:
  int64_t tokens = int64_t{size_.sequences} * size_.steps, width = 64 * size_.heads, n = tokens * width;
  GpuArray<float> x = random(n, 1, -2, 2), middle = random(n, 2, -1, 2), d_out = random(n, 3, -1, 1),
                  gamma1 = random(width, 4, 0.5f, 1.5f), gamma2 = random(width, 5, 0.5f, 1.5f), mean1 = floats(tokens),
                  rstd1 = floats(tokens), mean2 = floats(tokens), rstd2 = floats(tokens),
                  log_sums = floats(tokens * size_.heads);
  TypedArray qkv = typed(3 * n, 6, 2), attention = empty(n), up = typed(4 * n, 7, 2),
             qkv_weight = typed(3 * width * width, 8, 0.1f), out_weight = typed(width * width, 9, 0.2f),
             up_weight = typed(4 * width * width, 10, 0.1f), down_weight = typed(4 * width * width, 11, 0.1f);
  GpuArray<float> dx = floats(n), d_middle = floats(n), norm_partials = floats(4 * width * size_.sequences);
  TypedArray d_out_typed = empty(n), d_middle_typed = empty(n), d_up = empty(4 * n), d_qkv = empty(3 * n);
};

class CudaBlockGradients : public TypedOpsTest {
 protected:
  void SetUp() override {
    TypedOpsTest::SetUp();
    if (!ops) return;
    if (std::stod(device->spec().compute_capability) < 9.0) GTEST_SKIP() << "no clusters before compute capability 9.0";
    if (type() == DType::f32 && GetParam().math != MathMode::tf32) GTEST_SKIP() << "no kernels for fp32";
  }
  bool supports(const GradientSize& s) {
    return ops->transformer_block()->has_backward(
        {s.sequences, s.steps, s.heads, 64 * s.heads, 256 * s.heads, s.causal, type()});
  }
};

TEST_P(CudaBlockGradients, EqualThoseOfSeparateOperations) {
  // The preset; rows without steps; every number of heads; more clusters than the GPU holds at once.
  const std::vector<GradientSize> sizes = {{8, 96, 3, true},   {3, 37, 1, true}, {2, 128, 4, true},
                                           {2, 97, 2, false},  {1, 1, 3, true},  {300, 16, 3, false},
                                           {64, 96, 3, false}, {5, 64, 4, true}, {1024, 96, 3, true}};
  // bf16 and f16 round at about ten places, by half a unit at most; tf32 has the significand of f16, in each operand.
  const double limit = 2 * (type() == DType::bf16 ? 0x1p-8 : 0x1p-11) * (type() == DType::f32 ? 2 : 1);
  int supported = 0;
  for (const GradientSize& size : sizes) {
    if (!supports(size)) continue;
    ++supported;
    BlockGradientCase problem(*device, *stream, *ops, type(), size);
    problem.run_kernel();
    finish();
    const auto got = problem.kernel_results(), want = problem.separate_results();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(relative_error(got[i], to_doubles(want[i])), limit)
          << "result " << i << ", " << size.sequences << "x" << size.steps << ", " << size.heads << " heads";
  }
  EXPECT_GE(supported, 7);  // f32 with most steps does not fit
}

TEST_P(CudaBlockGradients, RerunsAndGraphsAreBitEqual) {
  BlockGradientCase problem(*device, *stream, *ops, type(), {70, 96, 3, true});
  const std::vector<float> poison(static_cast<size_t>(problem.n), NAN);
  expect_equal_reruns([&] { problem.run_kernel(); }, [&] { problem.dx.set(poison), problem.d_middle.set(poison); },
                      [&] { return problem.kernel_results(); });
}

/// The products of a block and the column sums in one launch. Small integers: sums are exact in any order.
TEST_P(CudaBlockGradients, GroupedWeightGradients) {
  struct Product {
    int out, in;
  };
  const std::vector<Product> shapes = {{192, 768}, {768, 192}, {192, 192}, {576, 192}};
  constexpr int kParts = 37, kWidth = 192;
  for (const int tokens : {1, 37, 768, 3072})
    for (const bool accumulate : {false, true}) {
      const auto integers = [&](int64_t count, uint32_t seed) {
        std::vector<float> values = random_floats(count, seed, -3.5f, 3.5f);
        for (float& value : values) value = std::round(value);
        return values;
      };
      std::vector<TypedArray> dy, x;
      std::vector<GpuArray<float>> dw, dbias, want_dw, want_dbias;
      GpuArray<float> partials = floats(integers(int64_t{kParts} * kColumnResults * kWidth, 9));
      GpuArray<float> sums = floats(integers(kColumnResults * kWidth, 10));
      const std::vector<float> before = sums.get();
      WeightGradients a{};
      a.tokens = tokens, a.partials = partials.data(), a.parts = kParts, a.result_width = kWidth;
      a.accumulate = accumulate;
      for (int r = 0; r < kColumnResults; ++r) a.results[r] = sums.data() + r * kWidth;
      for (const Product& p : shapes) {
        const auto seed = static_cast<uint32_t>(10 * dy.size());
        dy.push_back(typed(integers(int64_t{tokens} * p.out, seed)));
        x.push_back(typed(integers(int64_t{tokens} * p.in, seed + 1)));
        const std::vector<float> old = integers(int64_t{p.out} * p.in, seed + 2), old_bias = integers(p.out, seed + 3);
        dw.push_back(floats(old)), want_dw.push_back(floats(old));
        dbias.push_back(floats(old_bias)), want_dbias.push_back(floats(old_bias));
        a.products[a.num_products++] = {dy.back().data(),    x.back().data(), dw.back().data(),
                                        dbias.back().data(), p.out,           p.in};
        ops->matmul().matmul(*stream, {.a = dy.back().data(),
                                       .b = x.back().data(),
                                       .c = want_dw.back().data(),
                                       .m = p.out,
                                       .n = p.in,
                                       .k = tokens,
                                       .transpose_a = true,
                                       .type = type(),
                                       .epilogue = MatMulEpilogue::sum_rows_of_a,
                                       .dbias = want_dbias.back().data(),
                                       .accumulate = accumulate,
                                       .accumulate_dbias = accumulate});
      }
      ops->transformer_block()->weight_gradients(*stream, type(), a);
      finish();
      for (size_t i = 0; i < shapes.size(); ++i) {
        EXPECT_EQ(dw[i].get(), want_dw[i].get()) << tokens << " tokens, product " << i;
        EXPECT_EQ(dbias[i].get(), want_dbias[i].get()) << tokens << " tokens, product " << i;
      }
      const std::vector<float> parts = partials.get(), got = sums.get();
      for (size_t column = 0; column < got.size(); ++column) {
        float sum = accumulate ? before[column] : 0.0f;
        for (size_t part = 0; part < kParts; ++part) sum += parts[part * got.size() + column];
        ASSERT_EQ(got[column], sum) << "column " << column;
      }
    }
}

/// Without products only the column sums are finished.
TEST_P(CudaBlockGradients, ColumnSumsAlone) {
  constexpr int kParts = 1024, kWidth = 192;
  GpuArray<float> partials = floats(std::vector<float>(static_cast<size_t>(kParts) * kColumnResults * kWidth, 0.5f));
  GpuArray<float> sums = floats(kColumnResults * kWidth);
  WeightGradients a{};
  a.partials = partials.data(), a.parts = kParts, a.result_width = kWidth;
  for (int r = 0; r < kColumnResults; ++r) a.results[r] = sums.data() + r * kWidth;
  ops->transformer_block()->weight_gradients(*stream, type(), a);
  finish();
  EXPECT_EQ(sums.get(), std::vector<float>(static_cast<size_t>(kColumnResults) * kWidth, 0.5f * kParts));
}

INSTANTIATE_TEST_SUITE_P(Types, CudaBlockGradients, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
