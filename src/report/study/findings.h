// Findings of a study about the training configuration, with remedies.
#pragma once

#include <string>
#include <vector>

#include "amdahl/fabric.h"
#include "amdahl/summary.h"

namespace amdahl {

struct TrainingFindings {
  std::vector<Finding> found;        // severity notice: a study may measure such a configuration on purpose
  std::vector<std::string> checked;  // names of the findings for which the study has evidence
};

/// Findings of multi-device cells. Per cell: data-parallel (strategy dp), much-communication (exposed communication
/// above 20 % of the step), missing-overlap (in addition, more than half of all communication is exposed). Per
/// configuration: small-batch (at the batch per device, most of the one-device step time does not depend on the batch;
/// docs/method.md).
TrainingFindings training_findings(const StudySummary& summary);

/// The same findings, one line each.
std::vector<std::string> study_findings(const StudySummary& summary);

/// One line that judges the target of communication, at most 20 % of the step exposed, in all multi-device cells whose
/// account is trusted: how many meet it, with their range of shares, and those that miss it by name. Empty without such
/// cells.
std::string communication_target_line(const StudySummary& summary);

}  // namespace amdahl
