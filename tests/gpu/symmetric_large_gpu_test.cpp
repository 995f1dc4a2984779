// Collectives of many blocks and chunks, and messages, between 2, 3 and 4 GPUs or partitions of one: the bits of the
// collectives on CPUs around every size at which blocks, chunks or methods change, in replayed graphs, over the wrap of
// the counters, and when a rank is late.
#include <chrono>

#include "symmetric_collectives_gpu.h"

namespace amdahl {
namespace {

/// Ranks, and whether they access each other's buffers in large calls.
struct LargeCase {
  int ranks;
  bool direct;
};

class SymmetricLargeGpuTest : public SymmetricCollectivesGpuTest, public ::testing::WithParamInterface<LargeCase> {
 protected:
  int wanted_ranks() const override { return GetParam().ranks; }
  static SymmetricOptions two_shot() {
    SymmetricOptions options;
    options.all_reduce = SymmetricAlgorithm::two_shot;
    options.one_shot_bytes = 4096;  // broadcasts and reductions above it go in two steps
    options.direct = GetParam().direct;
    return options;
  }
};

TEST_P(SymmetricLargeGpuTest, EveryKindAndTypeGivesTheBitsOfCpus) {
  join(two_shot());
  for (const CollectiveRow& row : collective_table())
    for (const DType type : {DType::f32, DType::f16, DType::bf16})
      // Shares of blocks of 8 KiB and of chunks of 8 to 64 KiB, each with a tail.
      for (const size_t elements : {2'047, 4'099, 16'385, 65'537, 131'071, 524'289, 1'310'723}) {
        if (elements > 600'000 && type == DType::f16) continue;
        EXPECT_EQ(received(row, type, ReduceOp::sum, elements), expected(row, type, ReduceOp::sum, elements))
            << row.name << " " << to_string(type) << " " << elements;
      }
}

TEST_P(SymmetricLargeGpuTest, BuffersThatAreNotAligned) {
  join(two_shot());
  for (const CollectiveRow& row : collective_table())
    for (const DType type : {DType::f32, DType::bf16, DType::u8})
      for (const size_t elements : {size_t{77'777}, size_t{400'009}})
        EXPECT_EQ(received(row, type, ReduceOp::sum, elements, static_cast<int64_t>(size_of(type))),
                  expected(row, type, ReduceOp::sum, elements))
            << row.name << " " << to_string(type) << " " << elements;
}

/// Parts that follow each other without padding, so that those of other ranks begin at odd addresses.
TEST_P(SymmetricLargeGpuTest, PartsOfOddSizes) {
  join(two_shot());
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}) {
    CollectiveRow row = find_collective(name);
    const std::string kind = name;
    if (kind == "all_gather" || kind == "gather")
      row.shape = [](size_t count, int n) { return CollectiveShape{count, count * static_cast<size_t>(n), count}; };
    else if (kind == "all_to_all")
      row.shape = [](size_t count, int n) {
        return CollectiveShape{count * static_cast<size_t>(n), count * static_cast<size_t>(n), count};
      };
    else
      row.shape = [](size_t count, int n) { return CollectiveShape{count * static_cast<size_t>(n), count, count}; };
    for (const DType type : {DType::f32, DType::bf16, DType::u8})
      for (const size_t count : {size_t{1}, size_t{77}, size_t{4'099}, size_t{150'001}})
        EXPECT_EQ(received(row, type, ReduceOp::sum, count), expected(row, type, ReduceOp::sum, count))
            << name << " " << to_string(type) << " " << count;
  }
}

TEST_P(SymmetricLargeGpuTest, AnyNumberOfBlocksAndEveryOperation) {
  const CollectiveRow& all_reduce = find_collective("all_reduce");
  const CollectiveRow& reduce_scatter = find_collective("reduce_scatter");
  for (const int blocks : {1, 3, 32}) {
    SymmetricOptions options = two_shot();
    options.blocks = blocks;
    join(options);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min})
      for (const CollectiveRow* row : {&all_reduce, &reduce_scatter})
        EXPECT_EQ(received(*row, DType::f32, op, 262'147), expected(*row, DType::f32, op, 262'147))
            << row->name << " " << to_string(op) << ", " << blocks << " blocks";
  }
}

TEST_P(SymmetricLargeGpuTest, OneShotOfManyChunks) {
  SymmetricOptions options;
  options.all_reduce = SymmetricAlgorithm::one_shot;
  join(options);
  const CollectiveRow& row = find_collective("all_reduce");
  for (const size_t elements : {size_t{65'537}, size_t{700'001}})
    EXPECT_EQ(received(row, DType::f32, ReduceOp::sum, elements), expected(row, DType::f32, ReduceOp::sum, elements));
}

/// Rounds, chunks of messages and slots are counted modulo 2^64.
TEST_P(SymmetricLargeGpuTest, CountersWrap) {
  SymmetricOptions options = two_shot();
  options.first_epoch = ~uint64_t{0} - 4;
  join(options);
  for (int repeat = 0; repeat < 4; ++repeat)
    for (const char* name : {"all_reduce", "all_gather", "sendrecv", "broadcast"})
      for (const size_t elements : {size_t{5000}, size_t{300'001}}) {
        const CollectiveRow& row = find_collective(name);
        EXPECT_EQ(received(row, DType::f32, ReduceOp::sum, elements),
                  expected(row, DType::f32, ReduceOp::sum, elements))
            << name << " " << elements << ", repeat " << repeat;
      }
}

/// Large and small calls of all kinds by turns, thousands of times without a pause: a rank that is ahead must not
/// overwrite what another still reads. The input changes before the last replay.
TEST_P(SymmetricLargeGpuTest, AllKindsByTurnsInReplayedGraphs) {
  constexpr int kReplays = 300;
  join(two_shot());
  struct Call {
    const CollectiveRow* row;
    size_t elements;
    std::vector<std::unique_ptr<GpuArray<char>>> send, recv;
  };
  std::vector<Call> calls;
  for (const CollectiveRow& row : collective_table())
    for (const size_t elements : {size_t{300'017}, size_t{33}, size_t{40'003}}) {
      Call& call = calls.emplace_back();
      call.row = &row, call.elements = elements;
      const CollectiveShape shape = row.shape(elements, size());
      for (size_t r = 0; r < world(); ++r) {
        call.send.push_back(array<char>(r, std::vector<char>(shape.send * sizeof(float), 0)));
        call.recv.push_back(array<char>(r, std::vector<char>(shape.recv * sizeof(float), 0x11)));
      }
    }
  const auto graphs = graphs_of([&](size_t r) {
    for (Call& call : calls) {
      const CollectiveShape shape = call.row->shape(call.elements, size());
      if (shape.call == 0) continue;
      call.row->run(*comms_[r],
                    {call.send[r]->data(), call.recv[r]->data(), shape.call, DType::f32, ReduceOp::sum, size() - 1},
                    *streams_[r]);
    }
  });
  const auto replay = [&](int times) {
    for (int i = 0; i < times; ++i)
      for (size_t r = 0; r < world(); ++r) graphs[r]->launch(*streams_[r]);
    for (auto& stream : streams_) stream->synchronize(patient());
  };
  replay(kReplays);
  for (Call& call : calls)
    for (size_t r = 0; r < world(); ++r)
      call.send[r]->set(input(r, call.row->shape(call.elements, size()).send * sizeof(float), DType::f32));
  replay(1);
  for (Call& call : calls) {
    if (call.row->shape(call.elements, size()).call == 0) continue;
    const auto want = expected(*call.row, DType::f32, ReduceOp::sum, call.elements);
    for (size_t r = 0; r < world(); ++r)
      EXPECT_EQ(call.recv[r]->get(), want[r]) << call.row->name << " " << call.elements << " rank " << r;
  }
}

TEST_P(SymmetricLargeGpuTest, ALateRankIsNamed) {
  for (const char* name : {"all_reduce", "all_gather"}) {
    join(two_shot(), 0.5);
    const CollectiveRow& row = find_collective(name);
    const CollectiveShape shape = row.shape(500'000, size());
    std::vector<std::unique_ptr<GpuArray<float>>> send, recv;
    for (size_t r = 0; r < world(); ++r) {
      send.push_back(array<float>(r, std::vector<float>(shape.send, 1)));
      recv.push_back(array<float>(r, std::vector<float>(shape.recv, 0)));
    }
    const auto begin = std::chrono::steady_clock::now();
    for (size_t r = 0; r + 1 < world(); ++r)
      row.run(*comms_[r], {send[r]->data(), recv[r]->data(), shape.call, DType::f32, ReduceOp::sum, 0}, *streams_[r]);
    expect_a_missing_rank();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    comms_.clear();
  }
}

TEST_P(SymmetricLargeGpuTest, AMessageThatDoesNotComeNamesItsSender) {
  join(two_shot(), 0.5);
  const auto data = array<float>(0, std::vector<float>(1000, 1));
  comms_[0]->recv(data->data(), 1000, DType::f32, size() - 1, *streams_[0]);
  expect_a_missing_rank();
  comms_.clear();
}

INSTANTIATE_TEST_SUITE_P(Ranks, SymmetricLargeGpuTest,
                         ::testing::Values(LargeCase{2, true}, LargeCase{3, true}, LargeCase{4, true},
                                           LargeCase{2, false}, LargeCase{4, false}),
                         [](const auto& which) {
                           return std::to_string(which.param.ranks) + (which.param.direct ? "" : "_slots");
                         });

}  // namespace
}  // namespace amdahl
