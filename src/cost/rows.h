// Measured configurations before pricing. Private to the cost reports.
#pragma once

#include "cost/cost.h"
#include "stats/moments.h"

namespace amdahl {

/// A row with the additional data that comparisons need.
struct MeasuredRow {
  CostRow row;
  // for a study, the work without the model: rows of one family differ in parameters; otherwise empty
  std::string family;
  int64_t baseline_size = 0;            // size of the same work on one device: under weak scaling its share
  double time_us = 0;                   // of a step or call
  const StudySummary* study = nullptr;  // the study and cell that the row is of; null for a sensor row
  const StudyCell* cell = nullptr;
  std::optional<double> memory_bytes;  // peak per device
  double input_share =
      -1;  // share of the step spent on input, from its account; negative: unknown, or not of the measured step
};

/// Every configuration of the runs. Throws what summarise_cost throws.
std::vector<MeasuredRow> measured_rows(const std::vector<CostRun>& runs, std::vector<std::string>& notes);

}  // namespace amdahl
