// Updates across GPUs: strategy zero1 against the float64 reference, and a rank that never comes.
#include <fmt/format.h>

#include <chrono>

#include "gpu_support.h"
#include "parallel/data/buckets.h"
#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr int64_t kRows = 26;
constexpr int kSteps = 10;

class PeerUpdateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Availability availability = nccl_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    const int count = static_cast<int>(list_cuda_devices().size());
    if (count < 2) GTEST_SKIP() << "updates across GPUs need two, here is " << count;
    std::vector<int> indices;
    for (int i = 0; i < std::min(count, 4); ++i) indices.push_back(i);
    job.devices = make_cuda_devices(indices);
    for (auto& device : job.devices) job.ops.push_back(make_cuda_ops(*device, {}));
    std::vector<Device*> devices;
    for (auto& device : job.devices) devices.push_back(device.get());
    for (Device* device : devices)
      for (Device* peer : devices)
        if (const Feasibility reach = device->reach(*peer); !reach.ok) GTEST_SKIP() << reach.reason;
    job.communicators = make_nccl_communicators(devices, 30);
  }
  int world() const { return static_cast<int>(job.devices.size()); }
  TrainerOptions options() const {
    TrainerOptions options;
    options.model = odd_model(LossKind::mse);
    options.plan.strategy = "zero1";
    options.plan.mesh.dp = world();
    options.plan.global_batch = kRows;
    options.plan.bucket_bytes = 6000;
    options.hyper.learning_rate = 1e-2f;
    options.seed = 7;
    options.timeout_seconds = 20;
    return options;
  }
  void expect_reference(const TrainerOptions& options) {
    const JobData data = random_data(options.model, kRows, 11);
    const JobResult result = run_job(job, options, data, kSteps);
    ReferenceMlp reference(options.model, options.hyper, options.seed);
    for (int step = 0; step < kSteps; ++step) {
      const double loss = reference.gradients(data.features, data.targets, kRows, true);
      EXPECT_NEAR(result.losses[static_cast<size_t>(step)], loss, 1e-5 * std::max(1.0, loss)) << "step " << step;
      if (step == 0) {
        EXPECT_LT(relative_error(result.first_gradients, reference.grads(), 0), 1e-5);
      }
      reference.update();
    }
    EXPECT_LT(relative_error(result.params[0], reference.params(), 0), 1e-4);
    for (const std::vector<float>& replica : result.params) EXPECT_EQ(replica, result.params[0]);
    // One update a bucket: no collective took part.
    const size_t buckets = make_buckets(make_layout(options.model), options.plan).size();
    ASSERT_GT(buckets, 1u);
    const bool clips = options.hyper.clip_norm > 0;
    if (options.hyper.optimizer != "sgd" && !clips) {
      EXPECT_EQ(result.comm_calls[0], buckets);
    } else {  // gradients and parameters each take a collective per bucket
      EXPECT_GE(result.comm_calls[0], 2 * buckets);
    }
    const StrategyRow& row = find_strategy("zero1");
    EXPECT_EQ(static_cast<int64_t>(result.comm_bytes[0]),
              row.traffic_bytes(options.plan, options.model, 0) + (clips ? row.norm_bytes : 0));
  }

  JobDevices job;
};

TEST_F(PeerUpdateTest, EqualsTheReference) {
  for (const LaunchMode launch : {LaunchMode::eager, LaunchMode::graph})
    for (const bool overlap : {true, false})
      for (const int accumulate : {1, 2}) {
        TrainerOptions options = this->options();
        options.launch = launch;
        options.plan.overlap = overlap;
        options.plan.accumulate = accumulate;
        SCOPED_TRACE(fmt::format("{} overlap {} accumulate {}", to_string(launch), overlap, accumulate));
        expect_reference(options);
      }
}

TEST_F(PeerUpdateTest, DecaysWeightsAndFollowsTheSchedule) {
  for (const LaunchMode launch : {LaunchMode::eager, LaunchMode::graph}) {
    TrainerOptions options = this->options();
    options.launch = launch;
    options.hyper.optimizer = "adamw";
    options.hyper.weight_decay = 0.5f;
    options.hyper.rate_plan = {RateSchedule::cosine, 3, kSteps};
    SCOPED_TRACE(to_string(launch));
    expect_reference(options);
  }
}

TEST_F(PeerUpdateTest, ClippingGoesByCollectives) {
  for (const LaunchMode launch : {LaunchMode::eager, LaunchMode::graph})
    for (const bool overlap : {true, false}) {
      TrainerOptions options = this->options();
      options.launch = launch;
      options.plan.overlap = overlap;
      options.hyper.optimizer = "adamw";
      options.hyper.weight_decay = 0.5f;
      options.hyper.clip_norm = 0.05f;
      SCOPED_TRACE(fmt::format("{} overlap {}", to_string(launch), overlap));
      expect_reference(options);
    }
}

TEST_F(PeerUpdateTest, SgdGoesByCollectives) {
  TrainerOptions options = this->options();
  options.hyper.optimizer = "sgd";
  expect_reference(options);
}

TEST_F(PeerUpdateTest, LargeReplicasEndBitEqual) {
  TrainerOptions options = this->options();
  options.model = find_model_preset("large");
  options.model.loss = LossKind::mse;
  options.plan.bucket_bytes = 1 << 20;
  options.launch = LaunchMode::graph;
  for (const int blocks : {1, 7, 0}) {
    options.plan.peer_blocks = blocks;
    const JobResult result = run_job(job, options, random_data(options.model, kRows, 3), kSteps);
    for (const std::vector<float>& replica : result.params) EXPECT_EQ(replica, result.params[0]);
    EXPECT_LT(result.losses.back(), result.losses.front());
  }
}

TEST_F(PeerUpdateTest, ARankThatNeverComesEndsTheWaitInTime) {
  constexpr int64_t kFloats = 4096;
  constexpr double kTimeout = 0.3;
  std::unique_ptr<Stream> stream = job.devices[0]->make_stream("comm");
  std::vector<Device*> devices;
  for (auto& device : job.devices) devices.push_back(device.get());
  const auto shared = [&](size_t bytes) {
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (Device* device : devices) buffers.push_back(allocate_zeroed(*device, bytes, Deadline::after_seconds(10)));
    return memory_of_buffers(devices, buffers, 0, kTimeout);
  };
  GpuArray<float> state(*job.devices[0], *stream, std::vector<float>(2 * kFloats));
  GpuArray<uint64_t> step(*job.devices[0], *stream, std::vector<uint64_t>{0});
  std::unique_ptr<PeerUpdater> updater =
      job.ops[0]->optimizer().join_peers({shared(kFloats * 4), shared(kFloats * 4), shared(kTeamFlagBytes)});
  PeerAdam update;
  update.end = kFloats;
  update.adam = {nullptr, nullptr, state.data(), state.data() + kFloats, kFloats, step.data(), 1e-3f,
                 0.9f,    0.999f,  1e-8f};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) updater->adam(*stream, update);  // later ones must not wait again
  try {
    stream->synchronize(Deadline::after_seconds(20));
    FAIL() << "an update without the other ranks ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
    EXPECT_GE(error.rank(), 1) << error.what();
    EXPECT_NE(std::string(error.what()).find("did not reach an update"), std::string::npos) << error.what();
  }
  updater.reset();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(waited.count(), kTimeout);
  EXPECT_LT(waited.count(), 10 * kTimeout);
}

}  // namespace
}  // namespace amdahl::test
