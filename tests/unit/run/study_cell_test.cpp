#include "measure/study/cell.h"

#include <gtest/gtest.h>

namespace amdahl {
namespace {

TEST(MeteredEnergy, IsTheDifferenceOfTwoReadings) { EXPECT_DOUBLE_EQ(metered_energy_j(1000, 3100.5, 3), 2100.5); }

TEST(MeteredEnergy, IsNotThereWithoutAMeterOrForAShortWindow) {
  EXPECT_LT(metered_energy_j(-1, -1, 10), 0);
  EXPECT_LT(metered_energy_j(1000, -1, 10), 0);
  EXPECT_LT(metered_energy_j(1000, 999, 10), 0) << "the driver was loaded again in between";
  EXPECT_LT(metered_energy_j(1000, 1000, 3), 0) << "a meter that stands still";
  EXPECT_LT(metered_energy_j(1000, 1010, 1.9), 0);
}

}  // namespace
}  // namespace amdahl
