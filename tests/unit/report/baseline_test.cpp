// Which result of one device another is compared with.
#include "report/common/baseline.h"

#include <gtest/gtest.h>

namespace amdahl {
namespace {

BaselineCandidate candidate(double speed) {
  return {.is_alone = true, .work = "large", .size = 64, .manner = "strong", .device = "H200", .speed = speed};
}
const BaselineQuery kQuery{.work = "large", .size = 64, .manner = "strong"};

TEST(Baseline, TheFastestThatDoesTheSameWork) {
  BaselineCandidate other_work = candidate(9), other_size = candidate(9), several = candidate(9);
  other_work.work = "medium";
  other_size.size = 128;
  several.is_alone = false;
  EXPECT_EQ(find_baseline({other_work, candidate(1), other_size, candidate(2), several, candidate(2)}, kQuery), 3u);
  EXPECT_EQ(find_baseline({other_work, other_size, several}, kQuery), std::nullopt);
  EXPECT_EQ(find_baseline({}, kQuery), std::nullopt);
}

TEST(Baseline, TheSameMannerComesBeforeSpeed) {
  BaselineCandidate weak = candidate(5);
  weak.manner = "weak";
  EXPECT_EQ(find_baseline({weak, candidate(1)}, kQuery), 1u);
  EXPECT_EQ(find_baseline({weak}, kQuery), 0u);
}

TEST(Baseline, OnOneOfTheDevicesThatAreAskedFor) {
  BaselineQuery query = kQuery;
  query.devices = {"A100", "H200"};
  BaselineCandidate other = candidate(9);
  other.device = "H100";
  EXPECT_EQ(find_baseline({other, candidate(1)}, query), 1u);
  EXPECT_EQ(find_baseline({other}, query), std::nullopt);
}

TEST(Baseline, SizeOfOneDevice) {
  EXPECT_EQ(size_of_one_device(64, 4, "strong"), 64);
  EXPECT_EQ(size_of_one_device(64, 4, "weak"), 16);
  EXPECT_EQ(size_of_one_device(64, 0, "weak"), 64);
  EXPECT_EQ(size_of_one_device(64, 4, ""), 64);
}

}  // namespace
}  // namespace amdahl
