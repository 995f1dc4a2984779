// Operations on shards of a vocabulary on the CPU.
#include <gtest/gtest.h>

#include "shard_ops.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

TEST(CpuShardOps, EqualFloat64) {
  JobDevices job = cpu_job_devices(1);
  const auto stream = job.devices[0]->make_stream("compute");
  expect_shards(*job.devices[0], *job.ops[0], *stream);
}

}  // namespace
}  // namespace amdahl::test
