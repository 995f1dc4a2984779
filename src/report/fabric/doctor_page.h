// The page of `amdahl doctor`.
#pragma once

#include "amdahl/fabric.h"
#include "report/page/page.h"

namespace amdahl {

/// Reads machine, findings, checked, unseen and records of `outcome`. `judged` is false where only what was measured
/// is left of a run: then nothing is said of findings.
Page doctor_page(const DoctorOutcome& outcome, bool judged = true);

}  // namespace amdahl
