// Work in pieces by several threads: every piece once, and the first error.
#include "base/run_pieces.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace amdahl {
namespace {

TEST(RunPieces, EveryPieceRunsOnce) {
  for (const size_t count : {0u, 1u, 2u, 33u, 1000u}) {
    std::vector<std::atomic<int>> calls(count);
    run_pieces(count, [&](size_t i) { ++calls[i]; });
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i << " of " << count;
  }
}

TEST(RunPieces, AnErrorEndsThemAndIsThrown) {
  std::atomic<int> calls{0};
  const auto piece = [&](size_t i) {
    ++calls;
    if (i == 3) throw std::runtime_error("piece 3");
  };
  try {
    run_pieces(1'000'000, piece);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "piece 3");
  }
  EXPECT_LT(calls, 1'000'000);
}

}  // namespace
}  // namespace amdahl
