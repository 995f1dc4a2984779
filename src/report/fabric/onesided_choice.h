// Which method of communication is fastest at which size, and what fixed rules lose against that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/fabric.h"

namespace amdahl {

/// Median latencies of the methods of one decision ("all_reduce", "point_to_point") over ranks of one kind.
struct OneSidedContest {
  std::string decision, device_kind, ranks;
  int devices = 2;
  bool emulated = false;
  std::map<int64_t, std::map<std::string, double>> latency_us;  // by bytes, by method; sizes that all methods have

  /// The fastest method of a size.
  const std::string& winner(int64_t bytes) const;
};
/// The method that sends and receives; empty when there is none.
std::string two_sided_of(const OneSidedContest& contest);
std::vector<OneSidedContest> onesided_contests(const std::vector<Record>& records);

/// A size between two measured ones at which `second` overtakes `first`, by interpolation of the logarithms.
struct OneSidedCrossover {
  std::string first, second;
  double bytes = 0;
};
std::vector<OneSidedCrossover> crossovers_of(const OneSidedContest& contest);

std::vector<OneSidedChoice> onesided_choices(const std::vector<Record>& records);

}  // namespace amdahl
