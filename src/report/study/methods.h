// Plans that share rows and gradients in another way than the exact method, beside it: speed and loss.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// A cell whose plan has local_sgd, compress, async_steps or shares, or the cell without these fields that it is
/// compared with.
struct MethodRow {
  const StudyCell* cell = nullptr;
  const StudyCell* exact = nullptr;  // null: not measured; of an exact cell, itself
  int64_t samples = 0;               // of all devices, before the last loss
  std::optional<double> gain;        // throughput over the exact cell's
  std::optional<double> of_bound;    // throughput over the sum of the devices' own speeds, with shares=auto
};
/// By batch; the exact cell precedes those compared with it. Empty for a study without such plans.
std::vector<MethodRow> method_rows(const StudySummary& summary);

/// Without tables for a study without such plans.
PageSection methods_section(const StudySummary& summary);

}  // namespace amdahl
