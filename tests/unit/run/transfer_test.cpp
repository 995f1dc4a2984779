// Patterns, staged copies, chains and the bench of links, on CPU virtual devices.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>

#include "measure/links/integrity.h"
#include "measure/links/machine.h"
#include "measure/links/tests.h"
#include "stats/line_fit.h"
#include "transfer/host_affinity.h"
#include "transfer/staged_copy.h"
#include "waits.h"

namespace amdahl {
namespace {

std::vector<LinkDevice> virtual_devices(int count) {
  std::vector<LinkDevice> devices;
  for (auto& device : make_cpu_devices(count)) {
    auto transfer = make_cpu_transfer(*device);
    devices.push_back({std::move(device), std::move(transfer)});
  }
  return devices;
}

LinkBench bench_of(int count) {
  std::vector<LinkDevice> devices = virtual_devices(count);
  std::vector<DeviceSpec> specs;
  for (const LinkDevice& device : devices) specs.push_back(device.device->spec());
  return LinkBench(std::move(devices), specs, MachineSpec{}, true);
}

TEST(Pattern, WordsAndBytesAgreeAndSeedsDiffer) {
  for (const Pattern pattern : kPatterns) {
    const uint64_t word = pattern_word(pattern, 7, 3);
    for (uint64_t i = 0; i < 8; ++i)
      EXPECT_EQ(pattern_byte(pattern, 7, 24 + i), static_cast<uint8_t>(word >> (8 * i))) << to_string(pattern);
  }
  EXPECT_NE(pattern_word(Pattern::random, 1, 5), pattern_word(Pattern::random, 2, 5));
  EXPECT_NE(pattern_word(Pattern::address, 1, 5), pattern_word(Pattern::address, 2, 5));
  std::set<uint64_t> words;
  for (uint64_t i = 0; i < 4096; ++i) words.insert(pattern_word(Pattern::address, 1, i));
  EXPECT_EQ(words.size(), 4096u);
}

TEST(Pattern, KindsOfFaults) {
  const auto kind = [](std::initializer_list<std::pair<uint8_t, uint8_t>> bytes) {
    PatternFault fault;
    uint64_t offset = 0;
    for (const auto& [wanted, found] : bytes) judge_byte(fault, offset++, wanted, found);
    return std::pair{fault.kind(), fault.bad_bytes};
  };
  EXPECT_EQ(kind({{0x12, 0x12}, {0x12, 0x13}}), (std::pair<std::string_view, uint64_t>{"bits flipped", 1}));
  EXPECT_EQ(kind({{0x12, 0x00}, {0x55, 0x00}}), (std::pair<std::string_view, uint64_t>{"zeroed", 2}));
  EXPECT_EQ(kind({{0x12, 0xed}, {0xff, 0x00}}), (std::pair<std::string_view, uint64_t>{"stale", 2}));
  EXPECT_EQ(kind({{0x12, 0x00}, {0x12, 0x11}}), (std::pair<std::string_view, uint64_t>{"mixed", 2}));
}

/// Every damage of every byte of a buffer of odd size is found at its place.
TEST(Transfer, CheckFindsEveryDamagedByte) {
  std::vector<LinkDevice> devices = virtual_devices(1);
  Transfer& transfer = *devices[0].transfer;
  const auto stream = devices[0].device->make_stream("test");
  const auto buffer = devices[0].device->allocate(131);
  for (const Pattern pattern : kPatterns)
    for (uint64_t at = 0; at < 131; ++at) {
      transfer.write_pattern(*stream, buffer->data(), 131, pattern, at, false);
      ASSERT_FALSE(transfer.check_pattern(*stream, buffer->data(), 131, pattern, at, soon()).found());
      buffer->as<uint8_t>()[at] ^= 0x10;
      const PatternFault fault = transfer.check_pattern(*stream, buffer->data(), 131, pattern, at, soon());
      ASSERT_EQ(fault.bad_bytes, 1u);
      ASSERT_EQ(fault.first_offset, at);
    }
}

TEST(Transfer, CopiesOfAnySizeAndAddressByBothMovers) {
  std::vector<LinkDevice> devices = virtual_devices(1);
  Transfer& transfer = *devices[0].transfer;
  const auto stream = devices[0].device->make_stream("test");
  std::mt19937 random(3);
  for (const Mover mover : {Mover::engine, Mover::kernel})
    for (const size_t bytes : {0u, 1u, 7u, 63u, 64u, 65u, 4095u, 70001u}) {
      const size_t from = random() % 17, to = random() % 17;
      std::vector<char> source(bytes + 32), destination(bytes + 32, 'x');
      for (char& c : source) c = static_cast<char>(random());
      transfer.copy(*stream, destination.data() + to, source.data() + from, bytes, mover, 2);
      stream->synchronize(soon());
      EXPECT_EQ(std::memcmp(destination.data() + to, source.data() + from, bytes), 0);
      EXPECT_EQ(std::count(destination.begin(), destination.begin() + static_cast<long>(to), 'x'),
                static_cast<long>(to));
      EXPECT_EQ(destination[to + bytes], 'x');
    }
}

TEST(Transfer, StagedCopiesOfManyChunks) {
  std::vector<LinkDevice> devices = virtual_devices(2);
  const size_t bytes = (size_t{11} << 20) + 13;  // more chunks than slots, the last one odd
  const auto from = devices[0].device->make_stream("from"), to = devices[1].device->make_stream("to");
  const auto source = devices[0].device->allocate(bytes), destination = devices[1].device->allocate(bytes);
  StagedCopy staged({devices[0].device.get(), devices[0].transfer.get()},
                    {devices[1].device.get(), devices[1].transfer.get()}, "");
  devices[0].transfer->write_pattern(*from, source->data(), bytes, Pattern::random, 5, false);
  for (int i = 0; i < 3; ++i) staged.copy(*from, *to, destination->data(), source->data(), bytes);
  from->synchronize(soon());
  to->synchronize(soon());
  EXPECT_FALSE(devices[1].transfer->check_pattern(*to, destination->data(), bytes, Pattern::random, 5, soon()).found());
}

TEST(Transfer, AGateHoldsStreamsOfSeveralDevicesUntilItOpens) {
  std::vector<LinkDevice> devices = virtual_devices(2);
  std::vector<char> one(8, 'a'), other(8, 'b');
  const auto first = devices[0].device->make_stream("first"), second = devices[1].device->make_stream("second");
  const auto passed = devices[0].device->make_event();
  {
    const auto gate = devices[0].transfer->make_gate(30);
    gate->hold(*first);
    gate->hold(*second);
    devices[0].transfer->copy(*first, one.data(), other.data(), 8, Mover::engine, 1);
    first->record(*passed);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(passed->done());
    EXPECT_EQ(one[0], 'a');
  }  // a gate that goes opens
  first->synchronize(soon());
  second->synchronize(soon());
  EXPECT_EQ(one[0], 'b');
}

TEST(Transfer, AGateThatNobodyOpensEndsAtItsDeadline) {
  std::vector<LinkDevice> devices = virtual_devices(1);
  const auto stream = devices[0].device->make_stream("held");
  const auto gate = devices[0].transfer->make_gate(0.05);
  gate->hold(*stream);
  EXPECT_THROW(stream->synchronize(soon()), Error);
}

TEST(Transfer, AChainVisitsEveryPlaceOnce) {
  std::vector<uint64_t> memory(8192 / 8);
  const std::vector<uint64_t> words = make_chain(memory.data(), 8192);
  std::memcpy(memory.data(), words.data(), 8192);
  std::set<uint64_t> seen;
  auto at = reinterpret_cast<uint64_t>(memory.data());
  for (size_t i = 0; i < 8192 / kChainStride; ++i) {
    seen.insert(at);
    at = *reinterpret_cast<const uint64_t*>(at);
  }
  EXPECT_EQ(seen.size(), 8192 / kChainStride);
  EXPECT_EQ(at, reinterpret_cast<uint64_t>(memory.data()));
}

TEST(Transfer, WorkOnCoresRunsThereAndThrowsHere) {
  int ran = 0;
  run_on_cores("0", [&] { ++ran; });
  run_on_cores("4000-4001", [&] { ++ran; });  // none of ours: unbound
  run_on_cores("", [&] { ++ran; });
  EXPECT_EQ(ran, 3);
  EXPECT_THROW(run_on_cores("0", [] { throw Error(Cause::usage, "x", "y"); }), Error);
}

TEST(AlphaBeta, FindsALine) {
  std::vector<double> bytes, times;
  for (double x = 4096; x < 1e9; x *= 8) bytes.push_back(x), times.push_back(2.5 + x / 390e3);  // 390 GB/s
  const AlphaBeta fit = fit_alpha_beta(bytes, times);
  EXPECT_NEAR(fit.alpha_us, 2.5, 1e-9);
  EXPECT_NEAR(fit.beta_gbps, 390, 1e-6);
  EXPECT_NEAR(fit.half_bytes, 2.5 * 390e3, 1e-3);
  EXPECT_NEAR(fit.worst_ratio, 1, 1e-9);
  EXPECT_EQ(fit_alpha_beta({1000, 2000}, {1, 3}).alpha_us, 0);  // a negative alpha is none
}

LinkRun small_run() {
  LinkRun run;
  run.bench.bytes = 32 << 10;
  run.bench.times = run.bench.warmup = run.bench.samples = 2;
  run.latency_accesses = 1000;
  run.sweep_bytes = {4096, 16384, 32768};
  run.integrity_bytes = 8 << 10;
  return run;
}

class LinksOfDevices : public testing::TestWithParam<int> {};

/// Every test: all cells measured, nothing wrong.
TEST_P(LinksOfDevices, EveryTest) {
  class : public Observer {
  } observer;
  const int devices = GetParam();
  LinkBench bench = bench_of(devices);
  for (const LinkTest& test : link_tests()) {
    size_t records = 0;
    run_link_test(
        bench, test, small_run(),
        [&](const Record& record) {
          ++records;
          EXPECT_EQ(record.status.kind, Status::Kind::ok) << test.name << ": " << record.status.reason;
          for (const Series& series : record.series)
            for (const double sample : series.samples) EXPECT_TRUE(series.unit != "GB/s" || sample > 0) << test.name;
        },
        observer);
    const auto pairs = static_cast<size_t>(devices * (devices - 1));
    const bool by_node = test.name.find("node") != std::string_view::npos;
    if (test.group == "pairs") {
      EXPECT_EQ(records, pairs) << test.name;
    } else if (test.name == "integrity") {
      EXPECT_EQ(records, pairs * 10);
    } else if (test.group == "host" && !by_node) {
      EXPECT_EQ(records, static_cast<size_t>(devices)) << test.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Counts, LinksOfDevices, testing::Values(1, 2, 3));

TEST(Links, PatternsMoveWhatTheyShould) {
  LinkBench bench = bench_of(4);
  const auto flows = [&](const char* name) { return find_link_tests({name})[0]->cells(scope_of(bench)); };
  EXPECT_EQ(flows("all_to_all")[0].flows.size(), 12u);
  EXPECT_EQ(flows("ring")[0].flows.size(), 4u);
  EXPECT_EQ(flows("bisection")[0].flows.size(), 4u);
  EXPECT_EQ(flows("one_to_all_write_ce").size(), 4u);
  std::set<std::pair<int, int>> pairs;
  const std::vector<LinkCell> everyone = flows("all_to_all");
  for (const Flow& flow : everyone[0].flows) pairs.insert({flow.source.device, flow.destination.device});
  EXPECT_EQ(pairs.size(), 12u);
  for (const LinkCell& cell : flows("all_to_one_write_ce"))
    for (const Flow& flow : cell.flows) EXPECT_EQ(flow.issuer, flow.source.device);
  for (const LinkCell& cell : flows("device_to_device_memcpy_read_sm"))
    EXPECT_EQ(cell.flows[0].issuer, cell.flows[0].destination.device);
}

TEST(Links, EveryInjectedCorruptionIsFound) {
  LinkBench bench = bench_of(2);
  LinkRun run = small_run();
  run.integrity_bytes = 16 << 10;
  int records = 0;
  run_integrity_proof(bench, run, 2000, [&](const Record& record) {
    ++records;
    EXPECT_EQ(record.status.kind, Status::Kind::ok) << record.status.reason;
    EXPECT_EQ(record.value("injected"), 2000);
    EXPECT_EQ(record.value("found"), 2000);
  });
  EXPECT_EQ(records, 1);
}

MachineSpec two_devices() {
  MachineSpec machine;
  machine.devices.resize(2);
  for (int i = 0; i < 2; ++i)
    machine.devices[static_cast<size_t>(i)].index = i, machine.devices[static_cast<size_t>(i)].kind = "cuda";
  machine.links.resize(2);
  machine.links[0].source = 0, machine.links[0].destination = 1;
  machine.links[1].source = 1, machine.links[1].destination = 0;
  for (LinkSpec& link : machine.links) link.expected_gbps = 394;
  return machine;
}

Record link_record(const char* test, const char* from, const char* to, double gbps) {
  Record record;
  record.kind = "link";
  record.axes = {{"test", std::string(test)}, {"source", std::string(from)}, {"destination", std::string(to)}};
  record.series = {{"bandwidth", "GB/s", {gbps, gbps, gbps}}};
  return record;
}

TEST(Links, WhatRecordsSayOfTheMachine) {
  MachineSpec machine = two_devices();
  Record corrupt;
  corrupt.kind = "integrity";
  corrupt.axes = {
      {"source", std::string("gpu 1")}, {"destination", std::string("gpu 0")}, {"way", std::string("kernel read")}};
  corrupt.status = {Status::Kind::failed, "4 bytes differ"};
  note_links(machine, {link_record("device_to_device_memcpy_read_ce", "gpu 0", "gpu 1", 390),
                       link_record("device_to_device_memcpy_write_ce", "gpu 0", "gpu 1", 395),
                       link_record("device_to_device_memcpy_read_ce", "gpu 1", "gpu 0", 200),
                       link_record("device_local_copy", "gpu 1", "gpu 1", 2000), corrupt});
  EXPECT_EQ(machine.links[0].measured_gbps, 395);
  EXPECT_EQ(machine.links[1].measured_gbps, 200);
  EXPECT_TRUE(machine.links[0].quarantine.empty());
  EXPECT_EQ(machine.links[1].quarantine, "kernel read: 4 bytes differ");
  EXPECT_EQ(machine.devices[1].copy_gbps, 4000);
  EXPECT_EQ(slow_links(machine, 0), std::vector<std::string>{"1 -> 0: 200.0 GB/s, 51 % of the expected 394.0"});
  EXPECT_EQ(slow_links(machine, 392).size(), 1u);
  EXPECT_EQ(slow_links(machine, 396).size(), 2u);
}

TEST(Links, UnknownTestsAreRefusedWithTheNearest) {
  try {
    find_link_tests({"latencies"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_NE(error.line().find("latency?"), std::string::npos) << error.line();
  }
  EXPECT_EQ(find_link_tests({"all"}).size(), link_tests().size());
  EXPECT_EQ(find_link_tests({"latency", "ring"}).size(), 4u);
}

// The streams still copy when the user stops the run: under AddressSanitizer they must not meet freed memory.
TEST(LinkBenchStop, WithinAStagedCopyFreesNoMemoryInUse) {
  for (int trial = 0; trial < 20; ++trial) {
    LinkBench bench = bench_of(2);
    std::atomic<int> looks = 0;
    for (int i = 0; i < 2; ++i) bench.end(i).device->end_waits_when([&] { return ++looks > 6; });
    BenchSettings settings;
    settings.bytes = size_t{32} << 20, settings.times = 4, settings.samples = 1000, settings.check = false;
    EXPECT_THROW(bench.run_staged(0, 1, settings), Error);
  }
}

}  // namespace
}  // namespace amdahl
