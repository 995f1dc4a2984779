// Input of the selector (`advise`).
#pragma once

#include <string>

#include "amdahl/summary.h"

namespace amdahl {

/// Summary of a study's run folder. Error{usage} when the folder holds another kind of run.
StudySummary read_evidence(const std::string& run_dir);

}  // namespace amdahl
