// Every strategy with collectives in symmetric memory gives the bits that it gives with the in-process ones.
#include <gtest/gtest.h>

#include "small_job.h"

namespace amdahl::test {
namespace {

TEST(SymmetricComm, EveryStrategyGivesTheSameBits) {
  constexpr int64_t kRows = 26;
  for (const StrategyRow& row : strategy_table())
    for (const int devices : {2, 3})
      for (const bool overlap : {true, false})
        for (const double clip_norm : {0.0, 0.5}) {
          TrainerOptions options;
          options.model = odd_model(LossKind::softmax_cross_entropy);
          options.plan.strategy = std::string(row.name);
          options.plan.mesh.dp = devices;
          options.plan.global_batch = kRows;
          options.plan.overlap = overlap;
          options.plan.bucket_bytes = 6000;  // several buckets
          options.hyper.optimizer = "adam";
          options.hyper.learning_rate = 1e-2f;
          options.hyper.clip_norm = static_cast<float>(clip_norm);
          options.seed = 7;
          options.keep_gradients = true;
          if (!row.feasible(options.plan).ok) continue;
          const JobData data = random_data(options.model, kRows, 11);
          JobDevices plain = cpu_job_devices(devices), symmetric = symmetric_job_devices(devices);
          const JobResult expected = run_job(plain, options, data, 5), got = run_job(symmetric, options, data, 5);
          EXPECT_EQ(got.losses, expected.losses) << row.name;
          EXPECT_EQ(got.first_gradients, expected.first_gradients) << row.name;
          EXPECT_EQ(got.params, expected.params) << row.name;
          EXPECT_EQ(got.comm_bytes, expected.comm_bytes) << row.name;
        }
}

}  // namespace
}  // namespace amdahl::test
