// Collectives in symmetric memory between all GPUs of this machine, or partitions of one: the bits of the collectives
// on CPUs, in replayed graphs, over the wrap of the flags, and when a rank is late.
#include <chrono>

#include "symmetric/one_sided_loops.h"
#include "symmetric/symmetric_heap.h"
#include "symmetric_collectives_gpu.h"

namespace amdahl {
namespace {

TEST_F(SymmetricCollectivesGpuTest, GiveTheBitsOfTheCollectivesOnCpus) {
  join({});
  for (const CollectiveRow& row : collective_table())
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max})
        for (const size_t elements : {size_t{1}, size_t{199}, size_t{40'003}, size_t{300'017}}) {
          if (op != ReduceOp::sum && (!row.reduces || elements > 1000)) continue;
          EXPECT_EQ(received(row, type, op, elements), expected(row, type, op, elements))
              << row.name << " " << to_string(type) << " " << to_string(op) << " " << elements;
        }
}

TEST_F(SymmetricCollectivesGpuTest, EveryAlgorithmAddsInRankOrder) {
  const CollectiveRow& row = find_collective("all_reduce");
  for (const SymmetricAlgorithm algorithm : algorithms()) {
    SymmetricOptions options;
    options.all_reduce = algorithm;
    join(options);
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::u8, DType::f64})
      for (const size_t count : {1, 2, 3, 7, 15, 30, 31, 60, 120, 255, 1025, 20'001, 1'000'003})
        EXPECT_EQ(received(row, type, ReduceOp::sum, count), expected(row, type, ReduceOp::sum, count))
            << to_string(algorithm) << " " << to_string(type) << " " << count;
  }
}

TEST_F(SymmetricCollectivesGpuTest, RanksWithOtherAlignmentsAgree) {
  join({});
  for (const char* name : {"all_gather", "broadcast", "all_to_all"})
    for (const size_t bytes : {size_t{4096}, size_t{1} << 20, (size_t{1} << 20) + 48})
      for (const int64_t skip : {1, 8})
        EXPECT_EQ(received(find_collective(name), DType::u8, ReduceOp::sum, bytes, skip),
                  expected(find_collective(name), DType::u8, ReduceOp::sum, bytes))
            << name << " " << bytes << " " << skip;
}

/// A million calls in graphs: a rank that is ahead must not overwrite what another still reads.
TEST_F(SymmetricCollectivesGpuTest, AMillionReplaysInGraphs) {
  constexpr int kCalls = 100, kReplays = 2'500;
  constexpr size_t kCount = 256;
  for (const SymmetricAlgorithm algorithm : algorithms()) {
    SymmetricOptions options;
    options.all_reduce = algorithm;
    join(options);
    std::vector<std::unique_ptr<GpuArray<int32_t>>> data, sums;
    for (size_t r = 0; r < world(); ++r) {
      data.push_back(array<int32_t>(r, std::vector<int32_t>(kCount, 0)));
      sums.push_back(array<int32_t>(r, std::vector<int32_t>(kCount, 0)));
    }
    const auto graphs = graphs_of([&](size_t r) {
      for (int i = 0; i < kCalls; ++i)
        comms_[r]->all_reduce(i % 2 ? sums[r]->data() : data[r]->data(), i % 2 ? data[r]->data() : sums[r]->data(),
                              kCount, DType::i32, ReduceOp::sum, *streams_[r]);
    });
    for (size_t r = 0; r < world(); ++r) data[r]->set(std::vector<int32_t>(kCount, static_cast<int32_t>(r + 1)));
    for (int replay = 0; replay < kReplays; ++replay)
      for (size_t r = 0; r < world(); ++r) graphs[r]->launch(*streams_[r]);
    for (auto& stream : streams_) stream->synchronize(patient());
    // Every call multiplies by the number of ranks, which wraps: with an odd number all rounds differ.
    auto sum = static_cast<uint32_t>(world() * (world() + 1) / 2);
    for (int call = 1; call < kCalls * kReplays; ++call) sum *= static_cast<uint32_t>(world());
    for (size_t r = 0; r < world(); ++r)
      EXPECT_EQ(data[r]->get(), std::vector<int32_t>(kCount, static_cast<int32_t>(sum)))
          << to_string(algorithm) << " rank " << r;
  }
}

/// Large and small messages by turns: lines of an earlier round are in memory that a later one uses.
TEST_F(SymmetricCollectivesGpuTest, LinesOfEarlierRoundsAreNotTaken) {
  if (algorithms().back() != SymmetricAlgorithm::lines) GTEST_SKIP() << "the links do not keep lines whole";
  const CollectiveRow& row = find_collective("all_reduce");
  SymmetricOptions options;
  options.all_reduce = SymmetricAlgorithm::lines;
  options.first_epoch = kFlagPeriod - 3;  // flags of 8 bytes do not wrap here
  join(options);
  for (int repeat = 0; repeat < 3; ++repeat)
    for (const size_t count : {61'440, 3, 61'440, 100, 30, 1, 16'000, 70'000, 17'000, 5000, 1'000'000, 65'000})
      EXPECT_EQ(received(row, DType::f32, ReduceOp::sum, count), expected(row, DType::f32, ReduceOp::sum, count))
          << count;
}

TEST_F(SymmetricCollectivesGpuTest, FlagsWrap) {
  const CollectiveRow& row = find_collective("all_reduce");
  for (const uint64_t first : {kFlagPeriod - 3, 2 * kFlagPeriod - 4}) {
    SymmetricOptions options;
    options.all_reduce = SymmetricAlgorithm::flagged;
    options.first_epoch = first;
    join(options);
    for (const size_t count : {5000, 3, 5000, 100, 8000, 1, 5000, 5000})
      EXPECT_EQ(received(row, DType::f32, ReduceOp::sum, count), expected(row, DType::f32, ReduceOp::sum, count))
          << count << " from " << first;
  }
}

TEST_F(SymmetricCollectivesGpuTest, ALateRankIsNamed) {
  for (const SymmetricAlgorithm algorithm : algorithms()) {
    SymmetricOptions options;
    options.all_reduce = algorithm;
    join(options, 0.5);
    std::vector<std::unique_ptr<GpuArray<float>>> data;
    for (size_t r = 0; r < world(); ++r) data.push_back(array<float>(r, std::vector<float>(100, 1)));
    const auto begin = std::chrono::steady_clock::now();
    for (size_t r = 0; r + 1 < world(); ++r)
      comms_[r]->all_reduce(data[r]->data(), 100, DType::f32, ReduceOp::sum, *streams_[r]);
    expect_a_missing_rank();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    comms_.clear();
  }
}

TEST_F(SymmetricCollectivesGpuTest, PeersWithoutAccessAreRefused) {
  devices_[0]->avoid(devices_[1]->spec().index, "the link is quarantined");
  try {
    join({});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::environment_missing) << error.what();
    EXPECT_NE(std::string(error.what()).find("the link is quarantined"), std::string::npos) << error.what();
  }
}

/// The loops that `onesided` times move the right bytes, with any number of blocks.
TEST_F(SymmetricCollectivesGpuTest, LoopsMoveTheRightBytes) {
  constexpr size_t kBytes = 100'003, kBox = 102'400;
  const auto memory = shared_zeros(kTeamFlagBytes + 2 * kBox + 8192 + kLoopPacketBytes, 20);
  LoopCall call;
  call.outbox = (kTeamFlagBytes + 255) / 256 * 256, call.inbox = call.outbox + kBox;
  call.signals = call.inbox + kBox - 256, call.counter = call.signals + kLoopSignals * sizeof(Signal);
  call.packets = call.inbox + kBox + 4096;
  std::vector<std::unique_ptr<OneSidedLoops>> loops;
  for (size_t r = 0; r < world(); ++r) loops.push_back(make_one_sided_loops(*devices_[r], memory[r]));
  for (const LoopKind kind :
       {LoopKind::put, LoopKind::get, LoopKind::put_signal, LoopKind::put_packets, LoopKind::put_fence,
        LoopKind::put_quiet, LoopKind::fetch_add, LoopKind::contended_add, LoopKind::barrier, LoopKind::signal})
    for (const int blocks : {1, 5}) {
      call.kind = kind, call.blocks = blocks, call.times = 7;
      call.bytes = kind == LoopKind::put_packets ? 4001 : kBytes - 1000;
      for (size_t r = 0; r < world(); ++r) {
        std::vector<char> out(call.bytes);
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 31 + r);
        devices_[r]->copy_in(*streams_[r], memory[r].own<char>() + call.outbox, out.data(), out.size());
        devices_[r]->fill_zero(*streams_[r], memory[r].own<char>() + call.inbox, call.bytes);
        streams_[r]->synchronize(patient());
      }
      for (size_t r = 0; r < world(); ++r) loops[r]->enqueue(*streams_[r], call);
      synchronize();
      call.first_signal += 7;
      const bool to_zero = kind == LoopKind::get || kind == LoopKind::put_signal || kind == LoopKind::put_packets;
      const bool to_one = kind == LoopKind::put || kind == LoopKind::put_signal || kind == LoopKind::put_packets ||
                          kind == LoopKind::put_fence || kind == LoopKind::put_quiet;
      for (size_t r = 0; r < 2; ++r) {
        std::vector<char> in(call.bytes);
        devices_[r]->copy_out(*streams_[r], in.data(), memory[r].own<char>() + call.inbox, in.size());
        streams_[r]->synchronize(patient());
        size_t wrong = 0;
        for (size_t i = 0; i < in.size(); ++i)
          wrong += in[i] != ((r == 0 ? to_zero : to_one) ? static_cast<char>(i * 31 + 1 - r) : 0);
        EXPECT_EQ(wrong, 0u) << "kind " << static_cast<int>(kind) << " blocks " << blocks << " rank " << r;
      }
    }
  loops.clear();
}

}  // namespace
}  // namespace amdahl
