// Measured configurations before their prices. Private to the reports of cost.
#pragma once

#include "report/cost/cost.h"
#include "stats/moments.h"

namespace amdahl {

/// A row with what comparing needs beside it.
struct MeasuredRow {
  CostRow row;
  std::string family;  // of a study the work without its model: rows of one family differ in parameters; else empty
  int64_t baseline_size = 0;  // of one device that does the same work: under weak scaling the share of one
  bool by_time = true;        // speedup of times (strong scaling) or of throughputs
  Moments time_us, throughput;
  std::optional<double> memory_bytes;  // peak of a device
  double input_share =
      -1;  // of the step that is input, from its account; negative: not known, or not of the measured step
};

/// Every configuration of the runs. Throws what summarise_cost throws.
std::vector<MeasuredRow> measured_rows(const std::vector<CostRun>& runs, std::vector<std::string>& notes);

}  // namespace amdahl
