// Compression on a GPU: messages' sums and what is left over have the bits of a CPU device.
#include <cmath>

#include "gpu_support.h"
#include "plan/compressed_blocks.h"
#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl {
namespace {

class CompressionGpuTest : public GpuTest {
 protected:
  struct Outcome {
    std::vector<float> sum, feedback;
  };

  /// Two ranks' messages summed, and the feedback of the second.
  Outcome on_gpu(const std::vector<float>& gradients, const std::vector<float>& before, int64_t keep_ppm) {
    const auto gpu_ops = make_cuda_ops(*device, {});
    return run(*device, *stream, gpu_ops->compression(), gradients, before, keep_ppm);
  }
  static Outcome on_cpu(const std::vector<float>& gradients, const std::vector<float>& before, int64_t keep_ppm) {
    const auto devices = make_cpu_devices(1);
    const auto cpu_ops = make_cpu_ops(*devices[0], {});
    const auto cpu_stream = devices[0]->make_stream("compute");
    return run(*devices[0], *cpu_stream, cpu_ops->compression(), gradients, before, keep_ppm);
  }

 private:
  static Outcome run(Device& on, Stream& order, CompressionOps& ops, const std::vector<float>& gradients,
                     const std::vector<float>& before, int64_t keep_ppm) {
    const auto n = static_cast<int64_t>(gradients.size());
    const bool picks = keep_ppm > 0;
    const int64_t kept = picks ? kept_of_block(keep_ppm) : 0;
    const int64_t bytes = picks ? topk_message_bytes(n, keep_ppm) : int8_message_bytes(n);
    GpuArray<float> values(on, order, gradients), feedback(on, order, before), sum(on, order, n);
    GpuArray<uint8_t> messages(on, order, 2 * bytes);
    for (int rank = 0; rank < 2; ++rank) {
      const CompressValues a{values.data(), feedback.data(), messages.data() + rank * bytes, n, kept};
      picks ? ops.compress_topk(order, a) : ops.compress_int8(order, a);
    }
    const SumMessages a{messages.data(), bytes, 2, sum.data(), n, kept};
    picks ? ops.sum_topk(order, a) : ops.sum_int8(order, a);
    return {sum.get(), feedback.get()};
  }
};

std::vector<float> over_magnitudes(int64_t n, uint32_t seed) {
  std::vector<float> values = random_floats(n, seed);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 17 == 0 ? 0.0f : std::ldexp(values[i], static_cast<int>(i % 40) - 30);
  return values;
}

TEST_F(CompressionGpuTest, HasTheBitsOfACpuDevice) {
  for (const int64_t n : {1, 64, 1000, 1024, 1088, 100'000})
    for (const int64_t keep_ppm : {0, 1000, 10'000, 200'000, 1'000'000}) {
      const std::vector<float> gradients = over_magnitudes(n, 3), before = over_magnitudes(n, 4);
      const Outcome gpu = on_gpu(gradients, before, keep_ppm), cpu = on_cpu(gradients, before, keep_ppm);
      EXPECT_EQ(gpu.sum, cpu.sum) << n << " " << keep_ppm;
      EXPECT_EQ(gpu.feedback, cpu.feedback) << n << " " << keep_ppm;
    }
}

TEST_F(CompressionGpuTest, ValuesThatAreNotFiniteAreNotHidden) {
  std::vector<float> gradients(2000, 1.0f);
  gradients[1500] = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t keep_ppm : {0, 1000}) {
    const Outcome gpu = on_gpu(gradients, std::vector<float>(2000, 0.0f), keep_ppm);
    EXPECT_FALSE(std::isfinite(gpu.sum[1500]));
    EXPECT_TRUE(std::isfinite(gpu.sum[0]));
    EXPECT_EQ(gpu.feedback[1500], 0.0f);
  }
}

TEST_F(CompressionGpuTest, RoundsAsTheHost) {
  const std::vector<float> values = over_magnitudes(10'001, 5);
  const auto gpu_ops = make_cuda_ops(*device, {});
  const auto devices = make_cpu_devices(1);
  const auto cpu_ops = make_cpu_ops(*devices[0], {});
  const auto cpu_stream = devices[0]->make_stream("compute");
  for (const DType type : {DType::bf16, DType::f16}) {
    GpuArray<float> from = floats(values), to = floats(10'001);
    GpuArray<uint16_t> rounded(*device, *stream, 10'001);
    gpu_ops->compression().round(*stream, {from.data(), DType::f32, rounded.data(), type, 10'001});
    gpu_ops->compression().round(*stream, {rounded.data(), type, to.data(), DType::f32, 10'001});
    std::vector<uint16_t> bits(values.size());
    std::vector<float> expected(values.size());
    cpu_ops->compression().round(*cpu_stream, {values.data(), DType::f32, bits.data(), type, 10'001});
    cpu_ops->compression().round(*cpu_stream, {bits.data(), type, expected.data(), DType::f32, 10'001});
    cpu_stream->synchronize(Deadline::after_seconds(60));
    EXPECT_EQ(to.get(), expected);
  }
}

}  // namespace
}  // namespace amdahl

namespace amdahl::test {
namespace {

/// Every method on two GPUs with NCCL: learns, reruns have equal bits, and late updates and shares are as they are
/// defined.
class MethodsOnGpus : public ::testing::TestWithParam<const char*> {};

JobResult run_on_gpus(const TrainerOptions& options, const JobData& data, int steps) {
  JobDevices job;
  job.devices = make_cuda_devices({0, 1});
  std::vector<Device*> devices;
  for (auto& device : job.devices) {
    job.ops.push_back(make_cuda_ops(*device, {MathMode::fp32, true}));  // deterministic: reruns are compared
    devices.push_back(device.get());
  }
  job.communicators = make_nccl_communicators(devices, 60);
  return run_job(job, options, data, steps);
}

TEST_P(MethodsOnGpus, LearnAndRepeat) {
  if (const Availability gpus = cuda_availability(); !gpus.ok) GTEST_SKIP() << gpus.reason;
  if (list_cuda_devices().size() < 2) GTEST_SKIP() << "needs 2 GPUs";
  TrainerOptions options;
  options.model = odd_model(LossKind::mse, 0.0);
  options.plan = parse_plan(GetParam());
  options.plan.global_batch = 32;
  options.plan.bucket_bytes = 6000;
  options.hyper.optimizer = "adam";
  options.hyper.learning_rate = 1e-2f;
  options.keep_gradients = true;
  JobData data = random_data(options.model, 32, 11);
  for (size_t i = 0; i < data.targets.size(); ++i) data.targets[i] = data.features[i / 5 * 13 + i % 5];
  const JobResult result = run_on_gpus(options, data, 60);
  const double learned = options.plan.async_steps > 0 ? 0.5 : 0.15;  // late updates overshoot at first
  EXPECT_LT(result.losses.back(), learned * result.losses.front());
  EXPECT_EQ(result.params, run_on_gpus(options, data, 60).params);
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodsOnGpus,
                         ::testing::Values("dp2,local4", "dp2,compress=fp16", "dp2,compress=bf16", "dp2,compress=int8",
                                           "dp2,compress=topk,keep=0.05", "dp2,async2", "dp2,shares=3:1",
                                           "dp2,shares=3:1,zero1"));

}  // namespace
}  // namespace amdahl::test
