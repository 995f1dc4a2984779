// The page of `amdahl doctor`.
#pragma once

#include "amdahl/fabric.h"
#include "report/page/page.h"

namespace amdahl {

/// Uses machine, findings, checked, unseen and records of `outcome`. `judged` is false when a run has only
/// measurements; findings are then not mentioned.
Page doctor_page(const DoctorOutcome& outcome, bool judged = true);

}  // namespace amdahl
