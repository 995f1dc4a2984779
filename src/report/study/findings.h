// What a study's cells show about how training is set up, with the remedy.
#pragma once

#include <string>
#include <vector>

#include "amdahl/fabric.h"
#include "amdahl/summary.h"

namespace amdahl {

struct TrainingFindings {
  std::vector<Finding> found;        // notices: a study may measure such a set-up on purpose
  std::vector<std::string> checked;  // names of those that the study has evidence for or against
};

/// Of cells of several devices. By cell: data-parallel (strategy dp), much-communication (exposed for more than 20 % of
/// the step), missing-overlap (of that, more than half of all communication). By configuration: small-batch (at the
/// batch per device, most of the step of one device does not depend on the batch; docs/method.md).
TrainingFindings training_findings(const StudySummary& summary);

/// The same, a line each.
std::vector<std::string> study_findings(const StudySummary& summary);

}  // namespace amdahl
