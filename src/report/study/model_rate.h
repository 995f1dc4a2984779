// What a study's samples/s mean for its models: tokens/s and FLOP/s.
#pragma once

#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// A sentence per model, of its fastest cell: "gpt2: at most 12 samples/s are 12,288 tokens/s and 1.5 TFLOP/s ...".
/// Empty for Records without these values.
std::vector<std::string> model_rate_sentences(const StudySummary& summary);
/// "9.6 MB (modelled 9.5 MB)"; "-" for a cell without a peak.
std::string memory_peak_text(const StudyCell& cell);

}  // namespace amdahl
