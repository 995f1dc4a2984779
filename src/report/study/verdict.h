// What a study means, for people who read one sentence.
#pragma once

#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// "4 GPUs are faster by 10 % or more at global batch >= 1,024, not at 256: up to 2.93 times as fast as one at global
/// batch 8,192. Both take the same time at global batch about 612 (modelled: interpolated between 256 and 1,024). Below
/// that, one is the safe choice."
std::string study_verdict(const StudySummary& summary);

/// At most three facts behind it: the best speedup, what it costs in efficiency, and where the step's time goes.
std::vector<std::string> study_facts(const StudySummary& summary);

}  // namespace amdahl
