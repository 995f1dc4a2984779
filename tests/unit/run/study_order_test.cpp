// The order of the cells in the runs of a study, against which drift of the machine must not count.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "measure/study/runner.h"

namespace amdahl {
namespace {

std::vector<StudyCellSpec> cells_of(const std::vector<int>& every) {
  std::vector<StudyCellSpec> cells;
  for (const int e : every) {
    cells.push_back({16, 1, "single"});
    cells.back().every = e;
  }
  return cells;
}

// Runs in which both take part and `first` comes before `second`, and all runs in which both take part.
std::pair<int, int> earlier_of(const std::vector<StudyCellSpec>& cells, size_t first, size_t second, int runs) {
  int earlier = 0, both = 0;
  for (int run = 0; run < runs; ++run) {
    if (!takes_part(cells[first], run) || !takes_part(cells[second], run)) continue;
    const std::vector<size_t> order = order_of_run(cells, run);
    earlier += std::find(order.begin(), order.end(), first) < std::find(order.begin(), order.end(), second);
    ++both;
  }
  return {earlier, both};
}

TEST(StudyOrder, EveryRunHasEveryCellOnce) {
  for (const auto& every : {std::vector<int>{1}, {1, 1, 1}, {1, 1, 5, 5}, {1, 4, 4, 4}, {2, 3, 6}, {}}) {
    const auto cells = cells_of(every);
    for (int run = 0; run < 30; ++run) {
      std::vector<size_t> order = order_of_run(cells, run), all(cells.size());
      std::sort(order.begin(), order.end());
      std::iota(all.begin(), all.end(), size_t{0});
      EXPECT_EQ(order, all);
    }
  }
}

TEST(StudyOrder, EachOfTwoCellsIsFirstInHalfOfTheirRuns) {
  for (int e = 1; e <= 8; ++e) {
    const auto cells = cells_of({1, 1, 1, e, e});
    for (size_t first = 0; first < cells.size(); ++first)
      for (size_t second = 0; second < cells.size(); ++second) {
        if (first == second) continue;
        const auto [earlier, both] = earlier_of(cells, first, second, 40 * e);
        EXPECT_EQ(2 * earlier, both) << "cells " << first << " and " << second << ", every " << e;
      }
  }
}

TEST(StudyOrder, NeighbouringRunsAreMirrored) {
  const auto cells = cells_of({1, 1, 1, 1});
  for (int run = 0; run < 6; ++run) {
    std::vector<size_t> next = order_of_run(cells, run + 1);
    std::reverse(next.begin(), next.end());
    EXPECT_EQ(order_of_run(cells, run), next) << "A B, B A: the same cell ends one run and begins the next";
  }
}

TEST(StudyOrder, RunsOfACellAreAsManyAsItTakesPartIn) {
  StudySettings settings;
  for (settings.runs = 1; settings.runs < 60; ++settings.runs)
    for (int e = 1; e < 9; ++e) {
      const StudyCellSpec cell = cells_of({e}).front();
      int counted = 0;
      for (int run = 0; run < settings.runs; ++run) counted += takes_part(cell, run);
      EXPECT_EQ(runs_of(settings, cell), counted);
    }
}

TEST(StudyOrder, KeysOfRunsAreDifferent) {
  std::vector<std::string> keys;
  for (const int64_t batch : {1, 11})
    for (const int devices : {1, 11})
      for (const char* strategy : {"single", "ddp"})
        for (const LaunchMode launch : {LaunchMode::eager, LaunchMode::graph})
          for (const MathMode math : {MathMode::fp32, MathMode::tf32, MathMode::bf16})
            for (const int64_t run : {0, 1, 11}) keys.push_back(run_key({batch, devices, strategy, launch, math}, run));
  const size_t all = keys.size();
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(keys.size(), all);
}

}  // namespace
}  // namespace amdahl
