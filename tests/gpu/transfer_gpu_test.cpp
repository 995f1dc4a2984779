// Transfers of CUDA devices: the same answers as of CPU virtual devices, between all the GPUs there are.
#include <gtest/gtest.h>

#include <cstring>

#include "gpu_support.h"
#include "measure/links/integrity.h"
#include "measure/links/tests.h"
#include "waits.h"

namespace amdahl {
namespace {

LinkBench bench_of_all_gpus(bool use_peer_access) {
  const std::vector<DeviceSpec> specs = list_cuda_devices();
  std::vector<int> indices;
  for (const DeviceSpec& spec : specs) indices.push_back(spec.index);
  std::vector<LinkDevice> devices;
  for (auto& device : make_cuda_devices(indices)) {
    auto transfer = make_cuda_transfer(*device);
    devices.push_back({std::move(device), std::move(transfer)});
  }
  return LinkBench(std::move(devices), specs, MachineSpec{}, use_peer_access);
}

/// A pattern written by the GPU is the CPU's, for odd sizes and addresses, and every damaged byte is found.
TEST(GpuTransfer, PatternsAreTheCpuOnes) {
  LinkBench bench = bench_of_all_gpus(true);
  const auto stream = bench.device(0).make_stream("test");
  const size_t bytes = 3001, offset = 3;
  const auto buffer = bench.device(0).allocate(bytes + 8);
  std::vector<uint8_t> host(bytes);
  for (const Pattern pattern : kPatterns)
    for (const size_t shift : {size_t{0}, offset}) {
      uint8_t* data = buffer->as<uint8_t>() + shift;
      bench.transfer(0).write_pattern(*stream, data, bytes, pattern, 9, false);
      bench.device(0).copy_out(*stream, host.data(), data, bytes);
      stream->synchronize(soon());
      for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(host[i], pattern_byte(pattern, 9, i)) << to_string(pattern) << i;
      ASSERT_FALSE(bench.transfer(0).check_pattern(*stream, data, bytes, pattern, 9, soon()).found());
      for (const size_t at : {size_t{0}, size_t{1}, size_t{1500}, bytes - 1}) {
        const auto bad = static_cast<uint8_t>(host[at] ^ 4), good = host[at];
        bench.device(0).copy_in(*stream, data + at, &bad, 1);
        const PatternFault fault = bench.transfer(0).check_pattern(*stream, data, bytes, pattern, 9, soon());
        EXPECT_EQ(fault.bad_bytes, 1u);
        EXPECT_EQ(fault.first_offset, at);
        bench.device(0).copy_in(*stream, data + at, &good, 1);
        stream->synchronize(soon());
      }
    }
}

void expect_all_ok(bool use_peer_access) {
  class : public Observer {
  } observer;
  LinkBench bench = bench_of_all_gpus(use_peer_access);
  LinkRun run;
  run.bench.bytes = 8 << 20;
  run.bench.times = run.bench.warmup = run.bench.samples = 2;
  run.latency_accesses = 10'000;
  run.sweep_bytes = {4096, 1 << 20, 8 << 20};
  for (const LinkTest& test : link_tests())
    run_link_test(
        bench, test, run,
        [&](const Record& record) {
          const bool waived = record.status.kind == Status::Kind::waived && !use_peer_access;
          EXPECT_TRUE(waived || record.status.kind == Status::Kind::ok) << test.name << ": " << record.status.reason;
        },
        observer);
}

TEST(GpuTransfer, EveryLinkTestVerifies) { expect_all_ok(true); }
TEST(GpuTransfer, EveryLinkTestVerifiesWithoutPeerAccess) { expect_all_ok(false); }

TEST(GpuTransfer, EveryInjectedCorruptionIsFound) {
  LinkBench bench = bench_of_all_gpus(true);
  LinkRun run;
  run_integrity_proof(bench, run, 1000,
                      [&](const Record& record) { EXPECT_EQ(record.value("found"), 1000) << record.status.reason; });
}

}  // namespace
}  // namespace amdahl
