// All-reduces with normalisation between all GPUs of this machine or partitions of one: the bits of the two operations,
// replays of graphs, and a rank that does not come.
#include "comm/world.h"
#include "peer_norm_calls.h"
#include "several_gpus.h"

namespace amdahl {
namespace {

class PeerNormGpuTest : public SeveralGpusTest {
 protected:
  void expect_exact(const PeerNormSize& size, DType y_type) {
    run(size, 30, [&](const test::PeerNormRank& r) {
      test::PeerNormCalls calls(r, size, y_type);
      r.communicator.barrier(Deadline::after_seconds(60));
      for (int turn = 0; turn < 3; ++turn) calls.enqueue();
      calls.expect_exact();
    });
  }
  void run(const PeerNormSize& size, double timeout, const std::function<void(const test::PeerNormRank&)>& body) {
    const auto ranks = static_cast<int>(world());
    const auto comms = make_inproc_communicators(ranks, 30);
    run_rank_threads(
        ranks,
        [&](int rank) {
          const auto r = static_cast<size_t>(rank);
          const auto ops = make_cuda_ops(*devices_[r], {});
          SymmetricHeap heap(*devices_[r], *comms[r], PeerNorm::heap_bytes(size, ranks), timeout);
          body({*devices_[r], *ops, *comms[r], heap, *streams_[r]});
        },
        [&](const Error& error) {
          for (const auto& comm : comms) comm->abort(error);
        });
  }
};

TEST_F(PeerNormGpuTest, EqualsAnAllReduceAndANormalisation) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const DType y_type : {DType::f32, type})
      for (const auto& [rows, width] : {std::pair{5, 8}, {9, 1024}, {3, 8192}})
        expect_exact({rows, width, type}, y_type);
}

TEST_F(PeerNormGpuTest, ManyRows) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [rows, width] : {std::pair{700, 192}, {300, 768}, {100, 4096}})
      expect_exact({rows, width, type}, type);
}

TEST_F(PeerNormGpuTest, ReplaysOfAGraph) {
  const PeerNormSize size{8, 4096, DType::bf16};
  constexpr int kReplays = 20'000;
  run(size, 30, [&](const test::PeerNormRank& r) {
    test::PeerNormCalls calls(r, size, DType::bf16);
    const std::unique_ptr<Graph> graph = r.device.capture(r.stream, [&] { calls.enqueue(); });
    r.communicator.barrier(Deadline::after_seconds(60));
    for (int i = 0; i < kReplays; ++i) {
      graph->launch(r.stream);
      if (i % 1000 == 999) r.stream.synchronize(Deadline::after_seconds(60));
    }
    calls.expect_exact();
  });
}

TEST_F(PeerNormGpuTest, ARankThatDoesNotComeIsNamed) {
  const PeerNormSize size{4, 64, DType::bf16};
  const int last = static_cast<int>(world()) - 1;
  try {
    run(size, 1, [&](const test::PeerNormRank& r) {
      test::PeerNormCalls calls(r, size, DType::bf16);
      r.communicator.barrier(Deadline::after_seconds(60));
      if (r.communicator.rank() != last) calls.enqueue();
      r.stream.synchronize(Deadline::after_seconds(60));
    });
    ADD_FAILURE() << "nobody was missed";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
    EXPECT_EQ(error.rank(), last) << error.what();
  }
}

}  // namespace
}  // namespace amdahl
