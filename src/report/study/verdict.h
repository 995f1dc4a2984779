// The verdict of a study in one sentence, and the facts that support it.
#pragma once

#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// "4 GPUs are faster by 10 % or more at global batch >= 1,024, not at 256: up to 2.93 times as fast as one at global
/// batch 8,192. Both take the same time at global batch about 612 (modelled: interpolated between 256 and 1,024). Below
/// that, one is the safe choice."
std::string study_verdict(const StudySummary& summary);

/// At most three supporting facts: the best speedup, its efficiency, and the distribution of the step time.
std::vector<std::string> study_facts(const StudySummary& summary);

}  // namespace amdahl
