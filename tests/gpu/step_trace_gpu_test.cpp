// Traced steps on CUDA devices: every piece lies within its step, eager and by graph, and ranks are on one clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "comm/world.h"
#include "measure/training/trace_run.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr double kRoundingUs = 2;  // cudaEventElapsedTime resolves about half a microsecond

StepTrace traced(int num_devices, LaunchMode launch) {
  std::vector<int> indices(static_cast<size_t>(num_devices));
  std::iota(indices.begin(), indices.end(), 0);
  JobDevices job;
  job.devices = make_cuda_devices(indices);
  std::vector<Device*> devices;
  for (auto& device : job.devices) {
    device->bind_thread();
    job.ops.push_back(make_cuda_ops(*device, {MathMode::fp32, false}));
    devices.push_back(device.get());
  }
  if (num_devices > 1)
    job.communicators = make_nccl_communicators(devices, 60);
  else
    job.communicators.push_back(make_lone_communicator(*devices.front()));
  TrainerOptions options;
  options.model = odd_model(LossKind::mse);
  options.plan.strategy = num_devices > 1 ? "ddp" : "single";
  options.plan.mesh.dp = num_devices;
  options.plan.global_batch = 64;
  options.plan.bucket_bytes = 6000;
  const Dataset data = make_study_dataset(256, options.model.input_width, options.model.output_width(), 3);
  StepTrace result;
  run_rank_threads(
      num_devices,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        job.devices[r]->bind_thread();
        RankContext rank{index, num_devices, *job.devices[r], *job.ops[r], *job.communicators[r]};
        std::vector<std::unique_ptr<StepStamps>> stamps;
        Trainer trainer(rank, options);
        BatchPool pool(trainer, rank.device, data, options.plan, 4, Deadline::after_seconds(60));
        const RankTrace mine = trace_steps(rank, trainer, pool, {3, 7, launch, 60}, stamps);
        StepTrace all = gather_traces(rank.communicator, mine, Deadline::after_seconds(60));
        if (index == 0) result = std::move(all);
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return result;
}

void expect_sound(const StepTrace& trace, int num_devices) {
  std::map<std::pair<int, int64_t>, const TraceEvent*> steps;
  for (const TraceEvent& event : trace.events)
    if (event.kind == TraceKind::step) steps[{event.rank, event.step}] = &event;
  ASSERT_EQ(steps.size(), static_cast<size_t>(4 * num_devices));
  int products = 0, buckets = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceKind::step || event.kind == TraceKind::host) continue;
    const TraceEvent& step = *steps.at({event.rank, event.step});
    EXPECT_GE(event.start_us, step.start_us - kRoundingUs) << event.name;
    EXPECT_LE(event.start_us + event.duration_us, step.start_us + step.duration_us + kRoundingUs) << event.name;
    products += event.kind == TraceKind::compute ? 1 : 0;
    buckets += event.kind == TraceKind::communication ? 1 : 0;
  }
  EXPECT_GE(products, 4 * num_devices * 3);
  EXPECT_EQ(buckets > 0, num_devices > 1);
  for (const TracedRank& rank : trace.ranks) {
    EXPECT_GT(rank.clock_uncertainty_us, 0);
    EXPECT_LT(rank.clock_uncertainty_us, 1000) << rank.clock;
  }
  // A device cannot begin a step before its host did.
  for (const auto& [key, step] : steps)
    for (const TraceEvent& event : trace.events)
      if (event.kind == TraceKind::host && event.rank == key.first && event.step == key.second &&
          event.name.find("wait") == std::string::npos) {
        EXPECT_GE(step->start_us + 2 * trace.ranks[static_cast<size_t>(key.first)].clock_uncertainty_us + kRoundingUs,
                  event.start_us)
            << "step " << key.second;
      }
}

class GpuTrace : public ::testing::TestWithParam<std::pair<int, LaunchMode>> {};

TEST_P(GpuTrace, EveryPieceLiesWithinItsStepOnOneClock) {
  const auto [num_devices, launch] = GetParam();
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  const auto present = static_cast<int>(list_cuda_devices().size());
  if (present < num_devices) GTEST_SKIP() << num_devices << " GPUs are needed and " << present << " are here";
  if (const Availability nccl = nccl_availability(); num_devices > 1 && !nccl.ok) GTEST_SKIP() << nccl.reason;
  expect_sound(traced(num_devices, launch), num_devices);
}

INSTANTIATE_TEST_SUITE_P(Launches, GpuTrace,
                         ::testing::Values(std::pair{1, LaunchMode::eager}, std::pair{1, LaunchMode::graph},
                                           std::pair{2, LaunchMode::eager}, std::pair{2, LaunchMode::graph}));

}  // namespace
}  // namespace amdahl::test
