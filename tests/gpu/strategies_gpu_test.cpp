// Training on CUDA devices equals a float64 reference on one device: eager and by graph, every strategy that fits the
// GPUs of this machine. Cases for more GPUs than there are skip, saying so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr int64_t kRows = 52;  // not divisible by 8: uneven shares with accumulation
constexpr int kSteps = 6;

struct Case {
  std::string strategy;
  int devices, accumulate;
  LaunchMode launch;
  MathMode math;
  LossKind loss;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.strategy << " on " << c.devices; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const StrategyRow& row : strategy_table())
    for (int devices : {1, 2, 4})
      for (int accumulate : {1, 2})
        for (LaunchMode launch : {LaunchMode::eager, LaunchMode::graph})
          for (MathMode math : {MathMode::fp32, MathMode::tf32})
            for (LossKind loss : {LossKind::mse, LossKind::softmax_cross_entropy}) {
              ParallelPlan plan;
              plan.mesh.dp = devices, plan.global_batch = kRows, plan.accumulate = accumulate;
              if (row.feasible(plan).ok)
                all.push_back({std::string(row.name), devices, accumulate, launch, math, loss});
            }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_{}gpu_acc{}_{}_{}_{}", c.strategy, c.devices, c.accumulate, to_string(c.launch),
                     to_string(c.math), c.loss == LossKind::mse ? "mse" : "xent");
}

bool needs_nccl(const Case& c) { return c.devices > 1; }

std::vector<std::unique_ptr<Communicator>> communicators_of(const std::vector<Device*>& devices, const Case& c) {
  if (needs_nccl(c)) return make_nccl_communicators(devices, 60);
  std::vector<std::unique_ptr<Communicator>> alone;
  alone.push_back(make_lone_communicator(*devices.front()));
  return alone;
}

JobDevices cuda_job_devices(const Case& c) {
  JobDevices job;
  std::vector<int> indices(static_cast<size_t>(c.devices));
  std::iota(indices.begin(), indices.end(), 0);
  job.devices = make_cuda_devices(indices);
  std::vector<Device*> devices;
  for (auto& device : job.devices) {
    device->bind_thread();
    // Replicas that do not communicate stay alike only when every device uses the same algorithms.
    job.ops.push_back(make_cuda_ops(*device, {c.math, c.strategy == "replicated"}));
    devices.push_back(device.get());
  }
  job.communicators = communicators_of(devices, c);
  return job;
}

class GpuStrategies : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    const auto present = static_cast<int>(list_cuda_devices().size());
    if (present < GetParam().devices)
      GTEST_SKIP() << GetParam().devices << " GPUs are needed and " << present << " are here";
    if (const Availability nccl = nccl_availability(); needs_nccl(GetParam()) && !nccl.ok) GTEST_SKIP() << nccl.reason;
  }
  TrainerOptions options() const {
    TrainerOptions options;
    options.model = odd_model(GetParam().loss);
    options.plan.strategy = GetParam().strategy;
    options.plan.mesh.dp = GetParam().devices;
    options.plan.global_batch = kRows;
    options.plan.accumulate = GetParam().accumulate;
    options.plan.bucket_bytes = 6000;  // several buckets
    options.hyper.learning_rate = 1e-3f;
    options.launch = GetParam().launch;
    options.seed = 7;
    options.keep_gradients = true;
    return options;
  }
};

TEST_P(GpuStrategies, EqualTheReference) {
  const bool exact = GetParam().math == MathMode::fp32;
  const double gradient_tolerance = exact ? 1e-5 : 3e-3, loss_tolerance = exact ? 1e-5 : 3e-3,
               weight_tolerance = exact ? 1e-5 : 1e-3;
  const TrainerOptions job = options();
  const JobData data = random_data(job.model, kRows, 11);
  JobDevices devices = cuda_job_devices(GetParam());
  const JobResult result = run_job(devices, job, data, kSteps);
  ReferenceMlp reference(job.model, job.hyper, job.seed);
  for (int step = 0; step < kSteps; ++step) {
    const double loss = reference.gradients(data.features, data.targets, kRows, true);
    EXPECT_NEAR(result.losses[static_cast<size_t>(step)], loss, loss_tolerance * std::max(1.0, loss))
        << "step " << step;
    if (step == 0) {
      EXPECT_LT(relative_error(result.first_gradients, reference.grads(), 0), gradient_tolerance);
    }
    reference.update();
  }
  EXPECT_LT(relative_error(result.params[0], reference.params(), 0), weight_tolerance);
  if (find_strategy(job.plan.strategy).data_on_root) return;  // only rank 0 holds the updated weights
  for (const std::vector<float>& replica : result.params) EXPECT_EQ(replica, result.params[0]);
}

// One device's small-batch path has no freedom: a graph gives the bits of the eager step.
TEST_P(GpuStrategies, GraphsGiveTheBitsOfEagerSteps) {
  if (GetParam().launch != LaunchMode::graph || GetParam().devices > 1) GTEST_SKIP() << "compared once, on one device";
  TrainerOptions job = options();
  const JobData data = random_data(job.model, kRows, 11);
  JobDevices devices = cuda_job_devices(GetParam());  // both with the same choice of algorithms
  const JobResult graph = run_job(devices, job, data, kSteps);
  devices.communicators.clear();
  devices.communicators = communicators_of({devices.devices.front().get()}, GetParam());
  job.launch = LaunchMode::eager;
  const JobResult eager = run_job(devices, job, data, kSteps);
  EXPECT_EQ(graph.params, eager.params);
}

// Weights that are stepped as their gradient is made get the bits of the two apart.
TEST(GpuFusedUpdate, GivesTheBitsOfGradientAndUpdateApart) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  for (const MathMode math : {MathMode::tf32, MathMode::bf16})
    for (const int64_t rows : {64, 52, 8})
      for (const int64_t width : {2048, 1932}) {  // the last tile of columns is whole, or a part
        TrainerOptions job;
        job.model = ModelSpec{
            "m", width, {{516, true, Activation::relu, 0.25}, {3, true, Activation::none, 0.0}}, LossKind::mse};
        job.plan.strategy = "single";
        job.plan.global_batch = rows;
        job.seed = 7;
        const JobData data = random_data(job.model, rows, 11);
        JobDevices devices;
        devices.devices = make_cuda_devices({0});
        devices.devices[0]->bind_thread();
        devices.ops.push_back(make_cuda_ops(*devices.devices[0], {math, false}));
        ASSERT_TRUE(devices.ops[0]->gemm().fuses_update(rows, width, 516));
        devices.communicators.push_back(make_lone_communicator(*devices.devices[0]));
        const JobResult fused = run_job(devices, job, data, 4);
        job.keep_gradients = true;
        const JobResult apart = run_job(devices, job, data, 4);
        EXPECT_EQ(fused.params, apart.params) << to_string(math) << " rows " << rows << " width " << width;
        EXPECT_EQ(fused.losses, apart.losses);
      }
}

INSTANTIATE_TEST_SUITE_P(Table, GpuStrategies, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace amdahl::test
