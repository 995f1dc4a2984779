// All-reduces with normalisation between CPU ranks: the bits of the two operations, many calls, and what they refuse.
#include <gtest/gtest.h>

#include <functional>

#include "comm/world.h"
#include "errors.h"
#include "peer_norm_calls.h"

namespace amdahl {
namespace {

void run_norm_ranks(int world, const PeerNormSize& size, const std::function<void(const test::PeerNormRank&)>& body,
                    double timeout = 20) {
  const auto devices = make_cpu_devices(world);
  const auto comms = make_inproc_communicators(world, timeout);
  run_rank_threads(
      world,
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        const auto ops = make_cpu_ops(*devices[r], {});
        SymmetricHeap heap(*devices[r], *comms[r], PeerNorm::heap_bytes(size, world), timeout);
        const auto stream = devices[r]->make_stream("compute");
        body({*devices[r], *ops, *comms[r], heap, *stream});
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
}

TEST(PeerNorm, EqualsAnAllReduceAndANormalisation) {
  for (const int world : {1, 2, 3, 4})
    for (const PeerNormSize& size :
         {PeerNormSize{5, 8}, PeerNormSize{37, 192}, PeerNormSize{9, 771}, PeerNormSize{3, 5000}})
      run_norm_ranks(world, size, [&](const test::PeerNormRank& r) {
        test::PeerNormCalls calls(r, size, DType::f32);
        for (int turn = 0; turn < 3; ++turn) calls.enqueue();
        calls.expect_exact();
      });
}

TEST(PeerNorm, ThousandsOfCallsInARow) {
  const PeerNormSize size{2, 16};
  run_norm_ranks(3, size, [&](const test::PeerNormRank& r) {
    test::PeerNormCalls calls(r, size, DType::f32);
    for (int turn = 0; turn < 1000; ++turn) calls.enqueue();
    calls.expect_exact();
  });
}

TEST(PeerNorm, ARankThatDoesNotComeIsNamed) {
  const PeerNormSize size{2, 8};
  const Error error = error_of([&] {
    run_norm_ranks(
        3, size,
        [&](const test::PeerNormRank& r) {
          test::PeerNormCalls calls(r, size, DType::f32);
          if (r.communicator.rank() != 2) calls.enqueue();
          r.stream.synchronize(Deadline::after_seconds(20));
        },
        0.5);
  });
  EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
  EXPECT_EQ(error.rank(), 2) << error.what();
}

TEST(PeerNorm, RefusesWhatItWasNotMadeFor) {
  const PeerNormSize size{4, 16};
  run_norm_ranks(2, size, [&](const test::PeerNormRank& r) {
    const auto norm = make_peer_norm(r.device, r.heap, size);
    std::vector<float> values(4 * 16 + 16), rows(5);
    LayerNormForward call{};
    call.x = call.gamma = call.beta = values.data(), call.delta = values.data(), call.y = values.data();
    call.mean = call.rstd = rows.data(), call.rows = 5, call.width = 16;
    EXPECT_EQ(error_of([&] { norm->forward(r.stream, call); }).cause(), Cause::usage) << "more rows";
    call.rows = 4, call.type = DType::bf16;
    EXPECT_EQ(error_of([&] { norm->forward(r.stream, call); }).cause(), Cause::usage) << "another type";
    call.type = DType::f32, call.delta = nullptr;
    EXPECT_EQ(error_of([&] { norm->forward(r.stream, call); }).cause(), Cause::usage) << "nothing to add";
    r.communicator.barrier(Deadline::after_seconds(20));
  });
  const Error error = error_of([&] {
    run_norm_ranks(2, {2, 8, DType::bf16}, [&](const test::PeerNormRank& r) {
      make_peer_norm(r.device, r.heap, {2, 8, DType::bf16});
    });
  });
  EXPECT_NE(std::string(error.what()).find("f32"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace amdahl
