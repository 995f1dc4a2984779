// Kernels of whole transformer blocks: against float64, reruns and graphs, and in models against the separate
// operations.
#include <algorithm>

#include "reference_block.h"
#include "reference_model.h"
#include "sequence_models.h"
#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;

struct BlockSize {
  int sequences, steps, heads;
  bool causal;
};
std::ostream& operator<<(std::ostream& out, const BlockSize& s) {
  return out << s.sequences << "x" << s.steps << " " << s.heads << " heads" << (s.causal ? " causal" : "");
}

class CudaBlockTest : public TypedOpsTest {
 protected:
  void SetUp() override {
    TypedOpsTest::SetUp();
    if (!ops) return;
    if (std::stod(device->spec().compute_capability) < 9.0) GTEST_SKIP() << "no clusters before compute capability 9.0";
  }
  // The preset; rows of a tile without steps; every number of heads; more clusters than the GPU holds at once.
  static std::vector<BlockSize> sizes() {
    return {{2, 96, 3, false}, {3, 37, 1, true}, {2, 128, 4, true},
            {2, 97, 2, false}, {1, 1, 3, true},  {300, 16, 3, false}};
  }
  BlockShape shape(const BlockSize& s) const {
    return {s.sequences, s.steps, s.heads, 64 * s.heads, 256 * s.heads, s.causal, type()};
  }
  /// The kernels multiply f32 as tf32 only.
  bool multiplies() const { return type() != DType::f32 || GetParam().math == MathMode::tf32; }
};

/// Arrays of a forward call.
struct ForwardCase {
  ForwardCase(Device& of_device, Stream& of_stream, DType of_type, const BlockSize& of_size)
      : size(of_size), device(of_device), stream(of_stream), type(of_type) {}
  BlockSize size;
  Device& device;
  Stream& stream;
  DType type;
  int64_t tokens = static_cast<int64_t>(size.sequences) * size.steps, width = 64 * size.heads, hidden = 4 * width;
  GpuArray<float> x{device, stream, random_floats(tokens*width, 1, -3.0f, 5.0f)},
      gamma1{device, stream, random_floats(width, 2, 0.5f, 1.5f)}, beta1{device, stream, random_floats(width, 3)},
      gamma2{device, stream, random_floats(width, 4, 0.5f, 1.5f)}, beta2{device, stream, random_floats(width, 5)};
  TypedArray qkv_weight = typed(3 * width * width, 6, 0.15f), qkv_bias = typed(3 * width, 7, 0.5f),
             out_weight = typed(width * width, 8, 0.2f), out_bias = typed(width, 9, 0.5f),
             up_weight = typed(hidden * width, 10, 0.1f), up_bias = typed(hidden, 11, 0.5f),
             down_weight = typed(width * hidden, 12, 0.1f), down_bias = typed(width, 13, 0.5f);
  TypedArray norm1 = empty(tokens * width), qkv = empty(tokens * 3 * width), attention = empty(tokens * width),
             norm2 = empty(tokens * width), up = empty(tokens * hidden), gelu = empty(tokens * hidden);
  GpuArray<float> middle = floats(tokens * width), out = floats(tokens * width), mean1 = floats(tokens),
                  rstd1 = floats(tokens), mean2 = floats(tokens), rstd2 = floats(tokens),
                  log_sums = floats(tokens * size.heads);

  BlockForward call() {
    return {.sequences = size.sequences,
            .steps = size.steps,
            .heads = size.heads,
            .causal = size.causal,
            .x = x.data(),
            .gamma1 = gamma1.data(),
            .beta1 = beta1.data(),
            .gamma2 = gamma2.data(),
            .beta2 = beta2.data(),
            .qkv_weight = qkv_weight.data(),
            .qkv_bias = qkv_bias.data(),
            .out_weight = out_weight.data(),
            .out_bias = out_bias.data(),
            .up_weight = up_weight.data(),
            .up_bias = up_bias.data(),
            .down_weight = down_weight.data(),
            .down_bias = down_bias.data(),
            .norm1 = norm1.data(),
            .qkv = qkv.data(),
            .attention = attention.data(),
            .middle = middle.data(),
            .norm2 = norm2.data(),
            .up = up.data(),
            .gelu = gelu.data(),
            .mean1 = mean1.data(),
            .rstd1 = rstd1.data(),
            .mean2 = mean2.data(),
            .rstd2 = rstd2.data(),
            .log_sums = log_sums.data(),
            .out = out.data()};
  }
  reference::BlockValues values() {
    return {size.sequences,
            size.steps,
            size.heads,
            size.causal,
            to_doubles(x.get()),
            to_doubles(gamma1.get()),
            to_doubles(beta1.get()),
            to_doubles(gamma2.get()),
            to_doubles(beta2.get()),
            to_doubles(qkv_weight.get()),
            to_doubles(qkv_bias.get()),
            to_doubles(out_weight.get()),
            to_doubles(out_bias.get()),
            to_doubles(up_weight.get()),
            to_doubles(up_bias.get()),
            to_doubles(down_weight.get()),
            to_doubles(down_bias.get()),
            to_doubles(norm1.get()),
            to_doubles(qkv.get()),
            to_doubles(attention.get()),
            to_doubles(middle.get()),
            to_doubles(norm2.get()),
            to_doubles(up.get()),
            to_doubles(gelu.get()),
            to_doubles(out.get()),
            to_doubles(mean1.get()),
            to_doubles(rstd1.get()),
            to_doubles(mean2.get()),
            to_doubles(rstd2.get()),
            to_doubles(log_sums.get())};
  }
  /// The results that are in the residual stream; they depend on all others.
  std::vector<std::vector<float>> results() { return {middle.get(), out.get(), norm2.get(), gelu.get()}; }

 private:
  TypedArray typed(int64_t n, uint32_t seed, float most) {
    return {device, stream, type, typed_floats(n, seed, type, -most, most)};
  }
  TypedArray empty(int64_t n) { return {device, stream, type, n}; }
  GpuArray<float> floats(int64_t n) { return {device, stream, n}; }
};

TEST_P(CudaBlockTest, ForwardEqualsFloat64) {
  for (const BlockSize& size : sizes()) {
    SCOPED_TRACE(::testing::PrintToString(size));
    ASSERT_EQ(ops->transformer_block()->has_forward(shape(size)), multiplies());
    if (!multiplies()) continue;
    ForwardCase problem(*device, *stream, type(), size);
    ops->transformer_block()->forward(*stream, type(), problem.call());
    finish();
    // tf32 has the significand of f16.
    reference::expect_block_forward(problem.values(), type() == DType::bf16 ? 0x1p-8 : 0x1p-11);
  }
}

TEST_P(CudaBlockTest, RerunsAndGraphsAreBitEqual) {
  if (!multiplies()) GTEST_SKIP() << "no kernels for fp32";
  ForwardCase problem(*device, *stream, type(), {40, 96, 3, false});
  expect_equal_reruns([&] { ops->transformer_block()->forward(*stream, type(), problem.call()); },
                      [&] {
                        const std::vector<float> poison(static_cast<size_t>(problem.tokens * problem.width), NAN);
                        problem.middle.set(poison), problem.out.set(poison);
                      },
                      [&] { return problem.results(); });
}

TEST_P(CudaBlockTest, OtherShapesAreNotSupported) {
  const BlockSize size{2, 96, 3, false};
  for (const auto& change : std::vector<std::function<void(BlockShape&)>>{
           [](BlockShape& s) { s.steps = 129; }, [](BlockShape& s) { s.heads = 5, s.width = 320, s.hidden = 1280; },
           [](BlockShape& s) { s.width = 96, s.hidden = 384; }, [](BlockShape& s) { s.hidden = 512; }}) {
    BlockShape other = shape(size);
    change(other);
    EXPECT_FALSE(ops->transformer_block()->has_forward(other));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaBlockTest, ::testing::ValuesIn(type_cases()));

/// Two blocks of the shapes that the kernels support.
ModelSpec model_of_blocks(bool causal) {
  using test::layer_of;
  using test::small_block;
  return {"blocks-of-64",
          37 * 5,
          {layer_of(LayerKind::projection, 128), small_block(128, 2, causal, false), small_block(128, 2, causal, false),
           layer_of(LayerKind::layer_norm), layer_of(LayerKind::pool), LayerSpec{3, true, Activation::none, 0.0}},
          LossKind::mse,
          {37, 5}};
}

class CudaBlockModels : public GpuTest, public ::testing::WithParamInterface<MathMode> {
 protected:
  test::JobResult run(const ModelSpec& spec, const test::JobData& data, bool fused, LaunchMode launch, int rows) {
    test::JobDevices job;
    job.devices = make_cuda_devices({0});
    job.devices[0]->bind_thread();
    job.ops.push_back(make_cuda_ops(*job.devices[0], {.math = GetParam(), .fused_blocks = fused}));
    job.communicators.push_back(make_lone_communicator(*job.devices[0]));
    TrainerOptions options;
    options.model = spec;
    options.launch = launch;
    options.plan.global_batch = rows;
    options.plan.accumulate = 2;
    options.keep_gradients = true;
    return test::run_job(job, options, data, 2);
  }
};

TEST_P(CudaBlockModels, LossAndGradientsEqualThoseOfSeparateOperations) {
  constexpr int kRows = 6;
  // Each rounding of a typed value can differ by a unit; two blocks of about ten operations.
  const double limit = GetParam() == MathMode::bf16 ? 4e-2 : 8e-3;
  for (const bool causal : {false, true}) {
    const ModelSpec spec = model_of_blocks(causal);
    const test::JobData data = test::random_data(spec, kRows, 7);
    const test::JobResult separate = run(spec, data, false, LaunchMode::eager, kRows);
    double largest = 0;
    for (const float value : separate.first_gradients)
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    for (const LaunchMode launch : {LaunchMode::eager, LaunchMode::graph}) {
      const test::JobResult fused = run(spec, data, true, launch, kRows);
      for (size_t step = 0; step < fused.losses.size(); ++step)
        EXPECT_NEAR(fused.losses[step], separate.losses[step], limit * std::max(1.0, separate.losses[step]));
      double worst = 0;
      for (size_t i = 0; i < fused.first_gradients.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(fused.first_gradients[i]) - separate.first_gradients[i]));
      EXPECT_LT(worst, limit * largest) << (causal ? "causal" : "not causal");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, CudaBlockModels, ::testing::Values(MathMode::tf32, MathMode::bf16, MathMode::fp16),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

}  // namespace
}  // namespace amdahl
