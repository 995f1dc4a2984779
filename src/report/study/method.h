// Method of a study, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

/// How the study was measured and judged, one statement per entry.
std::vector<std::string> study_method(const StudySummary& summary);

/// A sentence per model, of its fastest cell: "gpt2: at most 12 samples/s are 12,288 tokens/s and 1.5 TFLOP/s ...".
/// Empty for Records without these values.
std::vector<std::string> model_rate_sentences(const StudySummary& summary);
/// StudyCell::model_flop_share of the devices that a provenance names.
std::optional<double> model_flop_share(const StudyCell& cell, const Provenance& provenance);
/// Adds the column of StudyCell::model_flop_share in percent if a cell has one, and says whether.
bool add_share_column(const StudySummary& summary, DataTable& table);
/// "9.6 MB (modelled 9.5 MB)"; "-" for a cell without a peak.
std::string memory_peak_text(const StudyCell& cell);

}  // namespace amdahl
